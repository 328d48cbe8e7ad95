"""Compiled programs kept from one run to the next.

Compiling takes most of the time of a short command. JAX can keep what it has compiled in a folder; its key of an entry covers the
program, the compiler, its flags and the machine, so an outdated entry is never used.
"""

from __future__ import annotations

import glob
import math
import os
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from unojax.files.folders import cache_folder

_FOLDER: Final = "jax_compilation_cache_dir"
_LEAST_SECONDS: Final = "jax_persistent_cache_min_compile_time_secs"
"""Programs that take less to compile are not written."""
_SETTINGS: Final = {_FOLDER: None, _LEAST_SECONDS: 1.0}
"""What is set here, with JAX's defaults."""


def keep_compiled_programs() -> Path | None:
    """Keep programs in the user's folder for caches, for this process and those that it starts.

    To be called before anything is compiled; where JAX is not imported yet, it is not imported here either. What the user has set
    goes first, by `jax.config` or in the environment: `JAX_COMPILATION_CACHE_DIR` names another folder,
    `JAX_ENABLE_COMPILATION_CACHE=false` keeps nothing. A folder elsewhere, such as gs://bucket/folder, is left to JAX; where the
    folder that the user names can't be written, JAX only reads there.

    Returns:
        the folder; None if JAX is told not to keep anything, if the folder is elsewhere, if the user has no
        folder, or if nothing can be written there.
    """
    config = _config()
    chosen = _told().get(_FOLDER) or os.environ.get(_FOLDER.upper())
    is_off = os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "true").lower() in ("false", "0", "no", "n", "f", "off")
    if is_off or (config and not config.jax_enable_compilation_cache) or "://" in str(chosen):
        return None
    cache = cache_folder()
    folder = Path(chosen) if chosen else cache and cache / "jax"
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_writable(folder)
    except OSError:
        if chosen:
            # JAX may still read there.
            _set({_LEAST_SECONDS: math.inf})
        return None
    # All programs: a command has hundreds of small ones.
    _set({_FOLDER: str(folder), _LEAST_SECONDS: 0.0})
    _replace_broken_entries(folder)
    return folder


def _replace_broken_entries(folder: Path) -> None:
    """Remove entries that JAX can't read: it warns, compiles, and then leaves what is there as it is, so it would for ever."""
    show = warnings.showwarning
    if isinstance(show, partial) and show.func is _show_or_remove:
        show = show.args[1]
    warnings.showwarning = partial(_show_or_remove, folder, show)


def _show_or_remove(folder: Path, show: Callable[..., None], message: Warning | str, *about: Any, **options: Any) -> None:
    broken = re.match(r"Error reading persistent compilation cache entry for '([^']+)'", str(message))
    try:
        # Those of other programs of that name go along, since the warning names no other part of the key.
        entries = list(folder.glob(f"{glob.escape(broken[1])}-*-cache")) if broken else []
        for entry in entries:
            entry.unlink(missing_ok=True)
    except OSError:
        entries = []
    if not entries:
        show(message, *about, **options)


def _config() -> Any:
    """Give `jax.config`, None before JAX is imported."""
    return sys.modules["jax"].config if "jax" in sys.modules else None


def _told() -> dict[str, Any]:
    """Find what `jax.config` has been told, of `_SETTINGS`; nothing before JAX is imported."""
    config = _config()
    return {name: getattr(config, name) for name, default in _SETTINGS.items() if getattr(config, name, default) != default}


def _set(settings: dict[str, Any]) -> None:
    """Set what the user has not, here and for processes to come; what `jax.config` was told goes on to these."""
    config, told = _config(), _told()
    for name, value in settings.items():
        if name in told:
            os.environ[name.upper()] = str(told[name])
        elif name.upper() not in os.environ:
            os.environ[name.upper()] = str(value)
            if config is not None:
                config.update(name, value)


def _check_writable(folder: Path) -> None:
    """Write a small file and remove it: JAX warns of every program that it can't write.

    Permissions alone do not tell: not of a disk that is full or read-only, and nothing to an administrator.

    Raises:
        OSError: it can't be written.
    """
    file = folder / f".{os.getpid()}.tmp"
    try:
        file.write_bytes(bytes(4096))
    finally:
        file.unlink(missing_ok=True)

"""Persistent compilation cache.

JAX's cache key covers the program, the compiler, its flags and the machine, so an outdated entry is never used.
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
"""Programs with a shorter compilation time are not written."""
_SETTINGS: Final = {_FOLDER: None, _LEAST_SECONDS: 1.0}
"""Settings changed here, with JAX's defaults."""
_WARNING: Final = re.compile(
    r"Error (?P<what>reading|writing) persistent compilation cache entry for '(?P<name>[^']+)': (?P<why>.*)"
)
"""JAX's warning about an entry that it can't use."""


def keep_compiled_programs() -> Path | None:
    """Enable the cache in the user's cache folder, for this process and its child processes.

    Call this before any compilation; it does not import JAX. User settings in `jax.config` or the environment take precedence:
    `JAX_COMPILATION_CACHE_DIR` names another folder, and `JAX_ENABLE_COMPILATION_CACHE=false` disables the cache. From a folder
    that is not writable, JAX only reads.

    Returns:
        Cache folder. None if the cache is disabled, the folder is remote or not writable, or the user has no folder.
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
            # JAX may still read from there.
            _set({_LEAST_SECONDS: math.inf})
        return None
    # All programs: a command has hundreds of small ones.
    _set({_FOLDER: str(folder), _LEAST_SECONDS: 0.0})
    _answer_warnings(folder)
    return folder


def _answer_warnings(folder: Path) -> None:
    """Remove entries that JAX can't read, and stop writing to a full disk, instead of a warning for each program.

    JAX would warn, compile and keep a broken entry every time.
    """
    show = warnings.showwarning
    if isinstance(show, partial) and show.func is _answer:
        show = show.args[1]
    warnings.showwarning = partial(_answer, folder, show)
    # Where the user turns warnings into errors, these would end the program.
    warnings.filterwarnings("always", message=_WARNING.pattern, category=UserWarning)


def _answer(folder: Path, show: Callable[..., None], message: Warning | str, *about: Any, **options: Any) -> None:
    found = _WARNING.match(str(message))
    if found is None:
        show(message, *about, **options)
    elif found["what"] == "writing":
        if (config := _config()) and getattr(config, _LEAST_SECONDS) < math.inf:
            config.update(_LEAST_SECONDS, math.inf)
            show(f"compiled programs are no longer kept in {str(folder)!r}: {found['why']}", *about, **options)
    elif not _remove(folder, found["name"]):
        show(message, *about, **options)


def _remove(folder: Path, name: str) -> bool:
    """Remove all entries of a program's name, because the warning contains no other part of the key."""
    try:
        entries = list(folder.glob(f"{glob.escape(name)}-*-cache"))
        for entry in entries:
            entry.unlink(missing_ok=True)
    except OSError:
        return False
    return bool(entries)


def _config() -> Any:
    """Return `jax.config`, or None before JAX is imported."""
    return sys.modules["jax"].config if "jax" in sys.modules else None


def _told() -> dict[str, Any]:
    """Return the values of `_SETTINGS` in `jax.config`; empty before JAX is imported."""
    config = _config()
    return {name: getattr(config, name) for name, default in _SETTINGS.items() if getattr(config, name, default) != default}


def _set(settings: dict[str, Any]) -> None:
    """Set values that the user has not set, here and, with those of `jax.config`, for child processes."""
    config, told = _config(), _told()
    for name, value in settings.items():
        if name in told:
            os.environ[name.upper()] = str(told[name])
        elif name.upper() not in os.environ:
            os.environ[name.upper()] = str(value)
            if config is not None:
                config.update(name, value)


def _check_writable(folder: Path) -> None:
    """Write a small file and remove it, because permissions do not reveal a full or read-only disk.

    Raises:
        OSError: If the file can't be written.
    """
    file = folder / f".{os.getpid()}.tmp"
    try:
        file.write_bytes(bytes(4096))
    finally:
        file.unlink(missing_ok=True)

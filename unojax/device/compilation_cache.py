"""Compiled programs kept from one run to the next.

Compiling takes most of the time of a short command. JAX can keep what it has compiled in a folder; its key of an entry covers the
program, the compiler, its flags and the machine, so an outdated entry is never used.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs


def keep_compiled_programs() -> Path | None:
    """Keep programs in the user's folder for caches, for this process and those that it starts.

    To be called before anything is compiled; where JAX is not imported yet, it is not imported here either. What the user has set
    goes first, in the environment or by `jax.config`: `JAX_COMPILATION_CACHE_DIR` names another folder,
    `JAX_ENABLE_COMPILATION_CACHE=false` keeps nothing.

    Returns:
        the folder; None if JAX is told not to keep anything, or if the folder can't be made.
    """
    config = sys.modules["jax"].config if "jax" in sys.modules else None
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR") or (config and config.jax_compilation_cache_dir)
    folder = Path(chosen) if chosen else platformdirs.user_cache_path("unojax") / "jax"
    is_off = os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "true").lower() in ("false", "0", "no", "n", "f", "off")
    if is_off or (config and not config.jax_enable_compilation_cache):
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    # All programs: a command has hundreds of small ones.
    settings = {"jax_compilation_cache_dir": str(folder), "jax_persistent_cache_min_compile_time_secs": "0"}
    for name, value in settings.items():
        was_chosen = name.upper() in os.environ
        os.environ.setdefault(name.upper(), value)
        if config and not was_chosen:
            config.update(name, float(value) if name.endswith("secs") else value)
    return folder

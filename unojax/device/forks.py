"""Detection of processes forked after JAX had started: they would wait forever for its threads."""

from __future__ import annotations

import os
import sys

_forked_late: list[int] = []
"""Number of this process if JAX had started before the fork."""


def _note() -> None:
    # No public function reports whether JAX has initialized its devices without initializing them.
    bridge = sys.modules.get("jax._src.xla_bridge")
    if getattr(bridge, "backends_are_initialized", bool)():
        _forked_late[:] = [os.getpid()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note)


def check_not_forked() -> None:
    """Check that JAX may be used in this process.

    Raises:
        RuntimeError: If the process was forked after JAX had started.
    """
    if _forked_late:
        raise RuntimeError(
            "JAX had started before this process was forked, and can't be used in it; start worker processes with "
            "multiprocessing's 'spawn' or 'forkserver' (in gymnasium: vector_kwargs={'context': 'spawn'}), or before JAX computes"
        )

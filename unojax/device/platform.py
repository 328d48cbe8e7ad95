"""The machine: what programs are tuned for, and what of it this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal

import jax

Platform = Literal["cpu", "gpu"]

_chosen: Final[ContextVar[Platform | None]] = ContextVar("platform", default=None)


def platform() -> Platform:
    """Tell what sizes and loops are chosen for: "gpu" if JAX's default backend is any accelerator, else "cpu"."""
    return _chosen.get() or ("cpu" if jax.default_backend() == "cpu" else "gpu")


@contextmanager
def tuned_for(target: Platform) -> Iterator[None]:
    """Make programs for another platform than the one they run on: to test their form, or to compile for a device elsewhere.

    Programs traced before or inside are forgotten, since JAX does not see that the platform is another one.
    """
    token = _chosen.set(target)
    jax.clear_caches()
    try:
        yield
    finally:
        _chosen.reset(token)
        jax.clear_caches()


def available_cores() -> int:
    """Count CPU cores: those that the process is bound to where the system tells, else all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""The platform that programs are lowered for, and the resources of this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import jax
from jax import lax
from jax.extend import backend

Platform = Literal["cpu", "gpu"]
_T = TypeVar("_T")

_target: Platform | None = None
"""Set by `tuned_for`, for all threads."""


def by_platform(on_cpu: Callable[..., _T], on_accelerator: Callable[..., _T], *args: Any) -> _T:
    """Call the variant of a function for the platform that the program is lowered for.

    Both return the same results. A process with CPUs only traces the CPU variant alone.
    """
    if _target is not None:
        return (on_cpu if _target == "cpu" else on_accelerator)(*args)
    if jax.default_backend() == "cpu" and set(backend.backends()) == {"cpu"}:
        return on_cpu(*args)
    return lax.platform_dependent(*args, cpu=on_cpu, default=on_accelerator)


def platform() -> Platform:
    """Return the platform of new arrays: "gpu" for any accelerator, else "cpu"."""
    if _target is not None:
        return _target
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    name = jax.default_backend() if device is None else getattr(device, "platform", device)
    return "cpu" if name == "cpu" else "gpu"


@contextmanager
def tuned_for(target: Platform) -> Iterator[None]:
    """Build programs for another platform, to test a variant or to compile for another machine.

    Applies to all threads. Programs traced before or inside are dropped, because JAX does not see the change.
    """
    global _target  # noqa: PLW0603 - the one setting of the process
    before, _target = _target, target
    jax.clear_caches()
    try:
        yield
    finally:
        _target = before
        jax.clear_caches()


def available_cores() -> int:
    """Return the number of CPU cores available to the process, or of all cores if unknown."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

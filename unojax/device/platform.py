"""The machine: what programs are made for, and what of it this process may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import jax
from jax import lax
from jax.extend import backend

Platform = Literal["cpu", "gpu"]
_T = TypeVar("_T")


def by_platform(on_cpu: Callable[..., _T], on_accelerator: Callable[..., _T], *args: Any) -> _T:
    """Call the form of a function that suits the platform which the program is lowered for.

    Both give the same results. A process that has only CPUs traces only their form.
    """
    if jax.default_backend() == "cpu" and set(backend.backends()) == {"cpu"}:
        return on_cpu(*args)
    return lax.platform_dependent(*args, cpu=on_cpu, default=on_accelerator)


def platform() -> Platform:
    """Return which sizes suit the device that new arrays are placed on: "gpu" for any accelerator, else "cpu"."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if device is None:
        name = jax.default_backend()
    else:
        name = device if isinstance(device, str) else device.platform
    return "cpu" if name == "cpu" else "gpu"


def available_cores() -> int:
    """Count CPU cores: those that the process is bound to if the system tells, else all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

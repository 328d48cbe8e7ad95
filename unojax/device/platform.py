"""The machine: what programs are tuned for, and what of it this process may use."""

from __future__ import annotations

import os
from typing import Literal

import jax

Platform = Literal["cpu", "gpu"]


def platform() -> Platform:
    """Tell what sizes and loops are chosen for: "gpu" if JAX's default backend is any accelerator, else "cpu"."""
    return "cpu" if jax.default_backend() == "cpu" else "gpu"


def available_cores() -> int:
    """Count CPU cores: those that the process is bound to where the system tells, else all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Which machine this is: what programs are tuned for, and what of it this process may use."""

from __future__ import annotations

import os
from typing import Literal

import jax

Platform = Literal["cpu", "gpu"]


def platform() -> Platform:
    """What sizes and loops are chosen for: "cpu", or "gpu" for JAX's default backend being any accelerator."""
    return "cpu" if jax.default_backend() == "cpu" else "gpu"


def available_cores() -> int:
    """CPU cores: those that the process is bound to where the system tells, else all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""What this process may use of the machine."""

from __future__ import annotations

import os


def available_cores() -> int:
    """CPU cores: those that the process is bound to where the system tells, else all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

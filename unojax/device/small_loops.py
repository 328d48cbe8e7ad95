"""XLA option that builds a CPU program's loops as one kernel each.

Otherwise XLA calls a kernel for every few operations of a loop's body. The option shortens belief updates of 1,024 particles to
0.55 to 0.7 of the CPU time, and compilation to 0.8. The bits are the same
(`benchmarks/results/belief_speed_small_loops_cpu.json`). Loops with matrix products are not affected.
"""

from __future__ import annotations

import os
from typing import Final

_OPTION: Final = "xla_cpu_small_while_loop_byte_threshold"
_BYTES: Final = 2_000_000
"""Limit of bytes that a loop reads and writes per turn. A loop above it shares its operations among the cores. Beliefs of up to
1,024 particles gain fully."""


def build_small_loops_whole() -> None:
    """Set the option for this process and its child processes. XLA reads it when JAX first initializes devices.

    An existing setting in `XLA_FLAGS`, or a file of flags named there, stays unchanged. On a GPU the option has no effect.
    """
    flags = os.environ.get("XLA_FLAGS", "").strip()
    # XLA reads text that does not begin with a flag as a file name.
    is_file = flags and not flags.startswith("--")
    if _OPTION not in flags and not is_file:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_extra_options={_OPTION}={_BYTES}".lstrip()

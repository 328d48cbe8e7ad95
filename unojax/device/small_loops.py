"""Loops of a CPU's programs as one kernel each, an option of XLA.

XLA calls a kernel for every few operations of a loop's body. Where arrays are short, that takes longer than the operations: many
beliefs of 32 particles are updated in a quarter to two fifths of the time, of 256 in six tenths, to the same bits
(`benchmarks/results/belief_speed_small_loops_cpu.json`).
"""

from __future__ import annotations

import os
from typing import Final

_OPTION: Final = "xla_cpu_small_while_loop_byte_threshold"
_BYTES: Final = 4_000_000
"""Loops that read and write less. Beliefs of 32 to 256 particles gain all that there is to gain, those of 1,024 nothing."""


def build_small_loops_whole() -> None:
    """Have XLA build them so, in this process and those that it starts; it reads its options when JAX first looks for devices.

    What `XLA_FLAGS` says of it already stays, and so does the name of a file of flags. On a GPU nothing changes.
    """
    flags = os.environ.get("XLA_FLAGS", "").strip()
    # XLA takes what does not begin with a flag for a file's name.
    is_file = flags and not flags.startswith("--")
    if _OPTION not in flags and not is_file:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_extra_options={_OPTION}={_BYTES}".lstrip()

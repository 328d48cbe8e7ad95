"""Exit statuses, and how to leave."""

import contextlib
import os
import sys
from typing import Final, NoReturn

EXIT_ERROR: Final = 1
"""The machine failed: no memory, no device."""
EXIT_USAGE: Final = 2
"""The request can't be met: an unknown option or policy, a value out of range, a file that can't be written."""
EXIT_INTERRUPTED: Final = 130
"""Stopped by Ctrl-C: 128 + SIGINT, as shells count."""


def leave_at_once(status: int) -> NoReturn:
    """Leave the process.

    Programs may still be running, or be compiled ahead, in threads of the compiler. An interpreter that is taken down around them
    waits for them, or crashes. The players of `process:` are stopped before: they would live on.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    try:
        if (players := sys.modules.get("unojax.adapters.process")) is not None:
            players.close_all()
    finally:
        os._exit(status)

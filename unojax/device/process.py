"""The process: exit statuses, Ctrl-C as a request to stop, and immediate exit. Imports no JAX."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NoReturn

EXIT_ERROR: Final = 1
"""The machine failed: no memory, no device."""
EXIT_USAGE: Final = 2
"""The request can't be met: an unknown option or policy, a value out of range, a file that can't be written."""
EXIT_INTERRUPTED: Final = 130
"""Stopped by Ctrl-C: 128 + SIGINT, as shells count."""

_LAST_CALLS: list[Callable[[], None]] = []


def call_before_leaving(function: Callable[[], None]) -> None:
    """Register a function for `leave_at_once` to call first."""
    _LAST_CALLS.append(function)


def leave_at_once(status: int) -> NoReturn:
    """Leave the process without waiting for programs that run or compile in other threads."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    try:
        for function in _LAST_CALLS:
            function()
    finally:
        os._exit(status)


@contextlib.contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """Set an event at the first Ctrl-C; the second one raises KeyboardInterrupt.

    Changes nothing outside the main thread, or if Ctrl-C does not mean KeyboardInterrupt (in a background job, for example).
    """
    wanted = threading.Event()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield wanted
        return

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        if wanted.is_set():
            raise KeyboardInterrupt
        wanted.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield wanted
    finally:
        signal.signal(signal.SIGINT, before)

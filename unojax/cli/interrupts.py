"""Ctrl-C as a wish to stop, where what has been begun is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """Set an event at the first Ctrl-C; the second one raises KeyboardInterrupt.

    Changes nothing outside the main thread, or where Ctrl-C does not mean KeyboardInterrupt (in a background job, for example).
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

"""Runs in the process of a test."""

from __future__ import annotations

import io
import signal

import pytest
from rich.console import Console

from training import loop
from training.config import Launch, RunConfig
from training.metrics import MetricsLog


def trained(config: RunConfig, **launch) -> tuple[int, str]:
    """Train in this process; return the exit status and the terminal's text."""
    terminal = io.StringIO()
    status = loop.train(config, Launch(quiet=True, **launch), Console(file=terminal, width=200))
    return status, terminal.getvalue()


def interrupted(config: RunConfig, last: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Train in this process until Ctrl-C in iteration `last`."""
    write = MetricsLog.write
    # A test run in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def write_and_stop(log: MetricsLog, iteration: int, values: dict) -> None:
        write(log, iteration, values)
        if iteration == last:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(MetricsLog, "write", write_and_stop)
        return trained(config)

"""Runs in the process of a test."""

from __future__ import annotations

import io

from rich.console import Console

from training import loop
from training.config import Launch, RunConfig


def trained(config: RunConfig, **launch) -> tuple[int, str]:
    """Train in this process: the exit status, and what is written to the terminal."""
    terminal = io.StringIO()
    status = loop.train(config, Launch(quiet=True, **launch), Console(file=terminal, width=200))
    return status, terminal.getvalue()

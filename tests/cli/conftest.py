"""What the tests of several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from unojax.cli import main
from unojax.cli.status import EXIT_USAGE


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Callable[[Sequence[str]], str]:
    """Run a command line that is to be refused; what it says, which is one line and all its output."""

    def run(args: Sequence[str]) -> str:
        assert main(args) == EXIT_USAGE
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith("unojax") and captured.err.count("\n") == 1
        return captured.err

    return run

"""What the tests of several commands share."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.by_script import AGENT, RULES, SEEDS, someone, talk
from tests.documented import mismatches
from unojax.cli import main, output
from unojax.device.process import EXIT_USAGE
from unojax.games.session import Session
from unojax.terminal.conversation import Record


@pytest.fixture(autouse=True)
def documented_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever JSON a command writes in a test has the fields that the documentation says, and no others."""
    write = output.write_json

    def checked(target: str, data: dict[str, Any]) -> None:
        # Tests of the writing itself write something else.
        if "command" in data:
            assert mismatches(json.loads(json.dumps(data))) == [], "docs/reference/json.md says otherwise"
        write(target, data)

    monkeypatch.setattr(output, "write_json", checked)


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Callable[[Sequence[str]], str]:
    """Run a command line that is to be refused; what it says, which is one line and all its output."""

    def run(args: Sequence[str]) -> str:
        assert main(args) == EXIT_USAGE
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith("unojax") and captured.err.count("\n") == 1
        return captured.err

    return run


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a command read a text."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.fixture(scope="session")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Session, str, Path]]:
    """Whole games with their transcripts and files; the person sits at seat 0 and 1 by turns."""
    folder = tmp_path_factory.mktemp("games")
    played = []
    for seed in SEEDS:
        session, path = Session(AGENT, seat=seed % 2, seed=seed, rules=RULES), folder / f"{seed}.json"
        players = ("person", "uniform") if seed % 2 == 0 else ("uniform", "person")
        status, text = talk(session, someone(seed), record=Record(path, players, seed))
        assert status == 0
        played.append((session, text, path))
    return played

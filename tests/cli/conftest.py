"""Commands in this process: their text, their JSON, and rejected command lines."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.by_script import AGENT, RULES, SEEDS, someone, talk
from tests.documented import mismatches
from unojax.cli import main, output
from unojax.device.process import EXIT_USAGE
from unojax.games.session import Session


@pytest.fixture(autouse=True)
def documented_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare all JSON that commands write with their schema."""
    write = output.write_json

    def checked(target: str, data: dict[str, Any]) -> None:
        # Tests of the writing itself write something else.
        if "command" in data:
            assert mismatches(json.loads(json.dumps(data))) == [], "the dataclasses of unojax.cli.reports.reports say otherwise"
        write(target, data)

    monkeypatch.setattr(output, "write_json", checked)


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Run a command with `--json -` and return the JSON, its only output; `note` is part of its notes."""

    def run(*args: str, status: int = 0, note: str = "") -> dict[str, Any]:
        assert main([*args, "--json", "-"]) == status
        captured = capsys.readouterr()
        assert note in captured.err
        return json.loads(captured.out)

    return run


@pytest.fixture
def run_text(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that succeeds without a note and return its output.

    It must have no colours and fit 80 columns, except lines with file names.
    """

    def run(*args: str) -> str:
        assert main(args) == 0
        captured = capsys.readouterr()
        assert captured.err == "" and "\x1b" not in captured.out
        files = [arg for arg in args if "/" in arg]
        for line in captured.out.splitlines():
            assert line == line.rstrip() and (len(line) <= 80 or any(file in line for file in files)), line
        return captured.out

    return run


@pytest.fixture
def run_ascii(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command with an ASCII output stream."""

    def run(*args: str) -> str:
        out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict", write_through=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            assert main(args) == 0
        return out.buffer.getvalue().decode("ascii")

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Check command lines that fail, each with words of its message, such as the name of the option.

    `before` precedes each line. A line must exit with the status of a wrong use and print one line on the error stream. All lines
    run; failures are listed together.
    """

    def check(table: Mapping[str, str], before: Sequence[str] = ()) -> None:
        failures = []
        for line, words in table.items():
            status = main([*before, *shlex.split(line)])
            out, complaint = capsys.readouterr()
            is_one_line = complaint.startswith("unojax") and complaint.count("\n") == 1 and not out
            if status != EXIT_USAGE or not is_one_line or words not in complaint:
                failures.append(f"{line!r} without {words!r}: status {status}, {complaint!r} {out[:200]!r}")
        assert not failures, "\n".join(failures)

    return check


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make the error stream a terminal from the call on: pytest replaces the stream between fixtures and test."""

    def begin() -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("FORCE_COLOR", "1")

    return begin


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.fixture(scope="session")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Session, str, Path]]:
    """Return whole games with transcripts and files; the person alternates between seats 0 and 1."""
    folder = tmp_path_factory.mktemp("games")
    played = []
    for seed in SEEDS:
        session, path = Session(AGENT, seat=seed % 2, seed=seed, rules=RULES), folder / f"{seed}.json"
        status, text = talk(session, someone(seed), path=path)
        assert status == 0
        played.append((session, text, path))
    return played

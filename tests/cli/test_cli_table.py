"""`unojax table`: whole conversations with a scripted person, on terminals of several widths, and what is saved."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tests.games.test_at_table import AGENT
from tests.games.test_seen import VARIANTS
from unojax.games.at_table import Table
from unojax.games.gamefile import read_game
from unojax.terminal.entries import Command, Input, read_input
from unojax.terminal.table_conversation import TableConversation

# Under official rules: a drawn card that is played, what if, a mistake at the first event, refusals, a count.
GAME = ["r1", "d", "d r3", "R3", "r2", "? rs", "f1 wr", "h", "l", "x", "y3", "", "=5", "u", "q"]


def scripted(lines: list[str]) -> Callable[[str], str]:
    """A person who types these lines, and then nothing more."""
    left = iter(lines)

    def read(prompt: str) -> str:
        del prompt
        line = next(left, None)
        if line is None:
            raise EOFError
        return line

    return read


def talk(table: Table, lines: list[str], width: int = 80, path: Path | None = None) -> tuple[int, str]:
    out = io.StringIO()
    console = Console(file=out, width=width, markup=False, highlight=False, emoji=False)
    status = TableConversation(table, scripted(lines), console, None if path is None else str(path)).run()
    return status, out.getvalue()


def official(**others) -> Table:
    return Table("R1 RS W", "R0", rules=VARIANTS["official"], **AGENT, **others)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_game_in_a_terminal(width: int, tmp_path: Path):
    table, path = official(), tmp_path / "game.json"
    status, out = talk(table, GAME, width, path)
    assert status == 0
    rows = out.splitlines()
    assert all(len(row) <= width or str(path) in row for row in rows)
    assert all(row == row.rstrip() for row in rows)
    assert [str(event) for event in table.events] == ["W:R", "draw", "draw(R3)", "R3", "R2"]
    assert read_game(path).seen().events == table.events
    for words in (
        "  1  You play R1.",
        "  2  They draw a card.",
        "  3  You draw R3.",
        "  1  You play W and declare red.",
        "  6  You lost track: they hold 5 cards.",
        "Can they play on this?",
        "They play like",
        "You win",
        "Play ",
        "Unknown event 'x'",
        "f r3     the last event was r3",
        "unojax table --resume continues it",
    ):
        assert words in out, words
    # Asked for alone, and not entered.
    assert out.count("  6  You play RS") == 1


def test_an_event_that_is_refused_changes_nothing():
    table = official()
    before = table.game
    _, out = talk(table, ["y1", "f1 r1", "u", "f", "?", "d 3"])
    assert table.game is before
    for words in (
        "You can't play Y1: legal here: R1, RS, W:R",
        "there is no event 1",
        "there are 0 events to take back, not 1",
        "Type what happened, as in f R5",
        "Type what you would play, as in ? R5",
        "You can't draw 3 here: the draw is of 1.",
    ):
        assert words in out, words


def test_a_killed_game_is_resumed(tmp_path: Path):
    path = tmp_path / "game.json"
    talk(official(opponent_begins=True), ["r2; r1"], path=path)
    again = Table.resume(path, agent=AGENT["agent"])
    _, out = talk(again, [], path=path)
    assert "  1  They play R2" in out and "  2  You play R1" in out
    assert [str(event) for event in again.events] == ["R2", "R1"]


def test_a_full_disk_loses_no_game(tmp_path: Path):
    table = official()
    _, out = talk(table, ["r1"], path=tmp_path / "no such folder" / "game.json")
    assert "could not be saved" in out and len(table.events) == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Input(Command.SHOW, None, "")),
        ("u", Input(Command.UNDO, None, "")),
        ("u3", Input(Command.UNDO, 3, "")),
        ("undo 3", Input(Command.UNDO, 3, "")),
        ("f r3", Input(Command.CORRECT, None, "r3")),
        ("f7 r3", Input(Command.CORRECT, 7, "r3")),
        ("fix 7 w b", Input(Command.CORRECT, 7, "w b")),
        ("? r5", Input(Command.WHAT_IF, None, "r5")),
        ("if r5", Input(Command.WHAT_IF, None, "r5")),
        ("r5", Input(None, None, "r5")),
        ("d g7", Input(None, None, "d g7")),
        ("d; r5", Input(None, None, "d; r5")),
        ("=6", Input(None, None, "=6")),
        ("they have 6 cards", Input(None, None, "they have 6 cards")),
        (" Q ", Input(Command.QUIT, None, "")),
    ],
)
def test_lines(line: str, expected: Input):
    assert read_input(line) == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--resume x.json --hand R1", "--resume brings start, seed and rules of the saved game: remove --hand"),
        ("--resume x.json --opponent-begins", "remove --opponent-begins"),
        ("--pile R1", "--pile and --penalty belong to the midst of a game: add --opponent"),
        ("--web --save x.json", "the page keeps and saves games itself: remove --save, or --web"),
        ("--web --hand R1", "with --web give both --hand and --top, or neither"),
        ("--port 80", "--port and --no-browser have no effect without --web"),
        ("--port 99999", "--port must be in [0, 65535], got 99999"),
    ],
)
def test_options_that_do_not_go_together(complaint, options: str, says: str):
    assert says in complaint(["table", *options.split()])


def test_completion_offers_what_may_come_next():
    table = official()
    assert table.possible() == ("R1", "RS", "W:R", "W:Y", "W:B", "W:G", "draw")
    table.play("r1")
    offered = table.possible()
    assert {"draw", "draw+", "R2", "W:Y"} <= set(offered) and not {"pass", "challenge", "RS", "Y2"} & set(offered)
    assert all(table.after(line) for line in offered)

"""`unojax table`: conversations with a scripted person, and saved games."""

from __future__ import annotations

import io
from functools import partial
from typing import Final

from rich.console import Console

from tests.cli.by_script import lines
from unojax import Rules
from unojax.decks import parse_deck
from unojax.games.at_table import Table
from unojax.games.gamefile import read_game, write_game
from unojax.terminal.entries import Command, Input, read_input
from unojax.terminal.person import WithPerson
from unojax.terminal.table_conversation import TableConversation, ask_for_table

PROGRAMS: Final = 80  # official rules, with a belief over two types
# Rules and agent of `tests/games/test_at_table.py`, with which this file shares its programs.
RULES = Rules.official(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=2"), hand_size=3)
AGENT = "mc:rollouts=16,particles=64,policy=uniform,model=uniform|scarcest-color"
# A drawn card that is played, what if, a mistake at the first event, refusals, a count.
GAME = ["r1", "d", "d r3", "R3", "r2", "? rs", "f1 wr", "h", "l", "x", "y3", "", "=5", "u", "q"]


def talk(table: Table, typed: list[str], width: int = 80, path=None) -> str:
    """Hold a whole conversation and return its transcript."""
    console = Console(file=(out := io.StringIO()), width=width, markup=False, highlight=False, emoji=False)
    assert TableConversation(table, None if path is None else str(path), read=lines(*typed), console=console).run() == 0
    return out.getvalue()


def official(**others) -> Table:
    return Table("R1 RS W", "R0", rules=RULES, agent=AGENT, seed=3, **others)


def test_a_game_in_a_terminal(tmp_path):
    path = tmp_path / "game.json"
    for width in (60, 80, 120):
        table = official()
        out = talk(table, GAME, width, path)
        assert all((len(row) <= width or str(path) in row) and row == row.rstrip() for row in out.splitlines())
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
            "the last event was r3",
            "unojax table --resume continues it",
        ):
            assert words in out, words
        # A play that is only considered is not entered.
        assert out.count("  6  You play RS") == 1


def test_an_event_that_is_refused_changes_nothing():
    table = official()
    before = table.game
    out = talk(table, ["y1", "f1 r1", "f r1", "u", "f", "?", "d 3"])
    assert table.game is before
    for words in (
        "You can't play Y1: legal here: R1, RS, W:R",
        "there is no event 1",
        "Nothing has happened yet that could be corrected.",
        "there are 0 events to take back, not 1",
        "Type what happened, as in f R5",
        "Type what you would play, as in ? R5",
        "You can't draw 3 here: the draw is of 1.",
    ):
        assert words in out, words


def test_no_game_is_lost(tmp_path):
    """A killed game is resumed, and a full disk does not end a game."""
    path = tmp_path / "game.json"
    talk(official(opponent_begins=True), ["r2; r1"], path=path)
    again = Table.resume(path, agent=AGENT)
    out = talk(again, [], path=path)
    assert "  1  They play R2" in out and "  2  You play R1" in out and [str(event) for event in again.events] == ["R2", "R1"]
    table = official()
    out = talk(table, ["r1"], path=tmp_path / "no such folder" / "game.json")
    assert "could not be saved" in out and len(table.events) == 1


def test_after_the_end_the_person_is_not_asked_for_an_event(tmp_path):
    """The last event can still be taken back."""
    table, prompts, typed = Table("R1", "R0", opponent=2, rules=RULES, agent=AGENT, seed=3), [], iter(["r1", "u", "r1", "q"])

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return next(typed)

    console = Console(file=(out := io.StringIO()), width=80, markup=False, highlight=False, emoji=False)
    assert TableConversation(table, str(tmp_path / "game.json"), read=read, console=console).run() == 0
    over = "the game is over (q stops, u takes back)> "
    assert prompts == ["1 you> ", over, "1 you> ", over]
    assert "unojax review shows the cost of your choices" in out.getvalue()


def test_the_command_does_not_write_over_an_unfinished_game(refused, tmp_path):
    """The same command entered again after a crash would otherwise replace the game by an empty one."""
    path, other = tmp_path / "my game.json", tmp_path / "other.json"
    table = official()
    table.play("r1; d")
    for file in (path, other):
        table.save(file)
    says = f"--save: the game in {str(path)!r} is unfinished: unojax table --resume '{path}' continues it"
    begin = "table --hand 'R1 R5 Y2 YS B7 G+2 W' --top R0"
    refused({f"{begin} --save '{path}'": says, f"table --resume '{other}' --save '{path}'": says})
    assert read_game(path).seen().events == table.events
    other.write_text("precious")
    refused({f"{begin} --save '{other}'": "it is not overwritten"})


def test_a_game_of_play_is_neither_resumed_nor_overwritten_at_a_table(refused, games, tmp_path):
    """A table saves one player's view, from which `unojax play` can't continue."""
    whole, seen = tmp_path / "whole.json", tmp_path / "seen.json"
    write_game(whole, games[0][0].record)
    official().save(seen)
    kept = whole.read_text(), seen.read_text()
    refused(
        {
            f"table --resume {whole}": "unojax play --resume continues it; to track it at a table, add --save",
            f"play --resume {seen}": "a game as one player saw it, which unojax table --resume continues",
        }
    )
    assert (whole.read_text(), seen.read_text()) == kept


def asked(*typed: str, hand: str | None = None, top: str | None = None) -> tuple[Table | None, str]:
    """Answer the questions about the deal; return the table and the transcript."""
    console = Console(file=(out := io.StringIO()), width=80, markup=False, highlight=False, emoji=False)
    begin = partial(Table, rules=RULES, agent=AGENT, seed=3)
    table = ask_for_table(begin, hand, top, opponent_begins=False, person=WithPerson(read=lines(*typed), console=console))
    return table, out.getvalue()


def test_questions_about_the_deal_are_asked_until_answered():
    table, out = asked("R1 X", "R1 RS", "W", "R0", "me", "t", "R1 RS W", "R0", "they")
    assert table is not None and not table.is_my_turn and len(table.game.start.hand.nonzero()[0]) == 3
    for words in (
        "unknown card 'X'",
        "as in W:B",
        "Type y if you begin",
        "Hand must be the 3 cards that you hold at first, got 2",
    ):
        assert words in out, words
    table, _ = asked("r1 rs w", top="R0")
    assert table is not None and table.is_my_turn
    assert asked("R1 RS W") == asked() == (None, "\n")


def test_completion_offers_the_possible_events():
    table = official()
    assert table.possible() == ("R1", "RS", "W:R", "W:Y", "W:B", "W:G", "draw")
    table.play("r1")
    offered = table.possible()
    assert {"draw", "draw+", "R2", "W:Y"} <= set(offered) and not {"pass", "challenge", "RS", "Y2"} & set(offered)
    assert all(table.after(line) for line in offered)


def test_lines_are_commands_or_events():
    events = ("r5", "d g7", "d; r5", "=6", "they have 6 cards")
    expected = {line: Input(None, None, line) for line in events} | {
        "": Input(Command.SHOW, None, ""),
        "u": Input(Command.UNDO, None, ""),
        "u3": Input(Command.UNDO, 3, ""),
        "undo 3": Input(Command.UNDO, 3, ""),
        "f r3": Input(Command.CORRECT, None, "r3"),
        "f7 r3": Input(Command.CORRECT, 7, "r3"),
        "fix 7 w b": Input(Command.CORRECT, 7, "w b"),
        "? r5": Input(Command.WHAT_IF, None, "r5"),
        "if r5": Input(Command.WHAT_IF, None, "r5"),
        " Q ": Input(Command.QUIT, None, ""),
    }
    assert {line: read_input(line) for line in expected} == expected


def test_bad_command_lines_are_refused(refused):
    refused(
        {
            "--resume x.json --hand R1": "remove --hand",
            "--resume x.json --opponent-begins": "remove --opponent-begins",
            "--pile R1": "add --opponent",
            "--web --save x.json": "--save has no effect with --web",
            "--web --hand R1": "both --hand and --top",
            "--port 80": "--port",
            "--port 99999": "--port",
            "--hand XX --top R0": "table: error: --hand: unknown card 'XX'",
        },
        ["table"],
    )

"""What may be typed in `unojax play`, and what is said of the rest."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.cli.by_script import MY_TURN, RULES, session_from
from unojax import Rules, cards, observe, parse_position
from unojax.games.choices import legal_actions
from unojax.terminal.answers import Command, Options, Wild, Wish, quote, read_color, read_wish
from unojax.text import parse_action


@pytest.fixture(scope="module")
def options() -> Options:
    session = session_from(MY_TURN)
    return Options.of(session.view, session.legal)


@pytest.fixture(scope="module")
def forced() -> Options:
    session = session_from("Y0,Y2/R0,R2/-/* R+2 0 2 1 R+2 *")
    return Options.of(session.view, session.legal)


@pytest.mark.parametrize(
    ("line", "means"),
    [
        ("1", parse_action("R0")),
        (" 2 ", parse_action("R2")),
        ("r2", parse_action("R2")),
        ("3", Wild(cards.WILD)),
        ("w", Wild(cards.WILD)),
        ("W+4", Wild(cards.WILD_DRAW_FOUR)),
        ("w:b", parse_action("W:B")),
        ("W+4:G", parse_action("W+4:G")),
        ("?", Command.ADVICE),
        ("H", Command.HELP),
        ("pile", Command.PILE),
        ("q", Command.QUIT),
        ("undo", Command.BACK),
    ],
)
def test_what_can_be_typed(options: Options, line: str, means: object):
    assert options.read(line) == means


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "Type 1 to 4 or a card such as W+4 (h: help)."),
        ("0", "There is no 0: type 1 to 4"),
        ("5", "There is no 5:"),
        ("9" * 30, "There is no 999999999999999...: type"),
        ("Y1", "Y1 does not go on R3:"),
        ("R1", "You don't hold R1:"),
        ("R0:B", "'R0:B' is not clear:"),
        ("W:X", "'W:X' is not clear:"),
        ("draw", "You can play, so you must:"),
        ("challenge", "There is no Wild+4 to challenge:"),
        ("-1", "'-1' is not clear:"),
        ("1 2", "'1 2' is not clear:"),
        ("٣", "'٣' is not clear:"),
        ("\x1b[31m", r"'\x1b[31m' is not clear:"),
        ("[bold]", "'[bold]' is not clear:"),
        ("\N{GRINNING FACE}", "'\N{GRINNING FACE}' is not clear:"),
        ("x\N{GRINNING FACE}" * 12, "'" + "x\N{GRINNING FACE}" * 7 + "x...' is not clear:"),
    ],
)
def test_what_can_not_be_typed(options: Options, line: str, says: str):
    with pytest.raises(ValueError, match=re.escape(says)) as complaint:
        options.read(line)
    assert len(str(complaint.value)) <= 80
    assert "\n" not in str(complaint.value)


def test_a_forced_draw_takes_enter_and_nothing_else(forced: Options):
    for line in ("", "draw", "D"):
        assert forced.read(line) == cards.DRAW
    assert forced.read("?") is Command.ADVICE
    for line in ("1", "Y0", "x"):
        with pytest.raises(ValueError, match="You must draw 2: press Enter to draw"):
            forced.read(line)


def test_other_choices():
    """A draw at will; then p passes, which shows the pile elsewhere."""
    view = observe(parse_position("R0,Y1/Y0,Y2,YS/-/* R3 0 0 0 - *", rules=Rules.official(deck=RULES.deck, hand_size=3)), 0)
    at_will = Options.of(view, legal_actions(view))
    assert at_will.read("d") == at_will.read("draw") == cards.DRAW and at_will.read("p") is Command.PILE
    assert at_will.extra == "d to draw"
    after_a_draw = Options(replace(view, has_drawn=np.bool_(True)), at_will.types, may_draw=True)
    assert after_a_draw.read("p") == after_a_draw.read("PASS") == cards.DRAW and after_a_draw.read("pile") is Command.PILE
    assert after_a_draw.extra == "p to pass"
    with pytest.raises(ValueError, match="You have drawn: type"):
        after_a_draw.read("draw")
    due = Options(replace(view, penalty=np.int8(4)), (), may_draw=True, may_challenge=True)
    assert due.read("") == due.read("d") == cards.DRAW and due.read("c") == cards.CHALLENGE
    assert due.extra == "Enter to take 4 cards or c to challenge"


def test_colors_and_quotes():
    assert [read_color(word) for word in ("r", "YELLOW", " b ", "Green", "")] == [0, 1, 2, 3, None]
    assert read_color("q") is Command.QUIT
    with pytest.raises(ValueError, match="'x' is no colour: type R, Y, B or G, or press Enter"):
        read_color("x")
    assert quote("ä\n") == r"'ä\n'"
    assert [read_wish(word) for word in ("", "R", "undo", " q ")] == [Wish.LEAVE, Wish.REMATCH, Wish.BACK, Wish.LEAVE]
    with pytest.raises(ValueError, match="'x' is not clear: type r for a rematch"):
        read_wish("x")


def test_quotes_are_what_the_output_can_show(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert quote("ä") == r"'\xe4'"

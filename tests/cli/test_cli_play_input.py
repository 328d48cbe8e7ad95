"""Input of `unojax play`, and the answers to bad input."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.cli.by_script import MY_TURN, RULES, session_from
from tests.helpers import refusals
from unojax import Rules, cards, observe, parse_position
from unojax.games.choices import legal_actions
from unojax.terminal.answers import Command, Options, Wild, Wish, quote, read_color, read_wish
from unojax.text import parse_action

GRIN = "\N{GRINNING FACE}"


def options_of(position: str) -> Options:
    session = session_from(position)
    return Options.of(session.view, session.legal)


def test_input_on_a_turn():
    options = options_of(MY_TURN)
    for line, means in (
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
    ):
        assert options.read(line) == means, line
    unclear = ["R0:B", "W:X", "-1", "1 2", "٣", "[bold]", GRIN]
    answers = {line: f"'{line}' is not clear:" for line in unclear} | {
        "": "Type 1 to 4 or a card such as W+4 (h: help).",
        "0": "There is no 0: type 1 to 4",
        "5": "There is no 5:",
        "9" * 30: "There is no 999999999999999...: type",
        "Y1": "Y1 does not match R3:",
        "R1": "You don't hold R1:",
        "draw": "You can play, so you must:",
        "challenge": "There is no Wild+4 to challenge:",
        "\x1b[31m": r"'\x1b[31m' is not clear:",
        f"x{GRIN}" * 12: "'" + f"x{GRIN}" * 7 + "x...' is not clear:",
    }
    for line, words in answers.items():
        with pytest.raises(ValueError, match=re.escape(words)) as complaint:
            options.read(line)
        said = str(complaint.value)
        assert words in said and len(said) <= 80 and "\n" not in said, line


def test_a_forced_draw_takes_enter_and_nothing_else():
    forced = options_of("Y0,Y2/R0,R2/-/* R+2 0 2 1 R+2 *")
    assert [forced.read(line) for line in ("", "draw", "D")] == [cards.DRAW] * 3 and forced.read("?") is Command.ADVICE
    refusals({f"You must draw 2: press Enter to draw ({line})": lambda line=line: forced.read(line) for line in ("1", "Y0", "x")})


def test_other_choices():
    """A draw at will; then p means pass, and the pile has another letter."""
    view = observe(parse_position("R0,Y1/Y0,Y2,YS/-/* R3 0 0 0 - *", rules=Rules.official(deck=RULES.deck, hand_size=3)), 0)
    at_will = Options.of(view, legal_actions(view))
    assert at_will.read("d") == at_will.read("draw") == cards.DRAW and at_will.read("p") is Command.PILE
    after_a_draw = Options(replace(view, has_drawn=np.bool_(True)), at_will.types, may_draw=True)
    assert after_a_draw.read("p") == after_a_draw.read("PASS") == cards.DRAW and after_a_draw.read("pile") is Command.PILE
    refusals({"You have drawn: type": lambda: after_a_draw.read("draw")})
    due = Options(replace(view, penalty=np.int8(4)), (), may_draw=True, may_challenge=True)
    assert due.read("") == due.read("d") == cards.DRAW and due.read("c") == cards.CHALLENGE
    assert [options.extra for options in (at_will, after_a_draw)] == ["d to draw", "p to pass"]
    assert due.extra == "Enter to take 4 cards or c to challenge"


def test_colors_wishes_and_quotes(monkeypatch):
    assert [read_color(word) for word in ("r", "YELLOW", " b ", "Green", "")] == [0, 1, 2, 3, None]
    assert read_color("q") is Command.QUIT
    assert [read_wish(word) for word in ("", "R", "undo", " q ")] == [Wish.LEAVE, Wish.REMATCH, Wish.BACK, Wish.LEAVE]
    refusals({"'x' is no colour: type R, Y, B or G": lambda: read_color("x"), "'x' is not clear": lambda: read_wish("x")})
    assert quote("ä\n") == r"'ä\n'"
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert quote("ä") == r"'\xe4'"

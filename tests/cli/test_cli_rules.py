"""The rules in words follow the options."""

from __future__ import annotations

import numpy as np
import pytest

from unojax import Rules, cards, legal_mask, make_state
from unojax.cli import main
from unojax.decks import parse_deck
from unojax.text import format_action
from unojax.text.rules import rules_in_words


def words(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["rules", *args]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return " ".join(captured.out.split())


@pytest.mark.parametrize(
    ("args", "loses", "gains"),
    [
        (["--no-skip-forfeits"], "the same player moves again", "Skip or Reverse has no effect"),
        (["--start-card", "any"], "goes back and another card", "may be turned up; the active colour is then any of the four"),
        (["--hand-size", "5"], "dealt 7 cards", "dealt 5 cards"),
        (["--deck", "numbers"], "108 cards", "76 cards"),
        (["--first-player", "random"], "Player 0 moves first", "A fair coin decides which player moves first"),
        (["--max-steps", "50"], None, "not over after 50 steps"),
        (["--step-penalty", "0.25"], None, "both players' rewards are -0.25"),
    ],
)
def test_each_option_changes_the_words(capsys, args: list[str], loses: str | None, gains: str):
    default, changed = words(capsys), words(capsys, *args)
    assert gains in changed
    assert gains not in default
    if loses:
        assert loses in default
        assert loses not in changed


def test_what_may_be_played_on_a_penalty():
    """As the engine has it: on a +2 turned up too, and a Wild+4 that could be challenged never has to be answered by another."""
    house = rules_in_words(Rules.house())
    assert "draws 2 cards and forfeits the turn; if it can, it must instead play another +2" in " ".join(
        map(" ".join, house.values())
    )
    assert make_actions("G+2 R1", "R+2", Rules.house(), penalty=2) == {"G+2"}
    free = Rules(stacking=True, wild_draw_four="challenge")
    assert any("it may instead play another Wild+4" in sentence for sentence in rules_in_words(free)["Effects"])
    assert any("if it can, it must instead play another +2" in sentence for sentence in rules_in_words(free)["Effects"])
    assert {"draw", "W+4:R", "challenge"} <= make_actions("W+4 R1", "W+4", free, color="R", penalty=4, contested="B")


def make_actions(mine: str, top: str, rules: Rules, **others) -> set[str]:
    """What player 0 may do, in notation."""
    mask = np.asarray(legal_mask(make_state(mine, "B1 B2", top, rules=rules, **others)))
    return {format_action(action) for action in np.flatnonzero(mask).tolist()}


@pytest.mark.parametrize(
    ("deck", "speaks_of"),
    [
        ("full", {"Wild or Wild+4", "Skip or Reverse", "After +2", "After Wild+4"}),
        ("numbers", set()),
        ("ranks=0-9+S,wilds=0", {"After Skip the"}),
        ("ranks=0-9++2,wilds=1", {"Wild or Wild+4", "After +2", "After Wild+4"}),
    ],
)
def test_only_cards_of_the_deck_are_spoken_of(deck: str, speaks_of: set[str]):
    text = " ".join(sentence for section in rules_in_words(Rules(deck=parse_deck(deck))).values() for sentence in section)
    for phrase in ("Wild or Wild+4", "Skip or Reverse", "After Skip the", "After +2", "After Wild+4"):
        assert (phrase in text) == (phrase in speaks_of), phrase
    if not speaks_of:
        for word in ("Wild", "Skip", "Reverse", "+2"):
            assert word not in text


def test_one_kind_of_wild_only():
    deck = list(Rules().deck)
    deck[cards.WILD_DRAW_FOUR_TYPE] = 0
    text = " ".join(sentence for section in rules_in_words(Rules(deck=tuple(deck))).values() for sentence in section)
    assert "A Wild goes back" in text
    assert "Wild+4" not in text


def test_card_table(capsys):
    assert main(["rules", "--deck", "colors=2,ranks=0-1+S,wilds=3", "--hand-size", "2"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["The", "16", "cards"] in lines
    assert ["0", "1", "S", "sum"] in lines
    assert ["red", "1", "2", "2", "5"] in lines
    assert ["yellow", "1", "2", "2", "5"] in lines
    assert ["wild", "3", "Wild,", "3", "Wild+4"] in lines
    assert not any(line[:1] in (["blue"], ["green"]) for line in lines)


def test_lines_fit_and_have_no_colour_when_piped(capsys):
    assert main(["rules"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert all(len(line) <= 80 and line == line.rstrip() for line in out.splitlines())

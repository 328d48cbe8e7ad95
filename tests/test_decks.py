"""Decks as text: `parse_deck`, and rules with such a deck."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from unojax import Rules, parse_deck, small_deck


def test_rules_take_a_deck_as_text():
    rules = Rules(deck="colors=2 ranks=0-5+S copies=1 wilds=1", hand_size=3)
    assert rules == Rules(deck=small_deck(colors=2, ranks=(0, 1, 2, 3, 4, 5, 10), copies=1, wilds=1), hand_size=3)
    assert hash(rules) and Rules(deck="full") == Rules()
    with pytest.raises(ValueError, match="deck 'half': 'half' is not understood"):
        Rules(deck="half")


def test_rules_and_their_words_need_no_jax():
    code = "import sys, unojax; from unojax.text.rules import rules_in_words; rules_in_words(unojax.Rules(deck='numbers')); "
    code += "print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("text", "deck"),
    [
        ("full", Rules().deck),
        ("numbers", small_deck(ranks=range(10), wilds=0)),
        ("colors=2", small_deck(colors=2)),
        ("colors=2,ranks=0-5+S,copies=1,wilds=1", small_deck(colors=2, ranks=(0, 1, 2, 3, 4, 5, 10), copies=1, wilds=1)),
        ("ranks=1+2", small_deck(ranks=(1, 2))),
        ("ranks=1++2", small_deck(ranks=(1, 12))),
        ("ranks=+2", small_deck(ranks=(12,))),
        ("ranks=+2+2-3+R+s", small_deck(ranks=(12, 2, 3, 11, 10))),
        ("ranks=7++2+1", small_deck(ranks=(7, 12, 1))),
        ("wilds=4,ranks=none", small_deck(ranks=())),
    ],
)
def test_deck_forms(text: str, deck: tuple[int, ...]):
    assert parse_deck(text) == deck


def test_deck_from_a_file(tmp_path):
    path = tmp_path / "deck.json"
    deck = [t % 2 for t in range(54)]
    path.write_text(json.dumps(deck))
    assert parse_deck(str(path)) == tuple(deck)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not understood"),
        ("ful", "not understood"),
        ("colors", "not understood"),
        ("colours=2", "not understood"),
        ("colors=2,,wilds=1", "not understood"),
        ("colors=2,colors=3", "given twice"),
        ("colors=two", "one-digit number"),
        ("colors=5", r"colors must be an integer in \[1, 4\], got 5"),
        ("ranks=", "ranks must be"),
        ("ranks=12", "ranks must be"),
        ("ranks=1+", "ranks must be"),
        ("ranks=0-S", "ranks must be"),
        ("ranks=5-3", "write 3-5"),
        ("nowhere/deck.json", "No such file"),
    ],
)
def test_deck_errors(text: str, says: str):
    with pytest.raises(ValueError, match=says):
        parse_deck(text)


def test_a_deck_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "deck.json"
    path.write_text(json.dumps(Rules().deck), encoding="utf-8-sig")
    assert parse_deck(str(path)) == Rules().deck


@pytest.mark.parametrize("content", ["[1, 2]", "{}", json.dumps([1.0] * 54), json.dumps([True] * 54), "no json"])
def test_deck_file_errors(tmp_path, content: str):
    path = tmp_path / "deck.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"deck\.json"):
        parse_deck(str(path))

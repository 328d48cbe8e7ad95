"""Cards and actions as text.

Contract: text of cards and actions.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tests.helpers import refusals, refused_texts
from unojax import cards, text


def held(onehot: np.ndarray) -> list[tuple[str, int]]:
    """Return names and copies of the cards in a set."""
    return [(cards.TYPE_NAMES[cards.TYPE_OF_SLOT[s]], int(cards.COPY_OF_SLOT[s])) for s in np.flatnonzero(onehot)]


def test_cards_are_read_as_a_canonical_onehot():
    for line, names in {
        "R5 YS BR G+2 W W+4": "R5 YS BR G+2 W W+4",
        "r5,ys, br ,g+2\tw\tw+4": "R5 YS BR G+2 W W+4",
        "W W R7 W R7 W": "W W W W R7 R7",
        "": "",
        " , ": "",
        # In words.
        "B 5": "B5",
        "blue 5, red skip,Green reverse yellow +2": "B5 RS GR Y+2",
        "red5 yellow draw two": "R5 Y+2",
        "wild, wild draw four, Wild +4, W + 4": "W W+4 W+4 W+4",
        "W B 5 R R": "W B5 RR",
        "R5,YS, W+4": "R5 YS W+4",
    }.items():
        onehot, expected = text.parse_cards(line), names.split()
        assert (onehot.dtype, onehot.shape) == (np.dtype(bool), (108,))
        assert sorted(held(onehot)) == sorted((name, expected[:i].count(name)) for i, name in enumerate(expected)), line


def test_unreadable_cards_are_refused():
    refused_texts(
        text.parse_cards,
        {
            "unknown card": ["R5 X3", "R", "R10", "R-5", "W:R", "purple 5", "blue", "B 55", "redgreen 5", "R 5 5"],
            "2 x R0": ["R0 B5 r0"],
            "3 x G9": ["G9 G9 G9"],
            "5 x W+4": ["W+4 W+4 W+4 W+4 W+4"],
        },
    )
    refusals({"5": lambda: text.parse_cards(5)})


def test_cards_are_written_sorted_by_type():
    assert text.format_cards(text.parse_cards("W+4 W G0 B1 Y+2 YS R9 R1 R9 W")) == "R1 R9 R9 YS Y+2 B1 G0 W W W+4"
    assert text.format_cards(np.zeros(108, bool)) == ""
    assert text.format_cards(jnp.ones(108, bool)).split().count("W") == 4


def test_only_canonical_onehots_are_written():
    refusals(
        {
            "bool[54]": lambda: text.format_cards(np.zeros(54, bool)),
            "bool[2, 108]": lambda: text.format_cards(np.zeros((2, 108), bool)),
            "int64[108]": lambda: text.format_cards(np.zeros(108, int)),
            "canonical": lambda: text.format_cards(np.arange(108) == cards.SLOTS_OF_TYPE[5, 1]),
        }
    )


def test_every_action_comes_back():
    lines = [text.format_action(action) for action in range(62)]
    assert [text.parse_action(line) for line in lines] == list(range(62))
    assert [text.parse_action(f" {line.lower()} ") for line in lines] == list(range(62))
    assert len(set(lines)) == 62


def test_known_actions_and_actions_in_words():
    known = {"R0": 0, "R5": 5, "YS": 25, "BR": 41, "G+2": 57, "W:R": 13, "W+4:B": 44, "W+4:G": 59, "draw": 60}
    for line, action in known.items():
        assert (text.parse_action(line), text.format_action(np.int32(action))) == (action, line)
    for line, name in {
        "blue 5": "B5",
        "b 5": "B5",
        "red skip": "RS",
        "wild red": "W:R",
        "W+4 blue": "W+4:B",
        "wild draw four: g": "W+4:G",
    }.items():
        assert text.parse_action(line) == text.parse_action(name)


def test_unreadable_actions_are_refused():
    refused_texts(
        text.parse_action,
        {
            "unknown action": ["pass", "", "draw:R", "R5 R5"],
            "declare": ["W", "W+4:", "W:X", "W:RY"],
            "write R5": ["R5:R", "R5:"],
        },
    )


def test_integers_of_any_library_are_written_and_nothing_else():
    for kind in (np.int8, np.uint32, np.int64, np.array, jnp.int8, jnp.asarray):
        assert [text.format_action(kind(number)) for number in (0, 5, 60)] == ["R0", "R5", "draw"]
    odd = [-1, 62, 5.0, True, "5", None, np.True_, np.float32(5), np.array([5]), np.arange(3)]
    odd += [jnp.array(True), jnp.float32(5), jnp.array([5])]
    refusals({f"action ({number})": lambda action=action: text.format_action(action) for number, action in enumerate(odd)})

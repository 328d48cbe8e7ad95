"""Cards and actions as text: what is read, what is refused, and that everything comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.text.states import shown, slots
from unojax import cards, game, text

# Cards


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("R5 YS BR G+2 W W+4", ("R5", "YS", "BR", "G+2", "W", "W+4")),
        ("r5,ys, br ,g+2;w;w+4".replace(";", "\t"), ("R5", "YS", "BR", "G+2", "W", "W+4")),
        ("W W R7 W R7 W", ("W", "W", "W", "W", "R7", "R7")),
        ("", ()),
        (" , ", ()),
    ],
)
def test_cards_are_read_as_a_canonical_onehot(line: str, names: tuple[str, ...]):
    onehot = text.parse_cards(line)
    assert onehot.dtype == bool
    assert onehot.shape == (108,)
    assert shown(onehot) == slots(*names)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("R5 X3", "unknown card 'X3'.*colour R, Y, B or G"),
        ("R", "unknown card 'R'"),
        ("R10", "unknown card 'R10'"),
        ("R-5", "unknown card"),
        ("W:R", "unknown card 'W:R'"),
        ("R0 B5 r0", "2 x R0.*only 1"),
        ("G9 G9 G9", "3 x G9.*only 2"),
        ("W+4 W+4 W+4 W+4 W+4", r"5 x W\+4.*only 4"),
        (5, "must be text.*got 5"),
    ],
)
def test_unreadable_cards_are_refused(line: str, message: str):
    with pytest.raises(ValueError, match=message):
        text.parse_cards(line)


def test_cards_are_written_sorted_by_type():
    assert text.format_cards(text.parse_cards("W+4 W G0 B1 Y+2 YS R9 R1 R9 W")) == "R1 R9 R9 YS Y+2 B1 G0 W W W+4"
    assert text.format_cards(np.zeros(108, bool)) == ""
    assert text.format_cards(jnp.ones(108, bool)).split().count("W") == 4


@pytest.mark.parametrize(
    ("onehot", "message"),
    [
        (np.zeros(54, bool), r"must be bool\[108\], got bool\[54\]"),
        (np.zeros((2, 108), bool), r"got bool\[2, 108\]"),
        (np.zeros(108, int), r"got int64\[108\]"),
        (np.arange(108) == cards.SLOTS_OF_TYPE[5, 1], "canonical"),
    ],
)
def test_only_canonical_onehots_are_written(onehot: np.ndarray, message: str):
    with pytest.raises(ValueError, match=message):
        text.format_cards(onehot)


# Actions


def test_every_action_comes_back():
    lines = [text.format_action(action) for action in range(62)]
    assert [text.parse_action(line) for line in lines] == list(range(62))
    assert [text.parse_action(f" {line.lower()} ") for line in lines] == list(range(62))
    assert len(set(lines)) == 62


@pytest.mark.parametrize(
    ("line", "action"),
    [("R0", 0), ("R5", 5), ("YS", 25), ("BR", 41), ("G+2", 57), ("W:R", 13), ("W+4:B", 44), ("W+4:G", 59), ("draw", 60)],
)
def test_known_actions(line: str, action: int):
    assert text.parse_action(line) == action
    assert text.format_action(np.int32(action)) == line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pass", "unknown action 'pass'.*or challenge"),
        ("", "unknown action ''"),
        ("draw:R", "unknown action"),
        ("R5 R5", "unknown action"),
        ("W", "W.*declare one of the four colours: write one of W:R, W:Y, W:B, W:G"),
        ("W+4:", r"declare.*W\+4:R"),
        ("W:X", "declare"),
        ("W:RY", "declare"),
        ("R5:R", "write R5"),
        ("R5:", "write R5"),
    ],
)
def test_unreadable_actions_are_refused(line: str, message: str):
    with pytest.raises(ValueError, match=message):
        text.parse_action(line)


@pytest.mark.parametrize("number", [0, 5, 60])
@pytest.mark.parametrize("kind", [np.int8, np.uint32, np.int64, np.array, jnp.int8, jnp.asarray])
def test_integers_of_any_library_are_written(number: int, kind: Callable[[int], Any]):
    assert text.format_action(kind(number)) == text.format_action(number)


def test_an_action_found_in_a_mask_is_written():
    state = text.make_state("R5 G1", "G2", "R7")
    assert text.format_action(jax.jit(game.legal_mask)(state).argmax()) == "R5"


ODD = [-1, 62, 5.0, True, "5", None, np.True_, np.float32(5), np.array([5]), np.arange(3)]
ODD += [jnp.array(True), jnp.float32(5), jnp.array([5])]


@pytest.mark.parametrize("action", ODD, ids=str)
def test_only_actions_are_written(action: Any):
    with pytest.raises(ValueError, match=r"action must be an integer in \[0, 61\], got"):
        text.format_action(action)


# In words


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("B 5", "B5"),
        ("blue 5, red skip,Green reverse yellow +2", "B5 RS GR Y+2"),
        ("red5 yellow draw two", "R5 Y+2"),
        ("wild, wild draw four, Wild +4, W + 4", "W W+4 W+4 W+4"),
        ("W B 5 R R", "W B5 RR"),
        ("R5,YS, W+4", "R5 YS W+4"),
    ],
)
def test_cards_may_be_written_in_words(line: str, names: str):
    np.testing.assert_array_equal(text.parse_cards(line), text.parse_cards(names))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("blue 5", "B5"),
        ("b 5", "B5"),
        ("red skip", "RS"),
        ("wild red", "W:R"),
        ("W+4 blue", "W+4:B"),
        ("wild draw four: g", "W+4:G"),
    ],
)
def test_actions_may_be_written_in_words(line: str, name: str):
    assert text.parse_action(line) == text.parse_action(name)


@pytest.mark.parametrize("line", ["purple 5", "blue", "B 55", "redgreen 5", "R 5 5"])
def test_words_that_name_no_card_are_refused(line: str):
    with pytest.raises(ValueError, match="unknown card"):
        text.parse_cards(line)

"""The numbering of cards, slots and actions, and the canonical one-hot."""

from __future__ import annotations

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.oracle import game as oracle
from unojax import cards


def test_types_are_numbered_and_named_as_in_the_contract():
    assert cards.TYPE_NAMES == oracle.CARDS
    assert cards.TYPE_NAMES[cards.WILD_TYPE] == "W"
    assert cards.TYPE_NAMES[cards.WILD_DRAW_FOUR_TYPE] == "W+4"
    for t, name in enumerate(oracle.CARDS):
        color = oracle.color_of(name)
        assert cards.COLOR_OF_TYPE[t] == (-1 if color is None else oracle.COLORS.index(color))
        assert cards.RANK_OF_TYPE[t] == oracle.RANKS.index(oracle.rank_of(name))


def test_the_deck_has_108_cards_in_the_right_copies():
    assert dict(zip(cards.TYPE_NAMES, cards.COPIES.tolist(), strict=True)) == oracle.FULL_DECK
    assert cards.COPIES.sum() == cards.NUM_CARDS == 108


def test_named_constants_agree_with_their_names():
    assert [cards.COLOR_NAMES[c] for c in (cards.RED, cards.YELLOW, cards.BLUE, cards.GREEN)] == [
        "red",
        "yellow",
        "blue",
        "green",
    ]
    ranks = (cards.SKIP, cards.REVERSE, cards.DRAW_TWO, cards.WILD, cards.WILD_DRAW_FOUR)
    assert [cards.RANK_NAMES[r] for r in ranks] == ["S", "R", "+2", "W", "W+4"]
    assert (cards.NUM_COLORS * cards.NUM_RANKS, cards.DRAW, cards.NUM_ACTIONS) == (60, 60, 61)


def test_slots_are_four_blocks_of_27_in_the_documented_layout():
    block = [f"{rank}" for rank in oracle.RANKS[:13]] + [f"{rank}" for rank in oracle.RANKS[1:13]]
    for color in range(4):
        names = [cards.TYPE_NAMES[t] for t in cards.TYPE_OF_SLOT[27 * color : 27 * (color + 1)]]
        assert names == [oracle.COLORS[color] + rank for rank in block] + ["W", "W+4"]
        copies = cards.COPY_OF_SLOT[27 * color : 27 * (color + 1)].tolist()
        assert copies == [0] * 13 + [1] * 12 + [color, color]


def test_every_copy_of_every_type_has_its_own_slot():
    pairs = Counter(zip(cards.TYPE_OF_SLOT.tolist(), cards.COPY_OF_SLOT.tolist(), strict=True))
    assert pairs == Counter((t, copy) for t in range(54) for copy in range(cards.COPIES[t]))
    for t in range(54):
        for copy in range(4):
            slot = cards.SLOTS_OF_TYPE[t, copy]
            if copy < cards.COPIES[t]:
                assert (cards.TYPE_OF_SLOT[slot], cards.COPY_OF_SLOT[slot]) == (t, copy)
            else:
                assert slot == cards.NUM_CARDS


def test_tables_can_not_be_changed():
    for name in ("COLOR_OF_TYPE", "RANK_OF_TYPE", "COPIES", "TYPE_OF_SLOT", "COPY_OF_SLOT", "SLOTS_OF_TYPE"):
        assert not getattr(cards, name).flags.writeable


def test_counts_and_onehot_know_copies_by_number_only():
    counts = np.zeros(54, np.int8)
    counts[[oracle.CARDS.index("R5"), oracle.CARDS.index("W")]] = 2, 3
    onehot = np.asarray(cards.onehot(counts))
    held = {(cards.TYPE_NAMES[cards.TYPE_OF_SLOT[s]], int(cards.COPY_OF_SLOT[s])) for s in np.flatnonzero(onehot)}
    assert held == {("R5", 0), ("R5", 1), ("W", 0), ("W", 1), ("W", 2)}


MULTISETS = st.tuples(*(st.integers(0, int(copies)) for copies in cards.COPIES)).map(lambda c: np.array(c, np.int8))


@given(MULTISETS)
def test_counts_inverts_onehot(counts: np.ndarray):
    onehot = cards.onehot(counts)
    assert (onehot.shape, onehot.dtype) == ((108,), jnp.bool_)
    again = cards.counts(onehot)
    assert again.dtype == jnp.int8
    np.testing.assert_array_equal(again, counts)


@given(hnp.arrays(bool, 108))
def test_counts_count_any_labelled_set(labelled: np.ndarray):
    expected = np.bincount(cards.TYPE_OF_SLOT[labelled], minlength=54)
    np.testing.assert_array_equal(cards.counts(labelled), expected)


def test_counts_and_onehot_take_batches():
    counts = np.random.default_rng(0).integers(0, cards.COPIES + 1, (3, 4, 54)).astype(np.int8)
    onehots = cards.onehot(counts)
    assert onehots.shape == (3, 4, 108)
    np.testing.assert_array_equal(onehots, jax.vmap(jax.vmap(cards.onehot))(counts))
    np.testing.assert_array_equal(cards.counts(onehots), counts)


def test_type_of_ignores_the_declared_color_of_a_wild():
    for color in range(4):
        for rank in range(15):
            card, _ = oracle.card_and_color(color * 15 + rank)
            assert cards.type_of(color, rank) == oracle.CARDS.index(card)

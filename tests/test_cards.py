"""The numbering of cards, slots and actions, and the canonical one-hot."""

from __future__ import annotations

from collections import Counter

import jax
import numpy as np

from tests.oracle import game as oracle
from unojax import cards


def test_types_slots_and_actions_are_numbered_as_in_the_contract():
    """Contract: card types; actions; deck of 108 cards."""
    assert cards.TYPE_NAMES == oracle.CARDS
    assert (cards.TYPE_NAMES[cards.WILD_TYPE], cards.TYPE_NAMES[cards.WILD_DRAW_FOUR_TYPE]) == ("W", "W+4")
    for t, name in enumerate(oracle.CARDS):
        color = oracle.color_of(name)
        assert cards.COLOR_OF_TYPE[t] == (-1 if color is None else oracle.COLORS.index(color))
        assert cards.RANK_OF_TYPE[t] == oracle.RANKS.index(oracle.rank_of(name))
    assert dict(zip(cards.TYPE_NAMES, cards.COPIES.tolist(), strict=True)) == oracle.FULL_DECK
    assert cards.COPIES.sum() == cards.NUM_CARDS == 108
    colors = [cards.COLOR_NAMES[c] for c in (cards.RED, cards.YELLOW, cards.BLUE, cards.GREEN)]
    assert colors == ["red", "yellow", "blue", "green"]
    ranks = (cards.SKIP, cards.REVERSE, cards.DRAW_TWO, cards.WILD, cards.WILD_DRAW_FOUR)
    assert [cards.RANK_NAMES[r] for r in ranks] == ["S", "R", "+2", "W", "W+4"]
    assert (cards.NUM_COLORS * cards.NUM_RANKS, cards.DRAW, cards.NUM_ACTIONS) == (60, 60, 61)
    # The colour of a wild in an action is the declared one.
    for action in range(60):
        assert cards.type_of(*divmod(action, 15)) == oracle.CARDS.index(oracle.card_and_color(action)[0])
    for name in ("COLOR_OF_TYPE", "RANK_OF_TYPE", "COPIES", "TYPE_OF_SLOT", "COPY_OF_SLOT", "SLOTS_OF_TYPE"):
        assert not getattr(cards, name).flags.writeable


def test_slots_are_four_blocks_of_27_with_one_slot_for_each_copy():
    block = [f"{rank}" for rank in oracle.RANKS[:13]] + [f"{rank}" for rank in oracle.RANKS[1:13]]
    for color in range(4):
        names = [cards.TYPE_NAMES[t] for t in cards.TYPE_OF_SLOT[27 * color : 27 * (color + 1)]]
        assert names == [oracle.COLORS[color] + rank for rank in block] + ["W", "W+4"]
        copies = cards.COPY_OF_SLOT[27 * color : 27 * (color + 1)].tolist()
        assert copies == [0] * 13 + [1] * 12 + [color, color]
    pairs = Counter(zip(cards.TYPE_OF_SLOT.tolist(), cards.COPY_OF_SLOT.tolist(), strict=True))
    assert pairs == Counter((t, copy) for t in range(54) for copy in range(cards.COPIES[t]))
    for t, copy in np.ndindex(54, 4):
        slot = cards.SLOTS_OF_TYPE[t, copy]
        if copy < cards.COPIES[t]:
            assert (cards.TYPE_OF_SLOT[slot], cards.COPY_OF_SLOT[slot]) == (t, copy)
        else:
            assert slot == cards.NUM_CARDS


def test_counts_and_onehot_are_inverse_and_canonical():
    """On the device and on the host; `counts` also counts labelled sets.

    Contract: counts and onehot; canonical one-hot.
    """
    rng = np.random.default_rng(0)
    counts = rng.integers(0, cards.COPIES + 1, (20, 10, 54)).astype(np.int8)
    counts[0, 0], counts[0, 1] = 0, cards.COPIES
    onehots = counts[..., cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT
    for made in (jax.jit(cards.onehot)(counts), jax.jit(jax.vmap(jax.vmap(cards.onehot)))(counts), cards.onehot_of(counts)):
        assert (made.shape, made.dtype) == ((20, 10, 108), np.dtype(bool))
        np.testing.assert_array_equal(made, onehots)
    labelled = rng.random((20, 10, 108)) < rng.random((20, 10, 1))
    for sets, expected in ((onehots, counts), (labelled, labelled.astype(int) @ np.eye(54, dtype=int)[cards.TYPE_OF_SLOT])):
        for counted in (jax.jit(cards.counts)(sets), cards.count_types(sets)):
            np.testing.assert_array_equal(counted, expected)
    assert jax.jit(cards.counts)(onehots).dtype == np.int8

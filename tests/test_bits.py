"""The packed sets against brute force over lists of slots, on random sets of every density."""

from __future__ import annotations

from functools import cache

import jax
import numpy as np

from tests.helpers import counts_of
from unojax import bits, cards

NUM_SETS = 400
RANKS = cards.RANK_OF_TYPE[cards.TYPE_OF_SLOT[:27]]
"""Rank of each bit of a word."""
INDEX = np.arange(4, dtype=np.uint32)


@cache
def labelled_sets() -> np.ndarray:
    """Return sets of labelled cards, bool[N, 108]: empty, full, and random ones from sparse to dense."""
    rng = np.random.default_rng(1)
    sets = rng.random((NUM_SETS, 108)) < rng.random((NUM_SETS, 1))
    sets[0], sets[1] = False, True
    return sets


@cache
def packed() -> bits.Words:
    """Pack the labelled sets by definition: slot s is bit s modulo 27 of word s // 27."""
    return words_of(labelled_sets())


def words_of(sets: np.ndarray) -> bits.Words:
    return tuple((sets.reshape(-1, 4, 27) @ (1 << np.arange(27))).astype(np.uint32).T)


def canonical(sets: np.ndarray) -> np.ndarray:
    """Return the lowest copies of each type by definition, bool[N, 108]."""
    return counts_of(sets)[:, cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT


def slots_of(words: bits.Words) -> np.ndarray:
    """Invert `words_of`: bool[N, 108]."""
    return ((np.stack(jax.device_get(words), -1)[..., None] >> np.arange(27)) & 1).astype(bool).reshape(-1, 108)


def options(words: bits.Words) -> np.ndarray:
    """Return packed options as bool[N, 4, 15]; no other bit may be set."""
    array = slots_of(words).reshape(-1, 4, 27)
    assert not array[:, :, 13:25].any()
    return array[:, :, [*range(13), 25, 26]]


def test_sets_are_packed_unpacked_counted_and_selected():
    sets = labelled_sets()
    words = jax.jit(bits.pack)(sets)
    assert all(w.dtype == np.uint32 for w in words)
    np.testing.assert_array_equal(words, packed())
    np.testing.assert_array_equal(jax.jit(bits.unpack)(packed()), sets)
    for index in range(20):
        assert list(bits.static_words(sets[index])) == [w[index] for w in packed()]
    np.testing.assert_array_equal(jax.jit(bits.count)(packed()), sets.sum(1))
    np.testing.assert_array_equal(np.asarray(jax.jit(bits.any_of)(packed())) != 0, sets.any(1))
    assert not np.any(bits.empty(packed()[0]))
    even = np.arange(NUM_SETS) % 2 == 0
    chosen = jax.jit(bits.where)(even, packed(), words_of(~sets))
    np.testing.assert_array_equal(slots_of(chosen), np.where(even[:, None], sets, ~sets))
    for index in INDEX:
        np.testing.assert_array_equal(jax.jit(bits.word_at)(packed(), index), packed()[index])


def test_two_sets_are_combined_and_a_type_has_a_colour_and_a_rank():
    sets, others = labelled_sets(), np.roll(labelled_sets(), 1, axis=0)
    for combine, expected in ((bits.both, sets & others), (bits.either, sets | others), (bits.without, sets & ~others)):
        np.testing.assert_array_equal(slots_of(combine(packed(), words_of(others))), expected)
    color, rank = bits.color_and_rank(np.arange(cards.NUM_TYPES))
    np.testing.assert_array_equal(color, np.maximum(cards.COLOR_OF_TYPE, 0))
    np.testing.assert_array_equal(rank, cards.RANK_OF_TYPE)


def test_constants_and_ranks_are_those_of_the_layout():
    copies = cards.COPY_OF_SLOT[:27]
    for constant, is_in in (
        (bits.FIRST_COPIES, (RANKS < 13) & (copies == 0)),
        (bits.SECOND_COPIES, (RANKS < 13) & (copies == 1)),
        (bits.COLORED, RANKS < 13),
        (bits.WILD_BIT, RANKS == 13),
        (bits.WILD_DRAW_FOUR_BIT, RANKS == 14),
        (bits.WILDS, RANKS >= 13),
        (bits.ACTION_RANKS, (RANKS >= 10) & (RANKS < 13) & (copies == 0)),
        (bits.ALL_SLOTS, RANKS >= 0),
    ):
        assert constant == sum(1 << s for s in range(27) if is_in[s])
    first = [int(np.flatnonzero(RANKS == rank)[0]) for rank in range(15)]
    rank_bits = jax.jit(bits.rank_bit)(np.arange(15, dtype=np.uint32))
    np.testing.assert_array_equal(rank_bits, [1 << s for s in first])
    both = [sum(1 << s for s in range(25) if RANKS[s] == rank) for rank in range(13)]
    np.testing.assert_array_equal(jax.jit(bits.both_copies)(np.asarray(rank_bits)[:13]), both)
    np.testing.assert_array_equal(jax.jit(bits.rank_at)(np.arange(27, dtype=np.uint32)), RANKS)


def brute_force_options(held: np.ndarray, color: int, rank: int) -> np.ndarray:
    """Return the options of int[54] `held` by the rules, card by card, bool[4, 15]."""
    allowed = np.zeros((4, 15), bool)
    for t in np.flatnonzero(held):
        own_color, own_rank = cards.COLOR_OF_TYPE[t], cards.RANK_OF_TYPE[t]
        if own_rank >= cards.WILD:
            allowed[:, own_rank] = True
        elif own_color == color or own_rank == rank:
            allowed[own_color, own_rank] = True
    return allowed


def test_playable_is_color_or_rank_or_wild():
    """The types of a set are the ranks held in any copy."""
    held = counts_of(labelled_sets())
    allowed = np.stack([[brute_force_options(each, c, 13)[c] for c in range(4)] for each in held])
    np.testing.assert_array_equal(options(jax.jit(bits.types)(packed())), allowed)
    rng = np.random.default_rng(2)
    colors, ranks = (rng.integers(0, top, NUM_SETS, np.uint32) for top in (4, 15))
    found = options(jax.jit(bits.playable)(packed(), colors, ranks))
    np.testing.assert_array_equal(found, [brute_force_options(*x) for x in zip(held, colors, ranks, strict=True)])


def test_canonical_forgets_which_copies_are_held_and_merge_adds_multisets():
    forgotten = jax.jit(bits.canonical)(packed())
    np.testing.assert_array_equal(slots_of(forgotten), canonical(labelled_sets()))
    owner = np.random.default_rng(3).random((NUM_SETS, 108))
    one, other = owner < 0.4, owner > 0.5
    merged = jax.jit(bits.merge)(words_of(canonical(one)), words_of(canonical(other)))
    np.testing.assert_array_equal(slots_of(merged), canonical(one | other))


def test_elements_are_found_put_in_and_taken_out():
    """Every slot in turn, against one-hots; a bit of 0 changes nothing."""
    onehots = np.random.default_rng(0).random((cards.NUM_CARDS, cards.NUM_CARDS)) < 0.5
    slot = np.arange(cards.NUM_CARDS)
    word, position = (x.astype(np.uint32) for x in divmod(slot, cards.SLOTS_PER_COLOR))
    words, bit = words_of(onehots), np.uint32(1) << position
    np.testing.assert_array_equal(jax.jit(bits.contains)(words, word, position), onehots[slot, slot])
    np.testing.assert_array_equal(jax.jit(bits.position_of)(bit), position)
    for change, held in ((jax.jit(bits.insert), True), (jax.jit(bits.remove), False)):
        expected = onehots.copy()
        expected[slot, slot] = held
        np.testing.assert_array_equal(slots_of(change(words, word, bit)), expected)
        np.testing.assert_array_equal(slots_of(change(words, word, np.zeros_like(bit))), onehots)


def test_one_copy_finds_the_lowest_copy_held():
    """For any given colour of a wild."""
    find = jax.jit(jax.vmap(bits.one_copy, in_axes=(None, 0, 0)))
    types = np.arange(54)
    for color_of_wilds in (0, 3):
        color = np.where(types >= cards.WILD_TYPE, color_of_wilds, cards.COLOR_OF_TYPE[types]).astype(np.uint32)
        index, bit = jax.device_get(find(packed(), color, cards.RANK_OF_TYPE[types].astype(np.uint32)))
        for t in types:
            slots = cards.SLOTS_OF_TYPE[t, : cards.COPIES[t]]
            held = labelled_sets()[:, slots]
            lowest = slots[held.argmax(1)]
            np.testing.assert_array_equal(bit[t], np.where(held.any(1), 1 << lowest % 27, 0))
            np.testing.assert_array_equal(index[t][held.any(1)], (lowest // 27)[held.any(1)])


def test_uniform_below_is_the_exact_product():
    """n * word >> 32 of random words and of the first and last words of the n intervals of equal values."""
    rng = np.random.default_rng(4)
    number, words = [rng.integers(0, 2**16, 100_000)], [rng.integers(0, 2**32, 100_000)]
    for n in (0, 1, 2, 3, 61, 100, 108, 2**16 - 1):
        begins = np.array([-(-k * 2**32 // n) for k in range(n)] + [0, 2**16, 2**32 - 1])
        words += [begins, np.maximum(begins - 1, 0)]
        number += [np.full(2 * len(begins), n)]
    number, words = (np.concatenate(parts).astype(np.uint32) for parts in (number, words))
    expected = (words.astype(np.uint64) * number) >> np.uint64(32)
    np.testing.assert_array_equal(jax.jit(bits.uniform_below)(words, number), expected)


def test_choose_returns_the_rth_element_for_every_r():
    """Words in the r-th of n equal intervals give element r, so `choose` is uniform.

    An empty set gives a slot in range.
    """
    sets, words, expected = [], [], []
    for held in labelled_sets()[1:60]:
        elements = np.flatnonzero(held)
        for r, slot in enumerate(elements):
            first = -(-r * 2**32 // len(elements))
            last = -(-(r + 1) * 2**32 // len(elements)) - 1
            sets += [held, held]
            words += [first, last]
            expected += [slot, slot]
    choose = jax.jit(bits.choose)
    index, position = jax.device_get(choose(words_of(np.array(sets)), np.array(words, np.uint32)))
    np.testing.assert_array_equal(index * 27 + position, expected)
    words = np.array([0, 1, 2**31, 2**32 - 1], np.uint32)
    index, position = jax.device_get(choose((np.zeros(4, np.uint32),) * 4, words))
    assert (index < 4).all() and (position < 27).all()

"""The packed sets against brute force over lists of slots, on random sets of every density."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import counts_of
from unojax import bits, cards

NUM_SETS = 400


@cache
def labelled_sets() -> np.ndarray:
    """bool[N, 108] sets of labelled cards: the empty one, the full one, and random ones from sparse to dense."""
    rng = np.random.default_rng(1)
    sets = rng.random((NUM_SETS, 108)) < rng.random((NUM_SETS, 1))
    sets[0], sets[1] = False, True
    return sets


def canonical(sets: np.ndarray) -> np.ndarray:
    """bool[N, 108] with the lowest copies of each type, by the definition."""
    return counts_of(sets)[:, cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT


def unpacked(words: bits.Words) -> np.ndarray:
    return np.asarray(bits.unpack(words))


def options(words: bits.Words) -> np.ndarray:
    """Packed options as bool[N, 4, 15]; no other bit may be set."""
    array = unpacked(words).reshape(-1, 4, 27)
    assert not array[:, :, 13:25].any()
    return array[:, :, [*range(13), 25, 26]]


def test_pack_puts_slot_s_into_bit_s_modulo_27_of_word_s_over_27():
    for slot in (0, 26, 27, 53, 80, 107):
        words = bits.pack(np.arange(108) == slot)
        assert [int(w) for w in words] == [1 << slot % 27 if c == slot // 27 else 0 for c in range(4)]
        assert all(w.dtype == jnp.uint32 for w in words)


def test_unpack_and_static_words_agree_with_pack():
    words = bits.pack(labelled_sets())
    np.testing.assert_array_equal(unpacked(words), labelled_sets())
    for index in range(20):
        assert list(bits.static_words(labelled_sets()[index])) == [w[index] for w in words]


def test_count_any_of_and_empty():
    words = bits.pack(labelled_sets())
    np.testing.assert_array_equal(bits.count(words), labelled_sets().sum(1))
    np.testing.assert_array_equal(bits.any_of(words) != 0, labelled_sets().any(1))
    assert not unpacked(bits.empty(words[0])).any()


def test_where_selects_lane_by_lane():
    sets = labelled_sets()
    chosen = bits.where(jnp.arange(NUM_SETS) % 2 == 0, bits.pack(sets), bits.pack(~sets))
    np.testing.assert_array_equal(unpacked(chosen), np.where(np.arange(NUM_SETS)[:, None] % 2 == 0, sets, ~sets))


def test_constants_name_the_bits_of_the_layout():
    copies, ranks = cards.COPY_OF_SLOT[:27], cards.RANK_OF_TYPE[cards.TYPE_OF_SLOT[:27]]
    for constant, is_in in (
        (bits.FIRST_COPIES, (ranks < 13) & (copies == 0)),
        (bits.SECOND_COPIES, (ranks < 13) & (copies == 1)),
        (bits.COLORED, ranks < 13),
        (bits.WILD_BIT, ranks == 13),
        (bits.WILD_DRAW_FOUR_BIT, ranks == 14),
        (bits.WILDS, ranks >= 13),
        (bits.ACTION_RANKS, (ranks >= 10) & (ranks < 13) & (copies == 0)),
        (bits.ALL_SLOTS, ranks >= 0),
    ):
        assert constant == sum(1 << s for s in range(27) if is_in[s])


def test_rank_bit_and_both_copies():
    ranks = cards.RANK_OF_TYPE[cards.TYPE_OF_SLOT[:27]]
    first = [int(np.flatnonzero(ranks == rank)[0]) for rank in range(15)]
    np.testing.assert_array_equal(bits.rank_bit(jnp.arange(15, dtype=jnp.uint32)), [1 << s for s in first])
    both = [sum(1 << s for s in range(25) if ranks[s] == rank) for rank in range(13)]
    np.testing.assert_array_equal(bits.both_copies(bits.rank_bit(jnp.arange(13, dtype=jnp.uint32))), both)


def test_rank_at_knows_the_rank_of_every_slot():
    positions = jnp.arange(27, dtype=jnp.uint32)
    np.testing.assert_array_equal(bits.rank_at(positions), cards.RANK_OF_TYPE[cards.TYPE_OF_SLOT[:27]])


def brute_force_options(held: np.ndarray, color: int, rank: int) -> np.ndarray:
    """bool[4, 15]: by the sentence of the rules, card by card. `held` is int[54]."""
    allowed = np.zeros((4, 15), bool)
    for t in np.flatnonzero(held):
        own_color, own_rank = cards.COLOR_OF_TYPE[t], cards.RANK_OF_TYPE[t]
        if own_rank >= cards.WILD:
            allowed[:, own_rank] = True
        elif own_color == color or own_rank == rank:
            allowed[own_color, own_rank] = True
    return allowed


def test_types_are_the_ranks_held_in_any_copy():
    allowed = np.stack([[brute_force_options(held, c, 13)[c] for c in range(4)] for held in counts_of(labelled_sets())])
    np.testing.assert_array_equal(options(jax.jit(bits.types)(bits.pack(labelled_sets()))), allowed)


def test_playable_is_color_or_rank_or_wild():
    rng = np.random.default_rng(2)
    colors, ranks = rng.integers(0, 4, NUM_SETS), rng.integers(0, 15, NUM_SETS)
    found = jax.jit(bits.playable)(bits.pack(labelled_sets()), jnp.uint32(colors), jnp.uint32(ranks))
    expected = [brute_force_options(*x) for x in zip(counts_of(labelled_sets()), colors, ranks, strict=True)]
    np.testing.assert_array_equal(options(found), expected)


def test_canonical_forgets_which_copies_are_held():
    forgotten = jax.jit(bits.canonical)(bits.pack(labelled_sets()))
    np.testing.assert_array_equal(unpacked(forgotten), canonical(labelled_sets()))


def test_merge_is_the_sum_of_multisets():
    rng = np.random.default_rng(3)
    owner = rng.random((NUM_SETS, 108))
    one, other = owner < 0.4, owner > 0.5
    merged = jax.jit(bits.merge)(bits.pack(canonical(one)), bits.pack(canonical(other)))
    np.testing.assert_array_equal(unpacked(merged), canonical(one | other))


def test_word_at_is_indexing():
    words = bits.pack(labelled_sets())
    for index in range(4):
        np.testing.assert_array_equal(bits.word_at(words, jnp.uint32(index)), words[index])


def test_elements_are_found_put_in_and_taken_out():
    """Of random sets, every slot in turn, against one-hots; a bit of 0 changes nothing."""
    onehots = np.random.default_rng(0).random((cards.NUM_CARDS, cards.NUM_CARDS)) < 0.5
    slot = np.arange(cards.NUM_CARDS)
    word, position = (x.astype(np.uint32) for x in divmod(slot, cards.SLOTS_PER_COLOR))
    words, bit = bits.pack(onehots), np.uint32(1) << position
    np.testing.assert_array_equal(bits.contains(words, word, position), onehots[slot, slot])
    np.testing.assert_array_equal(bits.position_of(jnp.asarray(bit)), position)
    for change, held in ((bits.insert, True), (bits.remove, False)):
        expected = onehots.copy()
        expected[slot, slot] = held
        np.testing.assert_array_equal(bits.unpack(change(words, word, bit)), expected)
        np.testing.assert_array_equal(bits.unpack(change(words, word, np.zeros_like(bit))), onehots)


def test_one_copy_finds_the_lowest_copy_held():
    find = jax.jit(jax.vmap(bits.one_copy, in_axes=(None, 0, 0)))
    types = np.arange(54)
    color, rank = np.maximum(cards.COLOR_OF_TYPE[types], 0), cards.RANK_OF_TYPE[types]
    index, bit = map(np.asarray, find(bits.pack(labelled_sets()), jnp.uint32(color), jnp.uint32(rank)))
    for t in types:
        slots = cards.SLOTS_OF_TYPE[t, : cards.COPIES[t]]
        held = labelled_sets()[:, slots]
        lowest = slots[held.argmax(1)]
        np.testing.assert_array_equal(bit[t], np.where(held.any(1), 1 << lowest % 27, 0))
        np.testing.assert_array_equal(index[t][held.any(1)], (lowest // 27)[held.any(1)])


def test_one_copy_ignores_the_color_of_a_wild():
    words = bits.pack(labelled_sets())
    for rank in (cards.WILD, cards.WILD_DRAW_FOUR):
        at_red, at_green = (bits.one_copy(words, jnp.uint32(color), jnp.uint32(rank)) for color in (0, 3))
        np.testing.assert_array_equal(at_red, at_green)


UINT32 = st.integers(0, 2**32 - 1)


EDGES = st.sampled_from([0, 1, 2**16 - 1, 2**16, 2**31, 2**32 - 1])


# Of one length, so that nothing is compiled twice.
@given(st.lists(st.tuples(UINT32 | EDGES, st.integers(0, 2**16 - 1)), min_size=8, max_size=8))
def test_uniform_below_is_the_exact_product(pairs: list[tuple[int, int]]):
    random, n = (jnp.array(column, jnp.uint32) for column in zip(*pairs, strict=True))
    assert np.asarray(bits.uniform_below(random, n)).tolist() == [b * n >> 32 for b, n in pairs]


@pytest.mark.parametrize("n", [1, 2, 3, 61, 100, 108])
def test_uniform_below_changes_value_exactly_where_it_should(n: int):
    """The k-th of n intervals of the 2^32 words begins at ceil(k 2^32 / n)."""
    begins = [-(-k * 2**32 // n) for k in range(n)]
    values = np.asarray(bits.uniform_below(jnp.array(begins, jnp.uint32), jnp.uint32(n)))
    before = np.asarray(bits.uniform_below(jnp.array([b - 1 for b in begins[1:]] or [0], jnp.uint32), jnp.uint32(n)))
    assert values.tolist() == list(range(n))
    assert before.tolist() == (list(range(n - 1)) or [0])


def test_choose_returns_the_rth_element_for_every_r():
    """Words in the r-th of n equal intervals give element r: so `choose` is uniform and reaches everything."""
    sets, words, expected = [], [], []
    for held in labelled_sets()[1:60]:
        elements = np.flatnonzero(held)
        for r, slot in enumerate(elements):
            first = -(-r * 2**32 // len(elements))
            last = -(-(r + 1) * 2**32 // len(elements)) - 1
            sets += [held, held]
            words += [first, last]
            expected += [slot, slot]
    index, position = jax.jit(bits.choose)(bits.pack(np.array(sets)), jnp.array(words, jnp.uint32))
    np.testing.assert_array_equal(np.asarray(index) * 27 + np.asarray(position), expected)


def test_choose_from_the_empty_set_stays_in_range():
    words = jnp.array([0, 1, 2**31, 2**32 - 1], jnp.uint32)
    index, position = bits.choose(bits.empty(words), words)
    assert (np.asarray(index) < 4).all()
    assert (np.asarray(position) < 27).all()

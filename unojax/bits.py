"""Sets of cards as four 32-bit words, and the primitives for the rules.

Word c holds the 27 slots of colour c in the layout of `unojax.cards`: bits 0..12 are first copies, bits 13..24 second copies of
ranks 1..12, bit 25 a Wild, bit 26 a Wild+4.

A *canonical* set is a packed canonical one-hot. A set of *labelled* cards may hold any physical card, e.g. the second copy of
red 5 without the first; `canonical` drops the copy labels. A set of *options* uses bits 0..12, 25 and 26 of word c for the 15
ranks that can be played with colour c declared. Bits 13 and 14 of word 0 stand for an optional draw (or pass), and a challenge.

Every function is elementwise over arrays of any one shape, branch-free, and exact; `vmap` is never needed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import cards
from unojax.device.platform import by_platform
from unojax.device.tracing import traced_once

Words = tuple[Array, Array, Array, Array]
"""uint32[...] each: a set of cards, one word per colour."""
StaticWords = tuple[np.uint32, np.uint32, np.uint32, np.uint32]
"""A set of cards as constants."""

FIRST_COPIES: Final = np.uint32(0x0000_1FFF)
SECOND_COPIES: Final = np.uint32(0x01FF_E000)
COLORED: Final = FIRST_COPIES | SECOND_COPIES
WILD_BIT: Final = np.uint32(1 << 25)
WILD_DRAW_FOUR_BIT: Final = np.uint32(1 << 26)
WILDS: Final = WILD_BIT | WILD_DRAW_FOUR_BIT
ACTION_RANKS: Final = np.uint32(0b111 << cards.SKIP)
PLAYS: Final = FIRST_COPIES | WILDS
DRAW_OPTION: Final = np.uint32(1 << 13)
CHALLENGE_OPTION: Final = np.uint32(1 << 14)
ALL_SLOTS: Final = np.uint32((1 << cards.SLOTS_PER_COLOR) - 1)

_HAS_SECOND_COPY: Final = np.uint32(0x0000_1FFE)
_SECOND_SHIFT: Final = np.uint32(12)
_SLOT_BITS: Final = np.left_shift(np.uint32(1), np.arange(cards.SLOTS_PER_COLOR, dtype=np.uint32))
_SLOT_BITS_OF_WORD: Final = np.kron(np.eye(cards.NUM_COLORS, dtype=np.uint32), _SLOT_BITS)
_GATHER: Final = np.uint32(1 << 24 | 1 << 17 | 1 << 10 | 1 << 3)
_NIBBLE_SHIFTS: Final = np.arange(0, 32, 4, dtype=np.uint32)


@traced_once
def pack(onehot: ArrayLike) -> Words:
    """Pack one-hots, bool[..., 108], as four words, uint32[...] each."""
    onehot = jnp.asarray(onehot)
    # Four slots at a time: a multiplication gathers the low bits of a word's four bytes in its top byte. The bits of the products
    # are disjoint, so nothing carries.
    quads = onehot.astype(jnp.uint8).reshape(*onehot.shape[:-1], cards.NUM_CARDS // 4, 4)
    nibbles = (lax.bitcast_convert_type(quads, jnp.uint32) * _GATHER) >> np.uint32(24) & np.uint32(0xF)
    padding = [(0, 0)] * (onehot.ndim - 1) + [(0, 32 - cards.NUM_CARDS // 4)]
    blocks = jnp.pad(nibbles, padding).reshape(*onehot.shape[:-1], 4, 8)
    shifted = blocks << cards.along_last(_NIBBLE_SHIFTS, blocks.ndim)
    # On a GPU a sum is a separate kernel, which recomputes its input.
    dense = by_platform(
        lambda shifted: shifted.sum(-1, dtype=jnp.uint32),
        lambda shifted: functools.reduce(jnp.bitwise_or, (shifted[..., i] for i in range(8))),
        shifted,
    )
    # Recut 108 consecutive bits, 32 to a word, into words of 27.
    d0, d1, d2, d3 = (dense[..., i] for i in range(4))
    return (
        d0 & ALL_SLOTS,
        (d0 >> np.uint32(27) | d1 << np.uint32(5)) & ALL_SLOTS,
        (d1 >> np.uint32(22) | d2 << np.uint32(10)) & ALL_SLOTS,
        (d2 >> np.uint32(17) | d3 << np.uint32(15)) & ALL_SLOTS,
    )


@traced_once
def unpack(words: Words) -> Array:
    """Return the one-hots, bool[..., 108], of four words."""
    # Elementwise in the slots and without a concatenation, so that the compiler computes the words once per game instead of once
    # per slot.
    w0, w1, w2, w3 = (
        word[..., None] & cards.along_last(slots, word.ndim + 1) for word, slots in zip(words, _SLOT_BITS_OF_WORD, strict=True)
    )
    return ((w0 | w1) | (w2 | w3)) != 0


def static_words(onehot: np.ndarray) -> StaticWords:
    """Pack a constant bool[108] on the host as four NumPy scalars."""
    words = np.where(onehot.reshape(cards.NUM_COLORS, -1), _SLOT_BITS, np.uint32(0)).sum(-1, dtype=np.uint32)
    return words[0], words[1], words[2], words[3]


def all_cards(composition: Sequence[int]) -> StaticWords:
    """Pack all cards of a game with these copies of the 54 types, as constants."""
    return static_words(np.asarray(composition)[cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT)


def empty(like: Array) -> Words:
    """Return empty sets, with the shape of `like`."""
    zero = jnp.zeros_like(like, jnp.uint32)
    return zero, zero, zero, zero


def count(words: Words) -> Array:
    """Count the cards in the set: uint32[...]."""
    w0, w1, w2, w3 = map(lax.population_count, words)
    return (w0 + w1) + (w2 + w3)


def any_of(words: Words) -> Array:
    """Or the four words: uint32[...], nonzero if the set is not empty."""
    return (words[0] | words[1]) | (words[2] | words[3])


def where(condition: Array, if_true: Words, if_false: Words) -> Words:
    """Select between two sets elementwise."""
    return map_words(lambda x, y: jnp.where(condition, x, y), if_true, if_false)


def map_words(fn, *sets: Words | StaticWords) -> Words:
    """Apply a function of words to each of the four in turn."""
    w0, w1, w2, w3 = (fn(*words) for words in zip(*sets, strict=True))
    return w0, w1, w2, w3


def both(words: Words | StaticWords, others: Words | StaticWords) -> Words:
    """Return the intersection of two labelled sets."""
    return map_words(lambda word, other: word & other, words, others)


def either(words: Words | StaticWords, others: Words | StaticWords) -> Words:
    """Return the union of two labelled sets."""
    return map_words(lambda word, other: word | other, words, others)


def without(words: Words | StaticWords, others: Words | StaticWords) -> Words:
    """Remove the cards of another set. The difference of nested canonical sets is labelled, and has the types of the rest."""
    return map_words(lambda word, other: word & ~other, words, others)


def rank_bit(rank: ArrayLike) -> Array:
    """Return the option bit of a rank 0..14: uint32[...]."""
    return jnp.uint32(1) << position_at(rank)


def position_at(rank: ArrayLike) -> Array:
    """Return the bit position of the first copy of a rank 0..14, the inverse of `rank_at`."""
    rank = jnp.asarray(rank)
    return jnp.where(rank < cards.WILD, rank, rank + _SECOND_SHIFT)


def rank_at(position: Array) -> Array:
    """Return the rank 0..14 of the card at a bit position 0..26 of any word."""
    return jnp.where(position >= cards.WILD, position - _SECOND_SHIFT, position)


def both_copies(bit: Array) -> Array:
    """Add to a first-copy bit the bit of its second copy, if there is one."""
    return bit | ((bit & _HAS_SECOND_COPY) << _SECOND_SHIFT)


def color_and_rank(card_type: ArrayLike) -> tuple[Array, Array]:
    """Return colour and rank of card types, uint32 each. A wild card has no colour: it counts as red."""
    color, rank = jnp.asarray(cards.COLOR_OF_TYPE)[card_type], jnp.asarray(cards.RANK_OF_TYPE)[card_type]
    return jnp.maximum(color, 0).astype(jnp.uint32), rank.astype(jnp.uint32)


@traced_once
def type_mask(color: Array, rank: Array) -> Words:
    """Return all cards of a type; the colour of a wild is ignored."""
    kind = both_copies(rank_bit(rank))
    everywhere = rank >= cards.WILD
    w0, w1, w2, w3 = (jnp.where(everywhere | (color == c), kind, np.uint32(0)) for c in range(cards.NUM_COLORS))
    return w0, w1, w2, w3


@traced_once
def types(words: Words) -> Words:
    """Return the options of a labelled set: the ranks held of each colour; a Wild is in all words."""
    wilds = any_of(words) & WILDS
    return map_words(lambda w: ((w | ((w & SECOND_COPIES) >> _SECOND_SHIFT)) & FIRST_COPIES) | wilds, words)


@traced_once
def matching(color: Array, rank: Array) -> Words:
    """Return the options on a top card: colour or rank matches, or the card is wild.

    Args:
        color: Active colour 0..3, uint32[...].
        rank: Rank 0..14 of the top card, uint32[...]; a wild top matches no rank.
    """
    same_rank = rank_bit(rank) & FIRST_COPIES
    o0, o1, o2, o3 = (jnp.where(color == c, FIRST_COPIES, same_rank) | WILDS for c in range(cards.NUM_COLORS))
    return o0, o1, o2, o3


@traced_once
def playable(hand: Words, color: Array, rank: Array) -> Words:
    """Return the options of a labelled or canonical hand on a top card; see `matching`."""
    return both(types(hand), matching(color, rank))


@traced_once
def canonical(words: Words) -> Words:
    """Return the canonical set of the same multiset as a labelled one."""
    num_wild = _count_bit(words, WILD_BIT)
    num_wild_draw_four = _count_bit(words, WILD_DRAW_FOUR_BIT)

    def one_color(color: int, w: Array) -> Array:
        first, second = w & FIRST_COPIES, (w & SECOND_COPIES) >> _SECOND_SHIFT
        # A colour's 0 has no second copy, so `second` never has bit 0.
        return (first | second) | ((first & second) << _SECOND_SHIFT) | _wild_bits(color, num_wild, num_wild_draw_four)

    w0, w1, w2, w3 = (one_color(c, w) for c, w in enumerate(words))
    return w0, w1, w2, w3


@traced_once
def type_counts(words: Words) -> Array:
    """Count the cards of each type in a labelled set: int32[..., 54]."""
    first = cards.along_last(np.uint32(1) << np.arange(cards.NUM_COLORED_RANKS, dtype=np.uint32), jnp.ndim(words[0]) + 1)
    second = (first & _HAS_SECOND_COPY) << _SECOND_SHIFT
    of_colors = [sum(((word[..., None] & copies) != 0).astype(jnp.int32) for copies in (first, second)) for word in words]
    wilds = [_count_bit(words, bit).astype(jnp.int32) for bit in (WILD_BIT, WILD_DRAW_FOUR_BIT)]
    return jnp.concatenate([*of_colors, jnp.stack(wilds, -1)], -1)


@traced_once
def merge(a: Words, b: Words) -> Words:
    """Add two canonical sets as multisets; exact if no type exceeds its copies."""
    num_wild = _count_bit(a, WILD_BIT) + _count_bit(b, WILD_BIT)
    num_wild_draw_four = _count_bit(a, WILD_DRAW_FOUR_BIT) + _count_bit(b, WILD_DRAW_FOUR_BIT)

    def one_color(color: int, x: Array, y: Array) -> Array:
        both = (x & y & _HAS_SECOND_COPY) << _SECOND_SHIFT
        return ((x | y) & COLORED) | both | _wild_bits(color, num_wild, num_wild_draw_four)

    w0, w1, w2, w3 = (one_color(c, x, y) for c, (x, y) in enumerate(zip(a, b, strict=True)))
    return w0, w1, w2, w3


def _count_bit(words: Words, bit: np.uint32) -> Array:
    w0, w1, w2, w3 = ((w & bit != 0).astype(jnp.uint32) for w in words)
    return (w0 + w1) + (w2 + w3)


def _wild_bits(color: int, num_wild: Array, num_wild_draw_four: Array) -> Array:
    return jnp.where(num_wild > color, WILD_BIT, np.uint32(0)) | jnp.where(
        num_wild_draw_four > color, WILD_DRAW_FOUR_BIT, np.uint32(0)
    )


def word_at(words: Words, index: Array) -> Array:
    """Return `words[index]` for a traced index 0..3."""
    return jnp.where(index < 2, jnp.where(index == 0, words[0], words[1]), jnp.where(index == 2, words[2], words[3]))


def contains(words: Words, index: Array, position: Array) -> Array:
    """Return whether a set holds the element at a word 0..3 and a bit position, bool[...]."""
    return ((word_at(words, index) >> position) & np.uint32(1)) != 0


def insert(words: Words, index: Array, bit: Array) -> Words:
    """Add an element, a bit of word `index`, to a set; no effect if `bit` is 0."""
    w0, w1, w2, w3 = (jnp.where(index == c, w | bit, w) for c, w in enumerate(words))
    return w0, w1, w2, w3


def remove(words: Words, index: Array, bit: Array) -> Words:
    """Remove an element, a bit of word `index`, from a set; no effect if `bit` is 0."""
    w0, w1, w2, w3 = (jnp.where(index == c, w & ~bit, w) for c, w in enumerate(words))
    return w0, w1, w2, w3


def position_of(bit: Array) -> Array:
    """Return the position of a bit, uint32[...] 0..31; 32 if it is 0."""
    return lax.population_count(bit - np.uint32(1))


@traced_once
def one_copy(words: Words, color: Array, rank: Array) -> tuple[Array, Array]:
    """Return word index and bit of the lowest copy of a type in a set; bit 0 if it has no copy.

    Args:
        words: Labelled or canonical set.
        color: Colour 0..3 of the type; ignored for Wild and Wild+4, which may be in any of the four words.
        rank: Rank 0..14.
    """
    copies = map_words(lambda w: w & both_copies(rank_bit(rank)), words)
    c0, c1, c2 = copies[0] != 0, copies[1] != 0, copies[2] != 0
    first = jnp.where(c0 | c1, jnp.where(c0, 0, 1), jnp.where(c2, 2, 3)).astype(jnp.uint32)
    index = jnp.where(rank >= cards.WILD, first, color)
    word = word_at(copies, index)
    return index, word & (~word + np.uint32(1))


@traced_once
def uniform_below(bits: Array, n: Array) -> Array:
    """Return floor(bits * n / 2^32), uniform on 0..n-1 for uniform uint32 `bits` and n < 2^16.

    Probabilities differ from 1/n by at most 2^-32.
    """
    if bits.dtype != jnp.uint32:
        raise TypeError(f"random bits are uint32, got {bits.dtype}")
    low = (bits & np.uint32(0xFFFF)) * n
    return ((bits >> 16) * n + (low >> 16)) >> 16


@traced_once
def choose(words: Words, bits: Array) -> tuple[Array, Array]:
    """Return word index 0..3 and bit position 0..26 of a uniformly random element of a set.

    The result for an empty set is meaningless but in range.
    """
    return nth(words, uniform_below(bits, count(words)))


@traced_once
def nth(words: Words, r: Array) -> tuple[Array, Array]:
    """Return word index 0..3 and bit position 0..26 of the r-th element of a set, from 0.

    For a smaller set, the result is meaningless but in range.
    """
    n0, n1, n2, _ = map(lax.population_count, words)
    end0, end1, end2 = n0, n0 + n1, n0 + n1 + n2
    after0, after1, after2 = r >= end0, r >= end1, r >= end2
    index = after0.astype(jnp.uint32) + after1.astype(jnp.uint32) + after2.astype(jnp.uint32)
    zero = np.uint32(0)
    r = r - jnp.where(after1, jnp.where(after2, end2, end1), jnp.where(after0, end0, zero))
    return index, jnp.minimum(nth_bit(word_at(words, index), r), np.uint32(cards.SLOTS_PER_COLOR - 1))


def nth_bit(word: Array, r: Array) -> Array:
    """Return the position of the r-th set bit, from 0; meaningless if there are fewer."""
    position = jnp.zeros_like(word)
    for width in (16, 8, 4, 2, 1):
        below = lax.population_count((word >> position) & np.uint32((1 << width) - 1))
        beyond = r >= below
        position = position + jnp.where(beyond, np.uint32(width), np.uint32(0))
        r = r - jnp.where(beyond, below, np.uint32(0))
    return position

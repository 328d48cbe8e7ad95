"""Trajectories, the contents of particles.

A particle is a complete trajectory of the hidden past in physical cards (slots 0..107 of the canonical layout, here *labels*):
the label of each filled slot of the opponent's hand, the played ones, and those that the observer drew. Players see types but
never labels.

Sets are arrays uint32[4, N], whose rows are the words of `unojax.bits`, so one kernel changes a set. Code that needs several
words of a set splits it (`as_words`), because XLA on a CPU would recompute a row of an array for each use. All functions work on
N particles at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import bits, cards
from unojax.bits import Words
from unojax.device.random_bits import hash_bits
from unojax.device.tracing import traced_once

RELEASED: Final = np.uint8(0x80)
"""Flag in the label of a slot whose card has been played. Alone, it is the label of no card."""
NO_SLOT: Final = np.uint16(0xFFFF)
"""An index beyond every slot."""


class Trajectories(NamedTuple):
    """N particles. A label is a number `word * 32 + position` below 128.

    Attributes:
        hand: uint32[4, N] the opponent's cards.
        deck: uint32[4, N] the cards left to draw.
        own: uint32[4, N] the observer's cards.
        recycled: uint32[4, N] cards that any reshuffle has put back.
        labels: uint8[S, N] the card of each slot, with `RELEASED` set once it was played.
        played: uint8[T, N] the card that each recorded choice of the opponent played; `RELEASED` if it played no card.
    """

    hand: Array
    deck: Array
    own: Array
    recycled: Array
    labels: Array
    played: Array


def as_words(array: Array) -> Words:
    """Split a set uint32[4, ...] into its four words."""
    return array[0], array[1], array[2], array[3]


@traced_once
def card_of(label: Array) -> Array:
    """Return the set that holds one card, by its label: uint32[4, ...]. Empty for a label with `RELEASED` set."""
    first = 32 * np.arange(cards.NUM_COLORS, dtype=np.uint32).reshape(-1, *[1] * label.ndim)
    # Shifted by 32 or more, the bit is gone: lax defines that, and for a label in a lower word the difference wraps around.
    return lax.shift_left(jnp.uint32(1), label.astype(jnp.uint32)[None] - first)


@traced_once
def card_words(label: Array) -> Words:
    """Return the words of `card_of`."""
    label = label.astype(jnp.uint32)
    w0, w1, w2, w3 = (lax.shift_left(jnp.uint32(1), label - np.uint32(32 * c)) for c in range(cards.NUM_COLORS))
    return w0, w1, w2, w3


@traced_once
def contains(words: Words, label: Array) -> Array:
    """Return whether a set holds the card with a label: bool[...]. Meaningless for a label with `RELEASED` set."""
    label = label.astype(jnp.uint32)
    return bits.contains(words, label >> np.uint32(5), label & np.uint32(31))


def random_of_round(random: Array, number: int, index: ArrayLike) -> Array:
    """Derive the random words of a stage's round, uint32[N], from those of the update; `number` (static) is the stage's."""
    return hash_bits(random, np.uint32(number << 16) + jnp.asarray(index).astype(jnp.uint32))


@traced_once
def random_card(random: Array, words: Words) -> Array:
    """Pick a uniformly random card of each set, by random bits uint32[N]: uint8[N] labels."""
    word, position = bits.choose(words, random)
    return ((word << np.uint32(5)) | position).astype(jnp.uint8)

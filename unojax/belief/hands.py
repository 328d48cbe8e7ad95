"""Weighted hands: what a belief is to those who use it, however it came about."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unojax import bits
from unojax.bits import Words
from unojax.device import control
from unojax.device.random_bits import key_words, threefry


class WeightedHands(Protocol):
    """N hands that the opponent may hold, and their weights, as in `Hands`: particles, too."""

    @property
    def packed(self) -> Words: ...

    @property
    def log_weights(self) -> Array: ...


class TypedHands(WeightedHands, Protocol):
    """The same, and how likely each is together with each type of the opponent, if there are types: `Hands`, or a belief."""

    @property
    def log_joint(self) -> Array | None: ...


class Hands(NamedTuple):
    """N weighted hands and nothing else.

    Attributes:
        packed: four uint32[..., N], the hands as packed canonical sets.
        log_weights: float32[..., N] nats, normalised (logsumexp = 0).
        log_joint: float32[..., K, N] nats, ln P(type, hand) if the opponent is one of K types (`opponents.Family`); else None.
    """

    packed: Words
    log_weights: Array
    log_joint: Array | None = None

    @classmethod
    def of(cls, belief: TypedHands) -> Hands:
        """Take the hands of a belief."""
        return cls(belief.packed, belief.log_weights, belief.log_joint)

    @classmethod
    def alike(cls, packed: Words) -> Hands:
        """Give N hands, four uint32[N], the same weight."""
        number = packed[0].shape[-1]
        return cls(packed, jnp.full(number, -math.log(number), jnp.float32))


def gain(key: Array, hands: Words, available: Words, number: ArrayLike) -> Words:
    """Let each hand gain uniformly random cards of a set that contains it, without replacement.

    Args:
        key: consumed.
        hands: four uint32[N], canonical sets.
        available: a canonical set, each hand a part of it.
        number: int32[] or [N], cards that a hand gains.
    """
    number = jnp.asarray(number)

    def one_card(index: Array, hands: Words) -> Words:
        # Of two canonical sets, the larger less the smaller is a labelled set of the multiset difference.
        deck = bits.map_words(lambda all_cards, hand: all_cards & ~hand, available, hands)
        counter = jnp.arange(hands[0].shape[0], dtype=jnp.uint32)
        random, _ = threefry(key_words(key), (index.astype(jnp.uint32), counter))
        word, position = bits.choose(deck, random)
        grown = bits.canonical(bits.insert(hands, word, jnp.uint32(1) << position))
        return grown if number.ndim == 0 else bits.where(index < number, grown, hands)

    return control.fori_loop(0, number.max(), one_card, hands)

"""Weighted hands: the common form of every belief."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unojax import bits
from unojax.belief.resample import uniform_log_weights
from unojax.bits import Words
from unojax.device import control
from unojax.device.random_bits import key_words, threefry


class WeightedHands(Protocol):
    """N possible hands of the opponent and their weights: `Hands` or particles."""

    @property
    def packed(self) -> Words: ...

    @property
    def log_weights(self) -> Array: ...


class TypedHands(WeightedHands, Protocol):
    """Weighted hands with the joint probabilities of hand and type, if there are types: `Hands`, or a belief."""

    @property
    def log_joint(self) -> Array | None: ...


class Hands(NamedTuple):
    """N weighted hands.

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
        """Return the hands of a belief."""
        return cls(belief.packed, belief.log_weights, belief.log_joint)

    @classmethod
    def alike(cls, packed: Words) -> Hands:
        """Return N hands, four uint32[N], with equal weights."""
        return cls(packed, uniform_log_weights(packed[0].shape[-1]))


def gain(key: Array, hands: Words, available: Words, number: ArrayLike) -> Words:
    """Add uniformly random cards, drawn without replacement, to each hand.

    Args:
        key: PRNG key; consumed.
        hands: four uint32[N], canonical sets.
        available: Canonical set that contains each hand; cards come from the rest.
        number: int32[] or [N], cards that a hand gains.
    """
    number = jnp.asarray(number)

    def one_card(index: Array, hands: Words) -> Words:
        deck = bits.without(available, hands)
        counter = jnp.arange(hands[0].shape[0], dtype=jnp.uint32)
        random, _ = threefry(key_words(key), (index.astype(jnp.uint32), counter))
        word, position = bits.choose(deck, random)
        grown = bits.canonical(bits.insert(hands, word, jnp.uint32(1) << position))
        return grown if number.ndim == 0 else bits.where(index < number, grown, hands)

    return control.fori_loop(0, number.max(), one_card, hands)

"""Weighted hands: what a belief is to those who use it, however it came about."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from jax import Array

from unojax.bits import Words


class WeightedHands(Protocol):
    """N hands that the opponent may hold, and their weights, as in `Hands`: a cloud of particles, too."""

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

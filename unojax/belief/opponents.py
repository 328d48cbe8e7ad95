"""Opponent models: likelihoods of the actions of a player with a given hand.

A model is any callable `opponent(observation, legal_mask) -> float32[61]` (`OpponentModel`); the `action_probs` of a policy is
one. The two classes here also answer for packed hands, a whole cloud of particles at a time, which is many times faster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits
from unojax.bits import Words
from unojax.observation import Observation
from unojax.policies import PackedPolicy, get_policy, uniform
from unojax.table import Picked
from unojax.view import View


class OpponentModel(Protocol):
    """A model of how a player who sees `observation` chooses.

    It is asked for the opponent's own view of the game, imagined for one hand that the opponent might hold (`history.imagine`).
    """

    def __call__(self, observation: Observation, legal_mask: Array, /) -> Array:
        """Give likelihoods >= 0 of the actions for `legal_mask` bool[61]: float32[61].

        They need not add up to 1, but a factor common to all hands scales the evidence, and one that depends on the
        hand is information about the hand.
        """
        ...


@runtime_checkable
class PackedOpponent(Protocol):
    """A model that also answers for packed hands, many at a time."""

    def __call__(self, observation: Observation, legal_mask: Array, /) -> Array: ...

    def likelihood(self, view: View, legal: Words, played: Picked, /) -> Array:
        """Give the likelihood of a play, for packed hands with the legal options given: float32[...]."""
        ...


@dataclass(frozen=True)
class PolicyOpponent:
    """An opponent that follows a policy, except that with probability `tremble` it plays uniformly.

    Attributes:
        policy: chooses uniformly among the plays that it favours.
        tremble: in [0, 1]. A little of it keeps every legal action possible, so that a wrong model cannot rule out the truth.

    Raises:
        ValueError: `tremble` is not in [0, 1].
    """

    policy: PackedPolicy
    tremble: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.tremble <= 1.0:
            raise ValueError(f"tremble must be a probability in [0, 1], got {self.tremble}")

    def __call__(self, observation: Observation, legal_mask: Array) -> Array:
        by_policy = self.policy.action_probs(observation, legal_mask)
        by_chance = legal_mask.astype(jnp.float32) / legal_mask.sum(dtype=jnp.float32)
        return (1.0 - self.tremble) * by_policy + self.tremble * by_chance

    def likelihood(self, view: View, legal: Words, played: Picked) -> Array:
        by_policy = _share(self.policy.narrow(view, legal), played)
        if self.tremble == 0.0:
            return by_policy
        return (1.0 - self.tremble) * by_policy + self.tremble * _share(legal, played)


@dataclass(frozen=True)
class ConsistentOpponent:
    """Consistency only: every legal action is as likely as certain, so plays tell nothing about what was not held."""

    def __call__(self, observation: Observation, legal_mask: Array) -> Array:
        del observation
        return legal_mask.astype(jnp.float32)

    def likelihood(self, view: View, legal: Words, played: Picked) -> Array:
        del view
        return _contains(legal, played).astype(jnp.float32)


TREMBLE: Final = 0.05
"""The tremble of a policy named without one."""

uniform_opponent: Final = PolicyOpponent(uniform)
"""Plays every legal action with equal probability: the default model."""
consistent_opponent: Final = ConsistentOpponent()
"""Consistency only."""


def parse_opponent(text: str) -> OpponentModel:
    """Make the model that a text names: uniform, consistent, or a policy, as in linear, or linear+0.5 for a tremble of 0.5.

    Raises:
        ValueError: there is no such policy, or the tremble is no probability.
    """
    name, plus, tremble = text.partition("+")
    if name in ("uniform", "consistent"):
        if plus:
            raise ValueError(f"opponent model {text!r}: {name} has no tremble; write {name}")
        return uniform_opponent if name == "uniform" else consistent_opponent
    policy = get_policy(name)
    if not plus:
        return PolicyOpponent(policy, TREMBLE)
    if not re.fullmatch(r"[0-9]*\.?[0-9]+", tremble):
        raise ValueError(f"opponent model {text!r}: the tremble must be a probability in [0, 1], got {tremble!r}")
    return PolicyOpponent(policy, float(tremble))


def _contains(options: Words, played: Picked) -> Array:
    return ((bits.word_at(options, played.word) >> played.position) & np.uint32(1)) != 0


def _share(options: Words, played: Picked) -> Array:
    """Give the probability of a play under a uniform choice among options; 0 if it is not among them."""
    number = lax.max(bits.count(options), np.uint32(1)).astype(jnp.float32)
    return jnp.where(_contains(options, played), 1.0 / number, 0.0)

"""Filters: ways to believe something about the opponent's hand, as values.

A filter (an *updater* in ParticleFilters.jl) knows all that it needs to begin a belief and to condition it on what is seen: its size,
its prior, how it takes the opponent to choose. Frozen and hashable, so it can be a static argument under `jit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from jax import Array

from unojax.belief import bootstrap, closed_form, summary
from unojax.belief.history import Prior
from unojax.belief.opponents import OpponentModel, uniform_opponent
from unojax.belief.particles import MAX_PLAYS, MAX_SLOTS, NUM_MOVES, Belief, Info, belief_init, belief_update
from unojax.observation import Observation


class Filter(Protocol):
    """Begins a belief and conditions it on micro-steps. Pure, unbatched, jit- and vmap-able."""

    @property
    def name(self) -> str:
        """How the filter is called in tables."""
        ...

    def init(self, key: Array, observation: Observation, /) -> Any:
        """The belief at an observer's first position. Consumes `key`."""
        ...

    def update(self, key: Array, belief: Any, before: Observation, action: Array, after: Observation, /) -> tuple[Any, Info]:
        """The belief after one micro-step of either player, and what happened. Consumes `key`; else as `belief_update`."""
        ...

    def count_probs(self, belief: Any, observation: Observation, /) -> Array:
        """float32[54, 5]: probability that the opponent holds 0..4 copies of each type, none of them zero that is possible."""
        ...


@dataclass(frozen=True)
class ParticleFilter:
    """The particle filter, see `belief_init` and `belief_update` for the fields."""

    num_particles: int = 1024
    opponent: OpponentModel = uniform_opponent
    prior: Prior = "deal"
    ess_threshold: float = 0.5
    num_moves: int = NUM_MOVES
    max_slots: int = MAX_SLOTS
    max_plays: int = MAX_PLAYS

    @property
    def name(self) -> str:
        """See `Filter`."""
        return f"particles {self.num_particles}"

    def init(self, key: Array, observation: Observation) -> Belief:
        """See `belief_init`."""
        return belief_init(
            observation,
            key,
            num_particles=self.num_particles,
            prior=self.prior,
            max_slots=self.max_slots,
            max_plays=self.max_plays,
        )

    def update(self, key: Array, belief: Belief, before: Observation, action: Array, after: Observation) -> tuple[Belief, Info]:
        """See `belief_update`."""
        return belief_update(
            belief,
            before,
            action,
            after,
            key,
            opponent=self.opponent,
            ess_threshold=self.ess_threshold,
            num_moves=self.num_moves,
        )

    def count_probs(self, belief: Belief, observation: Observation) -> Array:
        """See `Filter`."""
        return _with_one_uniform(belief, self.num_particles, observation)


@dataclass(frozen=True)
class BootstrapFilter:
    """The plain bootstrap filter, for comparison; see `unojax.belief.bootstrap`."""

    num_particles: int = 1024
    opponent: OpponentModel = uniform_opponent
    prior: Prior = "deal"

    @property
    def name(self) -> str:
        """See `Filter`."""
        return f"bootstrap {self.num_particles}"

    def init(self, key: Array, observation: Observation) -> bootstrap.BootstrapBelief:
        """See `bootstrap_init`."""
        return bootstrap.bootstrap_init(observation, key, num_particles=self.num_particles, prior=self.prior)

    def update(
        self, key: Array, belief: bootstrap.BootstrapBelief, before: Observation, action: Array, after: Observation
    ) -> tuple[bootstrap.BootstrapBelief, Info]:
        """See `bootstrap_update`."""
        return bootstrap.bootstrap_update(belief, before, action, after, key, opponent=self.opponent)

    def count_probs(self, belief: bootstrap.BootstrapBelief, observation: Observation) -> Array:
        """See `Filter`."""
        return _with_one_uniform(belief, self.num_particles, observation)


def _with_one_uniform(belief: Any, num_particles: int, observation: Observation) -> Array:
    """The belief of a cloud with one particle more, spread like the uniform belief.

    A cloud gives a hand that it lacks the probability zero, and its log score would be minus infinity; so all filters stay on one
    scale.
    """
    n = num_particles
    return (n * summary.count_probs(belief) + closed_form.count_probs(observation)) / (n + 1)

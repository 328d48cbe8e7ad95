"""Filters (*updaters* in ParticleFilters.jl): all that it takes to begin a belief and to condition it on what is seen, as values.

Frozen and hashable, so that one can be a static argument under `jit`; `unojax.belief.follow` lets one follow a game.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax.belief import bootstrap, closed_form, exact, history, summary
from unojax.belief.bootstrap import BootstrapBelief
from unojax.belief.closed_form import ClosedFormBelief
from unojax.belief.exact import ExactBelief
from unojax.belief.hands import WeightedHands
from unojax.belief.history import Prior
from unojax.belief.opponents import Opponent, OpponentModel, uniform_opponent
from unojax.belief.particles import MAX_SLOTS, NUM_MOVES, Belief, Info, belief_init, belief_update
from unojax.observation import Observation


class Filter(Protocol):
    """Begins a belief and conditions it on micro-steps. Pure and unbatched; jit- and vmap-able, except `ExactFilter`."""

    @property
    def name(self) -> str:
        """Title in tables."""
        ...

    @property
    def num_particles(self) -> int:
        """N, the effective sample size at its best; 1 for a filter without particles."""
        ...

    def init(self, key: Array, observation: Observation, /) -> Any:
        """Begin the belief at an observer's first position. Consumes `key`."""
        ...

    def update(self, key: Array, belief: Any, before: Observation, action: Array, after: Observation, /) -> tuple[Any, Info]:
        """Condition the belief on one micro-step of either player. Consumes `key`; else as `belief_update`."""
        ...

    def count_probs(self, belief: Any, observation: Observation, /) -> Array | np.ndarray:
        """Probability that the opponent holds 0..4 copies of each type, none zero that is possible: float32[54, 5]."""
        ...


def filled_count_probs(hands: WeightedHands, observation: Observation) -> Array:
    """As `summary.count_probs` with one hand more, spread like the uniform belief: float32[54, 5].

    For hands that the others lack, log scores stay finite.
    """
    n = hands.log_weights.shape[-1]
    return (n * summary.count_probs(hands) + closed_form.count_probs(observation)) / (n + 1)


class _CloudFilter:
    """Filters whose belief is a cloud of hands."""

    def count_probs(self, belief: Belief | BootstrapBelief, observation: Observation) -> Array:
        return filled_count_probs(belief, observation)


@dataclass(frozen=True)
class ParticleFilter(_CloudFilter):
    """The particle filter; see `belief_init` and `belief_update` for the fields."""

    num_particles: int = 1024
    opponent: Opponent = uniform_opponent
    prior: Prior = "deal"
    ess_threshold: float = 0.5
    num_moves: int = NUM_MOVES
    max_slots: int = MAX_SLOTS
    max_plays: int | None = None

    @property
    def name(self) -> str:
        return f"particles {self.num_particles}"

    def init(self, key: Array, observation: Observation, log_types: ArrayLike | None = None) -> Belief:
        sized = partial(belief_init, num_particles=self.num_particles, max_slots=self.max_slots, max_plays=self.max_plays)
        return sized(observation, key, prior=self.prior, opponent=self.opponent, log_types=log_types)

    def update(self, key: Array, belief: Belief, before: Observation, action: Array, after: Observation) -> tuple[Belief, Info]:
        return belief_update(
            belief, before, action, after, key, opponent=self.opponent, ess_threshold=self.ess_threshold, num_moves=self.num_moves
        )


@dataclass(frozen=True)
class BootstrapFilter(_CloudFilter):
    """The plain bootstrap filter, for comparison; see `unojax.belief.bootstrap`."""

    num_particles: int = 1024
    opponent: OpponentModel = uniform_opponent
    prior: Prior = "deal"

    @property
    def name(self) -> str:
        return f"bootstrap {self.num_particles}"

    def init(self, key: Array, observation: Observation) -> BootstrapBelief:
        return bootstrap.bootstrap_init(observation, key, num_particles=self.num_particles, prior=self.prior)

    def update(
        self, key: Array, belief: BootstrapBelief, before: Observation, action: Array, after: Observation
    ) -> tuple[BootstrapBelief, Info]:
        return bootstrap.bootstrap_update(belief, before, action, after, key, opponent=self.opponent)


@dataclass(frozen=True)
class ClosedFormFilter:
    """The closed form that starts afresh at each play of the opponent; with `exclude_drawn` its wrong sibling."""

    exclude_drawn: bool = False
    num_particles = 1

    @property
    def name(self) -> str:
        return "closed form, drawn cards excluded" if self.exclude_drawn else "closed form"

    def init(self, key: Array, observation: Observation) -> ClosedFormBelief:
        del key
        return closed_form.closed_form_init(observation)

    def update(
        self, key: Array, belief: ClosedFormBelief, before: Observation, action: Array, after: Observation
    ) -> tuple[ClosedFormBelief, Info]:
        del key
        held = belief.sizes.sum(dtype=jnp.int32)
        consistent = history.belongs(before, action, after) & (held == before.opponent_count.astype(jnp.int32))
        updated = closed_form.closed_form_update(belief, before, action, after, exclude_drawn=self.exclude_drawn)
        return jax.tree.map(lambda new, old: jnp.where(consistent, new, old), updated, belief), plain_info(~consistent)

    def count_probs(self, belief: ClosedFormBelief, observation: Observation) -> Array:
        return belief.count_probs


@dataclass(frozen=True)
class UnseenFilter:
    """The uniform belief of each position, without a memory: any of the cards not seen."""

    name = "unseen cards"
    num_particles = 1

    def init(self, key: Array, observation: Observation) -> tuple[()]:
        del key, observation
        return ()

    def update(
        self, key: Array, belief: tuple[()], before: Observation, action: Array, after: Observation
    ) -> tuple[tuple[()], Info]:
        del key
        return belief, plain_info(~history.belongs(before, action, after))

    def count_probs(self, belief: tuple[()], observation: Observation) -> Array:
        return closed_form.count_probs(observation)


@dataclass(frozen=True)
class ExactFilter:
    """The exact filter, for small decks, on the host in float64; it raises where observations are inconsistent. Ignores keys."""

    opponent: Opponent = uniform_opponent
    prior: Prior = "deal"
    name = "exact"
    num_particles = 1

    def init(self, key: Array, observation: Observation, log_types: ArrayLike | None = None) -> ExactBelief:
        del key
        return exact.exact_init(observation, prior=self.prior, opponent=self.opponent, log_types=log_types)

    def update(
        self, key: Array, belief: ExactBelief, before: Observation, action: Array, after: Observation
    ) -> tuple[ExactBelief, Info]:
        del key
        belief, log_evidence = exact.exact_update(belief, before, int(action), after, opponent=self.opponent)
        type_probs = None if belief.log_type_probs is None else np.exp(belief.log_type_probs)
        info = plain_info(np.bool_(False), log_evidence=np.float32(log_evidence), type_probs=type_probs)
        return belief, jax.tree.map(np.asarray, info)

    def count_probs(self, belief: ExactBelief, observation: Observation) -> np.ndarray:
        return belief.count_probs


def plain_info(inconsistent: Any = False, *, ess: float = 1.0, log_evidence: Any = 0.0, type_probs: Any = None) -> Info:
    """Write the diagnostics of an update without particles, or of a start."""
    nothing = jnp.bool_(False)
    return Info(
        ess=jnp.float32(ess),
        log_evidence=jnp.float32(log_evidence),
        depleted=nothing,
        restarted=nothing,
        resampled=nothing,
        acceptance=jnp.float32(0.0),
        inconsistent=jnp.bool_(inconsistent),
        type_probs=type_probs,
    )

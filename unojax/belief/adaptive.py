"""Adapt the number of particles to the position: more near the end of the game, or after uneven weights.

Each number of particles costs a compilation, so the host chooses it from a few fixed sizes, and `AdaptiveFilter` resizes the
belief between two updates. It pays off only for questions about the end of games. RMS errors of P(holds), 24 games of linear
against linear:

                        all positions   two cards or fewer   ms an update
    fixed 1024               .0097             .0081              3.5
    fixed 2048               .0069             .0058              5.1
    default schedule         .0099             .0055              5.2
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax.belief import resample
from unojax.belief.opponents import Opponent
from unojax.belief.particles import Belief, Info
from unojax.belief.particles.belief import report
from unojax.belief.tracking import begin
from unojax.belief.updaters import ParticleBased, ParticleFilter
from unojax.observation import Observation


@dataclass(frozen=True)
class AdaptiveFilter(ParticleBased):
    """Particle filter with a number of particles that depends on the position. On the host, one game at a time.

    Attributes:
        filter: Particle filter; its own number of particles is ignored.
        sizes: Numbers of particles, increasing.
        cards_left: For each size after the first: the size applies once a player holds at most this many cards; decreasing.
        low_ess: Threshold in [0, 1]. The next larger size applies if the last update's ESS is below this share of the particles.

    Raises:
        ValueError: If a field is out of its range.
    """

    filter: ParticleFilter = field(default_factory=ParticleFilter)
    sizes: tuple[int, ...] = (256, 1024, 4096)
    cards_left: tuple[int, ...] = (6, 3)
    low_ess: float = 0.25
    on_host = True

    def __post_init__(self) -> None:
        if not self.sizes or self.sizes[0] < 1 or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes must be positive and increasing, got {self.sizes}")
        falls = list(self.cards_left) == sorted(set(self.cards_left), reverse=True)
        if len(self.cards_left) != len(self.sizes) - 1 or not falls:
            raise ValueError(
                f"cards_left must decrease and have one entry for each of the {len(self.sizes) - 1} sizes after the first, "
                f"got {self.cards_left}"
            )
        if not 0.0 <= self.low_ess <= 1.0:
            raise ValueError(f"low_ess must be a share in [0, 1], got {self.low_ess}")

    @property
    def name(self) -> str:
        return f"particles {'/'.join(map(str, self.sizes))}"

    @property
    def num_particles(self) -> int:
        """Largest number of particles."""
        return self.sizes[-1]

    @property
    def opponent(self) -> Opponent:
        return self.filter.opponent

    def init(self, key: Array, observation: Observation, log_types: ArrayLike | None = None) -> Belief:
        sized = dataclasses.replace(self.filter, num_particles=self.num_particles_for(observation))
        return begin(sized, key, observation, log_types)

    def update(self, key: Array, belief: Belief, before: Observation, action: Array, after: Observation) -> tuple[Belief, Info]:
        key_update, key_resize = jax.random.split(key)
        sized = dataclasses.replace(self.filter, num_particles=belief.num_particles)
        belief, info = _update(sized, key_update, belief, before, action, after)
        number = self.num_particles_for(after, info.ess / belief.num_particles)
        return _resize(belief, key_resize, num_particles=number), info

    def num_particles_for(self, observation: Observation, ess_share: float | Array = 1.0) -> int:
        """Choose the number of particles from a position on.

        `ess_share` is `Info.ess` of the last update as a share of its particles; 1 at the start.

        Raises:
            ValueError: If the observation is batched.
        """
        if np.ndim(observation.player) != 0:
            raise ValueError(f"the observation must be unbatched, got a batch of shape {np.shape(observation.player)}")
        fewest = min(int(observation.hand_count), int(observation.opponent_count))
        level = sum(fewest <= limit for limit in self.cards_left) + (float(ess_share) < self.low_ess)
        return self.sizes[min(level, len(self.sizes) - 1)]


def resize(belief: Belief, key: Array, *, num_particles: int) -> Belief:
    """Resample a belief to another number of equally weighted particles; jit-able with `num_particles` static.

    A belief that already has that size is returned unchanged, with its weights.

    Raises:
        ValueError: If `num_particles` is not positive.
    """
    if num_particles < 1:
        raise ValueError(f"num_particles must be at least 1, got {num_particles}")
    if num_particles == belief.num_particles:
        return belief
    resized = _picked(belief, key, belief.target_weights, num_particles)
    if belief.target is None:
        return resized
    # Possible trajectories may be so few that resampling misses them all; then resample from these alone.
    possible = _picked(belief, key, belief.log_weights, num_particles)
    assert resized.target is not None
    return jax.tree.map(partial(jnp.where, jnp.isneginf(resized.target.log_possible)), possible, resized)


def _picked(belief: Belief, key: Array, log_weights: Array, num_particles: int) -> Belief:
    """Pick particles by weights, float32[N] nats."""
    ancestors = resample.systematic(jax.random.uniform(key, dtype=jnp.float32), log_weights, num_particles)
    even = resample.uniform_log_weights(num_particles)
    resized = dataclasses.replace(
        belief,
        log_weights=even,
        log_likelihood=belief.log_likelihood[..., ancestors],
        trajectories=jax.tree.map(lambda a: a[..., ancestors], belief.trajectories),
        target=None if belief.target is None else belief.target._replace(log_weights=even),
    )
    return resized if belief.target is None else report(resized, belief.strict_likelihood[..., ancestors])


@partial(jax.jit, static_argnums=0)
def _update(filter: ParticleFilter, key: Array, belief: Belief, *step: Any) -> tuple[Belief, Info]:
    return filter.update(key, belief, *step)


_resize = jax.jit(resize, static_argnames="num_particles")

"""Weights after a transition and the decisions that depend on them, shared by both interpreters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import jax.numpy as jnp
from jax import Array

from unojax import bits
from unojax.belief import history as reading
from unojax.belief import resample
from unojax.belief.opponents import Opponent
from unojax.belief.particles.belief import Belief, Info, report
from unojax.belief.particles.likelihood import LogLikelihood, log_joint, log_type_probs, mixed
from unojax.belief.particles.stages import STAGES, Transition, most_records_per_step
from unojax.belief.particles.trajectory import Trajectories
from unojax.observation import Observation

MOST_ROUNDS: Final = 4.0
"""Largest factor on the number of rejuvenation moves, applied if the effective sample size was very low."""
REJUVENATION, REINITIALISATION = len(STAGES), len(STAGES) + 1
"""Numbers of these stages; see `random_of_round`."""


class Options(NamedTuple):
    """Static options of an update; see `belief_update`."""

    opponent: Opponent
    ess_threshold: float
    num_moves: int


def latest_likelihood(belief: Belief) -> LogLikelihood:
    """Return the log likelihood of the choices that a belief has seen, under a `Family` by type."""
    if belief.target is None:
        return LogLikelihood(belief.log_likelihood, None)
    # A trajectory without weight is never picked again, so it may count as impossible.
    return LogLikelihood(belief.log_likelihood, jnp.isneginf(belief.strict_likelihood))


def weigh(belief: Belief, of: Transition, log_increment: Array, log_lik: Array, options: Options) -> tuple[Array, Info]:
    """Weigh the particles of a belief, still in its state before the transition: normalised log weights, and diagnostics.

    `log_increment` float32[N] are the log weights of the proposals, `log_lik` float32[N] or [K, N] the new likelihoods.
    """
    before, new = belief.target_weights, of.new
    dead = jnp.isneginf(before) | jnp.isneginf(log_increment)
    joint = before + log_increment + mixed(log_lik, belief.log_types) - mixed(belief.log_likelihood, belief.log_types)
    # A likelihood that is not finite counts as impossible.
    joint = jnp.where(dead | ~(joint < jnp.inf), -jnp.inf, joint)
    log_weights, log_sum = resample.normalize(joint)
    ess = resample.effective_sample_size(log_weights)
    depleted = jnp.isneginf(log_sum + of.log_constant) & ~of.inconsistent
    # Reinitialise if the next record or slot may not fit: this one still does, so this update's evidence is right.
    outgrown = new.num_slots > new.max_slots - belief.rules.tells_of_hands
    outgrown |= new.num_records > new.max_records - most_records_per_step(belief.rules)
    restarted = depleted | (outgrown & ~of.inconsistent)
    log_weights = jnp.where(of.inconsistent, before, log_weights)
    # A particle of weight zero may hold an impossible hand, so it must not survive.
    is_due = (ess < options.ess_threshold * belief.num_particles) | jnp.isneginf(log_weights).any()
    return log_weights, Info(
        ess=ess,
        log_evidence=jnp.where(of.inconsistent, 0.0, log_sum + of.log_constant),
        depleted=depleted,
        restarted=restarted,
        resampled=of.moved & ~restarted & is_due,
        inconsistent=of.inconsistent,
    )


def conditioned(
    belief: Belief, of: Transition, after: Observation, info: Info, log_weights: Array, now: Trajectories, log_lik: Array
) -> Belief:
    """Return the belief after a transition, with equal weights if it was resampled."""
    log_weights = jnp.where(info.resampled, resample.uniform_log_weights(belief.num_particles), log_weights)
    seen = jnp.where(of.inconsistent, belief.seen, reading.fingerprint(after))
    return Belief.of(log_weights, log_lik, now, of.new, seen, belief.rules, belief.log_types)


def without_impossible(belief: Belief, updated: Belief, info: Info, log_strict: Array) -> tuple[Belief, Info]:
    """Return the reported belief and diagnostics after an update of `belief`, without impossible trajectories."""
    reported = report(updated, log_strict)
    assert reported.target is not None and belief.target is not None
    depleted = jnp.isneginf(reported.target.log_possible)
    share = jnp.where(info.depleted, 0.0, reported.target.log_possible - belief.target.log_possible)
    info = info._replace(log_evidence=info.log_evidence + share)
    return reported, info._replace(depleted=info.depleted | depleted, restarted=info.restarted | depleted)


def known_types(belief: Belief, info: Info, log_weights: Array, log_lik: Array) -> Array | None:
    """Return the prior over the opponent's type for a belief that is reinitialised: float32[K] nats; None without types.

    It is the posterior by weights and likelihoods after the transition, or that before it if no particle explains it.
    """
    if belief.log_types is None:
        return None
    after = log_joint(log_weights, log_lik, belief.log_types)
    earlier = log_joint(belief.target_weights, belief.log_likelihood, belief.log_types)
    return log_type_probs(jnp.where(info.depleted, earlier, after))


def num_moves_due(info: Info, num_particles: int, num_moves: int) -> Array:
    """Return the number of rejuvenation moves: int32[]. Fewer ancestors need more moves."""
    loss = jnp.clip(0.5 * num_particles / jnp.maximum(info.ess, 1.0), 1.0, MOST_ROUNDS)
    return jnp.where(info.resampled, jnp.round(num_moves * loss).astype(jnp.int32), 0)


def places_to_move(of: Transition) -> Callable[[Array], Array]:
    """Return the position, among the live slots in the order of acquisition, of the card that a move renews.

    Moves in sequence renew a hand faster than moves at random positions.
    """
    before = of.before
    live = before.opponent_count.astype(jnp.int32) + of.num_unseen - (of.plays | of.plays_drawn).astype(jnp.int32)
    hand_count = jnp.maximum(live, 1)
    first = bits.uniform_below(of.words[1], hand_count.astype(jnp.uint32)).astype(jnp.int32)
    return lambda index: (first + index) % hand_count

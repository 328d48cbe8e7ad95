"""Condition a belief on the opponent's whole hand: `belief_given_hand`.

Given the hand, the future does not depend on the past, so the belief begins again with the known cards. The past still informs
about the opponent's type: the cards of the hand leave every particle as if the opponent discarded them
(`proposals.condition_on_play`), and the weights estimate p(hand | history, type) without bias.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from unojax import bits, cards
from unojax.belief import history as reading
from unojax.belief import resample
from unojax.belief.opponents import Opponent, check_types, uniform_opponent
from unojax.belief.particles import proposals
from unojax.belief.particles.belief import Belief, Info, info_of_hand, reinitialised
from unojax.belief.particles.likelihood import log_likelihood, log_type_probs, mixed
from unojax.belief.particles.public import PublicHistory
from unojax.belief.particles.rows import SERIAL
from unojax.belief.particles.trajectory import Trajectories, random_of_round
from unojax.device import control
from unojax.device.combinatorics import log_binomial
from unojax.device.random_bits import check_key, key_words, threefry_words
from unojax.device.tracing import traced_once
from unojax.observation import Observation, check_observation

_DISCARD, _START = range(2)
"""Streams of random words; see `random_of_round`."""


def belief_given_hand(
    belief: Belief,
    observation: Observation,
    hand: Array,
    key: Array,
    *,
    opponent: Opponent = uniform_opponent,
) -> tuple[Belief, Info]:
    """Condition the belief on the opponent's hand, which the observer sees at a position. All particles then hold this hand.

    Args:
        belief: Belief at the position.
        observation: The observer's observation, the latest one of the belief.
        hand: bool[108] canonical hand of the opponent.
        key: Key, threefry2x32; consumed.
        opponent: Opponent model of the belief, static; with a `Family`, the hand is evidence about the type.

    Returns:
        The belief given the hand, and diagnostics: `Info.log_evidence` estimates ln P(hand | history). `Info.depleted`: no
            trajectory
        leads to the hand, and the posterior over types stays. `Info.inconsistent`, with an unchanged belief: the hand is
        impossible at the position, the observation is not the belief's latest, or the opponent has drawn in a turn that
        continues.

    Raises:
        ValueError: If the observation, the hand or the key is a batch, the rules of belief and observation differ, or the belief
            was begun with other types of opponents.
    """
    check_key(key, "belief_given_hand")
    check_observation(observation, "belief_given_hand")
    hand = jnp.asarray(hand)
    if hand.shape != (cards.NUM_CARDS,) or hand.dtype != bool:
        raise ValueError(f"hand must be bool[{cards.NUM_CARDS}], a canonical one-hot, got {hand.dtype}{list(hand.shape)}")
    if belief.rules != observation.rules:
        raise ValueError("the rules of belief and observation differ: pass the observation at which the belief is")
    check_types(belief.num_types, opponent, "belief_init")
    updated, info = _given_hand(belief, observation, hand, jnp.stack(key_words(key)), opponent=opponent)
    return updated, info if updated.log_types is None else info._replace(type_probs=jnp.exp(updated.log_type_probs))


@partial(traced_once, static=("opponent",))
def _given_hand(belief: Belief, observation: Observation, hand: Array, key: Array, *, opponent: Opponent) -> tuple[Belief, Info]:
    random = threefry_words((key[0], key[1]), belief.num_particles)[0]
    known = cards.counts(hand)
    counts = known.astype(jnp.int32)
    is_possible = (counts.sum() == observation.opponent_count) & (counts <= observation.unseen).all()
    has_drawn = observation.has_drawn & reading.opponent_moved(observation)
    is_possible &= (belief.seen == reading.fingerprint(observation)) & ~has_drawn
    joint = _log_joint(belief, observation, counts, random, opponent)
    of_particle, log_sum = resample.normalize(joint if belief.log_types is None else logsumexp(joint, axis=0))
    log_evidence = log_sum + log_binomial(observation.unseen.astype(jnp.int32), counts).sum()
    if belief.target is not None:
        log_evidence -= belief.target.log_possible
    depleted = jnp.isneginf(log_evidence)
    log_types = belief.log_types
    if log_types is not None:
        log_types = jnp.where(depleted, belief.log_type_probs, log_type_probs(jnp.where(depleted, 0.0, joint)))

    given = replace(belief, public=replace(belief.public, known=known))
    given = reinitialised(SERIAL, random, _START, given, observation, log_types)
    given = jax.tree.map(partial(jnp.where, is_possible), given, belief)
    return given, info_of_hand(is_possible, log_evidence, jnp.where(is_possible, of_particle, belief.log_weights))


def _log_joint(belief: Belief, observation: Observation, counts: Array, random: Array, opponent: Opponent) -> Array:
    """Compute ln of each particle's part of p(hand | history), by type, without the ways to pick copies: float32[N] or [K, N]."""
    now, log_increment = _without_hand(belief.trajectories, belief.public, counts, random)
    log_lik = log_likelihood(now, belief.public, opponent, observation).strict
    before = belief.target_weights - mixed(belief.log_likelihood, belief.log_types)
    is_dead = jnp.isneginf(belief.target_weights) | jnp.isneginf(log_increment)
    joint = before + log_increment + log_lik
    if belief.log_types is not None:
        joint += belief.log_types[:, None]
    # A likelihood that is not finite counts as impossible.
    return jnp.where(is_dead | ~(joint < jnp.inf), -jnp.inf, joint)


def _without_hand(now: Trajectories, history: PublicHistory, counts: Array, random: Array) -> tuple[Trajectories, Array]:
    """Let all cards of a hand (int32[54]) leave every particle: the trajectories, and float32[N] log weights.

    Types that few slots could hold come first, so that later types still find a slot.
    """
    colors, ranks = bits.color_and_rank(np.arange(cards.NUM_TYPES))
    is_slot = jnp.arange(history.max_slots) < history.num_slots

    def num_open(color: Array, rank: Array) -> Array:
        return (proposals.takes_type(history, color, rank) & is_slot).sum(dtype=jnp.int32)

    order = jnp.argsort(jax.vmap(num_open)(colors, ranks))
    ends = jnp.cumsum(counts[order], dtype=jnp.int32)

    def leave(index: Array, carry: tuple[Trajectories, Array]) -> tuple[Trajectories, Array]:
        now, log_weight = carry
        card_type = order[jnp.argmax(ends > index)]
        here = random_of_round(random, _DISCARD, index)
        after, increment = proposals.condition_on_play(SERIAL, here, now, history, colors[card_type], ranks[card_type])
        # The card leaves without a choice of the opponent, so there is no record.
        return after._replace(played=now.played), log_weight + increment

    return control.fori_loop(0, ends[-1], leave, (now, jnp.zeros(random.shape, jnp.float32)))

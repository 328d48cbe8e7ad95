"""What one micro-step shows, the same for all particles, and what follows for their weights."""

from __future__ import annotations

from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln

from unojax import bits, cards
from unojax.belief import history, resample
from unojax.belief.particles import accounts
from unojax.belief.particles.belief import Belief
from unojax.belief.particles.likelihood import log_joint, log_type_probs, mixed
from unojax.device.combinatorics import log_binomial
from unojax.observation import Observation

MOST_ROUNDS: Final = 4.0
"""At most so many times more refreshing moves are made when the effective sample size was very low."""


class Event(NamedTuple):
    """A micro-step as the observer saw it.

    Attributes:
        inconsistent: bool[] the observations belong not together, to the action or to the belief; nothing moved.
        moved: bool[] something happened.
        by_opponent, is_draw: bool[] who moved, and how; of no meaning unless something moved.
        action: int32[] the action, `DRAW` if nothing moved.
        color, rank: uint32[] of a play.
    """

    inconsistent: Array
    moved: Array
    by_opponent: Array
    is_draw: Array
    action: Array
    color: Array
    rank: Array

    @property
    def may_change_likelihood(self) -> Array:
        """bool[]: accounts have changed, or there is one more play to account for."""
        return self.moved & (self.by_opponent | self.is_draw | (self.action == cards.CHALLENGE))


def read_event(belief: Belief, before: Observation, action: Array, after: Observation) -> Event:
    """Read off the observations around a micro-step what happened."""
    inconsistent = ~(history.belongs(before, action, after) & _fits(belief, before))
    # Nothing moves in a finished game, nor by an action that the rules refuse.
    moved = ~inconsistent & (history.infer_action(before, after) >= 0)
    action = jnp.where(moved, action, cards.DRAW)
    return Event(
        inconsistent=inconsistent,
        moved=moved,
        by_opponent=history.opponent_moved(before),
        is_draw=moved & (action == cards.DRAW),
        action=action,
        color=(action // cards.NUM_RANKS).astype(jnp.uint32),
        rank=(action % cards.NUM_RANKS).astype(jnp.uint32),
    )


def _fits(belief: Belief, seen: Observation) -> Array:
    """Tell whether an observation shows the position of a belief: bool[]. What is public is the same in all particles."""
    hand, deck, own = (bits.map_words(lambda w: w[0], s) for s in (belief.cloud.hand, belief.cloud.deck, belief.cloud.own))
    unseen = bits.canonical(accounts.union(hand, deck))
    pairs = zip((*unseen, *bits.canonical(own)), (*history.unseen_words(seen), *bits.pack(seen.hand)), strict=True)
    differs = bits.count(hand).astype(jnp.int32) != seen.opponent_count.astype(jnp.int32)
    for ours, theirs in pairs:
        differs |= ours != theirs
    return ~differs


class OwnDraw(NamedTuple):
    """A draw of the observer, one type after the other.

    Attributes:
        totals: int32[54] running totals of the cards drawn, by type.
        number: int32[] cards drawn.
        deck_count: int32[] cards in the deck before.
        log_ways: float32[] ways (nats) to draw the same multiset: orders, and copies of each type.
    """

    totals: Array
    number: Array
    deck_count: Array
    log_ways: Array

    def card(self, index: Array) -> tuple[Array, Array]:
        """Give colour and rank of a card: uint32[] each. The card at place i is of the first type whose total exceeds i."""
        card_type = jnp.argmax(self.totals > index)
        # A wild has no colour; whichever is given is ignored.
        color = jnp.maximum(jnp.asarray(cards.COLOR_OF_TYPE)[card_type], 0).astype(jnp.uint32)
        return color, jnp.asarray(cards.RANK_OF_TYPE)[card_type].astype(jnp.uint32)

    def log_prob(self, index: Array) -> Array:
        """Compute the log probability (nats) of each card of the deck to be drawn at a place: float32[]."""
        return -jnp.log((self.deck_count - index).astype(jnp.float32))


def own_draw(before: Observation, after: Observation, laid: Array | None = None) -> OwnDraw:
    """Read off which cards the observer drew, and with `laid` (int32[], -1 for none) also the type of one that was laid."""
    unseen = history.unseen_at_draw(before, after)
    drawn = cards.counts(after.hand) - cards.counts(before.hand)
    if laid is not None:
        drawn += (jnp.arange(cards.NUM_TYPES) == laid).astype(drawn.dtype)
    number = drawn.sum(dtype=jnp.int32)
    return OwnDraw(
        totals=jnp.cumsum(drawn, dtype=jnp.int32),
        number=number,
        deck_count=unseen.sum(dtype=jnp.int32) - before.opponent_count.astype(jnp.int32),
        log_ways=gammaln(number.astype(jnp.float32) + 1.0) + log_binomial(unseen, drawn).sum(),
    )


def log_num_unseen(before: Observation, event: Event) -> Array:
    """Compute the log number of unseen copies of the type that the opponent plays: float32[]."""
    return jnp.log(before.unseen[cards.type_of(event.color, event.rank)].astype(jnp.float32))


class Weighing(NamedTuple):
    """Weights after an event, and what is to be done about them; `Info` says what the fields are."""

    log_weights: Array
    ess: Array
    log_evidence: Array
    depleted: Array
    restarted: Array
    resampled: Array


def weigh(
    belief: Belief,
    event: Event,
    log_increment: Array,
    log_constant: Array,
    log_lik: Array,
    outgrown: Array,
    ess_threshold: float,
) -> Weighing:
    """Weigh the particles of a belief.

    Args:
        belief: as it was before the event.
        event: what happened.
        log_increment: float32[N] nats, weights of the repairs.
        log_constant: float32[] nats, a factor that all particles share.
        log_lik: float32[N] nats, or by type [K, N], of the repaired particles.
        outgrown: bool[] the belief's capacity is used up.
        ess_threshold: see `belief_update`.
    """
    before = belief.target_weights
    dead = jnp.isneginf(before) | jnp.isneginf(log_increment)
    joint = before + log_increment + mixed(log_lik, belief.log_types) - mixed(belief.log_likelihood, belief.log_types)
    # What is no finite likelihood of an opponent model counts as impossible.
    joint = jnp.where(dead | ~(joint < jnp.inf), -jnp.inf, joint)
    log_weights, log_sum = resample.normalize(joint)
    ess = resample.effective_sample_size(log_weights)
    depleted = jnp.isneginf(log_sum + log_constant) & ~event.inconsistent
    restarted = depleted | (outgrown & ~event.inconsistent)
    log_weights = jnp.where(event.inconsistent, before, log_weights)
    # A particle of weight zero may hold an impossible hand; none is carried on.
    is_due = (ess < ess_threshold * belief.num_particles) | jnp.isneginf(log_weights).any()
    return Weighing(
        log_weights=log_weights,
        ess=ess,
        log_evidence=jnp.where(event.inconsistent, 0.0, log_sum + log_constant),
        depleted=depleted,
        restarted=restarted,
        resampled=event.moved & ~restarted & is_due,
    )


def known_types(belief: Belief, weighing: Weighing, log_lik: Array) -> Array | None:
    """Tell what is known of the opponent's type where a belief is begun anew: float32[K] nats; None without types.

    By the particles after the event, whose likelihoods are `log_lik`; by those before it where none explains the event.
    """
    if belief.log_types is None:
        return None
    after = log_joint(weighing.log_weights, log_lik, belief.log_types)
    earlier = log_joint(belief.target_weights, belief.log_likelihood, belief.log_types)
    return log_type_probs(jnp.where(weighing.depleted, earlier, after))


def num_rounds(weighing: Weighing, num_particles: int, num_moves: int) -> Array:
    """Choose the number of refreshing moves: int32[]. The fewer ancestors, the more there is to renew."""
    loss = jnp.clip(0.5 * num_particles / jnp.maximum(weighing.ess, 1.0), 1.0, MOST_ROUNDS)
    return jnp.where(weighing.resampled, jnp.round(num_moves * loss).astype(jnp.int32), 0)


def first_place(key: Array, hand_count: Array) -> Array:
    """Choose at which card of the opponent's hand a series of refreshing moves begins: int32[]."""
    return jax.random.randint(key, (), 0, jnp.maximum(hand_count, 1))

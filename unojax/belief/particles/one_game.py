"""The update of one game's belief: every branch and loop as this game needs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from unojax import bits
from unojax.belief import history, resample
from unojax.belief.opponents import Opponent
from unojax.belief.particles import accounts, ledger, moves, turns
from unojax.belief.particles.accounts import Cloud
from unojax.belief.particles.belief import Belief, Info, belief_init, report, start_target
from unojax.belief.particles.event import (
    Event,
    Weighing,
    first_place,
    known_types,
    log_num_unseen,
    num_rounds,
    own_draw,
    read_event,
    weigh,
)
from unojax.belief.particles.ledger import Ledger, as_words
from unojax.belief.particles.likelihood import Exchange, is_told, log_likelihood
from unojax.belief.particles.turns import Weighted
from unojax.device import control
from unojax.device.tracing import traced_once
from unojax.observation import Observation

_Likelihood = Callable[[Cloud, Exchange], Array]


@partial(traced_once, static=("opponent", "ess_threshold", "num_moves"))
def update(
    belief: Belief,
    before: Observation,
    action: Array,
    after: Observation,
    key: Array,
    *,
    opponent: Opponent,
    ess_threshold: float,
    num_moves: int,
) -> tuple[Belief, Info]:
    """Do what `belief_update` does."""
    key_event, key_resample, key_move, key_anew = jax.random.split(key, 4)
    event = read_event(belief, before, action, after)
    now = Weighted(belief.cloud, belief.ledger, jnp.zeros_like(belief.log_weights), jnp.float32(0.0))
    is_plain = belief.rules.has_plain_steps
    cloud, book, log_increment, log_constant = (_plain_step if is_plain else turns.condition)(
        key_event, now, event, before, after
    )

    def likelihood(cloud: Cloud, exchange: Exchange | None = None) -> Array:
        return log_likelihood(cloud, book, opponent, before, exchange)

    log_lik = control.cond(event.may_change_likelihood, lambda: likelihood(cloud), lambda: belief.log_likelihood)
    log_types = belief.log_types
    max_slots, max_plays = book.epoch.shape[0], book.plays.action.shape[0]
    # Begun anew while the last row still counts, so that this update's evidence is right.
    outgrown = (book.num_slots > max_slots) | (book.num_plays > max_plays - turns.rows_per_step(belief.rules))
    weighing = weigh(belief, event, log_increment, log_constant, log_lik, outgrown, ess_threshold)

    def carry_on() -> tuple[Belief, Array]:
        weights = weighing.log_weights
        target = None if belief.target is None else start_target(weights, log_lik, log_types)
        weighted = Belief(weights, log_lik, cloud, book, belief.rules, target, log_types)
        return _refresh(key_resample, key_move, weighted, weighing, likelihood, num_moves)

    def begin_anew() -> tuple[Belief, Array]:
        n = belief.num_particles
        sizes = partial(belief_init, num_particles=n, max_slots=max_slots, max_plays=max_plays)
        return sizes(after, key_anew, opponent=opponent, log_types=known_types(belief, weighing, log_lik)), jnp.float32(0.0)

    updated, acceptance = control.cond(weighing.restarted, begin_anew, carry_on)
    if belief.rules.tells_of_hands:
        updated, weighing = _leave_out_impossible(belief, updated, weighing, opponent, before, lambda: begin_anew()[0])
    return updated, Info(
        ess=weighing.ess,
        log_evidence=weighing.log_evidence,
        depleted=weighing.depleted,
        restarted=weighing.restarted,
        resampled=weighing.resampled,
        acceptance=acceptance,
        inconsistent=event.inconsistent,
    )


def _leave_out_impossible(
    belief: Belief,
    updated: Belief,
    weighing: Weighing,
    opponent: Opponent,
    like: Observation,
    begin_anew: Callable[[], Belief],
) -> tuple[Belief, Weighing]:
    """Give what a belief says after its update, and the evidence, without accounts that are impossible."""
    assert belief.target is not None

    def find() -> Array:
        return log_likelihood(updated.cloud, updated.ledger, opponent, like, softened=False)

    strict = control.cond(is_told(updated.ledger, belief.rules), find, lambda: updated.log_likelihood)
    reported = report(updated, strict)
    assert reported.target is not None
    depleted = jnp.isneginf(reported.target.log_possible)
    log_evidence = weighing.log_evidence + jnp.where(
        weighing.restarted, 0.0, reported.target.log_possible - belief.target.log_possible
    )
    result = control.cond(depleted, begin_anew, lambda: reported)
    weighing = weighing._replace(
        log_evidence=log_evidence, depleted=weighing.depleted | depleted, restarted=weighing.restarted | depleted
    )
    return result, weighing


def _plain_step(key: Array, now: Weighted, event: Event, before: Observation, after: Observation) -> Weighted:
    """Condition on a micro-step where who can play must, and nobody else may."""

    def opponent_plays() -> Weighted:
        cloud, log_increment = moves.condition_on_play(key, now.cloud, now.book, event.color, event.rank)
        return Weighted(cloud, ledger.record_play(now.book, before, event.action), log_increment, log_num_unseen(before, event))

    def observer_plays() -> Weighted:
        return now._replace(cloud=moves.play_own(now.cloud, event.color, event.rank))

    # A play or a draw, of the opponent or of the observer; or nothing.
    kind = jnp.where(event.moved, jnp.where(event.by_opponent, 0, 2) + event.is_draw.astype(jnp.int32), 4)
    return control.switch(
        kind,
        (
            opponent_plays,
            lambda: _opponent_draws(key, now, before, after),
            observer_plays,
            lambda: _observer_draws(key, now, before, after),
            lambda: now,
        ),
    )


def _opponent_draws(key: Array, now: Weighted, before: Observation, after: Observation) -> Weighted:
    key_condition, key_draw = jax.random.split(key)
    playable = ledger.cards_playable_on(before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32))

    def could_not_play() -> Weighted:
        cloud, log_increment = moves.condition_on_no_play(key_condition, now.cloud, now.book, playable)
        return now._replace(cloud=cloud, book=ledger.forbid(now.book, playable), log_increment=log_increment)

    now = control.cond(before.penalty == 0, could_not_play, lambda: now)
    now = _reshuffle_if_any(now, before, after)
    number = (after.opponent_count - before.opponent_count).astype(jnp.int32)
    return now._replace(cloud=moves.draw(key_draw, now.cloud, now.book, number), book=ledger.add_slots(now.book, number))


def _observer_draws(key: Array, now: Weighted, before: Observation, after: Observation) -> Weighted:
    now = _reshuffle_if_any(now, before, after)
    drawn = own_draw(before, after)

    def one_card(index: Array, now: Weighted) -> Weighted:
        key_card = jax.random.fold_in(key, index)
        cloud, log_increment = moves.condition_on_own_draw(key_card, now.cloud, now.book, *drawn.card(index))
        return now._replace(
            cloud=cloud,
            log_increment=now.log_increment + log_increment,
            log_constant=now.log_constant + drawn.log_prob(index),
        )

    return control.fori_loop(0, drawn.number, one_card, now._replace(log_constant=now.log_constant + drawn.log_ways))


def _reshuffle_if_any(now: Weighted, before: Observation, after: Observation) -> Weighted:
    def shuffle() -> Weighted:
        full = jnp.asarray(bits.all_cards(before.rules.deck))
        color, rank = before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32)
        book = dataclasses.replace(now.book, num_reshuffles=now.book.num_reshuffles + 1)
        return now._replace(cloud=moves.reshuffle(now.cloud, as_words(full), color, rank), book=book)

    return control.cond(history.reshuffled(before, after), shuffle, lambda: now)


def _refresh(
    key_resample: Array, key_move: Array, belief: Belief, weighing: Weighing, likelihood: _Likelihood, num_moves: int
) -> tuple[Belief, Array]:
    """Resample if due, then move the particles; give the share that a move changed, too."""
    book, n = belief.ledger, belief.num_particles
    key_start, key_moves = jax.random.split(key_move)

    def pick() -> tuple[Cloud, Array, Array]:
        ancestors = resample.systematic(jax.random.uniform(key_resample, dtype=jnp.float32), belief.target_weights)
        return _pick(belief.cloud, book, ancestors), belief.log_likelihood[..., ancestors], resample.uniform_log_weights(n)

    kept = (belief.cloud, belief.log_likelihood, belief.target_weights)
    cloud, log_lik, log_weights = control.cond(weighing.resampled, pick, lambda: kept)
    hand_count = jnp.maximum(bits.count(bits.map_words(lambda w: w[0], cloud.hand)).astype(jnp.int32), 1)
    start = first_place(key_start, hand_count)

    def move(index: Array, carry: tuple[Cloud, Array, Array]) -> tuple[Cloud, Array, Array]:
        cloud, log_lik, changed = carry
        key = jax.random.fold_in(key_moves, index)
        place = (start + index) % hand_count
        cloud, log_lik, accepted = moves.refresh(key, cloud, book, log_lik, likelihood, place, belief.log_types)
        return cloud, log_lik, changed + accepted.mean(dtype=jnp.float32)

    rounds = num_rounds(weighing, n, num_moves)
    cloud, log_lik, changed = control.fori_loop(0, rounds, move, (cloud, log_lik, jnp.float32(0.0)))
    target = None if belief.target is None else belief.target._replace(log_weights=log_weights)
    belief = dataclasses.replace(belief, log_weights=log_weights, log_likelihood=log_lik, cloud=cloud, target=target)
    return belief, changed / jnp.maximum(rounds, 1).astype(jnp.float32)


def _pick(cloud: Cloud, book: Ledger, ancestors: Array) -> Cloud:
    """Take the particles with some indices int32[N]."""

    def picked(index: Array, rows: Array) -> Array:
        del index
        return rows.at[:, ancestors].get(mode="promise_in_bounds")

    sets = jax.tree.map(lambda a: a.at[ancestors].get(mode="promise_in_bounds"), cloud._replace(labels=(), played=()))
    return sets._replace(
        labels=accounts.map_rows(book.num_slots, picked, cloud.labels),
        played=accounts.map_rows(book.num_plays, picked, cloud.played),
    )

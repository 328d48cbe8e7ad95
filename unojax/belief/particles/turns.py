"""Carry particles through a micro-step under rules whose turns are not plain.

Of what a step shows, all that rules single cards out is a repair (`moves`): types that the hand can't have held, the card drawn
that could or could not be played, a card that came from the deck. What the opponent chose, and what depends on its hand as a
whole, is a row of the ledger and has a likelihood (`choices`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards
from unojax.belief import history
from unojax.belief.particles import ledger, moves
from unojax.belief.particles.accounts import RELEASED, Cloud
from unojax.belief.particles.event import Event, log_num_unseen, own_draw
from unojax.belief.particles.ledger import FAILS, FITS, HOLDS_COLOR, Ledger, as_words
from unojax.bits import Words
from unojax.device import control
from unojax.observation import Observation
from unojax.rules import Rules


class Weighted(NamedTuple):
    """A cloud on its way through an update: float32[N] log weights of the repairs, and a factor that all particles share."""

    cloud: Cloud
    book: Ledger
    log_increment: Array
    log_constant: Array

    def weighed(self, cloud: Cloud, log_increment: Array) -> Weighted:
        """Give the cloud after a repair."""
        return self._replace(cloud=cloud, log_increment=self.log_increment + log_increment)


def rows_per_step(rules: Rules) -> int:
    """Count the rows of the ledger that a step can take: a choice, and what a draw after it told."""
    return 1 + (not rules.has_plain_steps and rules.draw_four_depends_on_hand)


def condition(key: Array, now: Weighted, event: Event, before: Observation, after: Observation) -> Weighted:
    """Condition on a micro-step that may be any: the cloud and the ledger after it."""
    rules = before.rules
    key_play, key_type, key_drawn, key_draw, key_look = jax.random.split(key, 5)
    is_challenge = event.moved & (event.action == cards.CHALLENGE)
    plays = event.moved & ~event.is_draw & ~is_challenge
    theirs = event.by_opponent

    # What they chose is recorded before it changes the hand, and what they proved holds before they draw.
    def their_play(now: Weighted) -> Weighted:
        return _their_play(key_play, now, before, event)

    now = control.cond(plays & theirs, their_play, lambda now: now, now)
    now = _if(plays & ~theirs, now, lambda now: now._replace(cloud=moves.play_own(now.cloud, event.color, event.rank)))
    chose = event.is_draw & theirs & _is_evidence(before, after)
    now = _if(chose | (is_challenge & theirs), now, lambda now: _record(now, before, event.action))
    if rules.play_drawn == "may" and rules.draw_until_playable:
        now = _if(event.is_draw & theirs & before.has_drawn, now, lambda now: _passed(key_drawn, now, before, after))
    ruled_out = _cards_of(history.types_ruled_out(before, event.action, after))
    now = _if(event.moved & (bits.any_of(ruled_out) != 0), now, lambda now: _forbid(key_type, now, ruled_out))
    if rules.wild_draw_four == "challenge":
        guilty = is_challenge & ~theirs & (after.current_player != before.current_player)
        now = _if(guilty, now, lambda now: _record(now, before, jnp.int32(HOLDS_COLOR)))

    now = _if(event.is_draw & history.reshuffled(before, after), now, lambda now: _reshuffle(now, before))
    laid = history.laid_type(before, after)
    now = _if(event.is_draw & (~theirs | (laid >= 0)), now, lambda now: _seen_draw(key_draw, now, before, after, laid))
    drawn = jnp.where(event.is_draw & theirs, history.opponent_drew(before, after), 0)
    return _if(drawn > 0, now, lambda now: _hidden_draw(key_draw, key_look, now, before, after, drawn))


def _if(condition: Array, now: Weighted, change: Callable[[Weighted], Weighted]) -> Weighted:
    return control.cond(condition, change, lambda now: now, now)


def _their_play(key: Array, now: Weighted, before: Observation, event: Event) -> Weighted:
    arguments = key, now.cloud, now.book, event.color, event.rank

    def of_hand() -> tuple[Cloud, Array, Array]:
        return *moves.condition_on_play(*arguments), log_num_unseen(before, event)

    def of_drawn() -> tuple[Cloud, Array, Array]:
        return *moves.play_drawn(*arguments), jnp.float32(0.0)

    if before.rules.play_drawn == "may":
        cloud, log_increment, log_constant = control.cond(before.has_drawn, of_drawn, of_hand)
    else:
        cloud, log_increment, log_constant = of_hand()
    now = now.weighed(cloud, log_increment)._replace(log_constant=now.log_constant + log_constant)
    return now._replace(book=ledger.record_play(now.book, before, event.action))


def _record(now: Weighted, before: Observation, code: Array) -> Weighted:
    """Record what is no play."""
    played = now.cloud.played.at[now.book.num_plays].set(RELEASED, mode="drop")
    return now._replace(cloud=now.cloud._replace(played=played), book=ledger.record_play(now.book, before, code))


def _is_evidence(before: Observation, after: Observation) -> Array:
    """Tell whether an opponent that draws or passes chose to, as far as `types_ruled_out` does not say all of it: bool[]."""
    rules, never = before.rules, jnp.bool_(False)
    is_free = before.penalty == 0
    at_will = is_free & ~before.has_drawn if rules.may_draw else never
    if rules.play_drawn == "may":
        at_will |= before.has_drawn & ~_draws_on(before, after)
    if rules.stacking:
        can_answer = before.contested >= 0 if rules.wild_draw_four == "challenge" else jnp.bool_(True)
        is_two = before.top_rank == cards.DRAW_TWO
        by_type = is_two | (rules.wild_draw_four == "any") if not rules.may_draw else never
        at_will |= ~is_free & (can_answer | is_two) & ~by_type
    return at_will | (before.contested >= 0)


def _draws_on(before: Observation, after: Observation) -> Array:
    """Tell a draw from a pass: bool[]."""
    return (after.opponent_count > before.opponent_count) | after.terminated


def _passed(key: Array, now: Weighted, before: Observation, after: Observation) -> Weighted:
    """Condition on the card just drawn: who could play it passes, and who could not draws again."""
    draws_on = _draws_on(before, after)
    now = _look(key, now, before, fits=~draws_on)
    if not before.rules.draw_four_depends_on_hand:
        return now
    return _if(draws_on, now, lambda now: _record(now, before, jnp.int32(FAILS)))


def _look(key: Array, now: Weighted, before: Observation, fits: Array) -> Weighted:
    """Rule out of the slot filled last what could (`fits`, bool[]: could not) be played on the top card."""
    playable = ledger.cards_playable_on(before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32))
    unplayable = bits.map_words(lambda w: bits.ALL_SLOTS & ~w, playable)
    if before.rules.draw_four_depends_on_hand:
        # It may be unplayable as well.
        playable = bits.map_words(lambda w: w & ~bits.WILD_DRAW_FOUR_BIT, playable)
    return _forbid(key, now, bits.where(fits, unplayable, playable), ledger.last_slot(now.book))


def _forbid(key: Array, now: Weighted, ruled_out: Words, where: Array | None = None) -> Weighted:
    now = now.weighed(*moves.condition_on_no_play(key, now.cloud, now.book, ruled_out, where=where))
    return now._replace(book=ledger.forbid(now.book, ruled_out, where))


def _reshuffle(now: Weighted, before: Observation) -> Weighted:
    full = as_words(jnp.asarray(bits.all_cards(before.rules.deck)))
    color, rank = before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32)
    cloud = moves.reshuffle(now.cloud, full, color, rank, with_top=before.rules.reshuffle_top)
    return now._replace(cloud=cloud, book=dataclasses.replace(now.book, num_reshuffles=now.book.num_reshuffles + 1))


def _seen_draw(key: Array, now: Weighted, before: Observation, after: Observation, laid: Array) -> Weighted:
    """Condition on cards that the observer drew, or that anyone drew and laid on the pile (the type `laid`, or -1)."""
    drawn = own_draw(before, after, laid)
    log_constant = now.log_constant + drawn.log_ways
    if before.rules.play_drawn == "auto":
        # The colour of a wild that is laid is one of four.
        log_constant -= jnp.where(laid >= cards.WILD_TYPE, math.log(cards.NUM_COLORS), 0.0)

    def one_card(index: Array, now: Weighted) -> Weighted:
        key_card = jax.random.fold_in(key, index)
        now = now.weighed(*moves.condition_on_own_draw(key_card, now.cloud, now.book, *drawn.card(index)))
        return now._replace(log_constant=now.log_constant + drawn.log_prob(index))

    now = control.fori_loop(0, drawn.number, one_card, now._replace(log_constant=log_constant))
    if before.rules.play_drawn != "auto":
        return now
    color, rank = after.color.astype(jnp.uint32), after.top_rank.astype(jnp.uint32)
    return _if(laid >= 0, now, lambda now: now._replace(cloud=moves.play_own(now.cloud, color, rank)))


def _hidden_draw(key: Array, key_look: Array, now: Weighted, before: Observation, after: Observation, number: Array) -> Weighted:
    """Let the opponent draw, and condition on what becomes of its turn."""
    rules = before.rules
    now = now._replace(cloud=moves.draw(key, now.cloud, now.book, number), book=ledger.add_slots(now.book, number))
    if rules.play_drawn == "auto":
        layable = _cards_of((cards.COLOR_OF_TYPE == before.color) | (cards.COLOR_OF_TYPE < 0))
        return _if(before.penalty == 0, now, lambda now: _forbid(key_look, now, layable, ledger.last_slot(now.book)))
    if (rules.play_drawn == "may") == rules.draw_until_playable:
        # The turn goes on in any case, or in none.
        return now
    fits = after.has_drawn == (rules.play_drawn == "may")

    def look(now: Weighted) -> Weighted:
        now = _look(key_look, now, before, fits)
        if not rules.draw_four_depends_on_hand:
            return now
        return _record(now, before, jnp.where(fits, FITS, FAILS))

    return _if(before.penalty == 0, now, look)


def _cards_of(types: Array) -> Words:
    """Collect all cards of some types (bool[54])."""
    return bits.pack(jnp.asarray(types)[np.asarray(cards.TYPE_OF_SLOT)])

"""Pieces of work on the beliefs of some of many games, see `lockstep`: repairs, likelihoods, moves.

Each takes the particles of games int32[C] out of the tables of all G games, works on them together in loops of fixed length, and
puts them back in place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from unojax import bits
from unojax.belief import resample
from unojax.belief.opponents import Opponent
from unojax.belief.particles import accounts, ledger, moves
from unojax.belief.particles.accounts import Cloud
from unojax.belief.particles.belief import Belief, before_the_draw
from unojax.belief.particles.event import Event, OwnDraw
from unojax.belief.particles.ledger import Ledger, Plays, as_words
from unojax.belief.particles.past import Past, exchanged, past_log_likelihood, past_of
from unojax.bits import Words
from unojax.device import control
from unojax.device.batching import put_rows, take_part, take_rows
from unojax.observation import Observation

MOVES_AT_A_TIME: Final = 12
"""Refreshing moves between two looks at which games need more."""
MOST_OPEN: Final = 40
"""Slots at a time that could hold a card which the opponent shows not to hold; few games have more."""
MOST_DRAWN: Final = 4
"""Cards drawn at a time; by plain rules no more are."""


class Tables(NamedTuple):
    """The particles of G games, `Cloud` with all words of its sets side by side, and their logarithms.

    Attributes:
        sets: uint32[G, 16, N], four words of the hand, the deck, the observer's cards, and those recycled.
        labels, played: uint8[G, S, N], uint8[G, T, N].
        log_increment, log_likelihood: float32[G, N] nats; the latter [G, K, N] under types of opponents.
    """

    sets: Array
    labels: Array
    played: Array
    log_increment: Array
    log_likelihood: Array


class Facts(NamedTuple):
    """What is public about a micro-step of one game: the event, the ledgers before and after it, and six keys."""

    before: Observation
    event: Event
    drawn: OwnDraw
    playable: Words
    old: Ledger
    new: Ledger
    reshuffles: Array
    log_constant: Array
    start: Array
    keys: Array


KEY_EVENT, KEY_CONDITION, KEY_DRAW, KEY_RESAMPLE, KEY_MOVES, KEY_ANEW = range(6)
"""Places among `Facts.keys`."""


def tables_of(beliefs: Belief) -> Tables:
    """Lay the particles of G games out as tables."""
    cloud = beliefs.cloud
    return Tables(
        sets=jnp.stack([*cloud.hand, *cloud.deck, *cloud.own, *cloud.recycled], 1),
        labels=cloud.labels,
        played=cloud.played,
        log_increment=jnp.zeros_like(beliefs.log_weights),
        log_likelihood=beliefs.log_likelihood,
    )


def cloud_of(tables: Tables) -> Cloud:
    """Give the particles that tables hold."""
    words = jnp.moveaxis(tables.sets, 1, 0)
    hand, deck, own, recycled = (as_words(words[i : i + 4]) for i in range(0, 16, 4))
    return Cloud(hand, deck, own, recycled, tables.labels, tables.played)


def _take(tables: Tables, at: Array, slots: int) -> Cloud:
    """Take the particles of some games, with the first few slots and one row for a play."""
    labels, played = take_part(tables.labels, at, slots), take_part(tables.played, at, 1)
    return cloud_of(take_rows(tables, at)._replace(labels=labels, played=played))


def _put(tables: Tables, at: Array, sets: Sequence[Words], **new: Array) -> Tables:
    """Put the first few sets and other fields of some games back."""
    words = jnp.stack([word for words in sets for word in words], 1)
    rows = {"sets": words, **new}
    return tables._replace(**{name: put_rows(getattr(tables, name), at, row) for name, row in rows.items()})


def _put_cloud(tables: Tables, at: Array, cloud: Cloud, log_lik: Array) -> Tables:
    """Put the whole particles of some games back."""
    sets = (cloud.hand, cloud.deck, cloud.own, cloud.recycled)
    return _put(tables, at, sets, labels=cloud.labels, played=cloud.played, log_likelihood=log_lik)


def _cut(book: Ledger, slots: int) -> Ledger:
    """Keep the first few slots of ledgers, and one row for a play."""
    plays = Plays(*(rows[:, :1] for rows in book.plays))
    cut = {"allowed": book.allowed[:, :slots], "epoch": book.epoch[:, :slots], "num_plays": jnp.zeros_like(book.num_plays)}
    return dataclasses.replace(book, plays=plays, **cut)


def repair_play(index: Array, at: Array, tables: Tables, *, slots: int, facts: Facts) -> Tables:
    """Condition on plays of the opponents."""
    del index
    games = take_rows(facts, at)
    after, increment = jax.vmap(moves.condition_on_play)(
        games.keys[:, KEY_EVENT], _take(tables, at, slots), _cut(games.old, slots), games.event.color, games.event.rank
    )
    played = tables.played.at[at, games.old.num_plays].set(after.played[:, 0], mode="drop", unique_indices=True)
    return _put(tables._replace(played=played), at, (after.hand, after.deck), labels=after.labels, log_increment=increment)


def repair_no_play(index: Array, at: Array, tables: Tables, *, facts: Facts) -> Tables:
    """Condition on opponents that could not play, in the next `MOST_OPEN` slots that are open to it."""
    games, slots = take_rows(facts, at), tables.labels.shape[1]

    def one_game(key: Array, cloud: Cloud, book: Ledger, playable: Words) -> tuple[Cloud, Array]:
        place = jnp.cumsum(moves.open_slots(book, playable), dtype=jnp.int32) - 1
        return moves.condition_on_no_play(key, cloud, book, playable, MOST_OPEN, place // MOST_OPEN == index)

    keys = games.keys[:, KEY_CONDITION]
    after, increment = jax.vmap(one_game)(keys, _take(tables, at, slots), _cut(games.old, slots), games.playable)
    increment += take_rows(tables.log_increment, at)
    return _put(tables, at, (after.hand, after.deck), labels=after.labels, log_increment=increment)


def repair_own_draw(index: Array, at: Array, tables: Tables, *, slots: int, facts: Facts, begun: Array) -> Tables:
    """Condition on the next card that the observers drew, after the first ones where `begun` (int32[G])."""
    games, number = take_rows(facts, at), index + take_rows(begun, at)

    def one_game(key: Array, cloud: Cloud, book: Ledger, drawn: OwnDraw, number: Array) -> tuple[Cloud, Array]:
        return moves.condition_on_own_draw(jax.random.fold_in(key, number), cloud, book, *drawn.card(number))

    rows = _take(tables, at, slots), _cut(games.new, slots), games.drawn, number
    after, increment = jax.vmap(one_game)(games.keys[:, KEY_EVENT], *rows)
    increment += take_rows(tables.log_increment, at)
    return _put(tables, at, (after.hand, after.deck, after.own), labels=after.labels, log_increment=increment)


def move_public_cards(index: Array, at: Array, tables: Tables, *, facts: Facts) -> Tables:
    """Reshuffle, or take the cards that the observers play out of their hands."""
    del index
    games, sets = take_rows((facts, tables.sets), at)
    before, event = games.before, games.event
    full = as_words(jnp.asarray(bits.all_cards(before.rules.deck)))

    def one_game(sets: Array, reshuffles: Array, top: tuple[Array, Array], played: tuple[Array, Array]) -> list[Words]:
        hand, deck, own, recycled = (as_words(sets[i : i + 4]) for i in range(0, 16, 4))
        cloud = Cloud(hand, deck, own, recycled, sets, sets)
        shuffled, after = moves.reshuffle(cloud, full, *top), moves.play_own(cloud, *played)
        return [
            hand,
            bits.where(reshuffles, shuffled.deck, deck),
            bits.where(reshuffles, own, after.own),
            bits.where(reshuffles, shuffled.recycled, recycled),
        ]

    top = before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32)
    return _put(tables, at, jax.vmap(one_game)(sets, games.reshuffles, top, (event.color, event.rank)))


def draw_cards(index: Array, at: Array, tables: Tables, *, facts: Facts, key: int, num_slots: Array, number: Array) -> Tables:
    """Let the opponents draw the next `MOST_DRAWN` of `number` (int32[G]) cards into the slots from `num_slots` (int32[G]) on.

    `key` (static) is the place of the key to use.
    """
    keys, first, number, sets = take_rows((facts.keys, num_slots, number, tables.sets), at)
    book, places = ledger.empty(max_slots=1, max_plays=1), MOST_DRAWN * index + jnp.arange(MOST_DRAWN)

    def one_game(key: Array, number: Array, sets: Array) -> tuple[Words, Words, Array]:
        random, hand, deck, labels = accounts.random_words(key, book, sets), as_words(sets[:4]), as_words(sets[4:8]), []
        for place in places:
            *after, new = moves.draw_card(random, place, book, hand, deck)
            hand, deck = (bits.where(place < number, *pair) for pair in zip(after, (hand, deck), strict=True))
            labels.append(new)
        return hand, deck, jnp.stack(labels)

    hand, deck, new = jax.vmap(one_game)(keys[:, key], number, sets)
    slots = jnp.where(places < number[:, None], first[:, None] + places, tables.labels.shape[1] + places)
    labels = tables.labels.at[at[:, None], slots].set(new, mode="drop", unique_indices=True)
    return _put(tables._replace(labels=labels), at, (hand, deck))


def replay(index: Array, at: Array, tables: Tables, *, facts: Facts, opponent: Opponent, num_blocks: int) -> Tables:
    """Compute the likelihoods, of as many games as have `num_blocks` (static) blocks of plays together."""
    del index
    games, cloud = take_rows((facts.new, facts.before), at), cloud_of(tables)
    past = past_of(cloud, at, games[0], facts.before.rules, at < len(tables.labels), num_blocks)
    log_lik = past_log_likelihood(past, cloud, games[0], opponent, games[1])
    return tables._replace(log_likelihood=put_rows(tables.log_likelihood, at, log_lik))


def make_moves(
    index: Array,
    at: Array,
    state: tuple[Tables, Array],
    *,
    slots: int,
    facts: Facts,
    num_blocks: int,
    weights: Array,
    begun: Array,
    moves_due: Array,
    hand_count: Array,
    opponent: Opponent,
    log_types: Array | None,
) -> tuple[Tables, Array]:
    """Resample the particles by weights float32[G, N] (nats) and make the first few refreshing moves; or the next, where `begun`.

    Also add up the share of particles that a move changes, on average. `num_blocks` is that of `replay`.
    """
    tables, changed = state
    cloud = cloud_of(take_rows(tables, at)._replace(labels=take_part(tables.labels, at, slots)))
    games, weights, log_types, begun = take_rows((facts, weights, log_types, begun), at)
    log_lik, moves_due, hand_count, so_far = take_rows((tables.log_likelihood, moves_due, hand_count, changed), at)
    like, rules, batch = games.before, facts.before.rules, index + begun
    book = dataclasses.replace(games.new, allowed=games.new.allowed[:, :slots], epoch=games.new.epoch[:, :slots])

    def resampled(key: Array, weights: Array, batch: Array, rows: tuple[Cloud, Array]) -> tuple[Cloud, Array]:
        ancestors = resample.systematic(jax.random.uniform(key, dtype=jnp.float32), weights)
        ancestors = jnp.where(batch == 0, ancestors, jnp.arange(len(ancestors)))
        return jax.tree.map(lambda rows: rows.at[..., ancestors].get(mode="promise_in_bounds"), rows)

    def to_move(
        cloud: Cloud, book: Ledger, game: Facts, batch: Array, moves_due: Array, hand_count: Array
    ) -> tuple[Array, Array]:
        """Give the keys of the moves, and the slots uint16[..., N] that they are made in."""
        number = MOVES_AT_A_TIME * batch + jnp.arange(MOVES_AT_A_TIME)
        keys = jax.vmap(partial(jax.random.fold_in, game.keys[KEY_MOVES]))(number)
        # No hand has a card at a place beyond all slots, so that nothing moves in games that have had their moves.
        places = jnp.where(number < moves_due, (game.start + number) % jnp.maximum(hand_count, 1), slots)
        # Cards change places among the slots that hold one, which stay the same.
        return keys, jax.vmap(partial(accounts.nth_live, cloud, book))(places)

    cloud, log_lik = jax.vmap(resampled)(games.keys[:, KEY_RESAMPLE], weights, batch, (cloud, log_lik))
    keys, moved = jax.vmap(to_move)(cloud, book, games, batch, moves_due, hand_count)
    past = past_of(cloud, jnp.arange(len(at)), book, rules, at < len(tables.labels), num_blocks)

    def move(number: Array, carry: tuple[Cloud, Past, Array, Array]) -> tuple[Cloud, Past, Array, Array]:
        cloud, past, log_lik, changes = carry
        proposal = jax.vmap(moves.propose)(keys[:, number], cloud, book, moved[:, number])
        proposed = past_log_likelihood(past, cloud, book, opponent, like, proposal.exchange)
        cloud, log_lik, accepted = jax.vmap(moves.accept)(cloud, book, proposal, log_lik, proposed, log_types)
        past = exchanged(past, book, proposal.exchange, accepted)
        return cloud, past, log_lik, changes + accepted.astype(jnp.uint8)

    first = (cloud, past, log_lik, jnp.zeros((len(at), log_lik.shape[-1]), jnp.uint8))
    cloud, _, log_lik, changes = control.fori_loop(0, MOVES_AT_A_TIME, move, first)
    tables = _put_cloud(tables, at, cloud, log_lik)
    share = changes.mean(-1, dtype=jnp.float32) / jnp.maximum(moves_due, 1).astype(jnp.float32)
    return tables, put_rows(changed, at, so_far + share)


def reset(index: Array, at: Array, state: tuple[Tables, Ledger], *, seen: Observation) -> tuple[Tables, Ledger]:
    """Take games back to where the opponent is about to draw the hand that it holds at an observation.

    Their ledgers say already that it has drawn.
    """
    del index
    (tables, books), seen = state, take_rows(seen, at)
    num_particles, max_slots = tables.log_increment.shape[-1], tables.labels.shape[1]
    max_plays = books.plays.action.shape[1]

    def one_game(seen: Observation) -> tuple[Cloud, Ledger]:
        cloud, book = before_the_draw(seen, num_particles, max_slots, max_plays)
        return cloud, ledger.add_slots(book, seen.opponent_count.astype(jnp.int32))

    cloud, fresh = jax.vmap(one_game)(seen)
    books = jax.tree.map(lambda rows, new: put_rows(rows, at, new), books, fresh)
    return _put_cloud(tables, at, cloud, jnp.zeros((len(at), *tables.log_likelihood.shape[1:]))), books

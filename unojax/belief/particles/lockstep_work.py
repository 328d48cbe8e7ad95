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
from jax import Array, lax

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
from unojax.device.batching import put_rows, take_part, take_rows
from unojax.observation import Observation

MOVES_AT_A_TIME: Final = 6
"""Refreshing moves between two looks at which games need more."""


class Size(NamedTuple):
    """A size of games: the slots and steps of the script (`past.Script`) that they have at most."""

    slots: int
    steps: int


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
    hand, deck, own, recycled = (as_words(jnp.moveaxis(tables.sets[:, i : i + 4], 1, 0)) for i in range(0, 16, 4))
    return Cloud(hand, deck, own, recycled, tables.labels, tables.played)


def _take(tables: Tables, at: Array, size: Size) -> Cloud:
    """Take the particles of some games, with the rows that their size has."""
    labels, played = (take_part(rows, at, number) for rows, number in ((tables.labels, size.slots), (tables.played, size.steps)))
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


def _cut(book: Ledger, size: Size) -> Ledger:
    """Keep the rows of ledgers that a size has."""
    plays = Plays(*(rows[:, : size.steps] for rows in book.plays))
    return dataclasses.replace(book, allowed=book.allowed[:, : size.slots], epoch=book.epoch[:, : size.slots], plays=plays)


def repair_play(index: Array, at: Array, tables: Tables, *, size: Size, facts: Facts) -> Tables:
    """Condition on plays of the opponents."""
    del index
    games = take_rows(facts, at)
    book = _cut(games.old, size)
    after, increment = jax.vmap(moves.condition_on_play)(
        games.keys[:, KEY_EVENT], _take(tables, at, size), book, games.event.color, games.event.rank
    )
    row = jax.vmap(lambda played, number: played[number])(after.played, book.num_plays)
    tables = tables._replace(played=tables.played.at[at, book.num_plays].set(row, mode="drop", unique_indices=True))
    return _put(tables, at, (after.hand, after.deck), labels=after.labels, log_increment=increment)


def repair_no_play(index: Array, at: Array, tables: Tables, *, size: Size, facts: Facts, most_open: int) -> Tables:
    """Condition on opponents that could not play; with at most so many slots open to it, but in games of the largest size."""
    del index
    games = take_rows(facts, at)
    number = None if size.slots == tables.labels.shape[1] else most_open
    repair = jax.vmap(partial(moves.condition_on_no_play, most_open=number))
    after, increment = repair(games.keys[:, KEY_CONDITION], _take(tables, at, size), _cut(games.old, size), games.playable)
    return _put(tables, at, (after.hand, after.deck), labels=after.labels, log_increment=increment)


def repair_own_draw(index: Array, at: Array, tables: Tables, *, size: Size, facts: Facts) -> Tables:
    """Condition on the next card that the observers drew."""
    games = take_rows(facts, at)

    def one_game(key: Array, cloud: Cloud, book: Ledger, drawn: OwnDraw) -> tuple[Cloud, Array]:
        return moves.condition_on_own_draw(jax.random.fold_in(key, index), cloud, book, *drawn.card(index))

    after, increment = jax.vmap(one_game)(games.keys[:, KEY_EVENT], _take(tables, at, size), _cut(games.new, size), games.drawn)
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


def draw_card(index: Array, at: Array, tables: Tables, *, keys: Array, num_slots: Array) -> Tables:
    """Let the opponents draw a card, into the slots number `num_slots` (int32[G]) + `index`."""
    key, first, sets = take_rows((keys, num_slots, tables.sets), at)
    book = ledger.empty(max_slots=1, max_plays=1)

    def one_game(key: Array, sets: Array) -> tuple[Words, Words, Array]:
        random = accounts.random_words(key, book, sets)
        return moves.draw_card(random, index, book, as_words(sets[:4]), as_words(sets[4:8]))

    hand, deck, new = jax.vmap(one_game)(key, sets)
    labels = tables.labels.at[at, first + index].set(new, mode="drop", unique_indices=True)
    return _put(tables._replace(labels=labels), at, (hand, deck))


def replay(index: Array, at: Array, tables: Tables, *, size: Size, facts: Facts, opponent: Opponent) -> Tables:
    """Compute the likelihoods."""
    del index
    games = take_rows(facts, at)

    def one_game(cloud: Cloud, book: Ledger, before: Observation) -> Array:
        return past_log_likelihood(past_of(cloud, book, before.rules, size.steps), cloud, book, opponent, before)

    log_lik = jax.vmap(one_game)(_take(tables, at, size), _cut(games.new, size), games.before)
    return tables._replace(log_likelihood=put_rows(tables.log_likelihood, at, log_lik))


def make_moves(
    index: Array,
    at: Array,
    state: tuple[Tables, Array],
    *,
    size: Size,
    facts: Facts,
    weights: Array | None,
    moves_due: Array,
    hand_count: Array,
    opponent: Opponent,
    log_types: Array | None,
) -> tuple[Tables, Array]:
    """Resample the particles by weights float32[G, N] (nats) and make the first few refreshing moves, or without them the next.

    Also add up the shares of particles that a move changes.
    """
    tables, changed = state
    games, weights, log_types = take_rows((facts, weights, log_types), at)
    log_lik, moves_due, hand_count, so_far = take_rows((tables.log_likelihood, moves_due, hand_count, changed), at)
    first_batch = 0 if weights is not None else 1

    def one_game(
        cloud: Cloud,
        log_lik: Array,
        weights: Array | None,
        log_types: Array | None,
        book: Ledger,
        game: Facts,
        moves_due: Array,
        hand_count: Array,
    ) -> tuple[Cloud, Array, Array]:
        if weights is not None:
            ancestors = resample.systematic(jax.random.uniform(game.keys[KEY_RESAMPLE], dtype=jnp.float32), weights)
            cloud, log_lik = jax.tree.map(lambda rows: rows.at[..., ancestors].get(mode="promise_in_bounds"), (cloud, log_lik))
        past = past_of(cloud, book, game.before.rules, size.steps)
        number = MOVES_AT_A_TIME * (first_batch + index) + jnp.arange(MOVES_AT_A_TIME)
        keys = jax.vmap(partial(jax.random.fold_in, game.keys[KEY_MOVES]))(number)
        # No hand has a card at a place beyond all slots, so that nothing moves in games that have had their moves.
        places = jnp.where(number < moves_due, (game.start + number) % jnp.maximum(hand_count, 1), size.slots)
        # Cards change places among the slots that hold one, which stay the same.
        slots = jax.vmap(partial(accounts.nth_live, cloud, book))(places)

        def move(offset: Array, carry: tuple[Cloud, Past, Array, Array]) -> tuple[Cloud, Past, Array, Array]:
            cloud, past, log_lik, changes = carry
            proposal = moves.propose(keys[offset], cloud, book, slots[offset])
            proposed = past_log_likelihood(past, cloud, book, opponent, game.before, proposal.exchange)
            cloud, log_lik, accepted = moves.accept(cloud, book, proposal, log_lik, proposed, log_types)
            past = exchanged(past, book, proposal.exchange, accepted)
            return cloud, past, log_lik, changes + accepted.astype(jnp.uint8)

        first = (cloud, past, log_lik, jnp.zeros(log_lik.shape[-1], jnp.uint8))
        cloud, _, log_lik, changes = lax.fori_loop(0, MOVES_AT_A_TIME, move, first)
        return cloud, log_lik, changes.mean(dtype=jnp.float32)

    cloud, log_lik, more = jax.vmap(one_game)(
        _take(tables, at, size), log_lik, weights, log_types, _cut(games.new, size), games, moves_due, hand_count
    )
    if weights is None:
        tables = _put(tables, at, (cloud.hand, cloud.deck), labels=cloud.labels, log_likelihood=log_lik)
    else:
        tables = _put_cloud(tables, at, cloud, log_lik)
    return tables, put_rows(changed, at, so_far + more)


def reset(index: Array, at: Array, tables: Tables, *, seen: Observation) -> Tables:
    """Take games back to where the opponent is about to draw the hand that it holds at an observation."""
    del index
    num_particles = tables.log_increment.shape[-1]
    # More room for plays than there is changes nothing: only the particles are looked at.
    sizes = num_particles, tables.labels.shape[1], tables.played.shape[1]
    cloud, _ = jax.vmap(lambda seen: before_the_draw(seen, *sizes))(take_rows(seen, at))
    return _put_cloud(tables, at, cloud, jnp.zeros((len(at), *tables.log_likelihood.shape[1:])))

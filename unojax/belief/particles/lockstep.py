"""The update of many games' beliefs at once, as a GPU likes it: few kernels, each for all particles of many games.

Games that something happened to are gathered, so many at a time as fill the device, worked on together, and put back
(`batching.Agenda`). All loops inside such a piece of work (`lockstep_work`) have a fixed length. The host asks only whether there
is more to do.

Most games are young and have few slots and plays, a few have many. Repairs go over the slots: most games are done on the first
rows of the tables alone (`SLOTS`). Likelihoods go over the plays, in a row of blocks to which each game adds as many as it has
(`past`).
The results are those of `one_game`, but for the rounding of sums of logarithms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
from jax import Array

from unojax.belief import history, resample
from unojax.belief.opponents import Opponent
from unojax.belief.particles import ledger, lockstep_work, moves
from unojax.belief.particles.belief import Belief, Info
from unojax.belief.particles.event import (
    Weighing,
    first_place,
    known_types,
    log_num_unseen,
    num_rounds,
    own_draw,
    read_event,
    weigh,
)
from unojax.belief.particles.ledger import Ledger
from unojax.belief.particles.lockstep_work import KEY_ANEW, KEY_DRAW, MOST_DRAWN, MOST_OPEN, MOVES_AT_A_TIME, Facts
from unojax.belief.particles.past import most_blocks, num_blocks
from unojax.device import random_bits
from unojax.device.batching import Agenda
from unojax.observation import Observation

SLOTS: Final = 64
"""Slots that nearly all games have at most: in uniform play all but one in two hundred."""
LANES: Final = {
    "play": 3 * 2**17,
    "long_play": 2**13,
    "no_play": 2**17,
    "own_draw": 3 * 2**16,
    "more_own_draws": 5 * 2**13,
    "likelihood": 2**20,
    "moves": 2**17,
    "more_moves": 2**14,
    "public_cards": 2**19,
    "opponent_draw": 2**18,
    "reset": 2**13,
    "new_hand": 2**13,
}
"""Particles that are worked on at a time; "long" and "more" also those of games with more slots than `SLOTS`.

So many that a device is full and those of a thousand games in uniform play are done at one go; fewer where few games need it.
"""
BLOCK_LANES: Final = {"likelihood": 5 * 2**19, "moves": 2**19, "more_moves": 2**17}
"""Blocks of plays that are worked on at a time, times particles."""
_State = TypeVar("_State")


def update_games(
    beliefs: Belief,
    before: Observation,
    action: Array,
    after: Observation,
    keys: Array,
    *,
    opponent: Opponent,
    ess_threshold: float,
    num_moves: int,
) -> tuple[Belief, Info]:
    """Do what `belief_update` does for G games; all arguments have a leading axis G."""
    num_games, num_particles = beliefs.log_weights.shape
    facts = jax.vmap(read_facts)(beliefs, before, action, after, keys)
    event, book = facts.event, facts.new
    max_slots, max_plays = beliefs.ledger.epoch.shape[-1], beliefs.ledger.plays.action.shape[-1]
    chunks = chunks_for(num_games, num_particles, max_slots, max_plays)
    blocks = jax.vmap(partial(num_blocks, rules=beliefs.rules))(book)

    def do(agenda: Agenda, name: str, work: Callable[..., _State], state: _State) -> _State:
        return agenda.do(name, chunks[name].games, work, state)

    def do_blocks(agenda: Agenda, name: str, work: Callable[..., _State], state: _State) -> _State:
        games, room = chunks[name]
        return agenda.do(name, games, partial(work, num_blocks=room), state, blocks, room)

    agenda, long = Agenda(due_repairs(facts, max_slots), num_games), is_long(facts, max_slots)
    few, none = min(SLOTS, max_slots), jnp.zeros_like(book.num_slots)
    tables = lockstep_work.tables_of(beliefs)
    play = partial(lockstep_work.repair_play, facts=facts)
    tables = do(agenda, "play", partial(play, slots=few), tables)
    tables = do(agenda, "long_play", partial(play, slots=max_slots), tables)
    tables = do(agenda, "no_play", partial(lockstep_work.repair_no_play, facts=facts), tables)
    tables = do(agenda, "public_cards", partial(lockstep_work.move_public_cards, facts=facts), tables)
    draw = partial(lockstep_work.draw_cards, facts=facts)
    drawn = {"num_slots": facts.old.num_slots, "number": drawn_by_opponent(facts)}
    tables = do(agenda, "opponent_draw", partial(draw, key=KEY_DRAW, **drawn), tables)
    own_draw = partial(lockstep_work.repair_own_draw, facts=facts)
    tables = do(agenda, "own_draw", partial(own_draw, slots=few, begun=none), tables)
    tables = do(agenda, "more_own_draws", partial(own_draw, slots=max_slots, begun=(~long).astype(jnp.int32)), tables)
    tables = do_blocks(agenda, "likelihood", partial(lockstep_work.replay, facts=facts, opponent=opponent), tables)

    outgrown = (book.num_slots > max_slots) | (book.num_plays >= max_plays)
    weighed = jax.vmap(partial(weigh, ess_threshold=ess_threshold))(
        beliefs, event, tables.log_increment, facts.log_constant, tables.log_likelihood, outgrown
    )
    moves_due = jax.vmap(partial(num_rounds, num_particles=num_particles, num_moves=num_moves))(weighed)
    hand_count = after.opponent_count.astype(jnp.int32)
    agenda = Agenda(due_moves(weighed, moves_due, hand_count, long), num_games)
    log_types, after_event = beliefs.log_types, tables.log_likelihood
    move = partial(
        lockstep_work.make_moves,
        facts=facts,
        weights=weighed.log_weights,
        moves_due=moves_due,
        hand_count=hand_count,
        opponent=opponent,
        log_types=log_types,
    )
    first_moves = partial(move, slots=few, begun=none)
    # Zeros that are made in the kernel which makes the sizes, and not in one of their own.
    unmoved = jnp.minimum(weighed.ess, 0.0)
    state = do_blocks(agenda, "moves", first_moves, (tables, unmoved))
    more_moves = partial(move, slots=max_slots, begun=(~long).astype(jnp.int32))
    tables, acceptance = do_blocks(agenda, "more_moves", more_moves, state)
    # Rare: begun anew from the position alone.
    tables, book = do(agenda, "reset", partial(lockstep_work.reset, seen=after), (tables, book))
    tables = do(agenda, "new_hand", partial(draw, key=KEY_ANEW, num_slots=none, number=hand_count), tables)

    if log_types is not None:
        found = cast(Array, jax.vmap(known_types)(beliefs, weighed, after_event))
        log_types = jnp.where(weighed.restarted[:, None], found, log_types)
    even = resample.uniform_log_weights(num_particles)
    is_even = weighed.resampled | weighed.restarted
    updated = Belief(
        log_weights=jnp.where(is_even[:, None], even, weighed.log_weights),
        log_likelihood=tables.log_likelihood,
        cloud=lockstep_work.cloud_of(tables),
        ledger=book,
        rules=beliefs.rules,
        log_types=log_types,
    )
    return updated, Info(
        ess=weighed.ess,
        log_evidence=weighed.log_evidence,
        depleted=weighed.depleted,
        restarted=weighed.restarted,
        resampled=weighed.resampled,
        acceptance=acceptance,
        inconsistent=event.inconsistent,
    )


class Chunk(NamedTuple):
    """What is worked on at a time: so many games, and of them as many as have so many blocks of plays together (0: any)."""

    games: int
    blocks: int


def chunks_for(num_games: int, num_particles: int, max_slots: int, max_plays: int) -> dict[str, Chunk]:
    """Choose what is worked on at a time of beliefs with some capacity, by the name of the work."""
    games = {name: max(1, min(num_games, lanes // num_particles)) for name, lanes in LANES.items()}
    most = most_blocks(max_slots, max_plays)
    blocks = {name: max(most, min(most * games[name], lanes // num_particles)) for name, lanes in BLOCK_LANES.items()}
    return {name: Chunk(number, blocks.get(name, 0)) for name, number in games.items()}


def due_repairs(facts: Facts, max_slots: int) -> dict[str, Array]:
    """Tell which games need what of an event, in how many rounds: int32[G] by name."""
    event, moved = facts.event, facts.event.moved
    by_opponent, by_observer = moved & event.by_opponent, moved & ~event.by_opponent
    could_not_play = by_opponent & event.is_draw & (facts.before.penalty == 0)
    # It is the slots still open to what was not played that are gone through.
    num_open = jax.vmap(moves.open_slots)(facts.old, facts.playable).sum(-1, dtype=jnp.int32)
    drawn = jnp.where(by_observer & event.is_draw, facts.drawn.number, 0)
    is_play, long = by_opponent & ~event.is_draw, is_long(facts, max_slots)
    return {
        "play": is_play & ~long,
        "long_play": is_play & long,
        "no_play": jnp.where(could_not_play, jnp.maximum(num_rounds_of(num_open, MOST_OPEN), 1), 0),
        "public_cards": facts.reshuffles | (by_observer & ~event.is_draw),
        "opponent_draw": num_rounds_of(drawn_by_opponent(facts), MOST_DRAWN),
        # Few games draw more than one card, but all would wait for them.
        "own_draw": (drawn > 0) & ~long,
        "more_own_draws": jnp.where(long, drawn, jnp.maximum(drawn - 1, 0)),
        "likelihood": event.may_change_likelihood,
    }


def num_rounds_of(number: Array, at_a_time: int) -> Array:
    """Count the rounds in which so many things are done a few at a time: int32[...]."""
    return (number + (at_a_time - 1)) // at_a_time


def drawn_by_opponent(facts: Facts) -> Array:
    """Count the cards that each opponent draws: int32[G]."""
    is_draw = facts.event.moved & facts.event.by_opponent & facts.event.is_draw
    return jnp.where(is_draw, facts.new.num_slots - facts.old.num_slots, 0)


def is_long(facts: Facts, max_slots: int) -> Array:
    """Tell which games have more than `SLOTS` slots, unless all may: bool[G]."""
    return (facts.new.num_slots > SLOTS) & (max_slots > SLOTS)


def due_moves(weighed: Weighing, moves_due: Array, hand_count: Array, long: Array) -> dict[str, Array]:
    """Tell which games are resampled and moved, or begun anew, in how many rounds: int32[G] by name."""
    rounds = jnp.where(weighed.resampled, jnp.maximum(num_rounds_of(moves_due, MOVES_AT_A_TIME), 1), 0)
    return {
        "moves": (rounds > 0) & ~long,
        "more_moves": jnp.where(long, rounds, jnp.maximum(rounds - 1, 0)),
        "reset": weighed.restarted,
        "new_hand": jnp.where(weighed.restarted, num_rounds_of(hand_count, MOST_DRAWN), 0),
    }


def read_facts(belief: Belief, before: Observation, action: Array, after: Observation, key: Array) -> Facts:
    """Work out all that is public, for one game."""
    key_event, key_resample, key_move, key_anew = random_bits.split(random_bits.key_words(key), 4)
    key_condition, key_draw = random_bits.split(key_event, 2)
    key_start, key_moves = random_bits.split(key_move, 2)
    event = read_event(belief, before, action, after)
    drawn = own_draw(before, after)
    plays, draws = event.moved & ~event.is_draw, event.moved & event.is_draw
    color, rank = before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32)
    playable = ledger.cards_playable_on(color, rank)
    old = belief.ledger

    could_not_play = draws & event.by_opponent & (before.penalty == 0)
    book = _where(could_not_play, ledger.forbid(old, playable), old)
    reshuffles = draws & history.reshuffled(before, after)
    book = dataclasses.replace(book, num_reshuffles=book.num_reshuffles + reshuffles)
    number = (after.opponent_count - before.opponent_count).astype(jnp.int32)
    book = ledger.add_slots(book, jnp.where(draws & event.by_opponent, number, 0))
    book = _where(plays & event.by_opponent, ledger.record_play(book, before, event.action), book)

    used = key_event, key_condition, key_draw, key_resample, key_moves, key_anew
    index = jnp.arange(before.rules.num_cards)
    own_log_prob = jnp.where(index < drawn.number, drawn.log_prob(index), 0.0).sum() + drawn.log_ways
    log_constant = jnp.where(plays & event.by_opponent, log_num_unseen(before, event), 0.0)
    log_constant = jnp.where(draws & ~event.by_opponent, own_log_prob, log_constant)
    return Facts(
        before=before,
        event=event,
        drawn=drawn,
        playable=playable,
        old=old,
        new=book,
        reshuffles=reshuffles,
        log_constant=log_constant,
        start=first_place(random_bits.wrap(key_start), after.opponent_count.astype(jnp.int32)),
        keys=jax.random.wrap_key_data(jnp.stack([word for key in used for word in key]).reshape(-1, 2), impl="threefry2x32"),
    )


def _where(condition: Array, if_true: Ledger, if_false: Ledger) -> Ledger:
    return jax.tree.map(partial(jnp.where, condition), if_true, if_false)

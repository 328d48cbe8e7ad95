"""The update of many games' beliefs at once, as a GPU likes it: few kernels, each for all particles of many games.

Games that something happened to are gathered, so many at a time as fill the device, worked on together, and put back
(`batching.Agenda`). All loops inside such a piece of work (`lockstep_work`) have a fixed length. The host asks only whether there
is more to do.

Most games are young and have few slots and plays, a few have many. Work whose length they decide is done by size (`SIZES`), on
the first rows of the tables alone. The results are those of `one_game`, but for the rounding of sums of logarithms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar, cast

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
from unojax.belief.particles.lockstep_work import KEY_ANEW, KEY_DRAW, MOVES_AT_A_TIME, Facts, Size
from unojax.belief.particles.past import num_steps
from unojax.device.batching import Agenda
from unojax.observation import Observation

SIZES: Final = (Size(24, 16), Size(72, 64))
"""Sizes below the capacity of the belief. In uniform play three games in four are of the first, one in two hundred of none."""
LANES: Final = {
    "play": (2**18, 3 * 2**15, 2**13),
    "no_play": (3 * 2**15, 3 * 2**14, 2**13),
    "own_draw": (2**17, 2**16, 5 * 2**13),
    "likelihood": (2**19, 3 * 2**16, 2**14),
    "moves": (3 * 2**15, 2**15, 2**13),
    "more_moves": (2**16, 2**15, 2**13),
    "public_cards": (2**19,),
    "opponent_draw": (2**18,),
    "reset": (2**13,),
    "new_hand": (2**13,),
}
"""Particles that are worked on at a time: of games of each of `SIZES` and of larger ones, or of all alike.

So many that a device is full and those of a thousand games in uniform play are done at one go; fewer where few games need it.
"""
MOST_OPEN: Final = 40
"""Slots that could hold a card which the opponent shows not to hold, but in few games, which are taken with the largest."""

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
    sizes = sizes_for(max_slots, max_plays)
    chunks = chunks_for(sizes, num_games, num_particles)

    def do(agenda: Agenda, name: str, work: Callable[..., _State], state: _State) -> _State:
        return agenda.do(name, chunks[name], work, state)

    def by_size(agenda: Agenda, what: str, work: Callable[..., _State], state: _State) -> _State:
        for size in sizes:
            state = do(agenda, f"{what}_of_{size.slots}", partial(work, size=size), state)
        return state

    agenda = Agenda(due_repairs(facts, sizes), num_games)
    tables = lockstep_work.tables_of(beliefs)
    tables = by_size(agenda, "play", partial(lockstep_work.repair_play, facts=facts), tables)
    tables = by_size(agenda, "no_play", partial(lockstep_work.repair_no_play, facts=facts, most_open=MOST_OPEN), tables)
    tables = do(agenda, "public_cards", partial(lockstep_work.move_public_cards, facts=facts), tables)
    draw = partial(lockstep_work.draw_card, keys=facts.keys[:, KEY_DRAW], num_slots=facts.old.num_slots)
    tables = do(agenda, "opponent_draw", draw, tables)
    tables = by_size(agenda, "own_draw", partial(lockstep_work.repair_own_draw, facts=facts), tables)
    tables = by_size(agenda, "likelihood", partial(lockstep_work.replay, facts=facts, opponent=opponent), tables)

    outgrown = (book.num_slots > max_slots) | (book.num_plays >= max_plays)
    weighed = jax.vmap(partial(weigh, ess_threshold=ess_threshold))(
        beliefs, event, tables.log_increment, facts.log_constant, tables.log_likelihood, outgrown
    )
    moves_due = jax.vmap(partial(num_rounds, num_particles=num_particles, num_moves=num_moves))(weighed)
    hand_count = after.opponent_count.astype(jnp.int32)
    agenda = Agenda(due_moves(weighed, moves_due, facts, hand_count, sizes), num_games)
    log_types, after_event = beliefs.log_types, tables.log_likelihood
    move = partial(
        lockstep_work.make_moves,
        facts=facts,
        moves_due=moves_due,
        hand_count=hand_count,
        opponent=opponent,
        log_types=log_types,
    )
    first_moves = partial(move, weights=weighed.log_weights)
    state = by_size(agenda, "moves", first_moves, (tables, jnp.zeros(num_games)))
    tables, changed = by_size(agenda, "more_moves", partial(move, weights=None), state)
    # Rare: begun anew from the position alone.
    tables = do(agenda, "reset", partial(lockstep_work.reset, seen=after), tables)
    draw = partial(lockstep_work.draw_card, keys=facts.keys[:, KEY_ANEW], num_slots=jnp.zeros_like(hand_count))
    tables = do(agenda, "new_hand", draw, tables)
    empty = ledger.empty(max_slots=max_slots, max_plays=max_plays)
    book = jax.vmap(lambda where, number, book: _where(where, ledger.add_slots(empty, number), book))(
        weighed.restarted, hand_count, book
    )

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
        acceptance=changed / jnp.maximum(moves_due, 1).astype(jnp.float32),
        inconsistent=event.inconsistent,
    )


def sizes_for(max_slots: int, max_plays: int) -> tuple[Size, ...]:
    """List the sizes of games of beliefs with some capacity, the last one of which has room for every game."""
    largest = Size(max_slots, max_plays + (max_slots + 1) // 2)
    return (*(s for s in SIZES if s.slots < max_slots and s.steps < max_plays), largest)


def chunks_for(sizes: tuple[Size, ...], num_games: int, num_particles: int) -> dict[str, int]:
    """Choose how many games of a batch are worked on at a time, by the name of the work."""
    lanes = {}
    for what, numbers in LANES.items():
        named = zip(sizes, numbers[-len(sizes) :], strict=True) if len(numbers) > 1 else ()
        lanes |= {f"{what}_of_{size.slots}": number for size, number in named} or {what: numbers[0]}
    return {name: max(1, min(num_games, number // num_particles)) for name, number in lanes.items()}


def due_repairs(facts: Facts, sizes: tuple[Size, ...]) -> dict[str, Array]:
    """Tell which games need what of an event, in how many rounds: int32[G] by name."""
    event, moved = facts.event, facts.event.moved
    by_opponent, by_observer = moved & event.by_opponent, moved & ~event.by_opponent
    could_not_play = by_opponent & event.is_draw & (facts.before.penalty == 0)
    # It is the slots still open to what was not played that are gone through.
    has_many = jax.vmap(moves.open_slots)(facts.old, facts.playable).sum(-1) > MOST_OPEN
    drawn = jnp.where(by_observer & event.is_draw, facts.drawn.number, 0)
    marks = _mark_sizes(sizes, facts)
    return {
        "public_cards": facts.reshuffles | (by_observer & ~event.is_draw),
        "opponent_draw": jnp.where(by_opponent & event.is_draw, facts.new.num_slots - facts.old.num_slots, 0),
        **_of_each_size("play", by_opponent & ~event.is_draw, sizes, marks),
        **_of_each_size("no_play", could_not_play, sizes, _moved_up(marks, has_many, to=len(sizes) - 1)),
        # Few games draw more than one card, but all of a size would wait for them.
        **_of_each_size("own_draw", drawn, sizes, _moved_up(marks, drawn > 1, to=len(sizes) - 1)),
        **_of_each_size("likelihood", event.may_change_likelihood, sizes, marks),
    }


def due_moves(weighed: Weighing, moves_due: Array, facts: Facts, hand_count: Array, sizes: tuple[Size, ...]) -> dict[str, Array]:
    """Tell which games are resampled and moved, or begun anew, in how many rounds: int32[G] by name."""
    marks = _mark_sizes(sizes, facts)
    more = jnp.maximum((moves_due + MOVES_AT_A_TIME - 1) // MOVES_AT_A_TIME - 1, 0)
    return {
        **_of_each_size("moves", weighed.resampled, sizes, marks),
        **_of_each_size("more_moves", more, sizes, _moved_up(marks, more > 1, to=min(1, len(sizes) - 1))),
        "reset": weighed.restarted,
        "new_hand": jnp.where(weighed.restarted, hand_count, 0),
    }


def _moved_up(marks: list[Array], where: Array, *, to: int) -> list[Array]:
    """Count some of the games of smaller sizes (bool[G]) among those of size number `to`."""
    moved = where & jnp.stack([*marks[:to], jnp.zeros_like(where)]).any(0)
    return [*(mark & ~where for mark in marks[:to]), marks[to] | moved, *marks[to + 1 :]]


def _of_each_size(name: str, rounds: Array, sizes: tuple[Size, ...], marks: list[Array]) -> dict[str, Array]:
    return {f"{name}_of_{size.slots}": jnp.where(mark, rounds, 0) for size, mark in zip(sizes, marks, strict=True)}


def _mark_sizes(sizes: tuple[Size, ...], facts: Facts) -> list[Array]:
    """Mark the games of each size: bool[G] each."""
    books = facts.new
    steps = jax.vmap(partial(num_steps, rules=facts.before.rules))(books)
    left, marks = jnp.ones(steps.shape, bool), []
    for size in sizes[:-1]:
        fits = (books.num_slots <= size.slots) & (steps <= size.steps) & (books.num_plays < size.steps)
        marks.append(left & fits)
        left &= ~fits
    return [*marks, left]


def read_facts(belief: Belief, before: Observation, action: Array, after: Observation, key: Array) -> Facts:
    """Work out all that is public, for one game."""
    key_event, key_resample, key_move, key_anew = jax.random.split(key, 4)
    key_condition, key_draw = jax.random.split(key_event)
    key_start, key_moves = jax.random.split(key_move)
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
        start=first_place(key_start, after.opponent_count.astype(jnp.int32)),
        keys=jnp.stack([key_event, key_condition, key_draw, key_resample, key_moves, key_anew]),
    )


def _where(condition: Array, if_true: Ledger, if_false: Ledger) -> Ledger:
    return jax.tree.map(partial(jnp.where, condition), if_true, if_false)

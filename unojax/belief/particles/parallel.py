"""The GPU interpreter of the filter's stages: all games of a batch together, in few kernels for all their particles.

It gathers games with a due stage, as many as fill the device, works on them in loops of fixed length, and writes them back
(`batching.Agenda`). Stages over slots process the many young games on the first rows of the tables alone (`SHORT`), and
likelihoods process the records in one row of blocks (`schedule`). `serial` gives the same particles, and the same weights but for
rounding.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from unojax.belief import resample
from unojax.belief.particles import proposals, schedule
from unojax.belief.particles.belief import Belief, Info, reinitialised
from unojax.belief.particles.likelihood import LogLikelihood
from unojax.belief.particles.public import PublicHistory
from unojax.belief.particles.rows import PARALLEL
from unojax.belief.particles.stages import STAGES, Stage, Transition, read_transition, stages_of
from unojax.belief.particles.trajectory import RELEASED, Trajectories, random_of_round
from unojax.belief.particles.weighing import (
    REINITIALISATION,
    REJUVENATION,
    Options,
    conditioned,
    known_types,
    latest_likelihood,
    num_moves_due,
    places_to_move,
    weigh,
    without_impossible,
)
from unojax.device import control
from unojax.device.batching import Agenda, put_rows, take_part, take_rows
from unojax.device.random_bits import threefry_words, uniform_of
from unojax.observation import Observation
from unojax.rules import Rules

SHORT: Final = 64
"""Number of slots that suffices for nearly all games: in uniform play all but one in two hundred."""
LANES: Final = {
    "rejuvenation": 3 * 2**16,
    "last rejuvenation": 2**16,
    "likelihood": 3 * 2**18,
    "reset": 2**13,
    "more": 2**15,
}
"""Particles that a GPU works on at a time, besides those of `Stage.lanes`; "more" are the stages of games with many slots, and
later rounds."""
BLOCK_SHARES: Final = {"likelihood": 1 / 13, "rejuvenation": 1 / 9, "last rejuvenation": 1 / 12}
"""Blocks of records that a GPU works on at a time, as a share of the most that the games of a chunk can have."""
MOVES_AT_A_TIME: Final = 8
"""Rejuvenation moves between two checks for games that need more."""


class Work(NamedTuple):
    """Particles of games during an update.

    Attributes:
        now: Trajectories.
        log_increment: float32[N] nats, log weights of the proposals so far.
        random: uint32[N] a random word for each particle.
    """

    now: Trajectories
    log_increment: Array
    random: Array


def update_games(
    beliefs: Belief, before: Observation, action: Array, after: Observation, keys: Array, options: Options
) -> tuple[Belief, Info]:
    """Update the beliefs of G games together; all arguments have a leading axis G, otherwise as in `update_game`."""
    num_games, num_particles = beliefs.log_weights.shape
    rules, log_types = beliefs.rules, beliefs.log_types

    def read(belief: Belief, before: Observation, action: Array, after: Observation, key: Array) -> tuple[Transition, Array]:
        words = (key[0], key[1])
        return read_transition(belief, before, action, after, words), threefry_words(words, num_particles)[0]

    of, random = jax.vmap(read)(beliefs, before, action, after, keys)
    history, max_slots = of.new, of.new.max_slots
    short, stages = min(SHORT, max_slots), stages_of(rules)
    later = (~is_long(history)).astype(jnp.int32)
    chunks = chunks_for(num_games, num_particles, max_slots, history.max_records)
    agenda = Agenda(due_stages(of, rules), num_games)

    work = Work(beliefs.trajectories, jnp.zeros_like(beliefs.log_weights), random)
    for number, stage in stages:
        parts = [(stage.name, short, None), (f"more {stage.name}", max_slots, later)]
        for name, slots, begun in parts if stage.visits_slots else [(stage.name, max_slots, None)]:
            task = partial(_work_on, stage=stage, number=number, of=of, slots=slots, begun=begun)
            work = agenda.do(name, chunks[name].games, task, work)

    # Rejuvenation changes no hand from before these slots were filled, so it replays the later records only; or all, if the
    # likelihood of the earlier ones alone is unknown.
    since = jnp.where(of.changes_likelihood, oldest_live_slots(work.now), 0)

    def replay(index: Array, at: Array, state: tuple[LogLikelihood, LogLikelihood]) -> tuple[LogLikelihood, LogLikelihood]:
        part, wanted = take_rows(history, at), at < num_games
        past = schedule.past_of(work.now, at, part, jnp.zeros_like(at), rules, wanted, chunks["likelihood"].blocks)
        seen, split = take_rows((before, since), at)
        early, late = schedule.log_likelihoods(past, work.now, part, options.opponent, seen, split=split)
        return jax.tree.map(lambda rows, new: put_rows(rows, at, new), state, (early, early.plus(late)))

    latest = jax.vmap(latest_likelihood)(beliefs)
    log_liks = jax.tree.map(jnp.zeros_like, latest), latest
    blocks = jax.vmap(schedule.num_blocks)(history, jnp.zeros_like(since))
    log_liks = agenda.do("likelihood", chunks["likelihood"].games, replay, log_liks, blocks, chunks["likelihood"].blocks)
    log_lik = log_liks[1]
    log_weights, info = jax.vmap(partial(weigh, options=options))(beliefs, of, work.log_increment, log_lik.softened)
    moves_due = jax.vmap(partial(num_moves_due, num_particles=num_particles, num_moves=options.num_moves))(info)
    agenda = Agenda({"rejuvenation": due_moves(info, moves_due)}, num_games)
    blocks = jax.vmap(schedule.num_blocks)(history, since)
    ancestors = jax.vmap(lambda words, log_weights: resample.systematic(uniform_of(words[0]), log_weights))(of.words, log_weights)
    # Make these zeros in the kernel that makes the sizes, instead of a separate one.
    state = (work.now, *log_liks, jnp.minimum(info.ess, 0.0))
    # Few games need more than the first visit, so the last visits are in smaller chunks.
    for name, leave in (("rejuvenation", chunks["last rejuvenation"].games), ("last rejuvenation", 0)):
        chunk = chunks[name]
        move = partial(
            _move_games,
            num_blocks=chunk.blocks,
            of=of,
            random=random,
            ancestors=ancestors,
            since=since,
            moves_due=moves_due,
            log_types=log_types,
            options=options,
        )
        with jax.named_scope(name):
            state = agenda.do("rejuvenation", chunk.games, move, state, blocks, chunk.blocks, leave)
    now, _, moved_lik, acceptance = state

    updated = jax.vmap(conditioned)(beliefs, of, after, info, log_weights, now, moved_lik.softened)
    if rules.tells_of_hands:
        updated, info = jax.vmap(without_impossible)(beliefs, updated, info, moved_lik.strict)
    # Rare: reinitialised from the position alone.
    agenda = Agenda({"reset": info.restarted}, num_games)
    known = jax.vmap(known_types)(beliefs, info, log_weights, log_lik.softened)
    restart = partial(_restart_games, after=after, random=random, log_types=known)
    return agenda.do("reset", chunks["reset"].games, restart, updated), info._replace(acceptance=acceptance)


def is_long(histories: PublicHistory) -> Array:
    """Return which games have more than `SHORT` slots: bool[G]."""
    return (histories.num_slots > SHORT) & (histories.max_slots > SHORT)


def due_stages(of: Transition, rules: Rules) -> dict[str, Array]:
    """Return the number of visits that each of G games needs, by the name of the work: int32[G]."""
    long, due = is_long(of.new), {}
    for _, stage in stages_of(rules):
        visits = -(-jax.vmap(stage.rounds)(of).astype(jnp.int32) // stage.at_a_time)
        if stage.visits_slots:
            # Few games have many slots or need more than the first visit, but all would wait for them.
            due[stage.name] = jnp.where(long, 0, jnp.minimum(visits, 1))
            due[f"more {stage.name}"] = visits - due[stage.name]
        else:
            due[stage.name] = visits
    return due | {"likelihood": of.changes_likelihood.astype(jnp.int32)}


def due_moves(info: Info, moves_due: Array) -> Array:
    """Return the number of rejuvenation visits that each of G games needs, the first of which also resamples: int32[G]."""
    return jnp.where(info.resampled, jnp.maximum(-(-moves_due // MOVES_AT_A_TIME), 1), 0)


def oldest_live_slots(now: Trajectories) -> Array:
    """Return the first slot of each game that is live in some particle: int32[G]."""
    return (now.labels < RELEASED).any(-1).argmax(-1).astype(jnp.int32)


class Chunk(NamedTuple):
    """Unit of work of a GPU: a number of games, or as many of them as have at most a number of blocks of records (0: any)."""

    games: int
    blocks: int


def chunks_for(num_games: int, num_particles: int, max_slots: int, max_records: int) -> dict[str, Chunk]:
    """Return the GPU's units of work for beliefs with some capacity, by the name of the work."""
    lanes = {stage.name: stage.lanes for stage in STAGES} | {f"more {stage.name}": LANES["more"] for stage in STAGES} | LANES
    games = {name: max(1, min(num_games, number // num_particles)) for name, number in lanes.items()}
    most = schedule.most_blocks(max_slots, max_records)
    blocks = {name: max(most, int(share * most * games[name])) for name, share in BLOCK_SHARES.items()}
    return {name: Chunk(number, blocks.get(name, 0)) for name, number in games.items()}


def _take(now: Trajectories, at: Array, slots: int) -> Trajectories:
    """Take the particles of some games, with the first few slots."""
    return take_rows(now._replace(labels=()), at)._replace(labels=take_part(now.labels, at, slots))


def _cut(history: PublicHistory, slots: int) -> PublicHistory:
    """Keep the first few slots of histories."""
    return dataclasses.replace(history, allowed=history.allowed[:, :, :slots], recent=history.recent[:, :slots])


def _work_on(
    index: Array, at: Array, work: Work, *, stage: Stage, number: int, of: Transition, slots: int, begun: Array | None
) -> Work:
    """Run some rounds of a stage on the particles of some games, on the first few slots; or the next, after `begun` visits."""
    games, random, log_increment = take_rows((of, work.random, work.log_increment), at)
    games = games._replace(old=_cut(games.old, slots), new=_cut(games.new, slots), forbidden=games.forbidden[:, :, :slots])

    step = PARALLEL.at_a_time if stage.by_slot else 1
    visits = jnp.broadcast_to(index, at.shape) if begun is None else index + take_rows(begun, at)

    def one_game(
        of: Transition, visit: Array, random: Array, now: Trajectories, log_increment: Array
    ) -> tuple[Trajectories, Array]:
        def one_round(i: Array | int, carry: tuple[Trajectories, Array]) -> tuple[Trajectories, Array]:
            now, log_increment = carry
            number_of_round = stage.at_a_time * visit + step * i
            random_here = random_of_round(random, number, stage.stream(number_of_round))
            now, log_weight = stage.apply(PARALLEL, of, number_of_round, random_here, now)
            return now, log_increment + log_weight

        # A few rounds are one kernel; more need a loop.
        rounds = stage.at_a_time // step
        return control.fori_loop(0, rounds, one_round, (now, log_increment), unroll=rounds if rounds <= 4 else 1)

    after, log_increment = jax.vmap(one_game)(games, visits, random, _take(work.now, at, slots), log_increment)
    written = {name: put_rows(getattr(work.now, name), at, getattr(after, name)) for name in stage.writes}
    return work._replace(now=work.now._replace(**written), log_increment=put_rows(work.log_increment, at, log_increment))


def _move_games(
    index: Array,
    at: Array,
    state: tuple[Trajectories, LogLikelihood, LogLikelihood, Array],
    *,
    num_blocks: int,
    of: Transition,
    random: Array,
    ancestors: Array,
    since: Array,
    moves_due: Array,
    log_types: Array | None,
    options: Options,
) -> tuple[Trajectories, LogLikelihood, LogLikelihood, Array]:
    """Resample the particles of some games and make the first few rejuvenation moves; or on a later visit the next ones.

    `state` has the tables, the log likelihoods of the records from before the slots `since` were filled and of all records, and
    the mean share of particles that a move changed.
    """
    *tables, changed = state
    rows = take_rows(tables, at)
    games, ancestors, since, types = take_rows((of, ancestors, since, log_types), at)
    random, moves_due, so_far = take_rows((random, moves_due, changed), at)
    history, like, rules = games.new, games.before, of.before.rules

    def resampled(ancestors: Array, rows: Any) -> Any:
        ancestors = jnp.where(index == 0, ancestors, jnp.arange(len(ancestors)))
        return jax.tree.map(lambda rows: rows.at[..., ancestors].get(mode="promise_in_bounds"), rows)

    def to_move(now: Trajectories, history: PublicHistory, of: Transition, moves_due: Array) -> Array:
        """Return the slots uint16[..., N] of the moves."""
        number = MOVES_AT_A_TIME * index + jnp.arange(MOVES_AT_A_TIME)
        # No hand has a card at an index beyond all slots, so games that have finished their moves stay unchanged.
        places = jnp.where(number < moves_due, places_to_move(of)(number), history.max_slots)
        # Cards swap among the slots that hold one; the set of these slots stays the same.
        return jax.vmap(partial(PARALLEL.nth_live, history, now.labels))(places)

    now, early, log_lik = jax.vmap(resampled)(ancestors, rows)
    slots = jax.vmap(to_move)(now, history, games, moves_due)
    past = schedule.past_of(now, jnp.arange(len(at)), history, since, rules, at < len(changed), num_blocks)

    def move(number: Array, carry: tuple[Trajectories, schedule.Past, LogLikelihood, Array]) -> Any:
        now, past, log_lik, changes = carry
        random_here = random_of_round(random, REJUVENATION, MOVES_AT_A_TIME * index + number)
        proposal = jax.vmap(partial(proposals.propose, PARALLEL))(random_here, now, history, slots[:, number])
        [late] = schedule.log_likelihoods(past, now, history, options.opponent, like, proposal.exchange)
        accept = jax.vmap(partial(proposals.accept, PARALLEL))
        now, log_lik, accepted = accept(now, history, proposal, log_lik, early.plus(late), types)
        past = schedule.exchanged(past, history, proposal.exchange, accepted)
        return now, past, log_lik, changes + accepted.astype(jnp.uint8)

    first = (now, past, log_lik, jnp.zeros(random.shape, jnp.uint8))
    now, _, log_lik, changes = control.fori_loop(0, MOVES_AT_A_TIME, move, first)
    tables = jax.tree.map(lambda rows, new: put_rows(rows, at, new), tables, [now, early, log_lik])
    share = changes.mean(-1, dtype=jnp.float32) / jnp.maximum(moves_due, 1).astype(jnp.float32)
    return *tables, put_rows(changed, at, so_far + share)


def _restart_games(
    index: Array, at: Array, beliefs: Belief, *, after: Observation, random: Array, log_types: Array | None
) -> Belief:
    """Reinitialise the beliefs of some games at an observation."""
    some, seen, random, types = take_rows((beliefs, after, random, log_types), at)

    def restart(belief: Belief, seen: Observation, random: Array, types: Array | None) -> Belief:
        return reinitialised(PARALLEL, random, REINITIALISATION, belief, seen, types)

    restarted = jax.vmap(restart)(some, seen, random, types)
    return jax.tree.map(lambda rows, new: put_rows(rows, at, new), beliefs, restarted)

"""The two interpreters of the filter's stages: `update_game` for a CPU, `update_games` for a GPU.

`update_game` takes one game through its stages, with branches and loops as that game needs them. The particles of one game are
enough to keep a CPU's vector units busy, and stay in its cache.

`update_games` takes the games of a batch together, as suits a GPU: few kernels, each for all particles of many games. Games for
which a stage is due are gathered, as many at a time as fill the device, worked on in loops of fixed length, and put back
(`batching.Agenda`). The host asks only whether there is more to do. Most games are young and have few slots and records: stages
that go through the slots take most games on the first rows of the tables alone (`SHORT`), and likelihoods go through the records
in one row of blocks (`schedule`).

Both give the same particles, and weights that differ by the rounding of sums of logarithms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits
from unojax.belief import history as reading
from unojax.belief import resample
from unojax.belief.opponents import Opponent
from unojax.belief.particles import proposals, schedule
from unojax.belief.particles.belief import Belief, Info, before_the_draw, public_start, report, start_target
from unojax.belief.particles.likelihood import Exchange, has_facts, log_joint, log_likelihood, log_type_probs, mixed
from unojax.belief.particles.public import PublicHistory
from unojax.belief.particles.rows import GROUP, PARALLEL, SERIAL, num_groups
from unojax.belief.particles.stages import (
    STAGES,
    Stage,
    Transition,
    Work,
    most_records_per_step,
    random_of_round,
    random_words,
    read_transition,
    stages_of,
)
from unojax.belief.particles.trajectory import Trajectories
from unojax.device import control
from unojax.device.batching import Agenda, put_rows, take_part, take_rows
from unojax.device.tracing import compiled_apart
from unojax.observation import Observation
from unojax.rules import Rules

SHORT: Final = 64
"""Slots that nearly all games have at most: in uniform play all but one in two hundred."""
LANES: Final = {"rejuvenation": 2**17, "long rejuvenation": 2**14, "likelihood": 2**20, "reset": 2**13, "long": 2**13}
"""Particles that a GPU works on at a time, besides those of `Stage.lanes`; "long" are the stages of games with many slots.

So many that a device is full and the particles of a thousand games in uniform play are done at one go; fewer where few games need
it.
"""
BLOCK_LANES: Final = {"likelihood": 5 * 2**19, "rejuvenation": 2**19, "long rejuvenation": 2**17}
"""Blocks of records that a GPU works on at a time, times particles."""
MOVES_AT_A_TIME: Final = 12
"""Rejuvenation moves between two looks at which games need more."""
MOST_ROUNDS: Final = 4.0
"""At most so many times more rejuvenation moves are made when the effective sample size was very low."""

_REJUVENATION, _REINITIALISATION = len(STAGES), len(STAGES) + 1
"""Numbers of these stages; see `random_of_round`."""
_State = TypeVar("_State")


class Options(NamedTuple):
    """Static options of an update; see `belief_update`."""

    opponent: Opponent
    ess_threshold: float
    num_moves: int


class Weighing(NamedTuple):
    """Weights after a transition, and what follows from them; `Info` says what the fields are."""

    log_weights: Array
    ess: Array
    log_evidence: Array
    depleted: Array
    restarted: Array
    resampled: Array


def update_game(
    belief: Belief, before: Observation, action: Array, after: Observation, key: Array, options: Options
) -> tuple[Belief, Info]:
    """Update the belief of one game; `key` uint32[2], else as `belief_update`."""
    words, rules, num_particles = (key[0], key[1]), belief.rules, belief.num_particles
    of = compiled_apart(read_transition)(belief, before, action, after, words)
    random = random_words(words, num_particles)
    now, log_increment = belief.trajectories, jnp.zeros_like(belief.log_weights)
    for number, stage in stages_of(rules):
        now, log_increment = _run(stage, number, of, random, now, log_increment)
    likelihood = partial(log_likelihood, history=of.new, opponent=options.opponent, like=before)

    def replay(index: Array, log_lik: Array, now: Trajectories = now) -> Array:
        return likelihood(now)

    log_lik = control.fori_loop(0, of.changes_likelihood.astype(jnp.int32), replay, belief.log_likelihood)
    weighing = _weigh(belief, of, log_increment, log_lik, options)
    now, log_lik, acceptance = _rejuvenate(of, weighing, random, now, log_lik, belief.log_types, likelihood, options.num_moves)
    log_weights = jnp.where(weighing.resampled, resample.uniform_log_weights(num_particles), weighing.log_weights)
    target = None if belief.target is None else start_target(log_weights, log_lik, belief.log_types)
    updated = Belief(log_weights, log_lik, now, of.new, _reached(of, belief, after), rules, target, belief.log_types)
    if rules.tells_of_hands:
        strict = partial(likelihood, softened=False)
        log_strict = control.fori_loop(0, has_facts(of.new, rules).astype(jnp.int32), lambda _, log_lik: strict(now), log_lik)
        updated, weighing = _without_impossible(belief, updated, weighing, log_strict)

    def restart(belief: Belief) -> Belief:
        start = before_the_draw(after, num_particles, of.new.max_slots, of.new.max_records)

        def draw(slot: Array, now: Trajectories) -> Trajectories:
            return proposals.draw_unseen(SERIAL, random_of_round(random, _REINITIALISATION, slot), now, of.new, slot)[0]

        now = control.fori_loop(0, after.opponent_count.astype(jnp.int32), draw, start)
        return _reinitialised(belief, now, public_start(after, of.new))

    restarted = control.cond(weighing.restarted, restart, lambda belief: belief, updated)
    if belief.log_types is not None:
        known = _known_types(belief, weighing, log_lik)
        restarted = dataclasses.replace(restarted, log_types=jnp.where(weighing.restarted, known, belief.log_types))
    return restarted, _info(of, weighing, acceptance)


def _run(
    stage: Stage, number: int, of: Transition, random: Array, now: Trajectories, log_increment: Array
) -> tuple[Trajectories, Array]:
    """Run the rounds of a stage that are due; only what it writes is carried along."""

    def one_round(index: Array, carry: tuple[tuple[Array, ...], Array]) -> tuple[tuple[Array, ...], Array]:
        written, log_increment = carry
        current = now._replace(**dict(zip(stage.writes, written, strict=True)))
        random_here = random_of_round(random, number, stage.stream(index))
        after, log_weight = stage.apply(SERIAL, of, index, random_here, current)
        return tuple(getattr(after, name) for name in stage.writes), log_increment + log_weight

    first = tuple(getattr(now, name) for name in stage.writes), log_increment
    written, log_increment = control.fori_loop(0, stage.rounds(of).astype(jnp.int32), one_round, first)
    return now._replace(**dict(zip(stage.writes, written, strict=True))), log_increment


def _rejuvenate(
    of: Transition,
    weighing: Weighing,
    random: Array,
    now: Trajectories,
    log_lik: Array,
    log_types: Array | None,
    likelihood: Callable[..., Array],
    num_moves: int,
) -> tuple[Trajectories, Array, Array]:
    """Resample if due, then make the rejuvenation moves; return the share of particles that a move changed, too."""
    history, num_particles = of.new, len(random)

    # In a branch: XLA would take it out of the loop below, and so do it for each game.
    ancestors = control.cond(
        weighing.resampled,
        lambda: resample.systematic(_uniform(of.words[0]), weighing.log_weights),
        lambda: jnp.arange(num_particles, dtype=jnp.int32),
    )

    def pick(index: Array, carry: tuple[Trajectories, Array]) -> tuple[Trajectories, Array]:
        now, log_lik = carry

        def picked(number: Array, table: Array) -> Array:
            def one_group(group: Array, table: Array) -> Array:
                some = lax.dynamic_slice_in_dim(table, GROUP * group, GROUP)
                some = some.at[:, ancestors].get(mode="promise_in_bounds")
                return lax.dynamic_update_slice_in_dim(table, some, GROUP * group, 0)

            return control.fori_loop(0, num_groups(number), one_group, table)

        hand, deck, own, recycled = (sets.at[:, ancestors].get(mode="promise_in_bounds") for sets in now[:4])
        now = Trajectories(
            hand, deck, own, recycled, picked(history.num_slots, now.labels), picked(history.num_records, now.played)
        )
        return now, log_lik.at[..., ancestors].get(mode="promise_in_bounds")

    now, log_lik = control.fori_loop(0, weighing.resampled.astype(jnp.int32), pick, (now, log_lik))
    rounds, place = num_moves_due(weighing, num_particles, num_moves), _places(of)

    def move(index: Array, carry: tuple[tuple[Array, Array, Array], Array, Array]) -> Any:
        (hand, deck, labels), log_lik, changed = carry
        current = now._replace(hand=hand, deck=deck, labels=labels)
        slot = SERIAL.nth_live(history, labels, place(index))
        proposal = proposals.propose(SERIAL, random_of_round(random, _REJUVENATION, index), current, history, slot)
        proposed = likelihood(current, exchange=proposal.exchange)
        current, log_lik, accepted = proposals.accept(SERIAL, current, history, proposal, log_lik, proposed, log_types)
        return (current.hand, current.deck, current.labels), log_lik, changed + accepted.mean(dtype=jnp.float32)

    first = (now.hand, now.deck, now.labels), log_lik, jnp.float32(0.0)
    (hand, deck, labels), log_lik, changed = control.fori_loop(0, rounds, move, first)
    return now._replace(hand=hand, deck=deck, labels=labels), log_lik, changed / jnp.maximum(rounds, 1).astype(jnp.float32)


def _weigh(belief: Belief, of: Transition, log_increment: Array, log_lik: Array, options: Options) -> Weighing:
    """Weigh the particles of a belief that is as it was before the transition.

    `log_increment` float32[N] are the log weights of the proposals, `log_lik` float32[N] or [K, N] the new likelihoods.
    """
    before, new = belief.target_weights, of.new
    dead = jnp.isneginf(before) | jnp.isneginf(log_increment)
    joint = before + log_increment + mixed(log_lik, belief.log_types) - mixed(belief.log_likelihood, belief.log_types)
    # What is no finite likelihood of an opponent model counts as impossible.
    joint = jnp.where(dead | ~(joint < jnp.inf), -jnp.inf, joint)
    log_weights, log_sum = resample.normalize(joint)
    ess = resample.effective_sample_size(log_weights)
    depleted = jnp.isneginf(log_sum + of.log_constant) & ~of.inconsistent
    # Reinitialised while the last record and the card looked at still fit, so that this update's evidence is right.
    outgrown = new.num_slots > new.max_slots - belief.rules.tells_of_hands
    outgrown |= new.num_records > new.max_records - most_records_per_step(belief.rules)
    restarted = depleted | (outgrown & ~of.inconsistent)
    log_weights = jnp.where(of.inconsistent, before, log_weights)
    # A particle of weight zero may hold an impossible hand; it is not carried over.
    is_due = (ess < options.ess_threshold * belief.num_particles) | jnp.isneginf(log_weights).any()
    return Weighing(
        log_weights=log_weights,
        ess=ess,
        log_evidence=jnp.where(of.inconsistent, 0.0, log_sum + of.log_constant),
        depleted=depleted,
        restarted=restarted,
        resampled=of.moved & ~restarted & is_due,
    )


def _without_impossible(belief: Belief, updated: Belief, weighing: Weighing, log_strict: Array) -> tuple[Belief, Weighing]:
    """Return what a belief reports after its update, and the evidence, without impossible trajectories."""
    reported = report(updated, log_strict)
    assert reported.target is not None and belief.target is not None
    depleted = jnp.isneginf(reported.target.log_possible)
    log_evidence = weighing.log_evidence + jnp.where(
        weighing.depleted, 0.0, reported.target.log_possible - belief.target.log_possible
    )
    return reported, weighing._replace(
        log_evidence=log_evidence, depleted=weighing.depleted | depleted, restarted=weighing.restarted | depleted
    )


def _known_types(belief: Belief, weighing: Weighing, log_lik: Array) -> Array:
    """Return what is known of the opponent's type when a belief is reinitialised: float32[K] nats.

    By the particles after the transition, whose likelihoods are `log_lik`; by those before it if none explains the transition.
    """
    assert belief.log_types is not None
    after = log_joint(weighing.log_weights, log_lik, belief.log_types)
    earlier = log_joint(belief.target_weights, belief.log_likelihood, belief.log_types)
    return log_type_probs(jnp.where(weighing.depleted, earlier, after))


def _reinitialised(belief: Belief, now: Trajectories, history: PublicHistory) -> Belief:
    """Return a belief with new trajectories, all alike."""
    log_lik, log_weights = jnp.zeros_like(belief.log_likelihood), resample.uniform_log_weights(belief.num_particles)
    target = None if belief.target is None else start_target(log_weights, log_lik, belief.log_types)
    return dataclasses.replace(
        belief, log_weights=log_weights, log_likelihood=log_lik, trajectories=now, public=history, target=target
    )


def _reached(of: Transition, belief: Belief, after: Observation) -> Array:
    """Return the fingerprint of the observation that a belief has reached."""
    return jnp.where(of.inconsistent, belief.seen, reading.fingerprint(after))


def num_moves_due(weighing: Weighing, num_particles: int, num_moves: int) -> Array:
    """Return the number of rejuvenation moves: int32[]. The fewer ancestors, the more there is to renew."""
    loss = jnp.clip(0.5 * num_particles / jnp.maximum(weighing.ess, 1.0), 1.0, MOST_ROUNDS)
    return jnp.where(weighing.resampled, jnp.round(num_moves * loss).astype(jnp.int32), 0)


def _places(of: Transition) -> Callable[[Array], Array]:
    """Return the place of the card that a move renews among the live slots, in the order of acquisition.

    Moves that take one place after the other renew a hand faster than moves at random places.
    """
    before = of.before
    live = before.opponent_count.astype(jnp.int32) + of.num_unseen - (of.plays | of.plays_drawn).astype(jnp.int32)
    hand_count = jnp.maximum(live, 1)
    first = bits.uniform_below(of.words[1], hand_count.astype(jnp.uint32)).astype(jnp.int32)
    return lambda index: (first + index) % hand_count


def _uniform(word: Array) -> Array:
    """Return a number uniform in [0, 1) from a random word: float32[]."""
    return (word >> np.uint32(8)).astype(jnp.float32) * np.float32(2.0**-24)


def _info(of: Transition, weighing: Weighing, acceptance: Array) -> Info:
    return Info(
        ess=weighing.ess,
        log_evidence=weighing.log_evidence,
        depleted=weighing.depleted,
        restarted=weighing.restarted,
        resampled=weighing.resampled,
        acceptance=acceptance,
        inconsistent=of.inconsistent,
    )


def update_games(
    beliefs: Belief, before: Observation, action: Array, after: Observation, keys: Array, options: Options
) -> tuple[Belief, Info]:
    """Update the beliefs of G games together; all arguments have a leading axis G, else as `update_game`."""
    num_games, num_particles = beliefs.log_weights.shape
    rules, log_types = beliefs.rules, beliefs.log_types

    def read(belief: Belief, before: Observation, action: Array, after: Observation, key: Array) -> tuple[Transition, Array]:
        words = (key[0], key[1])
        return read_transition(belief, before, action, after, words), random_words(words, num_particles)

    of, random = jax.vmap(read)(beliefs, before, action, after, keys)
    history, max_slots = of.new, of.new.max_slots
    short, stages = min(SHORT, max_slots), stages_of(rules)
    long = is_long(history)
    chunks = chunks_for(num_games, num_particles, max_slots, history.max_records)
    blocks = jax.vmap(partial(schedule.num_blocks, rules=rules))(history)
    agenda = Agenda(due_stages(of, rules), num_games)

    work = Work(beliefs.trajectories, jnp.zeros_like(beliefs.log_weights), random)
    for number, stage in stages:
        parts = [(stage.name, short), (f"long {stage.name}", max_slots)] if stage.visits_slots else [(stage.name, max_slots)]
        for name, slots in parts:
            work = agenda.do(name, chunks[name].games, partial(_work_on, stage=stage, number=number, of=of, slots=slots), work)

    def do_blocks(agenda: Agenda, name: str, task: Callable[..., _State], state: _State) -> _State:
        games, room = chunks[name]
        return agenda.do(name, games, partial(task, num_blocks=room), state, blocks, room)

    def replay(index: Array, at: Array, log_lik: Array, *, num_blocks: int, now: Trajectories, softened: bool = True) -> Array:
        part, wanted = take_rows(history, at), at < num_games
        past = schedule.past_of(now, at, part, rules, wanted, num_blocks)
        like = take_rows(before, at)
        found = schedule.log_likelihoods(past, now, part, options.opponent, like, softened=softened)
        return put_rows(log_lik, at, found)

    log_lik = do_blocks(agenda, "likelihood", partial(replay, now=work.now), beliefs.log_likelihood)
    weighing = jax.vmap(partial(_weigh, options=options))(beliefs, of, work.log_increment, log_lik)
    moves_due = jax.vmap(partial(num_moves_due, num_particles=num_particles, num_moves=options.num_moves))(weighing)
    due = due_moves(weighing, moves_due, long)
    if rules.tells_of_hands:
        due["strict likelihood"] = jax.vmap(partial(has_facts, rules=rules))(history)
    agenda = Agenda(due, num_games)
    move = partial(
        _move_games, of=of, random=random, weighing=weighing, moves_due=moves_due, log_types=log_types, options=options
    )
    # Zeros that are made in the kernel which makes the sizes, and not in one of their own.
    state = (work.now, log_lik, jnp.minimum(weighing.ess, 0.0))
    state = do_blocks(agenda, "rejuvenation", partial(move, slots=short, begun=jnp.zeros_like(moves_due)), state)
    begun = (~long).astype(jnp.int32)
    now, moved_lik, acceptance = do_blocks(agenda, "long rejuvenation", partial(move, slots=max_slots, begun=begun), state)

    even = resample.uniform_log_weights(num_particles)
    log_weights = jnp.where(weighing.resampled[:, None], even, weighing.log_weights)
    target = None
    if rules.tells_of_hands:
        target = jax.vmap(start_target)(log_weights, moved_lik, log_types)
    seen = jax.vmap(_reached)(of, beliefs, after)
    updated = Belief(log_weights, moved_lik, now, history, seen, rules, target, log_types)
    if rules.tells_of_hands:
        chunks["strict likelihood"] = chunks["likelihood"]
        log_strict = do_blocks(agenda, "strict likelihood", partial(replay, now=now, softened=False), moved_lik)
        updated, weighing = jax.vmap(_without_impossible)(beliefs, updated, weighing, log_strict)
    # Rare: reinitialised from the position alone.
    agenda = Agenda({"reset": weighing.restarted}, num_games)
    updated = agenda.do("reset", chunks["reset"].games, partial(_restart_games, after=after, random=random), updated)
    if log_types is not None:
        known = jax.vmap(_known_types)(beliefs, weighing, log_lik)
        updated = dataclasses.replace(updated, log_types=jnp.where(weighing.restarted[:, None], known, log_types))
    return updated, jax.vmap(_info)(of, weighing, acceptance)


def is_long(histories: PublicHistory) -> Array:
    """Return which games have more than `SHORT` slots: bool[G]."""
    return (histories.num_slots > SHORT) & (histories.max_slots > SHORT)


def due_stages(of: Transition, rules: Rules) -> dict[str, Array]:
    """Return how often the particles of each of G games are worked on, by the name of the work: int32[G]."""
    long, due = is_long(of.new), {}
    for _, stage in stages_of(rules):
        visits = -(-jax.vmap(stage.rounds)(of).astype(jnp.int32) // stage.at_a_time)
        due[stage.name] = jnp.where(long, 0, visits) if stage.visits_slots else visits
        if stage.visits_slots:
            due[f"long {stage.name}"] = jnp.where(long, visits, 0)
    return due | {"likelihood": of.changes_likelihood.astype(jnp.int32)}


def due_moves(weighing: Weighing, moves_due: Array, long: Array) -> dict[str, Array]:
    """Return how often each of G games is rejuvenated, by the name of the work: int32[G].

    Few games need more than the first visit, but all would wait for them.
    """
    visits = jnp.where(weighing.resampled, jnp.maximum(-(-moves_due // MOVES_AT_A_TIME), 1), 0)
    return {
        "rejuvenation": jnp.where(long, 0, jnp.minimum(visits, 1)),
        "long rejuvenation": jnp.where(long, visits, jnp.maximum(visits - 1, 0)),
    }


class Chunk(NamedTuple):
    """What a GPU works on at a time: so many games, and of them as many as have so many blocks of records together (0: any)."""

    games: int
    blocks: int


def chunks_for(num_games: int, num_particles: int, max_slots: int, max_records: int) -> dict[str, Chunk]:
    """Return what a GPU works on at a time of beliefs with some capacity, by the name of the work."""
    lanes = {stage.name: stage.lanes for stage in STAGES} | {f"long {stage.name}": LANES["long"] for stage in STAGES} | LANES
    games = {name: max(1, min(num_games, number // num_particles)) for name, number in lanes.items()}
    most = schedule.most_blocks(max_slots, max_records)
    blocks = {name: max(most, min(most * games[name], lanes // num_particles)) for name, lanes in BLOCK_LANES.items()}
    return {name: Chunk(number, blocks.get(name, 0)) for name, number in games.items()}


def _take(now: Trajectories, at: Array, slots: int) -> Trajectories:
    """Take the particles of some games, with the first few slots."""
    return take_rows(now._replace(labels=()), at)._replace(labels=take_part(now.labels, at, slots))


def _cut(history: PublicHistory, slots: int) -> PublicHistory:
    """Keep the first few slots of histories."""
    return dataclasses.replace(history, allowed=history.allowed[:, :, :slots], recent=history.recent[:, :slots])


def _work_on(index: Array, at: Array, work: Work, *, stage: Stage, number: int, of: Transition, slots: int) -> Work:
    """Make some rounds of a stage with the particles of some games, on the first few slots."""
    games, random, log_increment = take_rows((of, work.random, work.log_increment), at)
    games = games._replace(old=_cut(games.old, slots), new=_cut(games.new, slots), forbidden=games.forbidden[:, :, :slots])

    step = PARALLEL.at_a_time if stage.by_slot else 1

    def one_game(of: Transition, random: Array, now: Trajectories, log_increment: Array) -> tuple[Trajectories, Array]:
        def one_round(i: Array | int, carry: tuple[Trajectories, Array]) -> tuple[Trajectories, Array]:
            now, log_increment = carry
            number_of_round = stage.at_a_time * index + step * i
            random_here = random_of_round(random, number, stage.stream(number_of_round))
            now, log_weight = stage.apply(PARALLEL, of, number_of_round, random_here, now)
            return now, log_increment + log_weight

        # A few rounds are one kernel, and more of them a loop.
        rounds = stage.at_a_time // step
        return control.fori_loop(0, rounds, one_round, (now, log_increment), unroll=rounds if rounds <= 4 else 1)

    after, log_increment = jax.vmap(one_game)(games, random, _take(work.now, at, slots), log_increment)
    written = {name: put_rows(getattr(work.now, name), at, getattr(after, name)) for name in stage.writes}
    return work._replace(now=work.now._replace(**written), log_increment=put_rows(work.log_increment, at, log_increment))


def _move_games(
    index: Array,
    at: Array,
    state: tuple[Trajectories, Array, Array],
    *,
    num_blocks: int,
    slots: int,
    begun: Array,
    of: Transition,
    random: Array,
    weighing: Weighing,
    moves_due: Array,
    log_types: Array | None,
    options: Options,
) -> tuple[Trajectories, Array, Array]:
    """Resample the particles of some games and make the first few rejuvenation moves; or the next, after those of `begun`.

    Also add up the share of particles that a move changes, on average.
    """
    tables, all_log_lik, changed = state
    now = _take(tables, at, slots)
    games, log_weights, types, batch = take_rows((of, weighing.log_weights, log_types, begun), at)
    random, log_lik, moves_due, so_far = take_rows((random, all_log_lik, moves_due, changed), at)
    history, like, rules, batch = _cut(games.new, slots), games.before, of.before.rules, batch + index

    def resampled(word: Array, log_weights: Array, batch: Array, rows: Any) -> Any:
        ancestors = resample.systematic(_uniform(word), log_weights)
        ancestors = jnp.where(batch == 0, ancestors, jnp.arange(len(ancestors)))
        return jax.tree.map(lambda rows: rows.at[..., ancestors].get(mode="promise_in_bounds"), rows)

    def to_move(now: Trajectories, history: PublicHistory, of: Transition, batch: Array, moves_due: Array) -> Array:
        """Return the slots uint16[..., N] of the moves."""
        number = MOVES_AT_A_TIME * batch + jnp.arange(MOVES_AT_A_TIME)
        # No hand has a card at a place beyond all slots, so that nothing moves in games that have had their moves.
        places = jnp.where(number < moves_due, _places(of)(number), slots)
        # Cards change places among the slots that hold one, which stay the same.
        return jax.vmap(partial(PARALLEL.nth_live, history, now.labels))(places)

    now, log_lik = jax.vmap(resampled)(games.words[:, 0], log_weights, batch, (now, log_lik))
    moved = jax.vmap(to_move)(now, history, games, batch, moves_due)
    past = schedule.past_of(now, jnp.arange(len(at)), history, rules, at < len(tables.labels), num_blocks)

    def move(number: Array, carry: tuple[Trajectories, schedule.Past, Array, Array]) -> Any:
        now, past, log_lik, changes = carry

        def propose(batch: Array, random: Array, now: Trajectories, history: PublicHistory, slot: Array) -> proposals.Proposal:
            random = random_of_round(random, _REJUVENATION, MOVES_AT_A_TIME * batch + number)
            return proposals.propose(PARALLEL, random, now, history, slot)

        proposal = jax.vmap(propose)(batch, random, now, history, moved[:, number])
        exchange: Exchange = proposal.exchange
        proposed = schedule.log_likelihoods(past, now, history, options.opponent, like, exchange)
        accept = jax.vmap(partial(proposals.accept, PARALLEL))
        now, log_lik, accepted = accept(now, history, proposal, log_lik, proposed, types)
        past = schedule.exchanged(past, history, exchange, accepted)
        return now, past, log_lik, changes + accepted.astype(jnp.uint8)

    first = (now, past, log_lik, jnp.zeros(random.shape, jnp.uint8))
    now, _, log_lik, changes = control.fori_loop(0, MOVES_AT_A_TIME, move, first)
    tables = Trajectories(*(put_rows(table, at, new) for table, new in zip(tables, now, strict=True)))
    share = changes.mean(-1, dtype=jnp.float32) / jnp.maximum(moves_due, 1).astype(jnp.float32)
    return tables, put_rows(all_log_lik, at, log_lik), put_rows(changed, at, so_far + share)


def _restart_games(index: Array, at: Array, beliefs: Belief, *, after: Observation, random: Array) -> Belief:
    """Reinitialise the beliefs of some games at an observation."""
    some, seen, random = take_rows((beliefs, after, random), at)

    def one_game(belief: Belief, seen: Observation, random: Array) -> Belief:
        history = belief.public
        now = before_the_draw(seen, belief.num_particles, history.max_slots, history.max_records)

        def draw(slot: Array, now: Trajectories) -> Trajectories:
            random_here = random_of_round(random, _REINITIALISATION, slot)
            drawn = proposals.draw_unseen(PARALLEL, random_here, now, history, slot)[0]
            return jax.tree.map(partial(jnp.where, slot < seen.opponent_count), drawn, now)

        now = control.fori_loop(0, _most_cards(seen.rules), draw, now)
        return _reinitialised(belief, now, public_start(seen, history))

    restarted = jax.vmap(one_game)(some, seen, random)
    return jax.tree.map(lambda rows, new: put_rows(rows, at, new), beliefs, restarted)


def _most_cards(rules: Rules) -> int:
    return rules.num_cards

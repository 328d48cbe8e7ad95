"""The CPU interpreter of the filter's stages: one game at a time, with that game's branches and loop lengths.

The particles of one game suffice to keep a CPU's vector units busy, and fit in its cache. `parallel`
gives the same particles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from unojax.belief import resample
from unojax.belief.particles import proposals
from unojax.belief.particles.belief import Belief, Info, reinitialised
from unojax.belief.particles.likelihood import LogLikelihood, log_likelihood
from unojax.belief.particles.rows import GROUP, SERIAL, num_groups
from unojax.belief.particles.stages import Stage, Transition, read_transition, stages_of
from unojax.belief.particles.trajectory import Trajectories, random_of_round
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
from unojax.device.random_bits import threefry_words, uniform_of
from unojax.device.tracing import compiled_apart, traced_once
from unojax.observation import Observation


@partial(traced_once, static=("options",))
def update_game(
    belief: Belief, before: Observation, action: Array, after: Observation, key: Array, *, options: Options
) -> tuple[Belief, Info]:
    """Update the belief of one game; `key` uint32[2], other arguments as in `belief_update`."""
    words, rules, num_particles = (key[0], key[1]), belief.rules, belief.num_particles
    of = compiled_apart(read_transition)(belief, before, action, after, words)
    random = threefry_words(words, num_particles)[0]
    now, log_increment = belief.trajectories, jnp.zeros_like(belief.log_weights)
    for number, stage in stages_of(rules):
        now, log_increment = _run(stage, number, of, random, now, log_increment)
    likelihood = partial(log_likelihood, history=of.new, opponent=options.opponent, like=before)

    def replay(index: Array, log_lik: LogLikelihood, now: Trajectories = now) -> LogLikelihood:
        return likelihood(now)

    log_lik = control.fori_loop(0, of.changes_likelihood.astype(jnp.int32), replay, latest_likelihood(belief))
    log_weights, info = weigh(belief, of, log_increment, log_lik.softened, options)
    now, moved_lik, acceptance = _rejuvenate(
        of, log_weights, info, random, now, log_lik, belief.log_types, likelihood, options.num_moves
    )
    updated = conditioned(belief, of, after, info, log_weights, now, moved_lik.softened)
    if rules.tells_of_hands:
        updated, info = without_impossible(belief, updated, info, moved_lik.strict)

    def restart(updated: Belief) -> Belief:
        log_types = known_types(belief, info, log_weights, log_lik.softened)
        return reinitialised(SERIAL, random, REINITIALISATION, updated, after, log_types)

    return control.cond(info.restarted, restart, lambda updated: updated, updated), info._replace(acceptance=acceptance)


def _run(
    stage: Stage, number: int, of: Transition, random: Array, now: Trajectories, log_increment: Array
) -> tuple[Trajectories, Array]:
    """Run the due rounds of a stage; carry only the fields that it writes."""

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
    log_weights: Array,
    info: Info,
    random: Array,
    now: Trajectories,
    log_lik: LogLikelihood,
    log_types: Array | None,
    likelihood: Callable[..., LogLikelihood],
    num_moves: int,
) -> tuple[Trajectories, LogLikelihood, Array]:
    """Resample if due, make the rejuvenation moves, and return the share of particles that a move changed, too."""
    history, num_particles = of.new, len(random)

    # In a branch: XLA would otherwise hoist it out of the loop below and run it for each game.
    ancestors = control.cond(
        info.resampled,
        lambda: resample.systematic(uniform_of(of.words[0]), log_weights),
        lambda: jnp.arange(num_particles, dtype=jnp.int32),
    )

    def pick(index: Array, carry: tuple[Trajectories, LogLikelihood]) -> tuple[Trajectories, LogLikelihood]:
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
        return now, jax.tree.map(lambda rows: rows.at[..., ancestors].get(mode="promise_in_bounds"), log_lik)

    now, log_lik = control.fori_loop(0, info.resampled.astype(jnp.int32), pick, (now, log_lik))
    rounds, place = num_moves_due(info, num_particles, num_moves), places_to_move(of)

    def move(index: Array, carry: tuple[tuple[Array, Array, Array], LogLikelihood, Array]) -> Any:
        (hand, deck, labels), log_lik, changed = carry
        current = now._replace(hand=hand, deck=deck, labels=labels)
        slot = SERIAL.nth_live(history, labels, place(index))
        proposal = proposals.propose(SERIAL, random_of_round(random, REJUVENATION, index), current, history, slot)
        proposed = likelihood(current, exchange=proposal.exchange)
        current, log_lik, accepted = proposals.accept(SERIAL, current, history, proposal, log_lik, proposed, log_types)
        return (current.hand, current.deck, current.labels), log_lik, changed + accepted.mean(dtype=jnp.float32)

    first = (now.hand, now.deck, now.labels), log_lik, jnp.float32(0.0)
    (hand, deck, labels), log_lik, changed = control.fori_loop(0, rounds, move, first)
    return now._replace(hand=hand, deck=deck, labels=labels), log_lik, changed / jnp.maximum(rounds, 1).astype(jnp.float32)

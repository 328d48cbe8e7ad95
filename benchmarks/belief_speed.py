"""Speed of belief updates over positions of real games, beside a bootstrap filter in NumPy.

Positions come from random stages of games between uniform players, each with the belief of a filter that tracked its game so far.
All programs update the same beliefs by the same transitions, in turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import NamedSharding, PartitionSpec

from benchmarks import harness, plain_filter
from benchmarks.harness import Config, Program, Task
from unojax import cards
from unojax.analysis import record
from unojax.analysis.tracking import over_games
from unojax.belief import Belief, belief_update, infer_action
from unojax.belief.bootstrap import bootstrap_update
from unojax.belief.opponents import Opponent, parse_opponent, uniform_opponent
from unojax.belief.tracking import run_filter
from unojax.belief.updaters import BootstrapFilter, ParticleFilter
from unojax.device.platform import available_cores
from unojax.game import State
from unojax.observation import Observation, observe

_SEAT = 0
DOCUMENTED = "jit(vmap(belief_update))"
DONATED = "the same, beliefs donated"
ALL_CORES = "one device for each core, beliefs donated"
TEXTBOOK = "jit(vmap(bootstrap_update))"
PLAIN = "textbook filter in NumPy, one core"


class Positions(NamedTuple):
    """Arguments of an update for G games: beliefs, observations before, actions int32[G], observations after."""

    beliefs: Any
    before: Observation
    actions: Array
    after: Observation


def prepare(
    num_games: int, filter: ParticleFilter | BootstrapFilter, *, max_steps: int, seed: int
) -> tuple[Positions, dict[str, float]]:
    """Track games to a uniformly random stage; return the positions and their statistics."""
    games = record(jax.random.key(seed), num_games, max_steps=max_steps)
    stages = np.random.default_rng(seed).integers(0, np.maximum(games.num_updates, 1)).astype(np.int32)
    keys = jax.random.split(jax.random.key(seed + 1), num_games)

    def one_game(game: tuple[State, Array, Array]) -> Positions:
        states, stage, key = game
        views = jax.vmap(observe, (0, None))(states, _SEAT)
        belief = run_filter(filter, key, views, stage, lambda out, t, seen, belief, info: belief, None)
        before, after = (jax.tree.map(lambda x, t=t: x[t], views) for t in (stage, stage + 1))
        return Positions(belief, before, infer_action(before, after), after)

    positions = jax.block_until_ready(jax.jit(lambda *games: over_games(one_game, games))(games.states, stages, keys))
    mine = np.asarray(positions.before.current_player == _SEAT)
    draws = np.asarray(positions.actions == cards.DRAW)
    return positions, {
        "stage_median": float(np.median(stages)),
        "share_opponent_plays": float((~mine & ~draws).mean()),
        "share_opponent_draws": float((~mine & draws).mean()),
        "share_own_plays": float((mine & ~draws).mean()),
        "share_own_draws": float((mine & draws).mean()),
    }


class Call(NamedTuple):
    """A compiled call that updates all games, and its compilation figures."""

    program: Program
    figures: dict[str, Any]


def compile_call(positions: Positions, update: Any = belief_update, *, num_devices: int = 1, donate: bool = True) -> Call:
    """Compile one vmapped call for all games, divided among `num_devices` devices."""
    keys = jax.random.split(jax.random.key(7), positions.actions.shape[0])
    update = jax.vmap(update)
    if num_devices > 1:
        mesh = jax.make_mesh((num_devices,), ("games",), devices=jax.devices()[:num_devices])
        games = PartitionSpec("games")
        update = jax.shard_map(update, mesh=mesh, in_specs=games, out_specs=games, check_vma=False)
        positions, keys = jax.device_put((positions, keys), NamedSharding(mesh, games))
    jitted = jax.jit(update, donate_argnums=0 if donate else ())
    seconds, compiled = harness.compile_timed(jitted, *positions, keys)
    program = Program(
        run=lambda beliefs: compiled(beliefs, *positions[1:], keys),
        prepare=lambda: jax.block_until_ready(jax.tree.map(jnp.copy, positions.beliefs)) if donate else positions.beliefs,
    )
    memory = num_devices * harness.program_bytes(compiled)
    return Call(program, {"compile_seconds": seconds, "program_bytes": memory})


def figures(call: Call, times: harness.Timing, result: Any, num_games: int) -> dict[str, Any]:
    """Return a call's results and rates."""
    beliefs, info = result
    return call.figures | {
        **times.rates("updates", num_games),
        "seconds": list(times.seconds),
        "depleted": int(info.depleted.sum()),
        "mean_ess_share": float(info.ess.mean()) / beliefs.log_weights.shape[-1],
        "digest": harness.digest([np.asarray(info.log_evidence)]),
    }


@harness.benchmark(
    "belief_speed", games=1024, particles=(1024,), models=(), single=256, peer=True, max_steps=400, seed=0, repeats=5
)
def belief_speed(config: Config) -> Iterator[Task]:
    """Speed of `belief_update`: the documented call, one device for each core, one game alone, and a plain filter in NumPy."""
    # Set before any computation. The number of other devices than CPUs is fixed.
    jax.config.update("jax_num_cpu_devices", available_cores())
    for particles in config.particles:
        settings = {"particles": particles, **config.settings("games", "seed")}
        yield Task(settings, partial(measure, config, particles))
        if config.models:
            yield Task(settings | {"models": config.models}, partial(measure_models, config, particles))
        alone = {"particles": particles, "alone": config.single, "seed": config.seed}
        yield Task(alone, partial(measure_single, config, particles))


def _prepare(config: Config, filter: ParticleFilter | BootstrapFilter) -> tuple[Positions, dict[str, float]]:
    return prepare(config.games, filter, **config.settings("max_steps", "seed"))


def measure(config: Config, particles: int) -> dict[str, Any]:
    """Time the calls in turns."""
    positions, mix = _prepare(config, ParticleFilter(particles))
    calls = {DOCUMENTED: compile_call(positions, donate=False), DONATED: compile_call(positions)}
    if (cores := jax.local_device_count()) > 1 and config.games % cores == 0:
        calls[ALL_CORES] = compile_call(positions, num_devices=cores)
    programs: dict[str, Any] = {name: call.program for name, call in calls.items()}
    if config.peer:
        textbook, _ = _prepare(config, BootstrapFilter(particles))
        calls[TEXTBOOK] = compile_call(textbook, bootstrap_update)
        programs |= {TEXTBOOK: calls[TEXTBOOK].program, PLAIN: plain_program(positions)}
    times, results = harness.time_in_turns(programs, config.repeats)
    found = {name: figures(call, times[name], results[name], config.games) for name, call in calls.items()}
    if config.peer:
        found[PLAIN] = times[PLAIN].rates("updates", config.games) | {"seconds": list(times[PLAIN].seconds)}
        found["ratios"] = {
            name: harness.ratio(times[name], times[PLAIN]) for name in (DOCUMENTED, ALL_CORES, TEXTBOOK) if name in times
        }
    return found | {"positions": mix}


def plain_program(positions: Positions) -> Program:
    """Return the program of the plain filter: the same transitions, from hands of the same beliefs."""
    before, after = (jax.device_get(seen) for seen in (positions.before, positions.after))
    views = [(view_of(before, g), int(action), view_of(after, g)) for g, action in enumerate(np.asarray(positions.actions))]
    hands, log_weights = jax.device_get(jax.jit(hands_of)(positions.beliefs))

    def run(rng: np.random.Generator) -> list[bool]:
        return [
            plain_filter.update(hands[g], log_weights[g], before, action, after, rng)[2]
            for g, (before, action, after) in enumerate(views)
        ]

    return Program(run, lambda: np.random.default_rng(7))


def hands_of(beliefs: Belief) -> tuple[Array, Array]:
    """Return the hands of beliefs as counts by type, int8[G, N, 54], and their log weights."""
    return jax.lax.map(lambda belief: cards.counts(belief.particles), beliefs), beliefs.log_weights


def view_of(seen: Observation, g: int) -> plain_filter.View:
    """Return an observer's view of game g as plain numbers (NumPy leaves)."""
    hand, pile = cards.count_types(seen.hand[g]).astype(int), cards.count_types(seen.pile[g]).astype(int)
    return plain_filter.View(
        unseen=np.array(seen.rules.deck) - hand - pile,
        hand=hand,
        opponent_count=int(seen.opponent_count[g]),
        mine=bool(seen.current_player[g] == seen.player[g]),
        color=int(seen.color[g]),
        rank=int(seen.top_rank[g]),
        penalty=int(seen.penalty[g]),
    )


def measure_models(config: Config, particles: int) -> dict[str, Any]:
    """Time the donated call with opponent models, each with beliefs that tracked the same games with it."""
    calls = {}
    for name in config.models:
        model: Opponent = parse_opponent(name)
        positions, _ = _prepare(config, ParticleFilter(particles, model))
        calls[name] = compile_call(positions, partial(belief_update, opponent=model))
    times, results = harness.time_in_turns({name: call.program for name, call in calls.items()}, config.repeats)
    first = times[config.models[0]]
    return {
        name: figures(call, times[name], results[name], config.games) | {"ratio": harness.ratio(first, times[name])}
        for name, call in calls.items()
    }


def measure_single(config: Config, particles: int) -> dict[str, Any]:
    """Time one game after the other, from the call to the result, over several positions."""
    positions, _ = prepare(config.single, ParticleFilter(particles, uniform_opponent), **config.settings("max_steps", "seed"))
    key = jax.random.key(7)
    inputs = [(*jax.tree.map(lambda x, g=g: x[g], positions), key) for g in range(config.single)]
    return harness.time_alone(belief_update, inputs, config.repeats)

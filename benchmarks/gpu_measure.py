"""Measure the package on the device at hand: every part in one run, with digests that the CPU must share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import belief_speed, engine, gpu_target, search_speed, timing
from benchmarks.gpu_count import count
from benchmarks.gpu_programs import policy_training, programs, value_training
from training.loop import on_mesh
from training.policy.config import PolicyConfig
from training.updates import make_mesh
from training.value.config import ValueConfig
from unojax import init, observe
from unojax.arena import play_match
from unojax.belief import belief_init, belief_update, infer_action
from unojax.game import legal_mask, step
from unojax.search.agents import monte_carlo
from unojax.simulation import count_games, simulate
from unojax.specs import parse_agent


def size(full: int, scale: float) -> int:
    """Make a batch smaller; a power of two."""
    return 1 << max(3, round(math.log2(full * scale)))


def sizes(scale: float, *exponents: int) -> list[int]:
    """Make batches of so many powers of two smaller; those that fall together count once."""
    return sorted({size(2**e, scale) for e in exponents})


PARTS: Final[dict[str, Callable[[float, int], dict[str, Any]]]] = {
    "simulate": lambda scale, repeats: {
        "by_lanes": [measure_simulate(n, repeats=repeats) for n in sizes(scale, 14, 16, 18, 20, 22)]
    },
    "simulate_by_count": lambda scale, repeats: count_program("simulate, statistics", scale),
    "onehot": lambda scale, repeats: {
        "by_lanes": [engine.measure_onehot(n, calls=8, repeats=repeats) for n in sizes(scale, 14, 16, 18)]
    },
    "beliefs": lambda scale, repeats: measure_beliefs(size(1024, scale), size(1024, scale), repeats=repeats),
    "large_belief": lambda scale, repeats: measure_large_belief(size(2**20, scale), repeats=repeats),
    "search": lambda scale, repeats: measure_search(size(256, scale), size(1024, scale), repeats=repeats),
    "match": lambda scale, repeats: measure_match(size(4096, scale), repeats=repeats),
    "value_training": lambda scale, repeats: measure_training(value_training(scale), "games", repeats=repeats),
    "policy_training": lambda scale, repeats: measure_training(policy_training(scale), "lanes", repeats=repeats),
    "equal_to_cpu": lambda scale, repeats: compare_with_cpu(size(2**12, scale)),
}
"""What there is to measure, by name; of the share of the full batch sizes, and how often to repeat."""


def measure(scale: float, repeats: int, names: Iterable[str] = PARTS) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure the parts named, one after the other. A part for which memory is too small says so."""
    for name in names:
        yield name, guarded(partial(PARTS[name], scale, repeats), name) | {"memory": memory()}


def memory() -> dict[str, int | None]:
    """Read the device's memory: bytes in use, and the most that ever were; None where it does not tell."""
    told = jax.devices()[0].memory_stats() or {}
    return {name: told.get(name) for name in ("bytes_in_use", "peak_bytes_in_use", "bytes_limit")}


def guarded(part: Callable[[], dict[str, Any]], name: str) -> dict[str, Any]:
    """Run a part; where the device's memory does not suffice, say in one line what to lower."""
    try:
        return part()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        message = f"{name}: the device ran out of memory; lower --scale"
        timing.console().print(message)
        return {"error": message}


def measure_simulate(lanes: int, *, repeats: int) -> dict[str, Any]:
    """Time eight games per lane, counted on the device and with every game's row."""
    num_games, key = 8 * lanes, jax.random.key(0)
    compile_seconds, _ = timing.stopwatch(lambda: (count_games(key, 1, batch_size=lanes), simulate(key, 1, batch_size=lanes)))
    counted, tally = timing.repeat(lambda: count_games(key, num_games, batch_size=lanes), repeats)
    delivered, games = timing.repeat(lambda: simulate(key, num_games, batch_size=lanes), repeats)
    return {
        "lanes": lanes,
        "games": num_games,
        "compile_seconds": compile_seconds,
        "steps_per_second_statistics": counted.rate(tally.steps),
        "steps_per_second_every_game": delivered.rate(tally.steps),
        "agree": int(games.num_steps.sum(dtype=np.int64)) == tally.steps,
        "digest": timing.digest([games.winner, games.num_steps]),
    }


def measure_beliefs(games: int, particles: int, *, repeats: int) -> dict[str, Any]:
    """Time one vmapped update of many beliefs, at positions of real games."""
    positions, mix = belief_speed.prepare(num_games=games, num_particles=particles, max_steps=400, seed=0)
    call = belief_speed.compile_call(positions, num_devices=1)
    return belief_speed.measure_calls(positions, {"batch": call}, repeats=repeats)["batch"] | {"positions": mix}


def count_program(name: str, scale: float) -> dict[str, Any]:
    """Count a program as it is compiled for this device; see `gpu_count`."""
    program = programs(scale=scale)[name]
    jitted, args = program.make()
    seconds, compiled = timing.compile_timed(jitted, *args)
    counted = count(compiled.as_text() or "", gpu_target.H100, program.trips())
    return {
        "compile_seconds": seconds,
        "seconds_by_count": counted.seconds,
        f"{program.unit}s_per_second_by_count": program.units / counted.seconds,
    }


def measure_training(config: ValueConfig | PolicyConfig, unit: str, *, repeats: int) -> dict[str, Any]:
    """Time iterations of training: games played, and learned from."""
    mesh = make_mesh()
    iterate, state = config.make_iteration(mesh), on_mesh(config.start(), mesh)
    compile_seconds, (state, _) = timing.stopwatch(lambda: iterate(state))
    # The same iteration again and again: the states of others are as large.
    seconds, (_, metrics) = timing.repeat(lambda: iterate(state), repeats)
    number = getattr(config, unit)
    return {
        unit: number,
        "compile_seconds": compile_seconds,
        "iterations_per_second": seconds.rate(1.0),
        f"{unit}_per_second": seconds.rate(number),
        "gradient_norm": float(metrics.gradient_norm),
    }


def measure_large_belief(particles: int, *, repeats: int) -> dict[str, Any]:
    """Time the first updates of a single belief of very many particles."""
    update = jax.jit(belief_update)
    state = init(jax.random.key(1))
    seen = observe(state, 0)
    belief = jax.jit(partial(belief_init, num_particles=particles))(seen, jax.random.key(2))
    arguments = []
    for t in range(2):
        state = step(state, jnp.argmax(legal_mask(state)), jax.random.key(10 + t))
        before, seen = seen, observe(state, 0)
        arguments.append((before, infer_action(before, seen), seen, jax.random.key(20 + t)))

    def follow() -> list[Any]:
        now, infos = belief, []
        for one in arguments:
            now, info = update(now, *one)
            infos.append(info)
        return infos

    compile_seconds, _ = timing.stopwatch(follow)
    seconds, infos = timing.repeat(follow, repeats)
    return {
        "particles": particles,
        "compile_seconds": compile_seconds,
        "seconds_per_update": seconds.median / len(arguments),
        "depleted": any(bool(info.depleted) for info in infos),
    }


def measure_search(decisions: int, rollouts: int, *, repeats: int) -> dict[str, Any]:
    """Time flat Monte Carlo over the decisions of real games."""
    problems = search_speed.record_decisions(num_decisions=decisions, num_particles=128, max_steps=400, seed=0)
    agent = monte_carlo(rollouts=rollouts, particles=128)
    nodes = search_speed.nodes_per_rollout(agent, problems.first(min(decisions, 32)), num_rollouts=min(rollouts, 64))
    return search_speed.measure_batch(agent, problems, nodes, repeats=repeats)


def measure_match(pairs: int, *, repeats: int) -> dict[str, Any]:
    """Time a match of the shipped network, which keeps a belief, against the linear policy, both seats of every deal."""
    agents = parse_agent("value"), parse_agent("linear")
    play = partial(play_match, jax.random.key(3), agents, pairs)
    compile_seconds, _ = timing.stopwatch(lambda: play().points)
    seconds, points = timing.repeat(lambda: play().points, repeats)
    return {
        "agents": [agent.name for agent in agents],
        "games": 2 * pairs,
        "first_seconds": compile_seconds,
        "games_per_second": seconds.rate(2.0 * pairs),
        "win_rate": float(np.mean(points)),
    }


def compare_with_cpu(num_games: int) -> dict[str, Any]:
    """Play the same games on this device and on the CPU."""

    def played() -> str:
        games = simulate(jax.random.key(5), num_games, batch_size=min(num_games, 1024))
        return timing.digest([games.winner, games.num_steps, games.num_choices, games.num_reshuffles, games.hand_sizes])

    here = played()
    with jax.default_device(jax.devices("cpu")[0]):
        there = played()
    return {"games": num_games, "digest": here, "digest_of_cpu": there, "equal": here == there}

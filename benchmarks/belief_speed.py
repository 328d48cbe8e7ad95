"""Speed of `belief_update` over real positions: many games in one vmapped call, one game alone, and a NumPy port in the same run.

    python -m benchmarks.belief_speed --json belief_speed.json

Positions are taken at random stages of recorded games between uniform players, each with the belief of a filter that followed its
game so far. All programs and the port update the same beliefs by the same micro-steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from rich.console import Console

from benchmarks import belief_methods, numpy_filter, timing
from unojax.belief import Belief, belief_init, belief_update, infer_action
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import uniform
from unojax.rules import Rules

_RULES = Rules()
_SEAT = 0


class Positions(NamedTuple):
    """What an update takes, for G games: beliefs, observations before, actions int32[G], observations after."""

    beliefs: Belief
    before: Observation
    actions: Array
    after: Observation


def prepare(*, num_games: int, num_particles: int, max_steps: int, seed: int) -> tuple[Positions, dict[str, Any]]:
    """Beliefs at a uniformly random stage of each game."""
    games = belief_methods.record_games(seed, (uniform, uniform), num_games=num_games, max_steps=max_steps, rules=_RULES)
    stages = np.random.default_rng(seed).integers(0, np.maximum(games.num_updates, 1)).astype(np.int32)
    over_games = lax.map if jax.default_backend() == "cpu" else lambda f, xs: jax.vmap(f)(xs)
    keys = jax.random.split(jax.random.key(seed + 1), num_games)

    @jax.jit
    def follow(states: State, stages: Array, keys: Array) -> Positions:
        return over_games(lambda game: _follow_to(*game, num_particles=num_particles), (states, stages, keys))

    positions = jax.block_until_ready(follow(games.states, stages, keys))
    mine = np.asarray(positions.before.current_player == _SEAT)
    draws = np.asarray(positions.actions == 60)
    return positions, {
        "stage_quantiles": np.quantile(stages, (0, 0.25, 0.5, 0.75, 1)).tolist(),
        "filled_slots_mean": float(np.mean(positions.beliefs.ledger.num_slots)),
        "opponent_plays_so_far_mean": float(np.mean(positions.beliefs.ledger.num_plays)),
        "share_opponent_plays": float((~mine & ~draws).mean()),
        "share_opponent_draws": float((~mine & draws).mean()),
        "share_own_plays": float((mine & ~draws).mean()),
        "share_own_draws": float((mine & draws).mean()),
    }


def _follow_to(states: State, stage: Array, key: Array, *, num_particles: int) -> Positions:
    def view(t: Array) -> Observation:
        return observe(jax.tree.map(lambda x: x[t], states), _SEAT, rules=_RULES)

    def one_update(t: Array, belief: Belief) -> Belief:
        before, after = view(t), view(t + 1)
        return belief_update(belief, before, infer_action(before, after), after, jax.random.fold_in(key, t))[0]

    key_start, key = jax.random.split(key)
    start = belief_init(view(jnp.int32(0)), key_start, num_particles=num_particles, prior="deal")
    before, after = view(stage), view(stage + 1)
    return Positions(lax.fori_loop(0, stage, one_update, start), before, infer_action(before, after), after)


def measure_batch(positions: Positions, *, repeats: int) -> dict[str, Any]:
    """All games in one vmapped call."""
    num_games, num_particles = positions.beliefs.log_weights.shape
    keys = jax.random.split(jax.random.key(7), num_games)
    compile_seconds, program = timing.compile_timed(jax.jit(jax.vmap(belief_update)), *positions, keys)
    jax.block_until_ready(program(*positions, keys))
    times, (_, info) = timing.repeat(lambda: program(*positions, keys), repeats)
    memory = program.memory_analysis()
    on_device = jax.devices()[0].memory_stats()
    return {
        "games": num_games,
        "particles": num_particles,
        "compile_seconds": compile_seconds,
        "seconds": list(times.seconds),
        "updates_per_second": times.rate(num_games),
        "particle_updates_per_second": times.rate(num_games * num_particles),
        "program_bytes": memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes,
        "peak_bytes_in_use": None if on_device is None else on_device.get("peak_bytes_in_use"),
        "depleted": int(info.depleted.sum()),
        "mean_ess_share": float(info.ess.mean()) / num_particles,
        "digest": timing.digest([np.asarray(info.log_evidence)]),
    }


def measure_single(positions: Positions, *, num_games: int, repeats: int) -> dict[str, Any]:
    """One game at a time: seconds from the call to the result, over several positions."""
    singles = [jax.tree.map(lambda x, g=g: x[g], positions) for g in range(num_games)]
    key = jax.random.key(7)
    compile_seconds, program = timing.compile_timed(jax.jit(belief_update), *singles[0], key)
    jax.block_until_ready(program(*singles[0], key))
    seconds = np.array([timing.repeat(lambda p=p: program(*p, key), repeats)[0].median for p in singles])
    return {
        "games": num_games,
        "compile_seconds": compile_seconds,
        "milliseconds": {name: float(1e3 * np.quantile(seconds, q)) for name, q in (("median", 0.5), ("p95", 0.95))},
        "updates_per_second": float(num_games / seconds.sum()),
    }


def measure_numpy(positions: Positions, *, num_games: int, repeats: int) -> dict[str, Any]:
    """The NumPy port over the same positions, one after the other on one core."""
    host = jax.device_get(positions)
    singles = [jax.tree.map(lambda x, g=g: x[g], host) for g in range(num_games)]
    beliefs = [numpy_filter.from_belief(p.beliefs) for p in singles]
    rng = np.random.default_rng(7)
    share = 0.0

    def run() -> None:
        nonlocal share
        infos = [
            numpy_filter.numpy_update(belief, p.before, int(p.actions), p.after, rng)[1]
            for belief, p in zip(beliefs, singles, strict=True)
        ]
        share = float(np.mean([info.ess for info in infos])) / beliefs[0].log_weights.size

    run()
    times, _ = timing.repeat(run, repeats)
    return {
        "games": num_games,
        "seconds": list(times.seconds),
        "updates_per_second": times.rate(num_games),
        "mean_ess_share": share,
    }


def report(results: dict[str, Any], console: Console) -> None:
    """Print the results."""
    batch, single, peer = results["batch"], results["single"], results["numpy"]
    bytes_used = batch["peak_bytes_in_use"] or batch["program_bytes"]
    console.print(
        f"one call, {batch['games']} games x {batch['particles']} particles: "
        f"{timing.si(batch['updates_per_second']['median'])} updates/s, "
        f"{timing.si(batch['particle_updates_per_second']['median'])} particle updates/s, "
        f"{bytes_used / 2**30:.2f} GiB, compiled in {batch['compile_seconds']:.1f} s"
    )
    console.print(
        f"one game: {single['milliseconds']['median']:.2f} ms (95 %: {single['milliseconds']['p95']:.2f} ms), "
        f"{timing.si(single['updates_per_second'])} updates/s"
    )
    console.print(f"NumPy: {timing.si(peer['updates_per_second']['median'])} updates/s on one core")
    console.print(
        f"ratios to NumPy: {results['ratios']['batch']:.1f} for the call, {results['ratios']['single']:.1f} for one game"
    )


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the measurements, print them, and return them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.belief_speed", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--games", type=int, default=1024)
    parser.add_argument("--particles", type=int, default=1024)
    parser.add_argument("--single-games", type=int, default=256, help="positions for one game at a time")
    parser.add_argument("--numpy-games", type=int, default=256, help="positions for the NumPy port")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--max-steps", type=int, default=400, help="longer games are cut off there")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    if min(arguments.games, arguments.particles, arguments.single_games, arguments.numpy_games, arguments.repeats) < 1:
        parser.error("--games, --particles, --single-games, --numpy-games and --repeats must be at least 1")
    timing.without_compilation_cache()
    environment = timing.environment()
    positions, mix = prepare(
        num_games=arguments.games, num_particles=arguments.particles, max_steps=arguments.max_steps, seed=arguments.seed
    )
    peer = measure_numpy(positions, num_games=min(arguments.numpy_games, arguments.games), repeats=arguments.repeats)
    single = measure_single(positions, num_games=min(arguments.single_games, arguments.games), repeats=arguments.repeats)
    batch = measure_batch(positions, repeats=arguments.repeats)
    results = {
        "benchmark": "belief_speed",
        "environment": environment,
        "seed": arguments.seed,
        "repeats": arguments.repeats,
        "positions": mix,
        "batch": batch,
        "single": single,
        "numpy": peer,
        "ratios": {
            "batch": batch["updates_per_second"]["median"] / peer["updates_per_second"]["median"],
            "single": single["updates_per_second"] / peer["updates_per_second"]["median"],
        },
    }
    report(results, timing.console())
    if arguments.json is not None:
        timing.write_json(arguments.json, results)
    return results


if __name__ == "__main__":
    main()

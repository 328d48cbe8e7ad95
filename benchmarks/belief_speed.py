"""Speed of `belief_update` over real positions: many games in one vmapped call, and one game alone.

    python -m benchmarks.belief_speed --json belief_speed.json
    python -m benchmarks.belief_speed --models linear family    and what other opponent models cost, against the first of them

Positions are taken at random stages of recorded games between uniform players, each with the belief of a filter that followed its
game so far. All programs update the same beliefs by the same micro-steps.

The batch is donated to the call, as in a loop that carries it from step to step. A CPU computes the games of a batch one after
the other, so the games are also spread over devices, one for each core (`jax.shard_map` of the same call). The calls take turns,
so that a machine shared with others slows all alike.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import NamedSharding, PartitionSpec
from rich.console import Console

from benchmarks import timing
from unojax import cards
from unojax.analysis import record
from unojax.analysis.tracking import over_games
from unojax.belief import Belief, Info, belief_update, infer_action
from unojax.belief.opponents import Opponent, parse_opponent, uniform_opponent
from unojax.belief.tracking import run_filter
from unojax.belief.updaters import ParticleFilter
from unojax.device.platform import available_cores
from unojax.game import State
from unojax.observation import Observation, observe

_SEAT = 0


class Positions(NamedTuple):
    """Arguments of an update for G games: beliefs, observations before, actions int32[G], observations after."""

    beliefs: Belief
    before: Observation
    actions: Array
    after: Observation


def prepare(
    *, num_games: int, num_particles: int, max_steps: int, seed: int, opponent: Opponent = uniform_opponent
) -> tuple[Positions, dict[str, Any]]:
    """Let beliefs follow games to a uniformly random stage of each; the positions, and what they are like."""
    games = record(jax.random.key(seed), num_games, max_steps=max_steps)
    stages = np.random.default_rng(seed).integers(0, np.maximum(games.num_updates, 1)).astype(np.int32)
    keys = jax.random.split(jax.random.key(seed + 1), num_games)
    filter = ParticleFilter(num_particles, opponent)

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
        "stage_quantiles": np.quantile(stages, (0, 0.25, 0.5, 0.75, 1)).tolist(),
        "filled_slots_mean": float(np.mean(positions.beliefs.public.num_slots)),
        "opponent_plays_so_far_mean": float(np.mean(positions.beliefs.public.num_records)),
        "share_opponent_plays": float((~mine & ~draws).mean()),
        "share_opponent_draws": float((~mine & draws).mean()),
        "share_own_plays": float((mine & ~draws).mean()),
        "share_own_draws": float((mine & draws).mean()),
    }


class Call(NamedTuple):
    """Compiled call that updates all games.

    Attributes:
        run: from the beliefs, which it overwrites, to the new ones and `Info`.
        copy: gives it beliefs to overwrite.
        compile_seconds: of `run`.
        program_bytes: of `run`, on all devices together.
    """

    run: Callable[[Belief], tuple[Belief, Info]]
    copy: Callable[[], Belief]
    compile_seconds: float
    program_bytes: int


def compile_call(positions: Positions, *, num_devices: int, opponent: Opponent = uniform_opponent) -> Call:
    """Compile one vmapped call for all games, or as many as devices, each for its share of the games."""
    keys = jax.random.split(jax.random.key(7), positions.actions.shape[0])
    update = jax.vmap(partial(belief_update, opponent=opponent))
    if num_devices > 1:
        mesh = jax.make_mesh((num_devices,), ("games",), devices=jax.devices()[:num_devices])
        games = PartitionSpec("games")
        update = jax.shard_map(update, mesh=mesh, in_specs=games, out_specs=games, check_vma=False)
        positions, keys = jax.device_put((positions, keys), NamedSharding(mesh, games))
    seconds, program = timing.compile_timed(jax.jit(update, donate_argnums=0), *positions, keys)
    memory = program.memory_analysis()
    program_bytes = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return Call(
        run=lambda beliefs: program(beliefs, *positions[1:], keys),
        copy=lambda: jax.block_until_ready(jax.tree.map(jnp.copy, positions.beliefs)),
        compile_seconds=seconds,
        program_bytes=num_devices * (program_bytes - memory.alias_size_in_bytes),
    )


def measure_calls(positions: Positions, calls: dict[str, Call], *, repeats: int) -> dict[str, Any]:
    """Time the calls in turns: seconds of each, and what they computed."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    infos: dict[str, Info] = {}
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            beliefs = call.copy()
            elapsed, (beliefs, infos[name]) = timing.stopwatch(lambda call=call, beliefs=beliefs: call.run(beliefs))
            del beliefs
            # The first run of a call pages its memory in.
            if repeat > 0:
                seconds[name].append(elapsed)
    num_games, num_particles = positions.beliefs.log_weights.shape
    on_device = jax.devices()[0].memory_stats()
    results: dict[str, Any] = {}
    for name, call in calls.items():
        times = timing.Timing(tuple(seconds[name]))
        results[name] = {
            "games": num_games,
            "particles": num_particles,
            "compile_seconds": call.compile_seconds,
            "seconds": seconds[name],
            "updates_per_second": times.rate(num_games),
            "particle_updates_per_second": times.rate(num_games * num_particles),
            "program_bytes": call.program_bytes,
            "peak_bytes_in_use": None if on_device is None else on_device.get("peak_bytes_in_use"),
            "depleted": int(infos[name].depleted.sum()),
            "mean_ess_share": float(infos[name].ess.mean()) / num_particles,
            "digest": timing.digest([np.asarray(infos[name].log_evidence)]),
        }
    return results


def measure_models(names: Sequence[str], *, num_devices: int, repeats: int, **sizes: int) -> dict[str, Any]:
    """Time calls with opponent models (`parse_opponent`), in turns at the same stages of the same games; ratios are to the first.

    Each has the beliefs of a filter that followed the games with it.
    """
    calls: dict[str, Call] = {}
    for name in names:
        opponent = parse_opponent(name)
        positions, _ = prepare(**sizes, opponent=opponent)
        calls[name] = compile_call(positions, num_devices=num_devices, opponent=opponent)
    results = measure_calls(positions, calls, repeats=repeats)
    for result in results.values():
        ratios = np.array(result["seconds"]) / np.array(results[names[0]]["seconds"])
        result["ratio"] = {"median": float(np.median(ratios)), "min": float(ratios.min()), "max": float(ratios.max())}
    return results


def measure_single(positions: Positions, *, num_games: int, repeats: int) -> dict[str, Any]:
    """Time one game after the other, from the call to the result, over several positions."""
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


def report(results: dict[str, Any], console: Console) -> None:
    """Print the results."""
    single = results["single"]
    for name in ("batch", "batch_on_all_cores"):
        if name in results:
            batch = results[name]
            bytes_used = batch["peak_bytes_in_use"] or batch["program_bytes"]
            console.print(
                f"{name}, {batch['games']} games x {batch['particles']} particles: "
                f"{timing.si(batch['updates_per_second']['median'])} updates/s, "
                f"{timing.si(batch['particle_updates_per_second']['median'])} particle updates/s, "
                f"{bytes_used / 2**30:.2f} GiB, compiled in {batch['compile_seconds']:.1f} s"
            )
    for name, model in results.get("models", {}).items():
        ratio = model["ratio"]
        console.print(
            f"{name}: {timing.si(model['updates_per_second']['median'])} updates/s, "
            f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}) times as long as the first"
        )
    console.print(
        f"one game: {single['milliseconds']['median']:.2f} ms (95 %: {single['milliseconds']['p95']:.2f} ms), "
        f"{timing.si(single['updates_per_second'])} updates/s"
    )


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the measurements, print them, and return them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.belief_speed", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--games", type=int, default=1024)
    parser.add_argument("--particles", type=int, default=1024)
    parser.add_argument("--single-games", type=int, default=256, help="positions for one game at a time")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--max-steps", type=int, default=400, help="longer games are cut off there")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs="+", default=[], metavar="MODEL", help="opponent models to compare, as linear family")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    if min(arguments.games, arguments.particles, arguments.single_games, arguments.repeats) < 1:
        parser.error("--games, --particles, --single-games and --repeats must be at least 1")
    timing.without_compilation_cache()
    environment = timing.environment()
    sizes = {
        "num_games": arguments.games,
        "num_particles": arguments.particles,
        "max_steps": arguments.max_steps,
        "seed": arguments.seed,
    }
    positions, mix = prepare(**sizes)
    calls = {"batch": compile_call(positions, num_devices=1)}
    num_devices = jax.local_device_count()
    num_devices = 1 if arguments.games % num_devices else num_devices
    if num_devices > 1:
        calls["batch_on_all_cores"] = compile_call(positions, num_devices=num_devices)
    measured = measure_calls(positions, calls, repeats=arguments.repeats)
    single = measure_single(positions, num_games=min(arguments.single_games, arguments.games), repeats=arguments.repeats)
    results = {
        "benchmark": "belief_speed",
        "environment": environment,
        "seed": arguments.seed,
        "repeats": arguments.repeats,
        "positions": mix,
        **measured,
        "single": single,
    }
    if arguments.models:
        results["models"] = measure_models(arguments.models, num_devices=num_devices, repeats=arguments.repeats, **sizes)
    report(results, timing.console())
    timing.write_json(arguments.json, results)
    return results


if __name__ == "__main__":
    # Must come before anything is computed. Other devices than CPUs are as many as there are.
    jax.config.update("jax_num_cpu_devices", available_cores())
    main()

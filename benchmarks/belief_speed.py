"""Speed of `belief_update` over real positions: many games in one vmapped call, one game alone, and a NumPy port in the same run.

    python -m benchmarks.belief_speed --json belief_speed.json

Positions are taken at random stages of recorded games between uniform players, each with the belief of a filter that followed its
game so far. All programs and the port update the same beliefs by the same micro-steps.

The batch is donated to the call, as in a loop that carries it from step to step. A CPU computes the games of a batch one after
the other, so the games are also spread over devices, one for each core (`jax.shard_map` of the same call). The port runs on one
core. Its runs take turns with those of the calls, so that a machine shared with others slows all alike.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import NamedSharding, PartitionSpec
from rich.console import Console

from benchmarks import belief_methods, numpy_filter, timing
from unojax.belief import Belief, Info, belief_init, belief_update, infer_action
from unojax.game import State
from unojax.device.platform import available_cores
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


class Call(NamedTuple):
    """A compiled call that updates all games.

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


def compile_call(positions: Positions, *, num_devices: int) -> Call:
    """One vmapped call for all games, or as many as devices, each for its share of the games."""
    keys = jax.random.split(jax.random.key(7), positions.actions.shape[0])
    update = jax.vmap(belief_update)
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


def measure_calls(positions: Positions, calls: dict[str, Call], peer: Callable[[], None], *, repeats: int) -> dict[str, Any]:
    """The calls and the port in turns: seconds of each, and what the calls computed."""
    seconds: dict[str, list[float]] = {name: [] for name in (*calls, "numpy")}
    infos: dict[str, Info] = {}
    peer()
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            beliefs = call.copy()
            elapsed, (beliefs, infos[name]) = timing.stopwatch(lambda call=call, beliefs=beliefs: call.run(beliefs))
            del beliefs
            # The first run of a call pages its memory in.
            if repeat > 0:
                seconds[name].append(elapsed)
        if repeat > 0:
            seconds["numpy"].append(timing.stopwatch(peer)[0])
    num_games, num_particles = positions.beliefs.log_weights.shape
    on_device = jax.devices()[0].memory_stats()
    results: dict[str, Any] = {"numpy_seconds": seconds["numpy"]}
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


def numpy_peer(positions: Positions, *, num_games: int) -> tuple[Callable[[], None], Callable[[], float]]:
    """The NumPy port over the first positions, one after the other on one core, and the mean share of its ESS in the last run."""
    singles = [jax.tree.map(lambda x, g=g: np.asarray(x[g]), positions) for g in range(num_games)]
    beliefs = [numpy_filter.from_belief(p.beliefs) for p in singles]
    rng = np.random.default_rng(7)
    ess: list[float] = []

    def run() -> None:
        ess.clear()
        for belief, p in zip(beliefs, singles, strict=True):
            ess.append(numpy_filter.numpy_update(belief, p.before, int(p.actions), p.after, rng)[1].ess)

    return run, lambda: float(np.mean(ess)) / beliefs[0].log_weights.size


def ratio(call: dict[str, Any], peer: dict[str, Any]) -> dict[str, float]:
    """A call's rate over the port's in the same turn: the median over the turns, the least and the greatest."""
    turns = [
        peer_s / peer["games"] * call["games"] / call_s for call_s, peer_s in zip(call["seconds"], peer["seconds"], strict=True)
    ]
    return {"median": float(np.median(turns)), "min": min(turns), "max": max(turns)}


def report(results: dict[str, Any], console: Console) -> None:
    """Print the results."""
    single, peer = results["single"], results["numpy"]
    for name in ("batch", "batch_on_all_cores"):
        if name in results:
            batch = results[name]
            bytes_used = batch["peak_bytes_in_use"] or batch["program_bytes"]
            console.print(
                f"{name}, {batch['games']} games x {batch['particles']} particles: "
                f"{timing.si(batch['updates_per_second']['median'])} updates/s, "
                f"{timing.si(batch['particle_updates_per_second']['median'])} particle updates/s, "
                f"{bytes_used / 2**30:.2f} GiB, compiled in {batch['compile_seconds']:.1f} s; "
                f"{results['ratios'][name]['median']:.1f} times NumPy"
            )
    console.print(
        f"one game: {single['milliseconds']['median']:.2f} ms (95 %: {single['milliseconds']['p95']:.2f} ms), "
        f"{timing.si(single['updates_per_second'])} updates/s"
    )
    console.print(f"NumPy: {timing.si(peer['updates_per_second']['median'])} updates/s on one core")


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
    calls = {"batch": compile_call(positions, num_devices=1)}
    num_devices = jax.local_device_count()
    if num_devices > 1 and arguments.games % num_devices == 0:
        calls["batch_on_all_cores"] = compile_call(positions, num_devices=num_devices)
    num_peer = min(arguments.numpy_games, arguments.games)
    run_peer, peer_ess = numpy_peer(positions, num_games=num_peer)
    measured = measure_calls(positions, calls, run_peer, repeats=arguments.repeats)
    single = measure_single(positions, num_games=min(arguments.single_games, arguments.games), repeats=arguments.repeats)
    peer_times = timing.Timing(tuple(measured.pop("numpy_seconds")))
    peer = {
        "games": num_peer,
        "seconds": list(peer_times.seconds),
        "updates_per_second": peer_times.rate(num_peer),
        "mean_ess_share": peer_ess(),
    }
    results = {
        "benchmark": "belief_speed",
        "environment": environment,
        "seed": arguments.seed,
        "repeats": arguments.repeats,
        "positions": mix,
        **measured,
        "single": single,
        "numpy": peer,
        "ratios": {name: ratio(call, peer) for name, call in measured.items()}
        | {"single": {"median": single["updates_per_second"] / peer["updates_per_second"]["median"]}},
    }
    report(results, timing.console())
    if arguments.json is not None:
        timing.write_json(arguments.json, results)
    return results


if __name__ == "__main__":
    # Must come before anything is computed. Other devices than CPUs are as many as there are.
    jax.config.update("jax_num_cpu_devices", available_cores())
    main()

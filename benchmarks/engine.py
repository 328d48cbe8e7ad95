"""Speed of the game engine: packed `simulate`, the one-hot functions under `vmap`, and RLCard's UNO, in one run.

    python -m benchmarks.engine --json results.json

Everything plays uniformly random legal actions. Work is counted in steps of unfinished games (see README.md beside this file).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from rich.console import Console
from rich.table import Table

import unojax
from benchmarks import engine_parts, rlcard_peer, timing
from unojax import State
from unojax.device.platform import platform
from unojax.policies import uniform

BATCH_SIZES: Final = {
    "cpu": ("2^10,2^12,2^14,2^15,2^16,2^17", "2^8,2^10,2^11,2^12,2^13"),
    "gpu": ("2^12,2^14,2^16,2^18,2^20,2^22", "2^10,2^12,2^14,2^16,2^18"),
}
"""Default sweeps of the packed and the one-hot engine."""

_STEPS_PER_CALL: Final = 16
"""One-hot steps between two looks for finished games. A longer call idles more, a shorter one deals to all lanes more often."""


def measure_packed(batch_size: int, *, games_per_lane: int, repeats: int) -> dict[str, Any]:
    """Time `unojax.simulate` from the key to the results on the host, with one batch size."""
    num_games = games_per_lane * batch_size
    key = jax.random.key(0)

    def play(num_games: int) -> unojax.Games:
        return unojax.simulate(key, num_games, batch_size=batch_size)

    # The program does not depend on the number of games; the second call subtracts what is not compilation.
    first, _ = timing.stopwatch(lambda: play(1))
    second, _ = timing.stopwatch(lambda: play(1))
    seconds, games = timing.repeat(lambda: play(num_games), repeats)
    num_steps = int(games.num_steps.sum(dtype=np.int64))
    return {
        "batch_size": batch_size,
        "num_games": num_games,
        "num_steps": num_steps,
        "compile_seconds": first - second,
        "seconds": seconds.seconds,
        "steps_per_second": seconds.rate(num_steps),
        "decisions_per_second": seconds.rate(int(games.num_choices.sum(dtype=np.int64))),
        "games_per_second": seconds.rate(num_games),
        "digest": timing.digest([games.winner, games.num_steps, games.num_choices, games.num_reshuffles, games.hand_sizes]),
    } | engine_parts.measure_device(batch_size, repeats=repeats)


class Tally(NamedTuple):
    """Counts over the games of one call: int32[] each.

    Attributes:
        num_steps: steps of unfinished games.
        num_choices: plays with more than one legal action; 0 unless counted.
        num_games: games that ended.
    """

    num_steps: Array
    num_choices: Array
    num_games: Array


def deal(key: Array, batch_size: int) -> State:
    """Deal a batch of new games."""
    return jax.vmap(unojax.init)(jax.random.split(key, batch_size))


@partial(jax.jit, static_argnames="counts_choices", donate_argnums=0)
def play_onehot(states: State, key: Array, *, counts_choices: bool = False) -> tuple[State, Tally]:
    """Take some steps of B games, by the public functions alone; finished games are then replaced by new ones.

    A game that ends waits for the rest of the call. Its steps after the end are not counted.
    """
    batch_size = states.color.shape[0]
    key_steps, key_deal = jax.random.split(key)

    def step_one(state: State, key_policy: Array, key_step: Array) -> tuple[State, Array]:
        legal = unojax.legal_mask(state)
        observation = unojax.observe(state, state.current_player)
        action = uniform(key_policy, observation, legal)
        is_choice = ~state.is_over & (legal.sum() > 1) if counts_choices else jnp.bool_(False)
        return unojax.step(state, action, key_step), is_choice

    def step_all(carry: tuple[State, Tally], key: Array) -> tuple[tuple[State, Tally], None]:
        states, tally = carry
        num_live = batch_size - states.is_over.sum(dtype=jnp.int32)
        keys = jax.random.split(key, (2, batch_size))
        states, is_choice = jax.vmap(step_one)(states, keys[0], keys[1])
        tally = tally._replace(
            num_steps=tally.num_steps + num_live, num_choices=tally.num_choices + is_choice.sum(dtype=jnp.int32)
        )
        return (states, tally), None

    zero = jnp.int32(0)
    (states, tally), _ = lax.scan(step_all, (states, Tally(zero, zero, zero)), jax.random.split(key_steps, _STEPS_PER_CALL))
    ended = states.is_over
    fresh = deal(key_deal, batch_size)
    states = jax.tree.map(lambda new, old: jnp.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old), fresh, states)
    return states, tally._replace(num_games=ended.sum(dtype=jnp.int32))


def measure_onehot(batch_size: int, *, calls: int, repeats: int) -> dict[str, Any]:
    """Time `init`, `legal_mask`, `observe`, `uniform` and `step` under `vmap`, with one batch size."""
    start = jax.jit(deal, static_argnums=1)(jax.random.key(0), batch_size)
    compile_seconds, compiled = timing.compile_timed(play_onehot, start, jax.random.key(0))
    warm_up, *keys = jax.random.split(jax.random.key(1), 1 + calls)
    # Past the first games' common start, so that a repeat sees games of all ages.
    for key in jax.random.split(warm_up, 8):
        start, _ = compiled(start, key)
    bytes_per_lane = sum(leaf.nbytes for leaf in jax.tree.leaves(start)) / batch_size

    def play(program: Any) -> tuple[State, list[Tally]]:
        states, tallies = jax.tree.map(jnp.copy, start), []
        for key in keys:
            states, tally = program(states, key)
            tallies.append(tally)
        return states, tallies

    seconds, (states, tallies) = timing.repeat(lambda: play(compiled), repeats)
    _, counted = play(partial(play_onehot, counts_choices=True))
    num_steps, _, num_games = _totals(tallies)
    counted_steps, num_choices, _ = _totals(counted)
    if counted_steps != num_steps:
        raise RuntimeError(f"the same keys gave {num_steps} steps and, counting choices, {counted_steps}")
    return {
        "batch_size": batch_size,
        "num_games": num_games,
        "num_steps": num_steps,
        "share_of_steps_counted": num_steps / (batch_size * calls * _STEPS_PER_CALL),
        "compile_seconds": compile_seconds,
        "seconds": seconds.seconds,
        "steps_per_second": seconds.rate(num_steps),
        "decisions_per_second": seconds.rate(num_choices),
        "games_per_second": seconds.rate(num_games),
        "lane_bytes": bytes_per_lane,
        "program_bytes_per_lane": engine_parts.program_bytes(compiled) / batch_size,
        "digest": timing.digest(np.asarray(leaf) for leaf in jax.tree.leaves(states)),
    }


def _totals(tallies: list[Tally]) -> tuple[int, int, int]:
    sums = np.asarray(jax.device_get(tallies), np.int64).sum(0)
    return int(sums[0]), int(sums[1]), int(sums[2])


def best(sweep: list[dict[str, Any]], what: str = "steps_per_second") -> float:
    """Find the highest median of a sweep; 0 for an empty one."""
    return max((row[what]["median"] for row in sweep), default=0.0)


def ratios(packed: list[dict[str, Any]], onehot: list[dict[str, Any]], peer: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Divide steps per second at the best batch size by those of RLCard, for each level of RLCard's interface."""
    return {
        level: {
            "packed": best(packed) / numbers["steps_per_second"]["median"],
            "onehot": best(onehot) / numbers["steps_per_second"]["median"],
        }
        for level, numbers in peer["levels"].items()
    }


def report(results: dict[str, Any], console: Console) -> None:
    """Print the results as tables."""
    env = results["environment"]
    console.print(
        f"{env['device']} ({env['backend']}), {env['cpu_model']}, {env['cpu_cores']} cores; python {env['python']}, "
        f"jax {env['versions']['jax']}, commit {env['commit'][:12]}"
    )
    for name, title in (("packed", "packed: unojax.simulate"), ("onehot", "one-hot: vmapped step")):
        table = Table(title=title)
        for column in ("batch", "steps/s", "min .. max", "decisions/s", "games/s", "device steps/s", "compile s", "B/lane"):
            table.add_column(column, justify="right")
        for row in results[name]:
            rate = row["steps_per_second"]
            device = row.get("device_steps_per_second")
            table.add_row(
                str(row["batch_size"]),
                timing.si(rate["median"]),
                f"{timing.si(rate['min'])} .. {timing.si(rate['max'])}",
                timing.si(row["decisions_per_second"]["median"]),
                timing.si(row["games_per_second"]["median"]),
                timing.si(device["median"]) if device else "",
                f"{row['compile_seconds']:.1f}",
                f"{row['lane_bytes']:.0f}",
            )
        console.print(table)
    if results["peer"] is not None:
        table = Table(title=f"rlcard {results['peer']['versions']['rlcard']}, one core, and unojax as a multiple of it")
        for column in ("level", "steps/s", "min .. max", "packed", "one-hot"):
            table.add_column(column, justify="right")
        for level, numbers in results["peer"]["levels"].items():
            rate, ratio = numbers["steps_per_second"], results["ratios"][level]
            table.add_row(
                level,
                timing.si(rate["median"]),
                f"{timing.si(rate['min'])} .. {timing.si(rate['max'])}",
                f"{ratio['packed']:.1f} x",
                f"{ratio['onehot']:.1f} x",
            )
        console.print(table)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    packed, onehot = BATCH_SIZES[platform()]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description="Speed of unojax's engine, beside RLCard's.")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--packed", default=packed, help="batch sizes of simulate, e.g. 1024,4096 or 2^10..2^17 (%(default)s)")
    parser.add_argument("--onehot", default=onehot, help="batch sizes of the vmapped one-hot functions (%(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="timed repeats of each measurement (%(default)s)")
    parser.add_argument("--games-per-lane", type=int, default=16, help="games of simulate per lane (%(default)s)")
    parser.add_argument("--calls", type=int, default=8, help=f"one-hot calls of {_STEPS_PER_CALL} steps per repeat (%(default)s)")
    parser.add_argument("--no-peer", action="store_true", help="leave RLCard out")
    parser.add_argument("--peer-python", help="a Python that can import rlcard; by default one is set up in .cache/")
    parser.add_argument("--peer-games", type=int, default=400, help="RLCard games per repeat (%(default)s)")
    arguments = parser.parse_args(argv)
    for name in ("repeats", "games_per_lane", "calls", "peer_games"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {getattr(arguments, name)}")
    try:
        arguments.packed = timing.parse_batch_sizes(arguments.packed)
        arguments.onehot = timing.parse_batch_sizes(arguments.onehot)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print and, if asked to, write the results; returns them."""
    arguments = _arguments(argv)
    timing.without_compilation_cache()
    environment = timing.environment()
    # RLCard goes first, while the other threads of this process are idle.
    peer = None
    if not arguments.no_peer:
        peer = rlcard_peer.measure(
            python=arguments.peer_python,
            games=arguments.peer_games,
            repeats=arguments.repeats,
            cache=timing.REPOSITORY / ".cache",
        )
    packed = [
        measure_packed(size, games_per_lane=arguments.games_per_lane, repeats=arguments.repeats) for size in arguments.packed
    ]
    onehot = [measure_onehot(size, calls=arguments.calls, repeats=arguments.repeats) for size in arguments.onehot]
    results = {
        "benchmark": "engine",
        "environment": environment,
        "repeats": arguments.repeats,
        "packed": packed,
        "onehot": onehot,
        "peer": peer,
        "ratios": None if peer is None else ratios(packed, onehot, peer),
    }
    report(results, timing.console())
    timing.write_json(arguments.json, results)
    return results


if __name__ == "__main__":
    main()

"""Speed of `rollout` beside `count_games` and a loop of `init`, `observe`, `legal_mask` and `step`, in one run.

    python -m benchmarks.rollout --json results.json

All play uniformly random legal actions. Work is counted in steps of unfinished games. The runs of all programs alternate,
so that a busy machine slows all of them down.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from rich.table import Table

import unojax
from benchmarks import timing
from unojax import Slots, State
from unojax.device.platform import platform
from unojax.simulation import count_games

SLOTS: Final = {"cpu": 2**14, "gpu": 2**18}
"""Slots where only counts are asked for; as many as `count_games` has."""
ONEHOT_SLOTS: Final = {"cpu": 2**10, "gpu": 2**15}
"""Slots, and games of the loop by hand, where observations are delivered."""
_STEPS: Final = 16
"""Rows of a call; the loop by hand deals after so many steps."""
_CALLS: Final = {"cpu": 4, "gpu": 64}
DELIVERED: Final = ("observation", "legal_mask", "action")


@partial(jax.jit, static_argnames="num_rows", donate_argnums=0)
def count_rows(slots: Slots, key: Array, *, num_rows: int) -> tuple[Slots, dict[str, Array]]:
    """Roll out and count; rows of one node each, since nobody looks at them."""
    slots, rows = unojax.rollout(key, "uniform", None, slots, num_rows, fields=("terminated",), nodes_per_row=1)
    return slots, {"steps": rows.valid.sum(), "games": jnp.sum(rows.terminated)}


@partial(jax.jit, static_argnames="num_rows", donate_argnums=0)
def deliver_rows(slots: Slots, key: Array, *, num_rows: int = _STEPS) -> tuple[Slots, Any]:
    """Roll out and deliver what players saw and did, one-hot; nine rows in ten are valid with three nodes each."""
    return unojax.rollout(key, "uniform", None, slots, num_rows, fields=DELIVERED, nodes_per_row=3)


@partial(jax.jit, static_argnames="delivers", donate_argnums=0)
def step_by_hand(states: State, key: Array, *, delivers: bool) -> tuple[State, Any]:
    """Step games as the tutorial on GPUs does, and deal again where games are over; deliver the actions, or all three."""

    def one_step(state: State, key: Array) -> tuple[State, Any]:
        key_action, key_draw = jax.random.split(key)
        observation = unojax.observe(state, state.current_player)
        legal = unojax.legal_mask(state)
        action = unojax.uniform(key_action, observation, legal)
        shown = (observation, legal, action) if delivers else action
        return unojax.step(state, action, key_draw), (~state.is_over, shown)

    def step_all(states: State, key: Array) -> tuple[State, Any]:
        return jax.vmap(one_step)(states, jax.random.split(key, len(states.winner)))

    key_steps, key_deal = jax.random.split(key)
    states, rows = lax.scan(step_all, states, jax.random.split(key_steps, _STEPS))
    fresh = jax.vmap(unojax.init)(jax.random.split(key_deal, len(states.winner)))
    ended = states.is_over
    return jax.tree.map(lambda new, old: jnp.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old), fresh, states), rows


def measure(repeats: int, num_games: int, on: str) -> dict[str, Any]:
    """Time all programs in turn, `repeats` times."""
    key = jax.random.key(1)
    few, many, calls = ONEHOT_SLOTS[on], SLOTS[on], _CALLS[on]
    num_rows = 128
    started: dict[str, Any] = {
        "counts": unojax.start_slots(key, many),
        "delivered": unojax.start_slots(key, few),
    }
    for name in ("by hand", "by hand, delivered"):
        started[name] = jax.jit(jax.vmap(unojax.init))(jax.random.split(key, few))
    # Every leaf a buffer of its own: the programs take them over.
    started = jax.tree.map(jnp.copy, started)

    def advance(name: str, program: Callable[..., Any], steps_in: Callable[[Any], Array], calls: int) -> Callable[[], int]:
        def run() -> int:
            taken = []
            for number in range(calls):
                # Games of slots go by one key, whatever the call.
                of_call = jax.random.fold_in(key, number) if name.startswith("by hand") else key
                started[name], rows = program(started[name], of_call)
                taken.append(steps_in(rows))
            return int(np.sum(jax.device_get(taken)))

        return run

    programs = {
        "count_games": lambda: count_games(key, num_games, batch_size=many).steps,
        "counts": advance(
            "counts", partial(count_rows, num_rows=num_rows), lambda c: c["steps"], -(-num_games * 90 // (many * num_rows))
        ),
        "delivered": advance("delivered", deliver_rows, lambda rows: rows.valid.sum(), calls),
    }
    for name in ("by hand", "by hand, delivered"):
        program = partial(step_by_hand, delivers=name != "by hand")
        programs[name] = advance(name, program, lambda rows: rows[0].sum(), calls)
    compile_seconds = {}
    for name, run in programs.items():
        compile_seconds[name], _ = timing.stopwatch(run)
    rates: dict[str, list[float]] = {name: [] for name in programs}
    cpu_rates: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, run in programs.items():
            began = time.process_time()
            seconds, steps = timing.stopwatch(run)
            rates[name].append(steps / seconds)
            cpu_rates[name].append(steps / (time.process_time() - began))
    return {
        "slots": {"counts": many, "delivered": few},
        "first_call_seconds": compile_seconds,
        "steps_per_second": rates,
        "steps_per_cpu_second": cpu_rates,
        "ratios": {
            "counts / count_games": _ratio(rates, "counts", "count_games"),
            "delivered / by hand": _ratio(rates, "delivered", "by hand"),
            "delivered / by hand, delivered": _ratio(rates, "delivered", "by hand, delivered"),
        },
    }


def _ratio(rates: dict[str, list[float]], name: str, of: str) -> dict[str, float]:
    ratios = np.divide(rates[name], rates[of])
    return {"median": float(np.median(ratios)), "min": float(ratios.min()), "max": float(ratios.max())}


def main(args: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="runs of each program")
    parser.add_argument("--games", type=int, default=500_000, help="games of count_games in a run")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args(args)
    found = measure(options.repeats, options.games, platform())
    table = Table("program", "steps/s, median", "slowest", "fastest", "steps/CPU s", "first call, s")
    for name, rates in found["steps_per_second"].items():
        spread = (timing.si(of(rates)) for of in (np.median, min, max))
        of_cpu = timing.si(float(np.median(found["steps_per_cpu_second"][name])))
        table.add_row(name, *spread, of_cpu, f"{found['first_call_seconds'][name]:.1f}")
    timing.console().print(table)
    for name, ratio in found["ratios"].items():
        print(f"{name}: {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})")
    timing.write_json(options.json, {"benchmark": "rollout", "environment": timing.environment()} | found)


if __name__ == "__main__":
    main()

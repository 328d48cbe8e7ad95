"""Speed of `rollout` beside `count_games` and a loop of `init`, `observe`, `legal_mask` and `step`, in one run.

All programs play uniformly random legal actions. Work is counted in steps of unfinished games. The runs of all programs
alternate, so that a busy machine slows all of them equally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import unojax
from benchmarks import harness
from benchmarks.engine import deal, step_by_hand
from benchmarks.harness import Config, Task
from unojax import Slots
from unojax.device.platform import platform
from unojax.simulation import count_games

SLOTS: Final = {"cpu": 2**14, "gpu": 2**18}
"""Env slots for counting; the same number as in `count_games`."""
ONEHOT_SLOTS: Final = {"cpu": 2**10, "gpu": 2**15}
"""Env slots, and games of the loop by hand, for observations."""
_STEPS: Final = 16
"""Rows of a call."""
_ROWS: Final = 128
"""Rows of a call for counting."""
_CALLS: Final = {"cpu": 4, "gpu": 64}
DELIVERED: Final = ("observation", "legal_mask", "action")


@partial(jax.jit, static_argnames="num_rows", donate_argnums=0)
def count_rows(slots: Slots, key: Array, *, num_rows: int) -> tuple[Slots, dict[str, Array]]:
    """Roll out and count, with one node per row because rows are not used."""
    slots, rows = unojax.rollout(key, "uniform", None, slots, num_rows, fields=("terminated",), nodes_per_row=1)
    assert rows.terminated is not None, "asked for"
    return slots, {"steps": rows.valid.sum(), "games": rows.terminated.sum()}


@partial(jax.jit, static_argnames="num_rows", donate_argnums=0)
def deliver_rows(slots: Slots, key: Array, *, num_rows: int = _STEPS) -> tuple[Slots, Any]:
    """Roll out and return observations and actions, one-hot; nine rows in ten are valid with three nodes each."""
    return unojax.rollout(key, "uniform", None, slots, num_rows, fields=DELIVERED, nodes_per_row=3)


@harness.benchmark("rollout", games=500_000, repeats=7)
def rollout(config: Config) -> Iterator[Task]:
    """Speed of `rollout` beside `count_games` (`--games` of it) and a loop of `step`, in turns."""
    yield Task(config.settings("games", "repeats"), partial(measure, config.repeats, config.games, platform()))


def measure(repeats: int, num_games: int, on: str) -> dict[str, Any]:
    """Time all programs in turn, `repeats` times."""
    key = jax.random.key(1)
    few, many, calls = ONEHOT_SLOTS[on], SLOTS[on], _CALLS[on]
    started: dict[str, Any] = {"counts": unojax.start_slots(key, many), "delivered": unojax.start_slots(key, few)}
    for name in ("by hand", "by hand, delivered"):
        started[name] = jax.jit(deal, static_argnums=1)(key, few)
    # A separate buffer for every leaf, because the programs donate them.
    started = jax.tree.map(jnp.copy, started)

    def advance(name: str, program: Callable[..., Any], steps_in: Callable[[Any], Array], calls: int) -> Callable[[], int]:
        def run() -> int:
            taken = []
            for number in range(calls):
                # The games of slots depend on one key, independent of the call.
                of_call = jax.random.fold_in(key, number) if name.startswith("by hand") else key
                started[name], rows = program(started[name], of_call)
                taken.append(steps_in(rows))
            return int(np.sum(jax.device_get(taken)))

        return run

    counts, num_calls = partial(count_rows, num_rows=_ROWS), -(-num_games * 90 // (many * _ROWS))
    programs: dict[str, Callable[[], int]] = {
        "count_games": lambda: count_games(key, num_games, batch_size=many).steps,
        "counts": advance("counts", counts, lambda c: c["steps"], num_calls),
        "delivered": advance("delivered", deliver_rows, lambda rows: rows.valid.sum(), calls),
    }
    for name in ("by hand", "by hand, delivered"):
        program = partial(step_by_hand, delivers=name != "by hand")
        programs[name] = advance(name, program, lambda rows: rows.valid.sum(), calls)
    first_calls = {name: harness.stopwatch(run)[0] for name, run in programs.items()}
    steps: dict[str, list[int]] = {name: [] for name in programs}
    noted = {name: lambda name=name, run=run: steps[name].append(run()) for name, run in programs.items()}
    times, _ = harness.time_in_turns(noted, repeats)
    per_second = {name: np.array(steps[name][1:]) / np.array(times[name].seconds) for name in programs}
    return {
        "slots": {"counts": many, "delivered": few},
        "first_call_seconds": first_calls,
        "steps_per_second": {name: harness.spread(rates) for name, rates in per_second.items()},
        "steps_per_cpu_second": {
            name: harness.spread(np.array(steps[name][1:]) / np.array(times[name].cpu_seconds)) for name in programs
        },
        "ratios": {
            f"{name} / {of}": harness.spread(per_second[name] / per_second[of])
            for name, of in (("counts", "count_games"), ("delivered", "by hand"), ("delivered", "by hand, delivered"))
        },
    }

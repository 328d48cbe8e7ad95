"""Speed of policy training: choices played and learned from, and the share of time in games and in gradients.

    python -m benchmarks.policy_training --json policy_training.json

Iterations of `training.train_policy` with its default settings, but for the options, in turns with iterations that go through the
same choices twice: what these take more is one pass of learning, what is left of the others is playing.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
from rich.table import Table

from benchmarks import timing
from training.config import Launch
from training.loop import on_mesh
from training.policy.config import PolicyConfig
from training.updates import make_mesh
from unojax.device.compilation_cache import keep_compiled_programs

_WARM_UP = 3
"""Iterations before the first that is timed: lanes begin with the deal and then spread over all moments of a game."""


def measure(config: PolicyConfig, repeats: int) -> dict[str, Any]:
    """Time iterations with one pass of learning and with two."""
    mesh = make_mesh()
    programs = [replace(config, epochs=epochs).make_iteration(mesh) for epochs in (1, 2)]
    state = on_mesh(config.start(), mesh)
    for program in programs * _WARM_UP:
        state, _ = jax.block_until_ready(program(state))
    in_one, in_two, choices = [], [], 0.0
    for _ in range(repeats):
        (first, (after, metrics)), (second, _) = [timing.stopwatch(partial(program, state)) for program in programs]
        in_one.append(first)
        in_two.append(second)
        choices += float(metrics.sums.choices) / repeats
        state = after
    once, twice = timing.Timing(tuple(in_one)), timing.Timing(tuple(in_two))
    learning = twice.median - once.median
    return {
        "choices_per_iteration": choices,
        "choices_per_second": once.rate(choices),
        "share_of_rows_that_are_choices": choices / (config.lanes * config.rows),
        "share_in_games": 1.0 - learning / once.median,
        "share_in_gradients": learning / once.median,
        "parameters": config.network_of(state).num_params,
        "devices": mesh.size,
    }


def main() -> None:
    """Run the benchmark."""
    default = PolicyConfig()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, default=default.lanes, help="games at a time")
    parser.add_argument("--rows", type=int, default=default.rows, help="choices of each lane in an iteration")
    parser.add_argument("--width", type=int, default=default.network.width, help="of the networks")
    parser.add_argument("--updates", type=int, default=default.updates, help="of the parameters in an iteration")
    parser.add_argument("--repeats", type=int, default=15, help="timed iterations of each kind")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    network = replace(default.network, width=options.width)
    config = replace(default, lanes=options.lanes, rows=options.rows, updates=options.updates, network=network)
    keep_compiled_programs()
    jax.config.update("jax_num_cpu_devices", Launch().num_cpu_devices(config.share))
    environment = timing.environment()
    result = measure(config, options.repeats)
    table = Table("training of a policy", "")
    rate = result["choices_per_second"]
    table.add_row("choices/s", f"{timing.si(rate['median'])} ({timing.si(rate['min'])} .. {timing.si(rate['max'])})")
    table.add_row("rows that are choices", f"{result['share_of_rows_that_are_choices']:.0%}")
    table.add_row("in games, in gradients", f"{result['share_in_games']:.0%}, {result['share_in_gradients']:.0%}")
    timing.console().print(table)
    settings = {"lanes": options.lanes, "rows": options.rows, "width": options.width, "updates": options.updates}
    timing.write_json(options.json, {"environment": environment, "settings": settings, "results": result})


if __name__ == "__main__":
    main()

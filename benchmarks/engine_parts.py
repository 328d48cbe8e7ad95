"""Time of the packed engine by its parts, and its distance from what the device could do.

    python -m benchmarks.engine_parts --json parts.json

Each part of a node is timed alone over recorded tables of real games; the whole is timed with and without the harvest. What the
compiler does elsewhere (a fused kernel shares reads that parts alone must repeat) is not hidden: the parts need not add up to the
whole, and both are reported.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from rich.console import Console
from rich.table import Table as TextTable

from benchmarks import timing
from unojax import bits, table
from unojax.device import static
from unojax.device.lanes import NO_WALK, walk
from unojax.device.platform import platform
from unojax.device.random_bits import key_words, threefry
from unojax.policies import uniform
from unojax.rules import Rules
from unojax.simulation import MAX_GAMES, MOST_LANES
from unojax.simulation.harvest import (
    BLOCKS_PER_CALL,
    NODES_PER_BLOCK,
    Limits,
    Results,
    advance_slots,
    choose_moves,
    start_run,
)
from unojax.simulation.slots import Slots, carry_out
from unojax.table import Picked, Table

NODES_PER_CALL: Final = NODES_PER_BLOCK * BLOCKS_PER_CALL
_NUM_RECORDED: Final = 8
_CALLS: Final = 2
_WARM_UP_CALLS: Final = 2
_RULES: Final = Rules()
_POLICIES: Final = (uniform,)


class Engine(NamedTuple):
    """Compiled program of `simulate`, and slots in the middle of their games.

    Attributes:
        program: advances all slots by `NODES_PER_CALL` nodes and harvests.
        compile_seconds: what compiling it took.
        slots, next_index, seed, limits: its arguments.
    """

    program: Any
    compile_seconds: float
    slots: Slots
    next_index: Array
    seed: tuple[Array, Array]
    limits: Limits


def warm_engine(batch_size: int) -> Engine:
    """Compile the program for a batch size, and run it until the slots hold games of all ages."""
    seed = key_words(jax.random.key(0))
    limits = Limits(jnp.uint32(MAX_GAMES), jnp.uint32(0))
    slots, next_index = start_run(batch_size, limits, _POLICIES, _RULES)
    compile_seconds, program = timing.compile_timed(
        advance_slots,
        slots,
        next_index,
        seed,
        limits,
        [],
        policies=static.split(_POLICIES)[1],
        truncates=False,
        gather="hand out",
        on=platform(),
    )
    for _ in range(_WARM_UP_CALLS):
        slots, next_index, *_ = program(slots, next_index, seed, limits, [])
    return Engine(program, compile_seconds, slots, next_index, seed, limits)


@jax.jit
def _finished_steps(results: Results) -> Array:
    return jnp.where(results.game_index != NO_WALK, results.num_steps, 0).sum()


def measure_device(batch_size: int, *, repeats: int) -> dict[str, Any]:
    """Time the device program alone, results left on the device, slots never running dry.

    The steps of a repeat are those of the games that finished in it, plus what the games in progress at its end have, minus what
    those at its beginning had.
    """
    engine = warm_engine(batch_size)
    seconds, (slots, finished) = timing.repeat(lambda: _play_on(engine), repeats)
    num_steps = sum(int(n) for n in finished) + _sum(slots.num_steps) - _sum(engine.slots.num_steps)
    return {
        "device_steps_per_second": seconds.rate(num_steps),
        "device_seconds": seconds.seconds,
        "device_nodes": NODES_PER_CALL * _CALLS * batch_size,
        "device_steps": num_steps,
        "lane_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(engine.slots)) / batch_size,
        "program_bytes_per_lane": program_bytes(engine.program) / batch_size,
    }


def _play_on(engine: Engine) -> tuple[Slots, list[Array]]:
    slots, next_index, finished = jax.tree.map(jnp.copy, engine.slots), engine.next_index, []
    for _ in range(_CALLS):
        slots, next_index, results, _ = engine.program(slots, next_index, engine.seed, engine.limits, [])
        finished.append(_finished_steps(results))
    return slots, finished


def _sum(array: Array) -> int:
    return int(np.asarray(array).sum(dtype=np.int64))


def program_bytes(program: Any) -> int:
    """Add up the device memory of a program: arguments, results and temporaries, a buffer that is reused counted once."""
    memory = program.memory_analysis()
    total = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return int(total - memory.alias_size_in_bytes)


class Recorded(NamedTuple):
    """Input of the parts at one node of every lane: uint32[B] each (or [K, B] for K nodes in a row).

    Attributes:
        table: the tables.
        game, node: counter of the random words.
        word, coins: the random words.
        move: what `resolve` made of them.
    """

    table: Table
    game: Array
    node: Array
    word: Array
    coins: Array
    move: Array


@partial(jax.jit, static_argnames="num_nodes")
def _record(slots: Slots, seed: tuple[Array, Array], num_nodes: int) -> Recorded:
    def one_node(current: Table, step: Array) -> tuple[Table, Recorded]:
        node = slots.node + step
        word, coins = threefry(seed, (slots.game, node))
        move = _move(current, word, coins)
        return table.commit(current, move), Recorded(current, slots.game, node, word, coins, move)

    return lax.scan(one_node, slots.table, jnp.arange(num_nodes, dtype=jnp.uint32))[1]


def _choose(at: Table, word: Array) -> tuple[table.Node, Picked]:
    node = table.find_node(at, _RULES)
    return node, Picked(*bits.choose(bits.where(node.is_decision, node.legal, node.deck), word))


def _move(at: Table, word: Array, coins: Array) -> Array:
    node, pick = _choose(at, word)
    return table.resolve(at, node, pick, coins, _RULES)


def _read(at: Recorded, seed: tuple[Array, Array]) -> Array:
    del seed
    words = (*at.table.low, *at.table.high, at.table.meta)
    total = words[0]
    for word in words[1:]:
        total = total ^ word
    return total


def _random(at: Recorded, seed: tuple[Array, Array]) -> Array:
    word, coins = threefry(seed, (at.game, at.node))
    return word ^ coins


def _find_and_choose(at: Recorded, seed: tuple[Array, Array]) -> Array:
    del seed
    _, pick = _choose(at.table, at.word)
    return pick.word << np.uint32(5) | pick.position


def _decide(at: Recorded, seed: tuple[Array, Array]) -> Array:
    del seed
    return _move(at.table, at.word, at.coins)


def _commit(at: Recorded, seed: tuple[Array, Array]) -> Table:
    del seed
    return table.commit(at.table, at.move)


PARTS: Final[dict[str, tuple[str, Callable[[Recorded, tuple[Array, Array]], Any]]]] = {
    "read": ("read a table, write one word (the floor of the parts below)", _read),
    "random": ("Threefry: two random words", _random),
    "choose": ("find_node and choose", _find_and_choose),
    "decide": ("find_node, choose and resolve; without 'choose' it is resolve", _decide),
    "commit": ("carry out a given move: read and write a table", _commit),
}


def measure_parts(batch_size: int, *, repeats: int) -> dict[str, Any]:
    """Measure nanoseconds per node and lane of each part, operation counts, and ceilings."""
    engine = warm_engine(batch_size)
    recorded = _record(engine.slots, engine.seed, _NUM_RECORDED)
    first = jax.tree.map(lambda leaf: leaf[0], recorded)
    # Which of a node's work is the harvest: the same nodes without it.
    _, advance = timing.compile_timed(jax.jit(_advance_only), engine.slots, engine.seed, engine.limits)
    runs: dict[str, Callable[[], Any]] = {
        "whole": lambda: _play_on(engine),
        "advance": lambda: [advance(engine.slots, engine.seed, engine.limits) for _ in range(_CALLS)],
    }
    nodes = {"whole": NODES_PER_CALL * _CALLS, "advance": NODES_PER_CALL * _CALLS}
    counts = {"advance": _operations(_one_node, batch_size, engine.slots, engine.seed, engine.limits)}
    rounds = max(1, NODES_PER_CALL * _CALLS // _NUM_RECORDED)
    for name, (_, part) in PARTS.items():
        program = jax.jit(partial(_over_recorded, part)).lower(recorded, engine.seed).compile()
        runs[name] = partial(_repeatedly, program, recorded, engine.seed, rounds)
        nodes[name] = _NUM_RECORDED * rounds
        counts[name] = _operations(part, batch_size, first, engine.seed)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    # In turns, so that a slow moment of the machine meets all of them.
    for _ in range(repeats):
        for name, run in runs.items():
            seconds[name].append(timing.stopwatch(run)[0])
    nanoseconds = {name: _spread(np.asarray(seconds[name]) * 1e9 / (nodes[name] * batch_size)) for name in runs}
    nanoseconds["harvest"] = _spread(
        (np.asarray(seconds["whole"]) - np.asarray(seconds["advance"])) * 1e9 / (nodes["whole"] * batch_size)
    )
    device = measure_device(batch_size, repeats=1)
    lane_bytes = device["lane_bytes"]
    copy = {
        "lanes": _copy_bandwidth(int(lane_bytes) * batch_size, repeats),
        "large": _copy_bandwidth(1 << (26 if platform() == "cpu" else 28), repeats),
    }
    operations = _operation_rate(batch_size, repeats)
    written = counts["advance"]["operations_as_written"]
    return {
        "batch_size": batch_size,
        "nanoseconds_per_node": nanoseconds,
        "counts_per_node": counts,
        "while_body_fusions": while_body_fusions(engine.program.as_text()),
        "steps_per_node": device["device_steps"] / device["device_nodes"],
        "lane_bytes": lane_bytes,
        "copy_bytes_per_second": copy,
        "operations_per_second": operations,
        "ceilings_nodes_per_second": {
            "memory_lanes": copy["lanes"] / (2 * lane_bytes),
            "memory_large": copy["large"] / (2 * lane_bytes),
            "operations": operations / written,
        },
        "nodes_per_second": 1e9 / nanoseconds["whole"]["median"],
    }


def _one_node(slots: Slots, seed: tuple[Array, Array], limits: Limits) -> Slots:
    return carry_out(slots, choose_moves(slots, seed, limits, _POLICIES, False))


def _advance_only(slots: Slots, seed: tuple[Array, Array], limits: Limits) -> Slots:
    def decide(index: Array, slots: Slots, move: Array | None) -> Array:
        del index, move
        return choose_moves(slots, seed, limits, _POLICIES, False)

    def block(_: Array, slots: Slots) -> Slots:
        return walk(slots, decide(jnp.int32(0), slots, None), decide, carry_out, num_nodes=NODES_PER_BLOCK)

    return lax.fori_loop(0, BLOCKS_PER_CALL, block, slots)


def _over_recorded(part: Callable[[Recorded, tuple[Array, Array]], Any], recorded: Recorded, seed: tuple[Array, Array]) -> Any:
    return lax.map(lambda at: part(at, seed), recorded)


def _repeatedly(program: Any, recorded: Recorded, seed: tuple[Array, Array], rounds: int) -> Any:
    result = None
    for _ in range(rounds):
        result = program(recorded, seed)
    return result


def _operations(function: Callable[..., Any], batch_size: int, *args: Any) -> dict[str, float]:
    """Count operations per lane as written and after optimisation, bytes, and fusions, by XLA's cost analysis.

    XLA counts every elementwise operation on an element as one, integer ones included. More operations after optimisation than as
    written mean that fusions compute shared values again.
    """
    lowered = jax.jit(function).lower(*args)
    compiled = lowered.compile()
    written, optimised = _costs(lowered.cost_analysis()), _costs(compiled.cost_analysis())
    return {
        "operations_as_written": written.get("flops", 0.0) / batch_size,
        "operations_optimised": optimised.get("flops", 0.0) / batch_size,
        "bytes_optimised": optimised.get("bytes accessed", 0.0) / batch_size,
        "fusions": (compiled.as_text() or "").count(" fusion("),
    }


def _costs(analysis: Any) -> dict[str, float]:
    # Some versions wrap the dictionary in a list, one for each computation.
    return (analysis[0] if isinstance(analysis, list) else analysis) or {}


def while_body_fusions(hlo: str) -> dict[str, int]:
    """Count fusions in each loop body of an optimised HLO text, those in the branches it calls included."""
    computations: dict[str, str] = {}
    for match in re.finditer(r"^(?:ENTRY )?%?([\w.\-]+) \(.*?\{\n(.*?)^\}", hlo, re.MULTILINE | re.DOTALL):
        computations[match[1]] = match[2]

    def count(name: str) -> int:
        body = computations.get(name, "")
        branches = re.findall(r"(?:true_computation|false_computation)=%?([\w.\-]+)", body)
        for group in re.findall(r"branch_computations=\{([^}]*)\}", body):
            branches += [branch.strip().lstrip("%") for branch in group.split(",")]
        return body.count(" fusion(") + sum(count(branch) for branch in branches)

    return {name: count(name) for name in re.findall(r"body=%?([\w.\-]+)", hlo)}


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"median": float(np.median(values)), "min": float(values.min()), "max": float(values.max())}


def _copy_bandwidth(num_bytes: int, repeats: int, loops: int = 16) -> float:
    """Measure bytes read and written per second by `x + 1` over an array of that size."""
    x = jnp.zeros(max(1, num_bytes // 4), jnp.uint32)
    program = jax.jit(lambda x: lax.fori_loop(0, loops, lambda _, x: x + np.uint32(1), x)).lower(x).compile()
    seconds, _ = timing.repeat(lambda: program(x), repeats + 1)
    return 2 * x.nbytes * loops / seconds.median


def _operation_rate(batch_size: int, repeats: int, loops: int = 64, rounds: int = 8) -> float:
    """Measure integer operations per second on the batch, in chains of shifts and xors (Marsaglia 2003, "Xorshift RNGs").

    Four chains side by side, so that one waits less for its own results.
    """

    def chains(_: Any, x: Array) -> Array:
        words = [x + np.uint32(i) for i in range(4)]
        for _ in range(rounds):
            words = [w ^ (w << np.uint32(13)) for w in words]
            words = [w ^ (w >> np.uint32(17)) for w in words]
            words = [w ^ (w << np.uint32(5)) for w in words]
        return (words[0] ^ words[1]) ^ (words[2] ^ words[3])

    x = jnp.arange(1, batch_size + 1, dtype=jnp.uint32)
    program = jax.jit(lambda x: lax.fori_loop(0, loops, chains, x)).lower(x).compile()
    seconds, _ = timing.repeat(lambda: program(x), repeats + 1)
    return 4 * 6 * rounds * loops * batch_size / seconds.median


def report(results: dict[str, Any], console: Console) -> None:
    """Print the results as a table."""
    parts = TextTable(title=f"per node, {results['batch_size']} lanes")
    for column in ("part", "ns", "min .. max", "operations", "optimised", "bytes", "fusions", "what"):
        parts.add_column(column, justify="left" if column in ("part", "what") else "right")
    what = {name: text for name, (text, _) in PARTS.items()} | {
        "advance": "the nodes alone, without the harvest",
        "harvest": "whole - advance",
        "whole": "nodes and harvest, as simulate runs them",
    }
    for name, nanoseconds in results["nanoseconds_per_node"].items():
        counts = results["counts_per_node"].get(name)
        cells = ["", "", "", ""]
        if counts:
            cells = [f"{counts[key]:.0f}" for key in ("operations_as_written", "operations_optimised", "bytes_optimised")]
            cells.append(str(counts["fusions"]))
        spread = f"{nanoseconds['min']:.2f} .. {nanoseconds['max']:.2f}"
        parts.add_row(name, f"{nanoseconds['median']:.2f}", spread, *cells, what[name])
    console.print(parts)
    console.print(f"nodes/s {timing.si(results['nodes_per_second'])}, steps per node {results['steps_per_node']:.3f}")
    for name, ceiling in results["ceilings_nodes_per_second"].items():
        share = results["nodes_per_second"] / ceiling
        console.print(f"ceiling by {name.replace('_', ', ')}: {timing.si(ceiling)} nodes/s, of which {share:.1%} is reached")


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print and, if asked to, write the results; returns them."""
    default = MOST_LANES[platform()]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine_parts", description="Where the engine's time goes.")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--batch-size", type=int, default=default, help="lanes (%(default)s)")
    parser.add_argument("--repeats", type=int, default=7, help="timed repeats (%(default)s)")
    arguments = parser.parse_args(argv)
    for name in ("batch_size", "repeats"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {getattr(arguments, name)}")
    timing.without_compilation_cache()
    results = {
        "benchmark": "engine_parts",
        "environment": timing.environment(),
        "repeats": arguments.repeats,
        **measure_parts(arguments.batch_size, repeats=arguments.repeats),
    }
    report(results, timing.console())
    timing.write_json(arguments.json, results)
    return results


if __name__ == "__main__":
    main()

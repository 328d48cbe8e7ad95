"""CFR+ on small decks beside OpenSpiel's in C++: same games, same numbers of iterations, one run.

    python -m benchmarks.solver_openspiel --json solver_openspiel.json

OpenSpiel's solver walks through a game in one of two forms. *C++ throughout*: the game comes from an extensive-form file, written
from a tree that plain Python grew by rules of its own (`tests/oracle`). *The bridge*: the game is `unojax_uno` of
`unojax.adapters.openspiel`, which is how OpenSpiel's users have it; its states are Python's.

Both sides are timed in turn, without loading, enumerating or compiling (the first run of ours, which does not count). A run
of ours is over in milliseconds, so it is repeated for a fifth of a second, and the mean counts; a single one right after
OpenSpiel's, in cold caches, takes up to three times as long. Both averages are judged by their own library. They need not be
the same: where two actions are worth the same, rounding chooses. On a machine that does other things too, processor time is
the fairer figure.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import tempfile
import time
import timeit
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.table import Table

from benchmarks import timing
from tests.helpers import variant
from tests.solve import oracle
from tests.solve.openspiel_game import to_efg
from unojax import solve
from unojax.rules import Rules

FILE: Final = "C++ throughout"
BRIDGE: Final = "the bridge"
GAMES: Final = (("tiny", 16, 100, FILE), ("tiny", 16, 1000, FILE), ("small", 8, 10, FILE), ("tiny", 16, 5, BRIDGE))
"""Deck, steps, iterations, form: OpenSpiel walks through every history twice an iteration."""


def load(rules: Rules, form: str) -> Any:
    """Load the game into OpenSpiel."""
    import pyspiel  # pyright: ignore[reportMissingImports]

    if form == BRIDGE:
        from unojax.adapters import openspiel

        return openspiel.load_game(rules)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "uno.efg"
        path.write_text(to_efg(oracle.grow(variant(rules), merge_colors=True)))
        return pyspiel.load_game(f"efg_game(filename={path})")


@contextlib.contextmanager
def timed(times: list[tuple[float, float]], runs: int = 1) -> Iterator[None]:
    """Append the seconds of each of some runs, by the clock and of the process, without others' garbage, as `timeit` does."""
    gc.collect()
    gc.disable()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        times.append(((time.perf_counter() - wall) / runs, (time.process_time() - cpu) / runs))
        gc.enable()


def measure(name: str, max_steps: int, iterations: int, form: str, repeats: int) -> dict[str, Any]:
    """Time both on one game."""
    import pyspiel  # pyright: ignore[reportMissingImports]

    rules = replace(solve.DECKS[name], max_steps=max_steps)
    began = time.perf_counter()
    tree = solve.enumerate_game(rules)
    enumerated = time.perf_counter() - began
    game = load(rules, form)
    # Without a measurement in between: one is made after the last iteration, and its time counts.
    solve_it = partial(solve.cfr, tree, iterations=iterations, check_every=iterations)
    began = time.perf_counter()
    solution = solve_it()
    first = time.perf_counter() - began
    runs, _ = timeit.Timer(solve_it).autorange()
    ours, theirs = [], []
    judged = 0.0
    for _ in range(repeats):
        solver = pyspiel.CFRPlusSolver(game)
        with timed(theirs):
            for _ in range(iterations):
                solver.evaluate_and_update_policy()
        judged = pyspiel.exploitability(game, solver.average_policy())
        solve_it()  # in the caches again after OpenSpiel's
        with timed(ours, runs):
            for _ in range(runs):
                solve_it()
    (our_seconds, our_cpu_seconds), (their_seconds, their_cpu_seconds) = (zip(*times, strict=True) for times in (ours, theirs))
    return {
        "game": name,
        "max_steps": max_steps,
        "num_histories": tree.num_histories,
        "num_infosets": list(tree.num_infosets),
        "iterations": iterations,
        "form": form,
        "enumerate_seconds": enumerated,
        "first_run_seconds": first,
        "unojax_runs": runs,
        "unojax_seconds": our_seconds,
        "openspiel_seconds": their_seconds,
        "times_as_fast": [their / our for our, their in zip(our_seconds, their_seconds, strict=True)],
        "unojax_cpu_seconds": our_cpu_seconds,
        "openspiel_cpu_seconds": their_cpu_seconds,
        "times_as_fast_by_cpu": [their / our for our, their in zip(our_cpu_seconds, their_cpu_seconds, strict=True)],
        "unojax_exploitability": solution.exploitability,
        "openspiel_exploitability": judged,
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.solver_openspiel", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.repeats < 1:
        parser.error("--repeats must be at least 1")
    rows = [measure(*game, arguments.repeats) for game in GAMES]
    table = Table(title=f"CFR+, median of {arguments.repeats}")
    for heading in (
        "game",
        "OpenSpiel's form",
        "histories",
        "iterations",
        "unojax",
        "OpenSpiel",
        "times as fast",
        "by CPU time",
        "exploitabilities",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            f"{row['game']}, {row['max_steps']} steps",
            row["form"],
            f"{row['num_histories']:,}",
            str(row["iterations"]),
            f"{np.median(row['unojax_seconds']):.5f} s",
            f"{np.median(row['openspiel_seconds']):.3f} s",
            f"{np.median(row['times_as_fast']):.0f}",
            f"{np.median(row['times_as_fast_by_cpu']):.0f}",
            f"{row['unojax_exploitability']:.3g}, {row['openspiel_exploitability']:.3g}",
        )
    timing.console().print(table)
    timing.write_json(arguments.json, {"benchmark": "solver_openspiel", "environment": timing.environment(), "rows": rows})


if __name__ == "__main__":
    main()

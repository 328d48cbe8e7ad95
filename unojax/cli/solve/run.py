"""A game solved: enumerate it, iterate, report, keep the run."""

from __future__ import annotations

import contextlib
import io
import json
import time
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from unojax import solve
from unojax.cli import output, targets
from unojax.cli.solve.command import Solve
from unojax.cli.solve.games import rules_of
from unojax.device.process import EXIT_INTERRUPTED
from unojax.rules import RULES_VERSION, Rules
from unojax.solve import CFRState, Solution, Tree

_ARRAYS: Final = ("regrets_0", "regrets_1", "plans_0", "plans_1")
_KEEP_SECONDS: Final = 60.0
"""A run is kept that often, should its process be killed."""


def run(request: Solve, rules: Rules) -> int:
    rules = rules_of(request.game, rules)
    targets.check_json_target(request.json)
    if request.state is not None:
        targets.check_target("--state", request.state)
    about = output.machine()
    began = time.perf_counter()
    with output.status("enumerating the game", quiet=request.quiet):
        tree = solve.enumerate_game(rules)
    enumerated = time.perf_counter() - began
    state = None if request.state is None else _load(request.state, tree, request.variant)
    solved = _iterate(request, tree, state)
    if request.state is not None:
        _save(request.state, tree, solved.solution.state)
    if not solved.complete:
        stopped = f"stopped after {output.count(solved.solution.state.iteration, 'iteration')}; the strategies are those so far"
        output.note("solve", stopped)
    if request.json != output.STDOUT:
        _show(tree, solved, rules, enumerated, about)
    if request.json is not None:
        output.write_json(request.json, _report(request, tree, solved, rules, enumerated) | about)
    return 0 if solved.complete else EXIT_INTERRUPTED


@dataclass(frozen=True)
class _Solved:
    """What came of it, the exploitabilities on the way, and the seconds of the iterations of this run."""

    solution: Solution
    history: tuple[solve.Progress, ...]
    seconds: float
    complete: bool


def _iterate(request: Solve, tree: Tree, state: CFRState | None) -> _Solved:
    """Iterate in parts that grow, so that Ctrl-C loses little and few exploitabilities are measured."""
    solution = solve.cfr(tree, iterations=0, variant=request.variant, state=state)
    history: list[solve.Progress] = []
    complete, began = False, time.perf_counter()
    kept = began
    with output.progress(quiet=request.quiet) as progress, contextlib.suppress(KeyboardInterrupt):
        task = progress.add_task("solving", total=request.iterations, done="")
        while True:
            done = solution.state.iteration
            progress.update(task, completed=done, done=f"{done:,} iterations, exploitability {solution.exploitability:.2g}")
            if done >= request.iterations or solution.exploitability <= request.tolerance:
                complete = True
                break
            more = min(max(1, done // 10), request.iterations - done)
            solution = solve.cfr(tree, iterations=more, check_every=more, variant=request.variant, state=solution.state)
            history += solution.history
            if request.state is not None and time.perf_counter() - kept >= _KEEP_SECONDS:
                _save(request.state, tree, solution.state)
                kept = time.perf_counter()
    return _Solved(solution, tuple(history), time.perf_counter() - began, complete)


def _show(tree: Tree, solved: _Solved, rules: Rules, enumerated: float, about: dict[str, Any]) -> None:
    solution = solved.solution
    table = output.grid(title=f"Exploitability of the average strategies, {solution.state.variant}")
    for heading in ("iterations", "exploitability"):
        table.add_column(heading, justify="right", no_wrap=True)
    # A line for about each doubling.
    shown, least = [], 1
    for row in solved.history:
        if row.iteration >= least:
            shown.append(row)
            least = 2 * row.iteration
    for row in dict.fromkeys((*shown, *solved.history[-1:])):
        table.add_row(f"{row.iteration:,}", f"{row.exploitability:.3g}")
    # A player's return differs from that at an equilibrium by no more than what both could gain.
    sign, error = output.plus_minus(), 2 * solution.exploitability
    won, (first, second) = (1 + solution.value) / 2, tree.num_infosets
    facts = {
        "Value": f"{solution.value:+.6f} {sign} {error:.2g} to player 0, who wins {won:.2%} if a draw is half a win",
        "Game": f"{tree.num_histories:,} histories; information states of the players: {first:,} and {second:,}",
        "Rules": output.rules_text(rules),
        "Time": f"{enumerated:.1f} s to enumerate, {solved.seconds:.1f} s to solve",
    }
    output.show(*([table] if solved.history else []), output.facts(facts | output.machine_facts(about)))


def _report(request: Solve, tree: Tree, solved: _Solved, rules: Rules, enumerated: float) -> dict[str, Any]:
    solution = solved.solution
    return {
        "command": "solve",
        "complete": solved.complete,
        "game": request.game,
        "variant": request.variant,
        "rules": asdict(rules),
        "num_histories": tree.num_histories,
        "num_infosets": list(tree.num_infosets),
        "enumerate_seconds": enumerated,
        "seconds": solved.seconds,
        "iterations": solution.state.iteration,
        "value": solution.value,
        "exploitability": solution.exploitability,
        "history": [asdict(row) for row in solved.history],
    }


def _about(tree: Tree) -> str:
    return json.dumps({"rules_version": RULES_VERSION, "rules": asdict(tree.rules), "merge_colors": tree.merge_colors})


def _save(path: str, tree: Tree, state: CFRState) -> None:
    arrays = dict(zip(_ARRAYS, (*state.regrets, *state.plans), strict=True))
    strategies = dict(zip(("strategy_0", "strategy_1"), state.average(tree), strict=True))
    content = io.BytesIO()
    about = {"game": np.array(_about(tree)), "variant": np.array(state.variant), "iteration": np.array(state.iteration)}
    np.savez(content, **about, **arrays, **strategies)
    output.write_file("--state", path, content.getvalue())


def _load(path: str, tree: Tree, variant: str) -> CFRState | None:
    """Read the run that a file keeps; None if there is no such file. Raises ValueError if it is of another game or variant."""
    if not Path(path).exists():
        return None
    try:
        # Opened here, since NumPy leaves a file open that it can't read.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            about, kept, iteration = str(file["game"]), str(file["variant"]), int(file["iteration"])
            regrets_0, regrets_1, plans_0, plans_1 = (np.asarray(file[name], float) for name in _ARRAYS)
    except OSError as error:
        raise ValueError(f"--state: can't read {path!r}: {error.strerror}") from None
    except (ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile):
        raise ValueError(f"--state: {path!r} is not a file of unojax solve; name another one") from None
    if about != _about(tree):
        raise ValueError(f"--state: {path!r} is of another game; give the options that it began with, or another file")
    if kept != variant:
        raise ValueError(f"--state: {path!r} is of {kept}; go on with --variant {kept}, or name another file")
    return CFRState(kept, iteration, (regrets_0, regrets_1), (plans_0, plans_1))  # pyright: ignore[reportArgumentType]

"""Solver runs, saved to a file and resumed, and their reports."""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from unojax.files import write_whole
from unojax.rules import RULES_VERSION
from unojax.solve.regret import CFRState, Progress, Solution, cfr
from unojax.solve.treeplex import Tree
from unojax.solve.updates import Variant

_ARRAYS: Final = ("regrets_0", "regrets_1", "plans_0", "plans_1")
_KEEP_SECONDS: Final = 60.0
"""Seconds between saves, in case the process is killed."""
GameName = Literal["tiny", "small", "medium", "rules"]
"""A small game by name, or the game of given rules."""


@dataclass(frozen=True)
class SolveReport:
    """Results of `unojax solve`.

    Attributes:
        complete: False after Ctrl-C; the strategies are then the current ones.
        game: Name of a small game, or `rules` for the rules of the options.
        variant: Variant of counterfactual regret minimisation.
        num_histories: Number of histories: positions with all events that led to them.
        num_infosets: Numbers of information states of player 0 and of player 1.
        enumerate_seconds: Time to enumerate the game, s.
        seconds: Solving time in this run, s.
        iterations: Total number of iterations, including earlier runs stored by `--state`.
        value: Expected return of player 0 under the average strategies, +1 for a win and -1 for a loss. The value of the game is
            within twice the exploitability of it.
        exploitability: Exploitability of the average strategies: mean gain of both players by a best response.
        history: Convergence of this run.
    """

    complete: bool
    game: GameName
    variant: Variant
    num_histories: int
    num_infosets: tuple[int, int]
    enumerate_seconds: float
    seconds: float
    iterations: int
    value: float
    exploitability: float
    history: tuple[Progress, ...]


@dataclass(frozen=True)
class ExploitRow:
    """Results of an agent.

    Attributes:
        agent: Name of the agent.
        returns: Return of the agent as player 0 and as player 1 against a best response.
        exploitability: Negative mean of `returns`.
    """

    agent: str
    returns: tuple[float, float]
    exploitability: float


@dataclass(frozen=True)
class ExploitReport:
    """Results of `unojax exploit`.

    Attributes:
        game: As in `unojax solve`.
        seed: Random seed of agents with memory.
        keys: Number of random keys over which such agents are averaged.
        exact_belief: Policy against which agents receive the exact probabilities of the hidden hand; None: they use their own
            beliefs.
        seconds: Total time, s, including the enumeration of the game.
        results: Results of each agent.
    """

    game: GameName
    seed: int
    keys: int
    exact_belief: str | None
    seconds: float
    results: list[ExploitRow]


def improve_solution(
    tree: Tree,
    *,
    iterations: int = 1000,
    variant: Variant = "cfr+",
    tolerance: float = 0.0,
    path: str | os.PathLike[str] | None = None,
) -> Iterator[Solution]:
    """Approach an equilibrium by `cfr`, and yield the solution after parts of growing length.

    Args:
        tree: The game.
        iterations: Maximum number, including those in the file.
        variant: See `cfr`.
        tolerance: Exploitability at which to stop.
        path: File from which the run is resumed if it exists, and to which it is saved every minute and at the end, also after
            an exception such as KeyboardInterrupt.

    Raises:
        ValueError: If an argument is out of range, or the file has another game or variant.
        OSError: If the file can't be written.
    """
    state = None if path is None or not Path(path).exists() else load_run(path, tree, variant)
    solution = cfr(tree, iterations=0, variant=variant, state=state)
    kept = time.perf_counter()
    try:
        yield solution
        while (done := solution.state.iteration) < iterations and solution.exploitability > tolerance:
            more, past = min(max(1, done // 10), iterations - done), solution.history
            solution = cfr(tree, iterations=more, check_every=more, variant=variant, state=solution.state)
            solution = replace(solution, history=past + solution.history)
            if path is not None and time.perf_counter() - kept >= _KEEP_SECONDS:
                save_run(path, tree, solution.state)
                kept = time.perf_counter()
            yield solution
    finally:
        if path is not None:
            save_run(path, tree, solution.state)


def save_run(path: str | os.PathLike[str], tree: Tree, state: CFRState) -> None:
    """Save a run atomically: regrets, plans, and the average strategies.

    Raises:
        OSError: If the file can't be written.
    """
    arrays = dict(zip(_ARRAYS, (*state.regrets, *state.plans), strict=True))
    strategies = dict(zip(("strategy_0", "strategy_1"), state.average(tree), strict=True))
    content = io.BytesIO()
    about = {"game": np.array(_about(tree)), "variant": np.array(state.variant), "iteration": np.array(state.iteration)}
    np.savez(content, **about, **arrays, **strategies)
    write_whole(path, content.getvalue())


def load_run(path: str | os.PathLike[str], tree: Tree, variant: Variant) -> CFRState:
    """Return the run in a file.

    Raises:
        ValueError: If the file can't be read, or has another game or variant.
    """
    name = os.fspath(path)
    try:
        # Opened here, because NumPy leaves unreadable files open.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            about, kept, iteration = str(file["game"]), str(file["variant"]), int(file["iteration"])
            regrets_0, regrets_1, plans_0, plans_1 = (np.asarray(file[array], float) for array in _ARRAYS)
    except OSError as error:
        raise ValueError(f"can't read {name!r}: {error.strerror}") from None
    except (ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile):
        raise ValueError(f"{name!r} is not a run of the solver; name another file") from None
    if iteration < 0 or not all(np.isfinite(array).all() for array in (regrets_0, regrets_1, plans_0, plans_1)):
        raise ValueError(f"{name!r} is damaged: it holds numbers that no run has; name another file")
    if about != _about(tree):
        raise ValueError(f"{name!r} is of another game; give the options that it began with, or another file")
    if kept != variant:
        raise ValueError(f"{name!r} is of {kept}; resume it with variant {kept}, or name another file")
    return CFRState(variant, iteration, (regrets_0, regrets_1), (plans_0, plans_1))


def _about(tree: Tree) -> str:
    return json.dumps({"rules_version": RULES_VERSION, "rules": asdict(tree.rules), "merge_colors": tree.merge_colors})

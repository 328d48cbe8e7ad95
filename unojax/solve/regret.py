"""Counterfactual regret minimisation in sequence form.

    cfr     Zinkevich, Johanson, Bowling and Piccione (2007); plain average
    cfr+    Tammelin (2014): regrets are clipped at 0 after each update; the plan of iteration t has weight t
    dcfr    Brown and Sandholm (2019): after iteration t positive regrets are multiplied by t^1.5 / (t^1.5 + 1), negative ones by
            1/2, and the sum of plans by (t / (t + 1))^2

Updates alternate: the second player responds to the first player's new plan of the same iteration. Plans are averaged, because
they are linear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np

from unojax.decks import is_int
from unojax.solve import updates
from unojax.solve.strategies import Strategies, exploitability, value
from unojax.solve.treeplex import Tree, Treeplex
from unojax.solve.updates import ROUNDING, Variant


@dataclass(frozen=True, eq=False)
class CFRState:
    """State of a run. `cfr(..., state=)` continues from it as if the run were one.

    Attributes:
        variant: Variant of CFR.
        iteration: Number of iterations done.
        regrets: Cumulative regrets of each player, float64[S]; 0 for the empty sequence.
        plans: Weighted sum of each player's plans, float64[S].
    """

    variant: Variant
    iteration: int
    regrets: tuple[np.ndarray, np.ndarray]
    plans: tuple[np.ndarray, np.ndarray]

    def current(self, tree: Tree) -> Strategies:
        """Return the strategies of the next iteration."""
        first, second = (_match_regrets(p, r) for p, r in zip(tree.players, self.regrets, strict=True))
        return first, second

    def average(self, tree: Tree) -> Strategies:
        """Return the average strategies; uniform ones before the first iteration."""
        first, second = (p.behavior(plan) for p, plan in zip(tree.players, self.plans, strict=True))
        return first, second


@dataclass(frozen=True)
class Progress:
    """Exploitability of the average strategies after an iteration.

    Attributes:
        iteration: Number of iterations.
        exploitability: Exploitability after them, mean return per game.
    """

    iteration: int
    exploitability: float


@dataclass(frozen=True, eq=False)
class Solution:
    """Result of a run.

    Attributes:
        strategies: Average strategies, which approach an equilibrium.
        value: Expected return of player 0 between them.
        exploitability: Exploitability of `strategies`. The value of the game is within twice this of `value`.
        history: Exploitabilities measured in this run.
        state: State from which a run can continue.
    """

    strategies: Strategies
    value: float
    exploitability: float
    history: tuple[Progress, ...]
    state: CFRState

    def __repr__(self) -> str:
        return (
            f"Solution({self.state.variant}, {self.state.iteration} iterations, value {self.value:.6f}, "
            f"exploitability {self.exploitability:.3g})"
        )


def cfr(
    tree: Tree,
    *,
    iterations: int = 1000,
    variant: Variant = "cfr+",
    tolerance: float | None = None,
    check_every: int = 10,
    state: CFRState | None = None,
) -> Solution:
    """Approach an equilibrium.

    Args:
        tree: The game.
        iterations: Maximum number of iterations in this run, each an update of both players.
        variant: "cfr", "cfr+" or "dcfr", see `unojax.solve.regret`.
        tolerance: Exploitability at which to stop. None: never.
        check_every: Iterations between measurements of the exploitability, each about as long as an iteration.
        state: State of an earlier run on the same tree.

    Raises:
        ValueError: If an argument is out of range, or the state is of another variant or tree.
    """
    for name, number, low in (("iterations", iterations, 0), ("check_every", check_every, 1)):
        if not (is_int(number) and number >= low):
            raise ValueError(f"{name} must be an integer of at least {low}, got {number!r}")
    if tolerance is not None and not 0 <= tolerance < math.inf:
        raise ValueError(f"tolerance must be a number of at least 0, or None, got {tolerance!r}")
    if variant not in get_args(Variant):
        raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {variant!r}")
    if state is None:
        zeros = [np.zeros(player.num_sequences) for player in tree.players]
        state = CFRState(variant, 0, (zeros[0], zeros[1]), (zeros[0], zeros[1]))
    elif state.variant != variant:
        raise ValueError(f"state is of variant {state.variant!r}, not {variant!r}: pass variant={state.variant!r}")
    for player, treeplex in enumerate(tree.players):
        treeplex.check(state.regrets[player], f"regrets of player {player}")
        treeplex.check(state.plans[player], f"plans of player {player}")

    history: list[Progress] = []
    last = state.iteration + iterations
    while state.iteration < last:
        state = _advance(tree, state, min(check_every, last - state.iteration))
        history.append(Progress(state.iteration, exploitability(tree, state.average(tree))))
        if tolerance is not None and history[-1].exploitability <= tolerance:
            break
    strategies = state.average(tree)
    reached = history[-1].exploitability if history else exploitability(tree, strategies)
    return Solution(strategies, value(tree, strategies), reached, tuple(history), state)


def _match_regrets(treeplex: Treeplex, regrets: np.ndarray) -> np.ndarray:
    """Return behaviour in proportion to positive regrets."""
    return treeplex.normalize(np.where(regrets > ROUNDING, regrets, 0.0))


def _advance(tree: Tree, state: CFRState, count: int) -> CFRState:
    regrets, plans = updates.advance(tree.sides, state.variant, state.iteration, state.regrets, state.plans, count)
    return CFRState(state.variant, state.iteration + count, regrets, plans)

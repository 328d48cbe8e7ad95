"""Errors of a strategy: the cost of each choice, and the strategy after one look-ahead."""

from __future__ import annotations

import numpy as np

from unojax.solve.strategies import Strategies
from unojax.solve.treeplex import Tree, check_player

_SAME = 1e-12
"""Tolerance within which values count as equal."""


def mistakes(tree: Tree, player: int, strategy: np.ndarray, opponent: np.ndarray) -> np.ndarray:
    """Return the cost of a player's choices if all later choices were best, float64[I].

    At information state I with the player's own realisation x(I) that is

        x(I) (max_a q(I, a) - sum_a strategy(I, a) q(I, a)),

    with q the counterfactual values of the best response to `opponent`. The costs, in mean return per game, sum to the strategy's
    loss against the best response (performance difference lemma, Kakade and Langford 2002).

    Raises:
        ValueError: If there is no such player, or a strategy does not fit this tree.
    """
    treeplex, plan = tree.players[check_player(player)], tree.plan(player, strategy)
    gains = tree.gains(player, tree.plan(1 - player, opponent))
    values, best = treeplex.values(gains, treeplex.best(gains)[1])
    if not treeplex.num_choices:
        return best
    chosen = np.add.reduceat(values[1:] * np.asarray(strategy)[1:], treeplex.first - 1)
    return plan[treeplex.parent] * np.maximum(best - chosen, 0.0)


def improve(tree: Tree, strategies: Strategies, against: Strategies | None = None) -> Strategies:
    """Return the strategies that act best at each state if later choices follow `strategies`.

    This is the limit of flat Monte Carlo with the exact belief and infinitely many rollouts. Ties keep the player's own policy.

    Args:
        tree: The game.
        strategies: Strategies of both players, as their own rollout policies.
        against: Each player's model of the other's strategy. None: `strategies`.

    Raises:
        ValueError: If a strategy does not fit this tree.
    """
    first, second = (_improve(tree, player, strategies[player], (against or strategies)[1 - player]) for player in (0, 1))
    return first, second


def _improve(tree: Tree, player: int, strategy: np.ndarray, opponent: np.ndarray) -> np.ndarray:
    treeplex = tree.players[player]
    strategy = treeplex.check_strategy(strategy, f"strategy of player {player}")
    values, of_states = treeplex.values(tree.gains(player, tree.plan(1 - player, opponent)), strategy)
    best = treeplex.greedy(values)
    if not treeplex.num_choices:
        return best
    most = np.maximum.reduceat(values[1:], treeplex.first - 1)
    keeps = np.append(True, (most - of_states <= _SAME)[treeplex.infoset_of])
    return np.where(keeps, strategy, best)

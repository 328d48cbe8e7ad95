"""Exact solutions of games with small decks: equilibria, best responses, exploitability.

    tree = solve.enumerate_game(solve.DECKS["small"])
    solution = solve.cfr(tree, iterations=200)
    solve.exploitability(tree, solve.of_policy(tree, "linear"))

Sizes: N tables or histories, I information states of a player with a choice, S sequences of a player. A strategy is a player's
behaviour, float64[S], see `Treeplex`.
"""

from unojax.solve.decks import DECKS
from unojax.solve.enumeration import DEFAULT_LIMIT, enumerate_game
from unojax.solve.mistakes import improve, mistakes
from unojax.solve.play import PlayError, of_agent
from unojax.solve.regret import CFRState, Progress, Solution, cfr
from unojax.solve.size import Size, estimate_size
from unojax.solve.strategies import Strategies, best_response, exploitability, observations, of_policy, uniform, value
from unojax.solve.treeplex import Tree, Treeplex

__all__ = ["DECKS", "DEFAULT_LIMIT", "CFRState", "PlayError", "Progress", "Size", "Solution", "Strategies", "Tree", "Treeplex"]
__all__ += ["best_response", "cfr", "enumerate_game", "estimate_size", "exploitability", "improve", "mistakes"]
__all__ += ["observations", "of_agent", "of_policy", "uniform", "value"]

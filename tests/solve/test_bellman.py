"""Against a fixed opponent V* of the POMDP is the value of the best response."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product

import jax
import numpy as np
import pytest

from tests.belief.oracle import World, legal_actions
from tests.helpers import deck_of, variant
from tests.solve.bellman import Bellman, dealt
from unojax import cards, solve
from unojax.belief import PolicyOpponent, uniform_opponent
from unojax.observation import Observation
from unojax.policies import get_policy
from unojax.rules import Rules

OPPONENTS = {
    "uniform": uniform_opponent,
    "linear": PolicyOpponent(get_policy("linear")),
    "scarcest-color, trembling": PolicyOpponent(get_policy("scarcest-color"), 0.3),
}
GAMES = {
    "tiny": solve.DECKS["tiny"],
    "tiny with Skips": Rules(deck=deck_of("R1 R1 RS Y1 Y1 YR Y+2"), hand_size=2, max_steps=10),
}


@cache
def tree_of(rules: Rules) -> solve.Tree:
    return solve.enumerate_game(rules, merge_colors=False)


def chooser(model, rules: Rules, seat: int):
    """Return a model's choices in a world whose player 1 sits at `seat`, as a function."""
    ask = jax.jit(model.__call__)
    known: dict[tuple, dict[int, float]] = {}

    def choose(w: World, last: int) -> dict[int, float]:
        key = (w.hands[1], len(w.hands[0]), w.pile, w.top, w.color, w.penalty, len(w.deck), last)
        if key not in known:
            legal = legal_actions(w.hands[1], w.top, w.color, w.penalty)
            seen = Observation(
                player=np.int8(seat),
                hand=onehot(w.hands[1]),
                pile=onehot((*w.pile, w.top)),
                opponent_count=np.int8(len(w.hands[0])),
                deck_count=np.int8(len(w.deck)),
                top_rank=np.int8(cards.RANK_OF_TYPE[w.top]),
                color=np.int8(w.color),
                penalty=np.int8(w.penalty),
                current_player=np.int8(seat),
                last_action=np.int8(last),
                terminated=np.bool_(False),
                rules=rules,
            )
            probs = np.asarray(ask(seen, np.isin(np.arange(rules.num_actions), legal)), np.float64)[legal]
            known[key] = dict(zip(legal, (probs / probs.sum()).tolist(), strict=True))
        return known[key]

    return choose


def onehot(types: tuple[int, ...]) -> np.ndarray:
    count = Counter(types)
    return cards.onehot_of([count[t] for t in range(cards.NUM_TYPES)])


CASES = [("tiny with Skips", "linear", True), ("tiny", "uniform", False)]
OTHERS = [case for case in product(GAMES, OPPONENTS, (True, False)) if case not in CASES]


@pytest.mark.parametrize(
    ("name", "opponent", "skip_forfeits"), [*CASES, *(pytest.param(*c, marks=pytest.mark.slow) for c in OTHERS)]
)
def test_the_best_response_earns_the_value_of_the_bellman_equation(name: str, opponent: str, skip_forfeits: bool):
    rules = replace(GAMES[name], skip_forfeits=skip_forfeits)
    tree, model = tree_of(rules), OPPONENTS[opponent]
    strategies = solve.of_policy(tree, model)
    for player in (0, 1):
        worlds = dealt(variant(rules), player)
        bellman = Bellman(chooser(model, rules, 1 - player), skip_forfeits, rules.max_steps)
        value = bellman.root(worlds)
        best, _ = solve.best_response(tree, player, strategies[1 - player])
        assert value == pytest.approx(best, abs=1e-9)
        # Greedy in Q* is a best response: followed world by world, it earns as much.
        assert bellman.return_of_greedy(worlds) == pytest.approx(best, abs=1e-9)


def test_a_discount_counts_every_transition():
    """The greedy policy earns the discounted value, which is nearer to zero."""
    rules = GAMES["tiny with Skips"]
    choose, worlds = chooser(uniform_opponent, rules, 1), dealt(variant(rules), 0)
    values = {}
    for gamma in (1.0, 0.95):
        bellman = Bellman(choose, rules.skip_forfeits, rules.max_steps, gamma)
        values[gamma] = bellman.root(worlds)
        assert bellman.return_of_greedy(worlds) == pytest.approx(values[gamma], abs=1e-9)
    assert 0 < values[0.95] < values[1.0]

"""CFR against the textbook's recursion and its regret bound, and resumed runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import refusals
from tests.solve import oracle
from tests.solve.games import GAMES, earnings, root_of, tree_of
from unojax import solve

VARIANTS = ("cfr", "cfr+", "dcfr")


def iterate_plainly(tree, iterations, variant):
    """Return regrets and weighted sums of plans after some iterations, by the formulas of the papers."""
    players = tree.players
    regrets, sums = ([np.zeros(treeplex.num_sequences) for treeplex in players] for _ in range(2))
    for t in range(1, iterations + 1):
        for me in (0, 1):
            mine, its = (players[who].normalize(np.where(regrets[who] > 1e-14, regrets[who], 0)) for who in (me, 1 - me))
            gains = tree.gains(me, players[1 - me].plan(its))
            values, of_states = players[me].values(gains, mine)
            regrets[me][1:] += values[1:] - of_states[players[me].infoset_of]
            sums[me] += players[me].plan(mine) * (t if variant == "cfr+" else 1)
            if variant == "cfr+":
                regrets[me] = np.maximum(regrets[me], 0)
            if variant == "dcfr":
                regrets[me] *= np.where(regrets[me] >= 0, t**1.5 / (t**1.5 + 1), 1 / 2)
                sums[me] *= (t / (t + 1)) ** 2
    return regrets, sums


@pytest.mark.parametrize("variant", VARIANTS)
def test_iterates(variant: Any):
    """Some tens of iterations; later, rounding decides between equal actions."""
    for name in ("numbers", "all ranks"):
        tree = tree_of(name)
        state = solve.cfr(tree, iterations=20, variant=variant, check_every=20).state
        regrets, sums = iterate_plainly(tree, 20, variant)
        for ours, theirs in zip((*state.regrets, *state.plans), (*regrets, *sums), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    if variant != "dcfr":
        for name in ("any start", "all ranks"):
            tree, root = tree_of(name), root_of(name)
            solution = solve.cfr(tree, iterations=7, variant=variant)
            by_book = oracle.cfr(root, 7, plus=variant == "cfr+")
            assert solution.value == pytest.approx(oracle.value(root, by_book), abs=1e-12)
            for player in (0, 1):
                ours = solve.best_response(tree, player, solution.strategies[1 - player])[0]
                assert ours == pytest.approx(oracle.best_response(root, player, by_book[1 - player]), abs=1e-12)
    assert jnp.ones(1).dtype == jnp.float32, "double precision stays inside the solver"


@pytest.mark.parametrize("variant", ["cfr", "cfr+"])
def test_regret_bound(variant: Any):
    """Regret of the game is at most the sum of positive counterfactual regrets, and that at most sum_I D_I sqrt(A_I T).

    Zinkevich et al. (2007), theorems 3 and 4, with D_I = 2 times the others' reach of I, at most 2.
    """
    for name in ("numbers", "all ranks"):
        tree, state = tree_of(name), None
        met: list[np.ndarray] = [np.zeros(tree.players[1].num_sequences), np.zeros(tree.players[0].num_sequences)]
        earned = [0.0, 0.0]
        for t in range(1, 41):
            before = solve.uniform(tree) if state is None else state.current(tree)
            state = solve.cfr(tree, iterations=1, variant=variant, state=state).state
            # Player 1 meets the updated player 0.
            opponents: solve.Strategies = before[1], state.current(tree)[0]
            for player, treeplex in enumerate(tree.players):
                plan = tree.players[1 - player].plan(opponents[player])
                met[player] = met[player] + plan
                earned[player] += float(treeplex.plan(before[player]) @ tree.gains(player, plan))
                regret = treeplex.best(tree.gains(player, met[player]))[0] - earned[player]
                bound = 2 * np.sqrt(treeplex.num_actions * t).sum()
                positive = np.maximum(np.maximum.reduceat(state.regrets[player][1:], treeplex.first - 1), 0).sum()
                assert -1e-9 <= regret <= positive + 1e-9 <= bound


@pytest.mark.parametrize("name", GAMES)
def test_exploitability_falls(name: str):
    tree = tree_of(name)
    for variant in VARIANTS:
        solution = solve.cfr(tree, iterations=200, variant=variant, check_every=50)
        measured = [solve.exploitability(tree, solve.uniform(tree)), *(progress.exploitability for progress in solution.history)]
        assert len(measured) == 5 and measured[-1] == solution.exploitability
        assert -1e-12 <= measured[-1] < max(0.1 * measured[0], 0.01)
        # The value of the game lies between the bounds of the best responses.
        gains = [solve.best_response(tree, player, solution.strategies[1 - player])[0] for player in (0, 1)]
        assert -gains[1] - 1e-12 <= solution.value <= gains[0] + 1e-12


def test_resumed_and_measured_runs(monkeypatch):
    """Parts equal the whole run; the tolerance stops it; without iterations play is uniform."""
    tree = tree_of("numbers")
    for variant in VARIANTS:
        once = solve.cfr(tree, iterations=30, variant=variant)
        half = solve.cfr(tree, iterations=13, variant=variant)
        with monkeypatch.context() as patch:
            patch.setattr("unojax.solve.updates._WORK", 1)
            twice = solve.cfr(tree, iterations=17, variant=variant, state=half.state)
        assert (half.state.iteration, twice.state.iteration) == (13, 30)
        for one, other in zip((*once.strategies, *once.state.regrets), (*twice.strategies, *twice.state.regrets), strict=True):
            np.testing.assert_array_equal(one, other)
    solution = solve.cfr(tree, tolerance=1e-3, check_every=5)
    before, last = solution.history[-2:]
    assert solution.exploitability == last.exploitability <= 1e-3 < before.exploitability
    assert solution.state.iteration == last.iteration == before.iteration + 5 < 100
    assert "cfr+" in repr(solution) and "770" in repr(tree)
    uniform = solve.exploitability(tree, solve.uniform(tree))
    assert solve.cfr(tree, iterations=0).exploitability == pytest.approx(uniform)


def test_best_response_is_a_strategy():
    tree = tree_of("all ranks")
    uniform = solve.uniform(tree)
    for player in (0, 1):
        value, response = solve.best_response(tree, player, uniform[1 - player])
        assert set(response.tolist()) == {0.0, 1.0}
        np.testing.assert_array_equal(np.add.reduceat(response[1:], tree.players[player].first - 1), 1.0)
        assert earnings(tree, player, response, uniform[1 - player]) == pytest.approx(value, abs=1e-12)


def test_refusals():
    tree = tree_of("numbers")
    uniform, state = solve.uniform(tree), solve.cfr(tree, iterations=1).state
    cut = replace(state, plans=(state.plans[0], state.plans[1][1:]))
    calls: dict[str, Any] = {
        "player": lambda: solve.best_response(tree, 2, uniform[0]),
        "strategy of player 1": lambda: solve.best_response(tree, 0, uniform[0]),
        "strategy of player 0": lambda: solve.value(tree, (uniform[1], uniform[0])),
        "iterations": lambda: solve.cfr(tree, iterations=-1),
        "variant": lambda: solve.cfr(tree, variant="fast"),
        "state": lambda: solve.cfr(tree, variant="cfr", state=state),
        "regrets of player 0": lambda: solve.cfr(tree_of("all ranks"), iterations=1, state=state),
        "plans of player 1": lambda: solve.cfr(tree, state=cut),
        "'fast'": lambda: solve.of_policy(tree, "fast"),
        "policy (a number)": lambda: solve.of_policy(tree, 3),
        "policy (a choice)": lambda: solve.of_policy(tree, lambda key, observation, mask: mask.argmax()),
        "policy (no probabilities)": lambda: solve.of_policy(tree, lambda observation, mask: mask.astype("float32")),
    }
    for wrong in (uniform[0] * 0, -uniform[0], 5 * uniform[0], uniform[0] * np.nan):
        calls[f"strategy of player 0 ({wrong[1]})"] = lambda wrong=wrong: solve.exploitability(tree, (wrong, uniform[1]))
    for tolerance in (float("nan"), -1.0, float("inf")):
        calls[f"tolerance ({tolerance})"] = lambda tolerance=tolerance: solve.cfr(tree, tolerance=tolerance)
    refusals(calls)

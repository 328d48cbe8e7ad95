"""CFR against the textbook's recursion, against its regret bound, and from one run to the next."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from tests.solve import oracle
from tests.solve.test_enumeration import GAMES, root_of, tree_of
from unojax import solve


@pytest.mark.parametrize("name", ["any start", "all ranks"])
@pytest.mark.parametrize("variant", ["cfr", "cfr+"])
def test_iterates_of_the_book(name, variant):
    tree, root = tree_of(name, True), root_of(name, True)
    solution = solve.cfr(tree, iterations=7, variant=variant)
    theirs = oracle.cfr(root, 7, plus=variant == "cfr+")
    assert solution.value == pytest.approx(oracle.value(root, theirs), abs=1e-12)
    for player in (0, 1):
        ours = solve.best_response(tree, player, solution.strategies[1 - player])[0]
        assert ours == pytest.approx(oracle.best_response(root, player, theirs[1 - player]), abs=1e-12)


def _iterate_plainly(tree, iterations, variant):
    """Give the regrets and the weighted sums of plans after some iterations, a line of the papers at a time."""
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


@pytest.mark.parametrize("name", ["numbers", "all ranks"])
@pytest.mark.parametrize("variant", ["cfr", "cfr+", "dcfr"])
def test_iterates(name, variant):
    """Not more than some tens: where two actions are worth the same, rounding chooses between them in the end."""
    tree = tree_of(name, True)
    state = solve.cfr(tree, iterations=20, variant=variant, check_every=20).state
    regrets, sums = _iterate_plainly(tree, 20, variant)
    for ours, theirs in zip((*state.regrets, *state.plans), (*regrets, *sums), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    assert jnp.ones(1).dtype == jnp.float32


@pytest.mark.parametrize("name", ["numbers", "all ranks"])
@pytest.mark.parametrize("variant", ["cfr", "cfr+"])
def test_regret_bound(name, variant):
    """Regret of the game is at most the sum of positive counterfactual regrets, and that sum at most sum_I D_I sqrt(A_I T).

    Zinkevich et al. (2007), theorems 3 and 4, with D_I = 2 times the chance that the others let the game come to I, at most 2.
    """
    tree, state = tree_of(name, True), None
    met: list[np.ndarray] = [np.zeros(tree.players[1].num_sequences), np.zeros(tree.players[0].num_sequences)]
    earned = [0.0, 0.0]
    for t in range(1, 41):
        before = solve.uniform(tree) if state is None else state.current(tree)
        solution = solve.cfr(tree, iterations=1, variant=variant, state=state)
        state = solution.state
        # Player 1 meets what player 0 has become.
        opponents: solve.Strategies = before[1], state.current(tree)[0]
        for player, treeplex in enumerate(tree.players):
            plan = tree.players[1 - player].plan(opponents[player])
            met[player] = met[player] + plan
            earned[player] += float(treeplex.plan(before[player]) @ tree.gains(player, plan))
            regret = treeplex.best(tree.gains(player, met[player]))[0] - earned[player]
            bound = 2 * np.sqrt(treeplex.num_actions * t).sum()
            assert regret >= -1e-9
            positive = np.maximum(np.maximum.reduceat(state.regrets[player][1:], treeplex.first - 1), 0).sum()
            assert regret <= positive + 1e-9 <= bound


@pytest.mark.parametrize("variant", ["cfr", "cfr+", "dcfr"])
@pytest.mark.parametrize("name", list(GAMES))
def test_exploitability_falls(name, variant):
    tree = tree_of(name, True)
    solution = solve.cfr(tree, iterations=200, variant=variant, check_every=50)
    measured = [solve.exploitability(tree, solve.uniform(tree)), *(progress.exploitability for progress in solution.history)]
    assert len(measured) == 5 and measured[-1] == solution.exploitability
    assert 0 <= measured[-1] + 1e-12 and measured[-1] < max(0.1 * measured[0], 0.01)
    # The value of the game lies between what the best responses leave.
    gains = [solve.best_response(tree, player, solution.strategies[1 - player])[0] for player in (0, 1)]
    assert -gains[1] - 1e-12 <= solution.value <= gains[0] + 1e-12


@pytest.mark.parametrize("variant", ["cfr", "cfr+", "dcfr"])
def test_going_on(variant, monkeypatch):
    tree = tree_of("numbers", True)
    once = solve.cfr(tree, iterations=30, variant=variant)
    half = solve.cfr(tree, iterations=13, variant=variant)
    monkeypatch.setattr("unojax.solve.updates._WORK", 1)
    twice = solve.cfr(tree, iterations=17, variant=variant, state=half.state)
    assert twice.state.iteration == 30
    assert half.state.iteration == 13
    for one, other in zip((*once.strategies, *once.state.regrets), (*twice.strategies, *twice.state.regrets), strict=True):
        np.testing.assert_array_equal(one, other)


def test_tolerance_and_progress():
    tree, seen = tree_of("numbers", True), []
    solution = solve.cfr(tree, tolerance=1e-3, check_every=5, on_progress=seen.append)
    assert solution.exploitability <= 1e-3 < seen[-2].exploitability
    assert tuple(seen) == solution.history and solution.state.iteration == seen[-1].iteration < 100
    assert "cfr+" in repr(solution) and "770" in repr(tree)


def test_no_iterations():
    tree = tree_of("numbers", True)
    solution = solve.cfr(tree, iterations=0)
    assert solution.exploitability == pytest.approx(solve.exploitability(tree, solve.uniform(tree)))


def test_best_response_is_a_strategy():
    tree = tree_of("all ranks", True)
    uniform = solve.uniform(tree)
    for player in (0, 1):
        value, response = solve.best_response(tree, player, uniform[1 - player])
        pair = (response, uniform[1]) if player == 0 else (uniform[0], response)
        assert set(response.tolist()) == {0.0, 1.0}
        np.testing.assert_array_equal(np.add.reduceat(response[1:], tree.players[player].first - 1), 1.0)
        assert (1 - 2 * player) * solve.value(tree, pair) == pytest.approx(value, abs=1e-12)


def test_bad_input():
    tree = tree_of("numbers", True)
    uniform = solve.uniform(tree)
    with pytest.raises(ValueError, match="player must be 0 or 1"):
        solve.best_response(tree, 2, uniform[0])
    with pytest.raises(ValueError, match=r"strategy of player 1 must be a number for each of 65 sequences, got shape \(33,\)"):
        solve.best_response(tree, 0, uniform[0])
    with pytest.raises(ValueError, match="strategy of player 0 must be"):
        solve.value(tree, (uniform[1], uniform[0]))
    for wrong in (uniform[0] * 0, -uniform[0], 5 * uniform[0], uniform[0] * np.nan):
        with pytest.raises(ValueError, match="strategy of player 0 must be probabilities, at each information state with sum 1"):
            solve.exploitability(tree, (wrong, uniform[1]))
    with pytest.raises(ValueError, match="iterations must be"):
        solve.cfr(tree, iterations=-1)
    with pytest.raises(ValueError, match=r"variant must be one of cfr\+, dcfr, cfr, got 'fast'"):
        solve.cfr(tree, variant="fast")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"state is of variant 'cfr\+'"):
        solve.cfr(tree, variant="cfr", state=solve.cfr(tree, iterations=1).state)
    with pytest.raises(ValueError, match="regrets of player 0 must be"):
        solve.cfr(tree_of("all ranks", True), iterations=1, state=solve.cfr(tree, iterations=1).state)
    with pytest.raises(ValueError, match="no policy is called 'fast'"):
        solve.of_policy(tree, "fast")
    for what in (3, lambda key, observation, mask: mask.argmax()):
        with pytest.raises(ValueError, match="policy must be a name, have action_probs"):
            solve.of_policy(tree, what)
    for tolerance in (float("nan"), -1.0, float("inf")):
        with pytest.raises(ValueError, match="tolerance must be a number of at least 0, or None"):
            solve.cfr(tree, tolerance=tolerance)
    state = solve.cfr(tree, iterations=1).state
    with pytest.raises(ValueError, match="plans of player 1 must be"):
        solve.cfr(tree, state=replace(state, plans=(state.plans[0], state.plans[1][1:])))
    with pytest.raises(ValueError, match="policy must give probabilities"):
        solve.of_policy(tree, lambda observation, mask: mask.astype("float32"))

"""Values, best responses and iterates against OpenSpiel's, if installed."""

from __future__ import annotations

import pytest

from tests.solve.games import GAMES, root_of, tree_of
from tests.solve.openspiel_game import to_efg
from tests.solve.positions import behavior_by
from unojax import solve
from unojax.policies import POLICIES

pyspiel = pytest.importorskip("pyspiel")


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    path = tmp_path_factory.mktemp("efg") / "uno.efg"
    path.write_text(to_efg(root_of("numbers")))
    return pyspiel.load_game(f"efg_game(filename={path})")


def _walk(state):
    yield state
    for action in state.legal_actions() if not state.is_terminal() else ():
        yield from _walk(state.child(action))


def test_numbers_and_uniform_play(game):
    tree = tree_of("numbers")
    states = list(_walk(game.new_initial_state()))
    assert tree.num_histories == len(states)
    ours, theirs = solve.uniform(tree), pyspiel.UniformRandomPolicy(game)
    root = game.new_initial_state()
    assert solve.exploitability(tree, ours) == pytest.approx(pyspiel.exploitability(game, theirs), abs=1e-9)
    assert solve.value(tree, ours) == pytest.approx(pyspiel.expected_returns(root, theirs, -1, True)[0], abs=1e-9)
    for player in (0, 1):
        mine = {s.information_state_string(player) for s in states if not s.is_terminal() and s.current_player() == player}
        assert tree.num_infosets[player] == len(mine)
        best = pyspiel.TabularBestResponse(game, player, theirs).value(root.history_str())
        assert solve.best_response(tree, player, ours[1 - player])[0] == pytest.approx(best, abs=1e-9)


def _tabular(state, node, behavior, table):
    """Write the oracle's behaviour as OpenSpiel's table."""
    if state.is_terminal():
        return
    names = {action: int(state.action_to_string(state.current_player(), action)) for action in state.legal_actions()}
    if not state.is_chance_node():
        probs = behavior[node.player][node.key]
        table[state.information_state_string()] = [(action, probs[name]) for action, name in names.items()]
    for action, name in names.items():
        _tabular(state.child(action), node.children[name], behavior, table)


@pytest.mark.parametrize("name", ["scarcest-color", "linear"])
def test_policies(game, name):
    tree, root, table = tree_of("numbers"), root_of("numbers", False), {}
    behavior = behavior_by(root, GAMES["numbers"], POLICIES[name].action_probs)
    _tabular(game.new_initial_state(), root, behavior, table)
    ours, theirs = solve.of_policy(tree, name), pyspiel.TabularPolicy(table)
    assert solve.exploitability(tree, ours) == pytest.approx(pyspiel.exploitability(game, theirs), abs=1e-9)
    returns = pyspiel.expected_returns(game.new_initial_state(), theirs, -1, True)
    assert solve.value(tree, ours) == pytest.approx(returns[0], abs=1e-9)


@pytest.mark.parametrize(("kind", "solver"), [("cfr", "CFRSolver"), ("cfr+", "CFRPlusSolver")])
def test_iterates(game, kind, solver):
    tree, state = tree_of("numbers"), None
    theirs = getattr(pyspiel, solver)(game)
    for _ in range(5):
        for _ in range(10):
            theirs.evaluate_and_update_policy()
        solution = solve.cfr(tree, iterations=10, variant=kind, state=state)
        state = solution.state
        policy = theirs.average_policy()
        assert solution.exploitability == pytest.approx(pyspiel.exploitability(game, policy), abs=1e-9)
        returns = pyspiel.expected_returns(game.new_initial_state(), policy, -1, True)
        assert solution.value == pytest.approx(returns[0], abs=1e-9)

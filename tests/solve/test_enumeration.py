"""The enumerated game against the oracle's tree."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tests.helpers import deck_of
from tests.solve import oracle
from tests.solve.games import GAMES, leaning, root_of, tree_of
from tests.solve.positions import behavior_by
from unojax import Rules, solve
from unojax.game import from_table
from unojax.policies import POLICIES
from unojax.solve.expansion import stand_ins
from unojax.table import Table

BOTH = [(name, True) for name in GAMES]
BOTH += [pytest.param(name, False, marks=() if name == "numbers" else pytest.mark.slow) for name in GAMES]


def assert_values(tree: solve.Tree, root: oracle.Node, ours: solve.Strategies, theirs, error: float) -> None:
    """Compare values of strategies, and of the best responses to them."""
    assert solve.value(tree, ours) == pytest.approx(oracle.value(root, theirs), abs=error)
    gains = [oracle.best_response(root, player, theirs[1 - player]) for player in (0, 1)]
    for player in (0, 1):
        assert solve.best_response(tree, player, ours[1 - player])[0] == pytest.approx(gains[player], abs=error)
    assert solve.exploitability(tree, ours) == pytest.approx(sum(gains) / 2, abs=error)


@pytest.mark.parametrize(("name", "merged"), BOTH)
def test_the_tree_is_that_of_plain_python(name: str, merged: bool):
    """Its sizes, and the values of uniform play and of the best responses to it.

    Contract: `deck` holds 54 copy counts, so small decks for exact solving are the same code.
    """
    tree, root = tree_of(name, merged), root_of(name, merged)
    states = oracle.infosets(root)
    assert tree.num_histories == sum(1 for _ in root.walk())
    assert tree.num_infosets == (len(states[0]), len(states[1]))
    for player in (0, 1):
        choices = [len(nodes[0].children) for nodes in states[player].values() if len(nodes[0].children) > 1]
        assert tree.players[player].num_choices == len(choices)
        assert sorted(tree.players[player].num_actions) == sorted(choices)
    assert_values(tree, root, solve.uniform(tree), oracle.behavior_of(root, oracle.uniform), 1e-12)


def test_policies_have_the_values_of_plain_python():
    """The single precision of `leaning` depends on the program."""
    tree, root = tree_of("any start", False), root_of("any start", False)
    for policy, probs, error in ((leaning, leaning, 1e-6), ("linear", POLICIES["linear"].action_probs, 1e-12)):
        assert_values(tree, root, solve.of_policy(tree, policy), behavior_by(root, GAMES["any start"], probs), error)


def test_counts_of_another_program():
    """An independent enumeration in another language agrees."""
    tree = tree_of("numbers")
    assert (tree.num_histories, tree.num_infosets) == (770, (164, 170))
    with_wild = Rules(deck=deck_of("R1 R1 R2 Y1 Y2 Y2 RS Y+2 W"), hand_size=2)
    tree = solve.enumerate_game(with_wild, 8, merge_colors=False)
    assert (tree.num_histories, tree.num_infosets) == (432_814, (22_644, 27_546))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["any start", "all ranks"])
def test_merged_colors_change_no_value(name: str):
    trees = [tree_of(name, merged) for merged in (False, True)]
    assert trees[1].num_histories < trees[0].num_histories
    for policy in ("uniform", "linear", leaning):
        values = []
        for tree in trees:
            strategies = solve.of_policy(tree, policy)
            gains = [solve.best_response(tree, player, strategies[1 - player])[0] for player in (0, 1)]
            values.append([solve.value(tree, strategies), *gains])
        assert values[0] == pytest.approx(values[1], abs=1e-6)
    solutions = [solve.cfr(tree, iterations=300, variant="dcfr", check_every=300) for tree in trees]
    error = 2 * max(solution.exploitability for solution in solutions)
    assert error < 1e-3
    assert solutions[0].value == pytest.approx(solutions[1].value, abs=2 * error)


def test_small_parts():
    """Stand-ins for missing colours, and payoffs of a one-step game."""
    assert stand_ins(GAMES["all ranks"]) == (1, 1, 2, 0)
    assert stand_ins(GAMES["three colors"]) == stand_ins(Rules()) == (1, 1, 1, 1)
    tree = solve.enumerate_game(Rules(deck=deck_of("R1 R2 R3"), hand_size=1, max_steps=1))
    assert (tree.num_histories, tree.num_infosets) == (1 + 3 + 6 + 6 + 6, (6, 0))
    assert tree.payoff.toarray() == pytest.approx(np.ones((1, 1)), abs=1e-15)


def test_information_states_show_the_mover_its_choice_and_have_perfect_recall():
    """Contract: information states from what a player may know. The reach of a state is the sum over its choices."""
    tree, rng = tree_of("any start", False), np.random.default_rng(0)
    states_of = jax.jit(jax.vmap(lambda row: from_table(Table.of_words(row), tree.rules).hands))
    masks_of = jax.jit(jax.vmap(lambda seen: (seen.legal_mask, seen.is_my_turn)))
    for player, treeplex in enumerate(tree.players):
        seen = solve.observations(tree, player)
        masks, is_turn = jax.device_get(masks_of(seen))
        assert (np.asarray(seen.player) == player).all() and is_turn.all()
        expected = np.zeros_like(masks)
        expected[treeplex.infoset_of, treeplex.actions[1:]] = True
        np.testing.assert_array_equal(masks, expected)
        np.testing.assert_array_equal(seen.hand, np.asarray(states_of(np.asarray(treeplex.rows)))[:, player])
        behavior = treeplex.normalize(rng.random(treeplex.num_sequences))
        plan = treeplex.plan(behavior)
        np.testing.assert_allclose(np.add.reduceat(plan[1:], treeplex.first - 1), plan[treeplex.parent], atol=1e-15)
        np.testing.assert_allclose(treeplex.behavior(plan), behavior, atol=1e-12)
        assert (treeplex.parent < treeplex.first).all()

"""The enumerated game against the one that plain Python grows from the oracle's rules."""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import deck_of, variant
from tests.solve import oracle
from tests.solve.positions import behavior_by
from unojax import Rules, cards, solve
from unojax.game import from_table
from unojax.policies import POLICIES
from unojax.solve.expansion import stand_ins, table_of

NUMBERS = Rules(deck=deck_of("R1 R1 R2 Y1 Y2 Y2"), hand_size=2, max_steps=12)
GAMES = {
    "numbers": NUMBERS,
    "all ranks": Rules(deck=deck_of("R1 R1 RS Y1 Y+2 W W+4"), hand_size=2, max_steps=5),
    "skips pass": Rules(deck=deck_of("R1 RS R2 YR Y2"), hand_size=2, max_steps=9, skip_forfeits=False),
    "any start": Rules(deck=deck_of("R1 YS Y+2 W W"), hand_size=1, max_steps=6, start_card="any", first_player="random"),
    "three colors": Rules(deck=deck_of("R1 Y1 Y2 G1 W W+4"), hand_size=1, max_steps=5, start_card="any"),
}
BOTH = [(name, True) for name in GAMES]
BOTH += [pytest.param(name, False, marks=() if name == "numbers" else pytest.mark.slow) for name in GAMES]


@lru_cache
def tree_of(name: str, merged: bool) -> solve.Tree:
    return solve.enumerate_game(GAMES[name], merge_colors=merged)


@lru_cache
def root_of(name: str, merged: bool) -> oracle.Node:
    return oracle.grow(variant(GAMES[name]), merge_colors=merged)


def leaning(observation, mask):
    """A policy that depends on all that a player sees, unevenly, though not on which colour that the deck lacks is declared."""
    types = jnp.arange(cards.NUM_TYPES, dtype=jnp.float32)
    held = (cards.counts(observation.hand) * jnp.sin(types + 1)).sum()
    played = (cards.counts(observation.pile) * jnp.cos(3 * types)).sum()
    rest = observation.opponent_count + 2 * observation.deck_count + 3 * observation.top_rank + 5 * observation.player
    rest = rest + observation.last_action % cards.NUM_RANKS
    ranks = jnp.append(jnp.tile(jnp.arange(cards.NUM_RANKS), cards.NUM_COLORS), 0)
    in_deck = np.array([any(observation.rules.deck[c * 13 : c * 13 + 13]) for c in range(4)])
    declared = jnp.append(jnp.where(jnp.asarray(in_deck), jnp.arange(1, 5), 7).repeat(cards.NUM_RANKS), 0)
    weights = jnp.where(mask, 1.2 + jnp.sin(held + 2 * played + rest + ranks + declared), 0.0)
    return weights / weights.sum()


@pytest.mark.parametrize(("name", "merged"), BOTH)
def test_counts(name, merged):
    tree, root = tree_of(name, merged), root_of(name, merged)
    states = oracle.infosets(root)
    assert tree.num_histories == sum(1 for _ in root.walk())
    assert tree.num_infosets == (len(states[0]), len(states[1]))
    for player in (0, 1):
        choices = [len(nodes[0].children) for nodes in states[player].values() if len(nodes[0].children) > 1]
        assert tree.players[player].num_choices == len(choices)
        assert sorted(tree.players[player].num_actions) == sorted(choices)


def test_counts_of_another_program():
    """A second enumeration, in another language, agrees with these."""
    tree = tree_of("numbers", True)
    assert (tree.num_histories, tree.num_infosets) == (770, (164, 170))
    with_wild = Rules(deck=deck_of("R1 R1 R2 Y1 Y2 Y2 RS Y+2 W"), hand_size=2)
    tree = solve.enumerate_game(with_wild, 8, merge_colors=False)
    assert (tree.num_histories, tree.num_infosets) == (432_814, (22_644, 27_546))


@pytest.mark.parametrize(("name", "merged"), BOTH)
def test_uniform_play(name, merged):
    tree, root = tree_of(name, merged), root_of(name, merged)
    ours, theirs = solve.uniform(tree), oracle.behavior_of(root, oracle.uniform)
    assert solve.value(tree, ours) == pytest.approx(oracle.value(root, theirs), abs=1e-12)
    gains = [oracle.best_response(root, player, theirs[1 - player]) for player in (0, 1)]
    for player in (0, 1):
        assert solve.best_response(tree, player, ours[1 - player])[0] == pytest.approx(gains[player], abs=1e-12)
    assert solve.exploitability(tree, ours) == pytest.approx(sum(gains) / 2, abs=1e-12)


@pytest.mark.parametrize("policy", [leaning, "linear"])
def test_policy(policy):
    """A policy's values and the best responses to it, by two ways from rules to numbers."""
    tree, root = tree_of("any start", False), root_of("any start", False)
    probs = POLICIES[policy].action_probs if isinstance(policy, str) else policy
    ours, theirs = solve.of_policy(tree, policy), behavior_by(root, GAMES["any start"], probs)
    # What `leaning` computes in single precision depends on the program.
    error = 1e-12 if isinstance(policy, str) else 1e-6
    assert solve.value(tree, ours) == pytest.approx(oracle.value(root, theirs), abs=error)
    for player in (0, 1):
        value = oracle.best_response(root, player, theirs[1 - player])
        assert solve.best_response(tree, player, ours[1 - player])[0] == pytest.approx(value, abs=error)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["any start", "all ranks"])
def test_merged_colors_change_no_value(name):
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


def test_stand_ins():
    assert stand_ins(GAMES["all ranks"]) == (1, 1, 2, 0)
    assert stand_ins(GAMES["three colors"]) == (1, 1, 1, 1)
    assert stand_ins(Rules()) == (1, 1, 1, 1)


def test_payoffs_are_probabilities():
    """Against a plan that takes every sequence, the ends of a one-step game weigh what chance gives them."""
    rules = Rules(deck=deck_of("R1 R2 R3"), hand_size=1, max_steps=1)
    tree = solve.enumerate_game(rules)
    assert (tree.num_histories, tree.num_infosets) == (1 + 3 + 6 + 6 + 6, (6, 0))
    assert tree.payoff.toarray() == pytest.approx(np.ones((1, 1)), abs=1e-15)


def test_observations():
    """Each information state shows the mover's own choice."""
    tree = tree_of("all ranks", False)
    for player, treeplex in enumerate(tree.players):
        seen = solve.observations(tree, player)
        assert (np.asarray(seen.player) == player).all() and np.asarray(seen.is_my_turn).all()
        masks = np.asarray(jax.vmap(lambda o: o.legal_mask)(seen))
        expected = np.zeros_like(masks)
        expected[treeplex.infoset_of, treeplex.actions[1:]] = True
        np.testing.assert_array_equal(masks, expected)
        states = jax.vmap(lambda row: from_table(table_of(row), tree.rules))(jnp.asarray(treeplex.rows))
        np.testing.assert_array_equal(seen.hand, np.asarray(states.hands)[:, player])


def test_perfect_recall():
    """Plans of random behaviour obey the treeplex: what leaves an information state is what comes in."""
    tree = tree_of("all ranks", True)
    rng = np.random.default_rng(0)
    for treeplex in tree.players:
        behavior = treeplex.normalize(rng.random(treeplex.num_sequences))
        plan = treeplex.plan(behavior)
        np.testing.assert_allclose(np.add.reduceat(plan[1:], treeplex.first - 1), plan[treeplex.parent], atol=1e-15)
        np.testing.assert_allclose(treeplex.behavior(plan), behavior, atol=1e-12)
        assert (treeplex.parent < treeplex.first).all()

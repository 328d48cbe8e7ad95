"""`training.fit_scoring`: features of compared plays, and fits, on synthetic numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import refusals
from training.fit_scoring import Comparisons, Config, _center, best_choices, best_odds, compare_plays, make_policy, pick_decisions
from unojax import game, make_state
from unojax.device.static import Argument
from unojax.observation import observe
from unojax.policies import POLICIES
from unojax.policies.scoring import WEIGHT_NAMES, LinearPolicy, LookaheadPolicy
from unojax.view import view_of


class Positions(NamedTuple):
    terminated: np.ndarray
    number: np.ndarray


def test_decisions_are_picked_from_positions_with_a_choice():
    rng = np.random.default_rng(0)
    legal = rng.random((6, 9, 61)) < 0.02
    # A draw is no play: besides one play it leaves no choice.
    legal[..., -1] = True
    states = Positions(rng.random((6, 9)) < 0.3, np.arange(54).reshape(6, 9))
    picked, masks = pick_decisions(rng, states, legal, 2)
    could = (legal[..., :60].sum(-1) > 1) & ~states.terminated
    assert could.sum(1).min() < 2 < could.sum(1).max(), "games with few and with many of them"
    game, step = np.divmod(picked.number, 9)
    assert could[game, step].all() and len(set(picked.number.tolist())) == len(picked.number)
    np.testing.assert_array_equal(np.bincount(game, minlength=6), np.minimum(could.sum(1), 2))
    np.testing.assert_array_equal(masks, legal[game, step, :60])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "lookahead"])
def test_plays_are_compared_by_their_features_and_returns(kind: str):
    """The policy's points are features times weights; returns are those of the true position."""
    policy = POLICIES[kind]
    states = jax.tree.map(lambda *leaves: np.stack(leaves), *(make_state(hand, "Y1 Y2 G3", "R7") for hand in ("R5 W G7", "R5")))
    legal = np.asarray(jax.vmap(game.legal_mask)(states))[:, :-1]
    seeds = jnp.arange(4, dtype=jnp.uint32).reshape(2, 2)
    features, returns = compare_plays(Argument((policy,)), states, legal, (seeds[0], seeds[1]), num_samples=8)
    views = jax.vmap(lambda state: view_of(observe(state, state.current_player)))(states)
    points = jax.vmap(policy.score_plays)(views)
    np.testing.assert_allclose((features @ jnp.array(policy.weights))[legal], points[legal], rtol=1e-5, atol=1e-5)
    assert returns[1, 5] == 1.0 and legal[1].sum() == 1, "the last card is played"
    assert (np.abs(returns) <= 1).all() and (returns[~legal] == 0).all() and (np.abs(returns[0])[legal[0]] > 0).any()


def test_the_fits_find_the_best_choices_and_the_odds_of_winning():
    position = np.array([0, 0, 1, 1, 1])
    centred = _center(np.array([[1.0], [3.0], [5.0], [5.0], [8.0]]), position)
    np.testing.assert_allclose(centred[:, 0], [-1, 1, -1, -1, 2])
    # Two plays a decision, of which the better one has a first feature larger than its second.
    rng = np.random.default_rng(1)
    features = rng.normal(size=(400, 2))
    sign = np.where(features[:, 0] > features[:, 1], 1.0, -1.0)
    # A few decisions dominate the squared error, but not the choice.
    returns = 0.1 * sign * np.where(np.arange(400) < 20, 10.0, 1.0)
    both = np.stack([features, -features], 1).reshape(-1, 2).astype(np.float32)
    of_plays = np.stack([returns, -returns], 1).reshape(-1).astype(np.float32)
    compared = Comparisons(np.repeat(np.arange(400), 2), both, of_plays)
    weights = best_choices(compared)
    chosen = (compared.features @ weights).reshape(-1, 2).argmax(1)
    assert compared.returns.reshape(-1, 2)[np.arange(400), chosen].mean() > 0.97 * np.abs(returns).mean()
    assert weights[0] > 0 > weights[1] and weights[0] == pytest.approx(-weights[1], rel=0.1)

    # Returns whose log odds are twice a sum of features, and such returns with the noise of 48 games each.
    rng, weights = np.random.default_rng(2), np.array([0.1, -0.3, 0.5])
    features = rng.normal(size=(4000, 3)).astype(np.float32)
    wins = 1 / (1 + np.exp(-2 * features @ weights))
    exact = best_odds(Comparisons(np.arange(4000), features, (2 * wins - 1).astype(np.float32)))
    np.testing.assert_allclose(exact, weights, atol=2e-3)
    noisy = best_odds(Comparisons(np.arange(4000), features, (2 * rng.binomial(48, wins) / 48 - 1).astype(np.float32)))
    # Six standard errors: of each weight at most 1 / sqrt(4 * 4000 * 48 * 0.18).
    np.testing.assert_allclose(noisy, weights, atol=6 / np.sqrt(4 * 4000 * 48 * 0.18))


def test_policies_of_weights_and_refusals():
    assert make_policy("linear", np.arange(len(WEIGHT_NAMES), dtype=float)) == LinearPolicy(tuple(map(float, range(35))))
    for kind in ("lookahead", "heuristic"):
        assert make_policy(kind, np.array([1.0, 2.0, 3.0])) == LookaheadPolicy((1.0, 2.0, 3.0))
    wrong: dict[str, Any] = {"games": 1000, "positions": 100, "samples": 0, "iterations": 0, "seed": -1}
    wrong["json"] = Path("/nowhere/linear.json")
    refusals({name: lambda name=name, value=value: Config("linear", **{name: value}) for name, value in wrong.items()})

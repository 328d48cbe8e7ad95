"""`training.fit_scoring`: what plays are compared by, and the parts around the rollouts, on made-up numbers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from training.fit_scoring import Comparisons, Config, _center, best_choices, best_odds, compare_plays, make_policy, pick_decisions
from unojax import game, make_state
from unojax.device import static
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
    # A draw is no play: beside one play it leaves no choice.
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
    """Features are what weights multiply to the policy's points; returns are those of the true position."""
    policy = POLICIES[kind]
    positions = [make_state(hand, "Y1 Y2 G3", "R7") for hand in ("R5 W G7", "R5")]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *positions)
    legal = jax.vmap(game.legal_mask)(states)[:, :-1]
    numbers, skeleton = static.split((policy,))
    seeds = jnp.arange(4, dtype=jnp.uint32).reshape(2, 2)
    features, returns = compare_plays(numbers, states, legal, (seeds[0], seeds[1]), policy=skeleton, num_samples=8)
    views = jax.vmap(lambda state: view_of(observe(state, state.current_player)))(states)
    points = jax.vmap(policy.score_plays)(views)
    np.testing.assert_allclose((features @ jnp.array(policy.weights))[legal], points[legal], rtol=1e-5, atol=1e-5)
    assert returns[1, 5] == 1.0 and legal[1].sum() == 1, "the last card is played"
    assert (np.abs(returns) <= 1).all() and (returns[~legal] == 0).all() and (np.abs(returns[0])[legal[0]] > 0).any()


def test_centred_on_the_mean_of_each_decision():
    position = np.array([0, 0, 1, 1, 1])
    centred = _center(np.array([[1.0], [3.0], [5.0], [5.0], [8.0]]), position)
    np.testing.assert_allclose(centred[:, 0], [-1, 1, -1, -1, 2])


def test_the_best_choices_are_found_against_least_squares():
    """Two plays a decision, the better one that whose first feature is larger than its second."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(400, 2))
    sign = np.where(features[:, 0] > features[:, 1], 1.0, -1.0)
    # A few decisions matter a lot to the squared error, and not to the choice.
    returns = 0.1 * sign * np.where(np.arange(400) < 20, 10.0, 1.0)
    position = np.repeat(np.arange(400), 2)
    both = np.stack([features, -features], 1).reshape(-1, 2).astype(np.float32)
    compared = Comparisons(position, both, np.stack([returns, -returns], 1).reshape(-1).astype(np.float32))
    weights = best_choices(compared)
    chosen = (compared.features @ weights).reshape(-1, 2).argmax(1)
    assert compared.returns.reshape(-1, 2)[np.arange(400), chosen].mean() > 0.97 * np.abs(returns).mean()
    assert weights[0] > 0 > weights[1] and weights[0] == pytest.approx(-weights[1], rel=0.1)


def test_the_odds_of_winning_are_found():
    """Returns whose log odds are twice a sum of features, and such returns with the noise of 48 games each."""
    rng, weights = np.random.default_rng(2), np.array([0.1, -0.3, 0.5])
    features = rng.normal(size=(4000, 3)).astype(np.float32)
    wins = 1 / (1 + np.exp(-2 * features @ weights))
    position = np.arange(4000)
    exact = best_odds(Comparisons(position, features, (2 * wins - 1).astype(np.float32)))
    np.testing.assert_allclose(exact, weights, atol=2e-3)
    noisy = best_odds(Comparisons(position, features, (2 * rng.binomial(48, wins) / 48 - 1).astype(np.float32)))
    # Six standard errors: of each weight at most 1 / sqrt(4 * 4000 * 48 * 0.18).
    np.testing.assert_allclose(noisy, weights, atol=6 / np.sqrt(4 * 4000 * 48 * 0.18))


def test_policies_of_weights():
    assert make_policy("linear", np.arange(len(WEIGHT_NAMES), dtype=float)) == LinearPolicy(tuple(map(float, range(35))))
    assert make_policy("lookahead", np.array([1.0, 2.0, 3.0])) == LookaheadPolicy((1.0, 2.0, 3.0))
    assert make_policy("heuristic", np.array([1.0, 2.0, 3.0])) == LookaheadPolicy((1.0, 2.0, 3.0))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"games": 1000}, "games must be a multiple of 4096, got 1000"),
        ({"positions": 100}, "positions must be at least 4096, got 100"),
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"seed": -1}, "seed must be in"),
        ({"json": Path("/nowhere/linear.json")}, "--json: can't write '/nowhere/linear.json': there is no such folder"),
    ],
)
def test_what_can_not_be_fitted_is_refused(changes: dict, says: str):
    with pytest.raises(ValueError, match=says):
        Config("linear", **changes)

"""What a play costs against the best one, from independent rounds."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from unojax import cards
from unojax.search.monte_carlo import Estimate
from unojax.search.pooling import cost_of

LEGAL = np.arange(cards.DRAW) < 4
NUM_SAMPLES = 500


def rounds_of(wins: np.ndarray) -> list[Estimate]:
    """Rounds with these win probabilities [R, 4], as NumPy."""
    zeros = np.zeros(cards.DRAW)
    samples = np.where(LEGAL, NUM_SAMPLES, 0)
    values = np.concatenate([2 * wins - 1, np.zeros((len(wins), cards.DRAW - 4))], 1)
    return [Estimate(value, zeros, zeros, zeros, samples, np.int32(0), (1 + value) / 2, zeros) for value in values]


def test_a_certain_difference():
    wins = np.tile([0.25, 0.75, 0.5, 0.125], (4, 1))
    assert cost_of(rounds_of(wins), LEGAL, 0) == (0.5, 0.0, 1)
    assert cost_of(rounds_of(wins), LEGAL, 1) == (0.0, 0.0, 1)


def test_the_best_play_is_that_of_highest_value_and_the_cost_is_in_wins():
    """Under a discount a slower play may win more often, and then it costs less than nothing."""
    slow, fast = 0.75, 0.625
    rounds = [
        one._replace(value=one.value * np.where(np.arange(cards.DRAW) == 0, 0.1, 1))
        for one in rounds_of(np.tile([slow, fast, 0, 0], (4, 1)))
    ]
    assert cost_of(rounds, LEGAL, 0) == (fast - slow, 0.0, 1)


def test_it_is_neither_too_high_nor_too_sure():
    """Four plays of the same worth: on average nothing is lost, where the difference to the luckiest one would be 0.011.

    2,000 decisions of 8 rounds; six standard errors of the mean are missed by less than one seed in 10^8. Errors are those of the
    costs within a tenth.
    """
    random = np.random.default_rng(0)
    wins = random.binomial(NUM_SAMPLES, 0.5, (2000, 8, 4)) / NUM_SAMPLES
    found = [cost_of(rounds_of(decision), LEGAL, 0) for decision in wins]
    costs, errors = (np.array([one[i] for one in found]) for i in (0, 1))
    naive = wins.mean(1).max(1) - wins.mean(1)[:, 0]
    assert naive.mean() > 0.006
    assert abs(costs.mean()) < 6 * costs.std() / np.sqrt(len(costs))
    assert costs.std() <= 1.1 * np.sqrt((errors**2).mean())
    assert np.mean(np.abs(costs) > 3 * errors) < 0.05


def test_estimates_are_left_as_they_are():
    one = rounds_of(np.full((4, 4), 0.5))
    before = [np.array(estimate.value) for estimate in one]
    cost_of(one, LEGAL, 2)
    for estimate, value in zip(one, before, strict=True):
        np.testing.assert_array_equal(estimate.value, value)
    assert jnp.ndim(one[0].value) == 1


@pytest.mark.parametrize("action", range(4))
def test_the_error_is_that_of_the_difference(action: int):
    """Shared noise of all plays cancels, so that only the difference counts."""
    random = np.random.default_rng(action)
    shared = random.normal(0, 0.1, (8, 1))
    cost, error, best = cost_of(rounds_of(np.array([0.2, 0.3, 0.4, 0.6]) + shared), LEGAL, action)
    assert cost == pytest.approx(0.6 - [0.2, 0.3, 0.4, 0.6][action]) and error == pytest.approx(0, abs=1e-9) and best == 3

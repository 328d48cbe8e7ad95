"""Means and their errors, against known values and by how often their intervals hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from tests.helpers import ERROR_PROBABILITY
from unojax.analysis import Measure, estimate_mean, estimate_ratio


def test_mean_by_hand():
    # Squares around 2 sum to 8, so the variance is 8 / 3 and that of the mean 2 / 3.
    estimate = estimate_mean([0, 2, 2, 4])
    assert estimate.value == 2
    assert estimate.standard_error == pytest.approx(math.sqrt(2 / 3))


def test_ratio_by_hand():
    # Mean 6 / 4; residuals S - 1.5 n are 1.5, 0 and -1.5, and an empty cluster counts as one.
    estimate = estimate_ratio([3, 3, 0, 0], [1, 2, 1, 0])
    assert estimate.value == 1.5
    assert estimate.standard_error == pytest.approx(math.sqrt(4.5 * 4 / 3) / 4)


def test_clusters_of_one_member_are_independent_values():
    values = np.random.default_rng(0).random(50)
    assert estimate_ratio(values, np.ones(50)).standard_error == pytest.approx(estimate_mean(values).standard_error)


def test_intervals_hold_the_truth_as_often_as_they_should():
    # Each cluster's members share its luck: taken for independent they would give intervals half as wide.
    random, runs = np.random.default_rng(1), 2000
    covered = 0
    for _ in range(runs):
        sizes = random.integers(1, 8, 300)
        totals = random.binomial(1, 0.3, 300) * sizes
        low, high = estimate_ratio(totals, sizes).interval
        covered += low <= 0.3 <= high
    # The normal approximation is a little off with 300 clusters.
    assert abs(covered / runs - 0.95) < 0.01 + scipy.stats.norm.isf(ERROR_PROBABILITY / 2) * math.sqrt(0.95 * 0.05 / runs)


def test_difference_and_text():
    difference = Measure(0.55, 0.003) - Measure(0.5, 0.004)
    assert difference.value == pytest.approx(0.05)
    assert difference.standard_error == pytest.approx(0.005)
    assert difference.excludes(0) and not difference.excludes(0.045)
    assert f"{difference:+.1%}" == "+5.0 % ± 1.0"
    assert f"{Measure(69.54, 0.05):.2f}" == "69.54 ± 0.10"


@pytest.mark.parametrize(
    ("totals", "sizes", "message"),
    [([1.0], [1.0], "at least 2"), ([1.0, 2.0], [1.0], "one shape"), ([0.0, 0.0], [0.0, 0.0], "nothing to average")],
)
def test_bad_clusters(totals: list[float], sizes: list[float], message: str):
    with pytest.raises(ValueError, match=message):
        estimate_ratio(totals, sizes)


def test_mean_of_one_value_has_no_error():
    with pytest.raises(ValueError, match="at least two values, got 1"):
        estimate_mean([1.0])

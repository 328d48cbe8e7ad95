"""Means and their errors, log losses, logistic regression, tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

from tests.helpers import ERROR_PROBABILITY, refusals
from unojax.analysis import Measure, TextTable, estimate_mean, estimate_ratio, fit_logistic, log_loss, sigmoid


def test_means_and_ratios_by_hand() -> None:
    # Squares around 2 sum to 8, so the variance is 8 / 3 and that of the mean 2 / 3.
    mean = estimate_mean([0, 2, 2, 4])
    assert (mean.value, mean.standard_error) == (2, pytest.approx(math.sqrt(2 / 3)))
    # Mean 6 / 4; residuals S - 1.5 n are 1.5, 0 and -1.5, and an empty cluster counts as one.
    ratio = estimate_ratio([3, 3, 0, 0], [1, 2, 1, 0])
    assert (ratio.value, ratio.standard_error) == (1.5, pytest.approx(math.sqrt(4.5 * 4 / 3) / 4))
    # Clusters of one member are independent values.
    values = np.random.default_rng(0).random(50)
    assert estimate_ratio(values, np.ones(50)).standard_error == pytest.approx(estimate_mean(values).standard_error)
    difference = Measure(0.55, 0.003) - Measure(0.5, 0.004)
    assert (difference.value, difference.standard_error) == (pytest.approx(0.05), pytest.approx(0.005))
    assert difference.interval == pytest.approx((0.05 - difference.margin, 0.05 + difference.margin))
    assert difference.margin == pytest.approx(0.0098, abs=1e-5)
    assert f"{difference:+.1%}" == "+5.0 % ± 1.0"
    assert f"{Measure(69.54, 0.05):.2f}" == "69.54 ± 0.10"


def test_intervals_hold_the_truth_as_often_as_they_should() -> None:
    """Members of a cluster are dependent: treated as independent, they would halve the intervals."""
    random, runs, covered = np.random.default_rng(1), 2000, 0
    for _ in range(runs):
        sizes = random.integers(1, 8, 300)
        low, high = estimate_ratio(random.binomial(1, 0.3, 300) * sizes, sizes).interval
        covered += low <= 0.3 <= high
    # The normal approximation is a little off with 300 clusters.
    assert abs(covered / runs - 0.95) < 0.01 + scipy.stats.norm.isf(ERROR_PROBABILITY / 2) * math.sqrt(0.95 * 0.05 / runs)


def test_forecasts() -> None:
    """Compare with another optimiser; separated wins and losses give finite weights."""
    loss = log_loss(np.array([0.5, 0.8, 0.8, 0.8]), np.array([1, 1, 0, 0.5]))
    assert loss == pytest.approx([np.log(2), -np.log(0.8), -np.log(0.2), -(np.log(0.8) + np.log(0.2)) / 2])
    x = np.linspace(-30, 30, 7)
    assert sigmoid(x) == pytest.approx(scipy.special.expit(x))
    # A constant alone is the log odds of the mean.
    assert fit_logistic(np.ones((5, 1)), np.array([1, 1, 1, 0.5, 0])) == pytest.approx([np.log(0.7 / 0.3)], rel=1e-5)
    random = np.random.default_rng(0)
    terms = np.column_stack([np.ones(400), random.normal(size=(400, 2)) * (1, 5)])
    points = (random.random(400) < sigmoid(terms @ (0.3, -1.0, 0.2))).astype(float)
    found = scipy.optimize.minimize(lambda w: log_loss(sigmoid(terms @ w), points).sum(), np.zeros(3), tol=1e-9)
    assert fit_logistic(terms, points) == pytest.approx(found.x, abs=1e-4)
    terms = np.column_stack([np.ones(6), np.arange(6) - 2.5])
    assert np.isfinite(fit_logistic(terms, (terms[:, 1] > 0).astype(float))).all()


def test_tables_as_text_and_as_markdown() -> None:
    """Prose is left-aligned."""
    table = TextTable(["policy", "wins"], [["uniform", "50 %"], ["a|b", 7]])
    assert repr(table) == "policy   wins\nuniform  50 %\na|b         7"
    assert table._repr_markdown_().split("\n") == ["| policy | wins |", "| --- | ---: |", "| uniform | 50 % |", "| a\\|b | 7 |"]
    columns = ["policy", "what it does", "score", "gain"]
    table = TextTable(columns, [["a", "plays 3 cards", "50 ± 2 %", ""], ["b", "7", "+1", "-"]])
    assert table._repr_markdown_().split("\n")[1] == "| --- | --- | ---: | ---: |"
    assert repr(table).split("\n")[2] == "b       7                    +1     -"


def test_refusals() -> None:
    refusals(
        {
            "at least 2": lambda: estimate_ratio([1.0], [1.0]),
            "one shape": lambda: estimate_ratio([1.0, 2.0], [1.0]),
            "nothing to average": lambda: estimate_ratio([0.0, 0.0], [0.0, 0.0]),
            "at least two values": lambda: estimate_mean([1.0]),
            "2 entries": lambda: TextTable(["a", "b"], [["x"]]),
            "got (3,) and (3,)": lambda: fit_logistic(np.ones(3), np.ones(3)),
        }
        | {
            f"must be in ({bad})": lambda bad=bad: log_loss(np.array([0.5, bad]), np.array([1, 0]))
            for bad in (0.0, 1.0, -0.1, np.nan)
        }
    )

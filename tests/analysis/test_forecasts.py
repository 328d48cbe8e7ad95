"""Log losses and logistic regression, against values known and against another optimiser."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from unojax.analysis import fit_logistic, log_loss, sigmoid


def test_log_loss_by_hand():
    loss = log_loss(np.array([0.5, 0.8, 0.8, 0.8]), np.array([1, 1, 0, 0.5]))
    assert loss == pytest.approx([np.log(2), -np.log(0.8), -np.log(0.2), -(np.log(0.8) + np.log(0.2)) / 2])


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, np.nan])
def test_forecast_that_is_too_sure(bad: float):
    with pytest.raises(ValueError, match=r"must be in \(0, 1\)"):
        log_loss(np.array([0.5, bad]), np.array([1, 0]))


def test_sigmoid():
    x = np.linspace(-30, 30, 7)
    assert sigmoid(x) == pytest.approx(scipy.special.expit(x))


def test_constant_alone_is_the_log_odds_of_the_mean():
    points = np.array([1, 1, 1, 0.5, 0])
    assert fit_logistic(np.ones((5, 1)), points) == pytest.approx([np.log(0.7 / 0.3)], rel=1e-5)


def test_maximum_likelihood():
    random = np.random.default_rng(0)
    terms = np.column_stack([np.ones(400), random.normal(size=(400, 2)) * (1, 5)])
    points = (random.random(400) < sigmoid(terms @ (0.3, -1.0, 0.2))).astype(float)
    found = scipy.optimize.minimize(lambda w: log_loss(sigmoid(terms @ w), points).sum(), np.zeros(3), tol=1e-9)
    assert fit_logistic(terms, points) == pytest.approx(found.x, abs=1e-4)


def test_wins_that_are_separated_from_losses_have_finite_weights():
    terms = np.column_stack([np.ones(6), np.arange(6) - 2.5])
    assert np.isfinite(fit_logistic(terms, (terms[:, 1] > 0).astype(float))).all()


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"got \(3,\) and \(3,\)"):
        fit_logistic(np.ones(3), np.ones(3))

"""Calibration: predicted probabilities against outcomes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from unojax.analysis.estimates import Measure, estimate_ratio

_NUM_BINS: Final = 10


class Calibration(NamedTuple):
    """Predictions in bins of equal width, without empty bins.

    Attributes:
        number: Number of predictions in each bin, int64[B].
        predicted: Mean prediction, float64[B].
        observed: B estimates of the observed frequency.
        surplus: B estimates of predicted minus observed. Their errors are smaller than those of `observed` if predictions differ
            within a bin, because outcomes follow predictions.
    """

    number: np.ndarray
    predicted: np.ndarray
    observed: tuple[Measure, ...]
    surplus: tuple[Measure, ...]

    @property
    def mean_absolute_error(self) -> float:
        """Mean distance of predicted and observed; positive by chance even if calibrated."""
        return float(np.average([abs(s.value) for s in self.surplus], weights=self.number))


def calibrate(predicted: np.ndarray, happened: np.ndarray, counted: np.ndarray) -> Calibration:
    """Compare predicted probabilities with outcomes, in ten bins.

    Args:
        predicted: Probabilities, float[G, ...]. Rows (games) are independent; values within a row may be dependent.
        happened: bool[G, ...], or float[G, ...] with half outcomes: a draw is half a win.
        counted: Predictions to include, bool[G, ...].

    Raises:
        ValueError: If shapes differ, there are fewer than two rows, nothing is counted, or a counted probability is not in [0,
            1].
    """
    if not predicted.shape == happened.shape == counted.shape or len(predicted) < 2:
        raise ValueError(
            f"predicted, happened and counted must be of one shape [G, ...], G at least 2, got {predicted.shape}, "
            f"{happened.shape} and {counted.shape}"
        )
    row = np.nonzero(counted)[0]
    probs, happens = predicted[counted].astype(np.float64), happened[counted]
    if not row.size:
        raise ValueError("there is nothing to compare: no prediction is counted")
    if not ((probs >= 0) & (probs <= 1)).all():
        raise ValueError(f"predicted must be in [0, 1], got {probs.min()} to {probs.max()}")
    which = np.minimum((probs * _NUM_BINS).astype(int), _NUM_BINS - 1) + row * _NUM_BINS

    def total(values: np.ndarray | None) -> np.ndarray:
        return np.bincount(which, values, len(predicted) * _NUM_BINS).reshape(-1, _NUM_BINS)

    number, expected, held = total(None), total(probs), total(happens.astype(np.float64))
    used = np.flatnonzero(number.sum(0))
    return Calibration(
        number=number.sum(0)[used],
        predicted=expected.sum(0)[used] / number.sum(0)[used],
        observed=tuple(estimate_ratio(held[:, b], number[:, b]) for b in used),
        surplus=tuple(estimate_ratio(expected[:, b] - held[:, b], number[:, b]) for b in used),
    )

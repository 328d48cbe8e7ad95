"""Forecasts of results, scored and fitted. NumPy on the host."""

from __future__ import annotations

import numpy as np


def log_loss(probability: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the cross-entropy of each forecast: float64[...] nats, lower is better; ln 2 for even odds.

    Args:
        probability: float[...]. Probability of a win, in (0, 1).
        points: float[...]. 1, 1/2 for a draw, or 0.

    Raises:
        ValueError: If a probability is not in (0, 1); exactly 0 or 1 may have an infinite loss.
    """
    probs = np.asarray(probability, np.float64)
    if not ((probs > 0) & (probs < 1)).all():
        raise ValueError(f"probabilities must be in (0, 1), got {probs.min()} to {probs.max()}; smooth or clip them")
    return -(points * np.log(probs) + (1 - points) * np.log1p(-probs))


def fit_logistic(terms: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Fit the logistic regression that forecasts points by sigmoid(terms @ weights), by Newton's method: float64[K] weights.

    Args:
        terms: float[D, K]. Linearly independent columns; a column of ones gives a constant.
        points: float[D] in [0, 1].

    Raises:
        ValueError: If shapes do not match.
    """
    terms, points = np.asarray(terms, np.float64), np.asarray(points, np.float64)
    if terms.ndim != 2 or points.shape != terms.shape[:1]:
        raise ValueError(f"terms must be float[D, K] and points float[D], got {terms.shape} and {points.shape}")
    weights = np.zeros(terms.shape[1])
    for _ in range(30):
        probs = sigmoid(terms @ weights)
        # A slight ridge penalty, so that columns which separate wins from losses do not diverge.
        curvature = terms.T @ (terms * (probs * (1 - probs))[:, None]) + 1e-6 * np.eye(len(weights))
        step = np.linalg.solve(curvature, terms.T @ (points - probs) - 1e-6 * weights)
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    return weights


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + exp(-x)), in (0, 1) for moderate logits: float64[...]."""
    return 1 / (1 + np.exp(-np.asarray(logits, np.float64)))

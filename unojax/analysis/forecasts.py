"""Forecasts of results, scored and fitted."""

from __future__ import annotations

import numpy as np


def log_loss(probability: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the cross-entropy of each forecast in nats, float64[...]; lower is better.

    Args:
        probability: Probability of a win in (0, 1), float[...].
        points: 1, 1/2 for a draw, or 0, float[...].

    Raises:
        ValueError: If a probability is not in (0, 1).
    """
    probs = np.asarray(probability, np.float64)
    if not ((probs > 0) & (probs < 1)).all():
        raise ValueError(f"probabilities must be in (0, 1), got {probs.min()} to {probs.max()}; smooth or clip them")
    return -(points * np.log(probs) + (1 - points) * np.log1p(-probs))


def fit_logistic(terms: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the weights, float64[K], of a logistic regression of points on terms.

    Args:
        terms: Linearly independent columns, float[D, K]; a column of ones gives a constant.
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
    """Return 1 / (1 + exp(-x)), float64[...]."""
    return 1 / (1 + np.exp(-np.asarray(logits, np.float64)))

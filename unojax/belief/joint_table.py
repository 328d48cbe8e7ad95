"""Joint tables: tensors over all hands of a small deck, one axis for each card type. NumPy on the host, for the exact filter."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from unojax import cards
from unojax.belief import history


class UnexplainedError(ValueError):
    """No hand of a belief explains the observation."""


def condition(probs: np.ndarray, likelihood: np.ndarray) -> tuple[np.ndarray, float]:
    """Apply Bayes' rule: (normalised product, log evidence). Raises UnexplainedError if the evidence is zero."""
    posterior = probs * likelihood
    evidence = float(posterior.sum())
    if evidence <= 0:
        raise UnexplainedError(
            "no hand of the belief explains what happened; start from the beginning of the game, feed every transition, "
            "and use an opponent model that gives each legal action a positive probability"
        )
    return posterior / evidence, math.log(evidence)


def draw_one(probs: np.ndarray, types: np.ndarray, unseen: np.ndarray, hand_count: int) -> np.ndarray:
    """Add one card to the hand, uniform over the deck U - H."""
    in_deck = int(unseen.sum()) - hand_count
    result = np.zeros_like(probs)
    for axis, t in enumerate(types):
        held = along(np.arange(probs.shape[axis]), axis, probs.ndim)
        # Hands with H_t > U_t have probability 0; the maximum keeps their weight from being negative.
        result += shifted(probs * (np.maximum(unseen[t] - held, 0) / in_deck), axis, +1)
    return result


def shifted(values: np.ndarray, axis: int, by: int) -> np.ndarray:
    """Move `values` one index up (+1) or down (-1) along an axis; vacated entries are zero."""
    result = np.zeros_like(values)
    low, high = (slice(None),) * axis + (slice(None, -1),), (slice(None),) * axis + (slice(1, None),)
    if by > 0:
        result[high] = values[low]
    else:
        result[low] = values[high]
    return result


def counts_at(index: tuple[np.ndarray, ...], types: np.ndarray) -> np.ndarray:
    """Return the cards of the hands at K indices of a joint table: int8[K, 54]."""
    counts = np.zeros((index[0].size, cards.NUM_TYPES), np.int8)
    counts[:, types] = np.stack(index, -1)
    return counts


def playable(color: int, rank: int) -> np.ndarray:
    """Call `history.playable_types` on the host: bool[54]."""
    return np.asarray(history.playable_types(color, rank))


def without(types: np.ndarray, excluded: np.ndarray) -> tuple[int | slice, ...]:
    """Index the hands that hold none of the excluded types (bool[54])."""
    return tuple(slice(0, 1) if excluded[t] else slice(None) for t in types)


def along(values: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """Reshape a vector to one axis of an `ndim`-dimensional tensor, for broadcasting."""
    return values.reshape((-1,) + (1,) * (ndim - 1 - axis))


def product(types: np.ndarray, factor: Callable[[int, int], int], deck: np.ndarray) -> np.ndarray:
    """Compute the tensor prod_t factor(t, H_t) over the joint table."""
    result = np.ones(())
    for t in types:
        result = np.multiply.outer(result, np.array([factor(int(t), held) for held in range(deck[t] + 1)], np.float64))
    return result


def total_over(types: np.ndarray, deck: np.ndarray, where: np.ndarray | None = None) -> np.ndarray:
    """Compute the tensor sum_t H_t over the joint table, over the axes chosen by `where` (default: all)."""
    result = np.zeros((), np.int64)
    for i, t in enumerate(types):
        result = np.add.outer(result, np.arange(int(deck[t]) + 1) * (where is None or bool(where[i])))
    return result


def choose(n: int, k: int) -> int:
    """Compute C(n, k), 0 outside 0 <= k <= n."""
    return math.comb(int(n), int(k)) if 0 <= k <= n else 0

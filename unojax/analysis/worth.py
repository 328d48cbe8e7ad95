"""Worth of a card in the first hand: linear regression of the result on the deal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unojax import cards
from unojax.analysis.estimates import Measure


@dataclass(frozen=True)
class Worth:
    """Worth of one card of each rank against the average number card; NaN for ranks not dealt.

    Attributes:
        own: Change of the player's expected points, a draw counting 1/2, if a card of the rank replaces a random number card in
            its hand, float[15].
        opponent: The same for a card in the opponent's hand, float[15].
        covariance: Covariance of the errors, `own` then `opponent`, float[30, 30].
    """

    own: np.ndarray
    opponent: np.ndarray
    covariance: np.ndarray

    def estimate(self, rank: int, *, opponent: bool = False) -> Measure:
        """Return the worth of a rank 0..14 with its error."""
        values, place = (self.opponent, 15 + rank) if opponent else (self.own, rank)
        return Measure(float(values[rank]), float(np.sqrt(self.covariance[place, place])))

    def contrast(self, weights: np.ndarray) -> Measure:
        """Return the sum of the 30 worths, `own` first, times `weights`, with its error."""
        used = np.flatnonzero(weights)
        values, weights = np.concatenate([self.own, self.opponent])[used], weights[used]
        return Measure(float(weights @ values), float(np.sqrt(weights @ self.covariance[np.ix_(used, used)] @ weights)))


def card_worth(hands: np.ndarray, points: np.ndarray) -> Worth:
    """Regress the points on the number of cards of each rank in both hands (least squares).

    Deals are random, so the coefficients are average effects of dealing one card instead of another. The reference is the number
    cards 0-9, weighted by their frequency. Errors are robust (White 1980).

    Args:
        hands: Hands of the player and of the opponent, int[G, 2, 54], as in `Deals`.
        points: Points of the player in [0, 1], float[G].

    Raises:
        ValueError: If shapes do not match, hand sizes differ, a rank was dealt to only one of the players, or no number card
            was dealt.
    """
    hands, points = np.asarray(hands), np.asarray(points, np.float64)
    if hands.ndim != 3 or hands.shape[1:] != (2, cards.NUM_TYPES) or points.shape != hands.shape[:1]:
        raise ValueError(f"hands must be int[G, 2, {cards.NUM_TYPES}] and points float[G], got {hands.shape}, {points.shape}")
    sizes = hands.sum(2)
    if not (sizes == sizes[0]).all():
        raise ValueError(f"all hands of a player must have the same size, got {sizes.min(0)} to {sizes.max(0)}")
    totals = hands.sum(0, dtype=np.int64) @ _IS_RANK
    in_deck = totals.any(0)
    if (missing := np.argwhere((totals == 0) & in_deck)).size:
        player, rank = missing[0]
        raise ValueError(f"rank {cards.RANK_NAMES[rank]} was never dealt to player {player}; play more games")
    if not in_deck[:10].any():
        raise ValueError("worths are differences from the number cards, and none was dealt")

    # A hand's counts sum to its size, so the constant is in their span. Leaving a rank of each hand out makes the coefficients
    # differences from it; `center` then refers them to the number cards.
    ranks = np.flatnonzero(in_deck)
    kept = np.r_[ranks[1:], 15 + ranks[1:]]
    counts = (hands @ _IS_RANK).reshape(-1, 30)
    design = np.column_stack([np.ones(len(points)), counts[:, kept]])
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ (design.T @ points)
    scores = design * (points - design @ coefficients)[:, None]
    center = np.zeros((30, 1 + len(kept)))
    center[kept, np.arange(1, 1 + len(kept))] = 1
    for player in range(2):
        numbers = totals[player, :10] / totals[player, :10].sum()
        rows = slice(15 * player, 15 * player + 15)
        center[rows] -= numbers @ center[15 * player : 15 * player + 10]
        center[rows][~in_deck] = np.nan
    values = center @ coefficients
    covariance = center @ inverse @ (scores.T @ scores) @ inverse @ center.T
    return Worth(values[:15], values[15:], covariance)


_IS_RANK = (cards.RANK_OF_TYPE[:, None] == np.arange(cards.NUM_RANKS)).astype(np.int8)
"""int8[54, 15]."""

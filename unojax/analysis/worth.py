"""Worth of a card in the first hand: linear regression of the result on the deal. NumPy on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unojax import cards
from unojax.analysis.estimates import Measure


@dataclass(frozen=True)
class Worth:
    """Worth of one card of each rank, compared with the average number card.

    Attributes:
        own: float[15], by rank. Change of the player's expected points if a card of that rank replaces a random number card in
            a hand of equal size. A win is 1 point, a draw 1/2.
        opponent: float[15]. The same for a card dealt to the opponent.
        covariance: float[30, 30]. Covariance of the errors, `own` then `opponent`.

    Ranks that the deck lacks have NaN as worth and errors.
    """

    own: np.ndarray
    opponent: np.ndarray
    covariance: np.ndarray

    def estimate(self, rank: int, *, opponent: bool = False) -> Measure:
        """Return the worth of a rank 0..14 with its error."""
        values, place = (self.opponent, 15 + rank) if opponent else (self.own, rank)
        return Measure(float(values[rank]), float(np.sqrt(self.covariance[place, place])))

    def contrast(self, weights: np.ndarray) -> Measure:
        """Return a weighted sum of the 30 worths, own ones first, with its error; `weights` float[30]."""
        used = np.flatnonzero(weights)
        values, weights = np.concatenate([self.own, self.opponent])[used], weights[used]
        return Measure(float(weights @ values), float(np.sqrt(weights @ self.covariance[np.ix_(used, used)] @ weights)))


def card_worth(hands: np.ndarray, points: np.ndarray) -> Worth:
    """Regress the points by ordinary least squares on the number of cards of each rank in either dealt hand.

    Deals are random, so the coefficients are average effects of dealing one card instead of another. All hands have the
    same size, so only differences between ranks are defined. The reference is the number cards 0-9, weighted by their
    frequency in the deals. Errors are those of White (1980), which assume neither equal variances nor a true linear model.

    Args:
        hands: int[G, 2, 54]. Hands of the player and of the opponent, as in `Deals`.
        points: float[G]. Points of the player, in [0, 1].

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

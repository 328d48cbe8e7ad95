"""Worth of a card in the first hand: linear regression of the result on what was dealt. NumPy on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unojax import cards
from unojax.analysis.estimates import Measure


@dataclass(frozen=True)
class Worth:
    """Worth of one card of each rank, compared with the average number card.

    Attributes:
        own: float[15] by rank, the change of the player's expected points (1 for a win, 1/2 for a drawn game) when a card of
            that rank is dealt in place of a random number card of the same hand size.
        opponent: float[15] the same for a card dealt to the opponent.
        covariance: float[30, 30] of the errors of both, one after the other.

    What a deck lacks has a worth and errors of NaN.
    """

    own: np.ndarray
    opponent: np.ndarray
    covariance: np.ndarray

    def estimate(self, rank: int, *, opponent: bool = False) -> Measure:
        """Give the worth of a rank 0..14 with its error."""
        values, place = (self.opponent, 15 + rank) if opponent else (self.own, rank)
        return Measure(float(values[rank]), float(np.sqrt(self.covariance[place, place])))

    def contrast(self, weights: np.ndarray) -> Measure:
        """Give a weighted sum of the 30 worths, own ones first, with its error; `weights` float[30]."""
        used = np.flatnonzero(weights)
        values, weights = np.concatenate([self.own, self.opponent])[used], weights[used]
        return Measure(float(weights @ values), float(np.sqrt(weights @ self.covariance[np.ix_(used, used)] @ weights)))


def card_worth(hands: np.ndarray, points: np.ndarray) -> Worth:
    """Regress the points by ordinary least squares on how many cards of each rank either player was dealt.

    Deals are random, so the coefficients are average effects of dealing one card instead of another. As all hands have the same
    size, only differences between ranks are defined; they are taken from the number cards 0-9, weighted by their frequency in
    the deals. Errors are those of White (1980), which assume neither equal variances nor that the linear model is true.

    Args:
        hands: int[G, 2, 54] as in `Deals`, hands of the player and of the opponent.
        points: float[G] of the player, in [0, 1].

    Raises:
        ValueError: shapes don't fit, or hand sizes differ, or a rank was dealt to one of the players only, or no number card was.
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

    # A hand's counts add up to its size, so the constant is one of the directions they span. Leaving a rank of each hand out
    # makes the coefficients differences from it; `center` then refers them to the number cards.
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

"""Strength of agents, from pairs of games with the same deal. NumPy on the host.

A *pair* is two games with the seats swapped (see `unojax.arena`). Results within a pair, and of pairs with the same deal in
different matches, are dependent. Errors are therefore estimated from whole pairs and whole deals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from unojax.arena.pairs import check_series

Z_95: Final = 1.959963984540054
"""The 0.975 quantile of the standard normal distribution."""
ELO_PER_NAT: Final = 400 / math.log(10)
"""Elo points per factor e of the odds."""

_MAX_NEWTON_STEPS: Final = 100
_TOLERANCE_NATS: Final = 1e-10


def wilson_interval(points: float, games: float) -> tuple[float, float]:
    """Return the 95% score interval of Wilson (1927) for a proportion of independent games, also at 0 and 1.

    Args:
        points: Points won, or number of events.
        games: Number of games. Any positive number, such as the effective number of dependent games.

    Raises:
        ValueError: If not 0 <= points <= games, or games is not positive.
    """
    if not 0 <= points <= games or games <= 0:
        raise ValueError(f"points must be in [0, games] and games positive, got {points} of {games}")
    p, z2 = points / games, Z_95**2
    center = (p + z2 / (2 * games)) / (1 + z2 / games)
    half = Z_95 / (1 + z2 / games) * math.sqrt(p * (1 - p) / games + z2 / (4 * games * games))
    # At p = 0 and p = 1 one end is exactly p; rounding must not push the end past it.
    return max(0.0, min(p, center - half)), min(1.0, max(p, center + half))


@dataclass(frozen=True)
class Score:
    """An agent's score against another: its share of the points, 1 for a win and 1/2 for a draw.

    Attributes:
        value: Mean over the pairs of games; a variance-reduced one may be below 0 or above 1.
        interval: Lower and upper end of the 95% confidence interval.
        standard_error: Standard error of the mean, from the spread of the pairs.
        variance_reduction: Variance of the same number of independent games, divided by the variance of these games. 1.2:
            common deals are worth a fifth more games.
        num_pairs: Number of pairs played.
    """

    value: float
    interval: tuple[float, float]
    standard_error: float
    variance_reduction: float
    num_pairs: int

    def swapped(self) -> Score:
        """Return the other agent's score."""
        low, high = self.interval
        return replace(self, value=1 - self.value, interval=(1 - high, 1 - low))


def paired_score(points: np.ndarray, *, series: int = 1) -> Score:
    """Compute the score of a match.

    The variance of a pair's mean is estimated from the P pairs and one added pair, with the variance of two independent
    wins or losses, so that a few identical pairs do not get an error of zero. The interval is that of Wilson (1927) for
    independent games with the same standard error. If all games were won, or all lost, the standard error is 0, and the
    interval is that of as many independent games. With `series` above 1, whole series replace pairs.

    Args:
        points: float[P, 2]. Points in the first and the second game of each pair.
        series: Number of pairs per series, as in `unojax.play_match`.

    Raises:
        ValueError: If there are no pairs or no whole series, or points are not in [0, 1].
    """
    points = _check_points(points)
    check_series(series, len(points))

    def interval(value: float, error: float) -> tuple[float, float]:
        number = value * (1 - value) / error**2 if error else points.size
        return wilson_interval(value * number, number)

    return _score_of(points.mean(1), points, series, interval)


def adjusted_score(adjusted: np.ndarray, points: np.ndarray, *, series: int = 1) -> Score:
    """Compute the variance-reduced score of a match, with an interval of Student (1908).

    As in `paired_score`, one pair of independent games is added: in a few pairs an agent may have had no decision at all.

    Args:
        adjusted: float[P]. Variance-reduced points of each pair, as in `unojax.arena.Pairs`.
        points: float[P, 2], as in `paired_score`. The reference for `variance_reduction`, as independent games.
        series: As in `paired_score`.

    Raises:
        ValueError: If there are fewer than two pairs or series, or points are not in [0, 1].
    """
    from scipy.stats import t

    points = _check_points(points)
    num_pairs = len(points)
    if np.shape(adjusted) != (num_pairs,):
        raise ValueError(f"adjusted must be float[P], one for each pair, got {np.shape(adjusted)} for {num_pairs} pairs")
    check_series(series, num_pairs)
    if num_pairs < 2 * series:
        raise ValueError(f"an error needs two or more {'pairs' if series == 1 else 'series'}, got {num_pairs // series}")

    def interval(value: float, error: float) -> tuple[float, float]:
        half = float(t.ppf(0.975, num_pairs // series - 1)) * error
        return value - half, value + half

    return _score_of(np.asarray(adjusted, np.float64), points, series, interval)


def _score_of(
    of_pairs: np.ndarray, points: np.ndarray, series: int, interval: Callable[[float, float], tuple[float, float]]
) -> Score:
    """Compute the score of pairs worth float[P], with one series added, given the points float[P, 2] of the games.

    `interval` gives the interval of a mean and its standard error.
    """
    num_pairs, value = len(of_pairs), float(of_pairs.mean())
    # The sum over series of squared deviations: measured, and if all games were independent.
    paired = float(np.square((of_pairs - value).reshape(-1, series).sum(1)).sum())
    independent = float(np.square(points - points.mean(0)).sum() / 4)
    share = min(max(value, 0.0), 1.0)
    one_more = series * share * (1 - share) / 2
    error, reduction = 0.0, 1.0
    if paired + one_more:
        error = math.sqrt((paired + one_more) / num_pairs / num_pairs)
        reduction = (independent + one_more) / (paired + one_more)
    return Score(value, interval(value, error), error, reduction, num_pairs)


@dataclass(frozen=True)
class Match:
    """Results of one match, for `bradley_terry`.

    Attributes:
        first, second: Numbers of the agents.
        deals: int[P]. Numbers of the deals; equal numbers in two matches are the same deal.
        points: float[P, 2]. Points of the first agent in the two games of each deal.
    """

    first: int
    second: int
    deals: np.ndarray
    points: np.ndarray


@dataclass(frozen=True)
class Ratings:
    """Bradley-Terry strengths of K agents, in nats: P(i beats j) = 1 / (1 + exp(values[j] - values[i])).

    Attributes:
        values: float[K], with sum 0 unless some were known.
        covariance: float[K, K]. Covariance of their errors.
    """

    values: np.ndarray
    covariance: np.ndarray

    @property
    def elo(self) -> np.ndarray:
        """Return float[K] ratings on the scale of Elo (1978): 400 points are odds of ten to one."""
        return self.values * ELO_PER_NAT

    @property
    def elo_margin(self) -> np.ndarray:
        """Return float[K], half the width of the 95% interval of each Elo rating."""
        return Z_95 * ELO_PER_NAT * np.sqrt(np.diag(self.covariance))


def bradley_terry(
    num_agents: int, matches: Sequence[Match], *, prior_games: float = 1.0, known: Mapping[int, float] | None = None
) -> Ratings:
    """Rate agents from their matches (Bradley and Terry 1952). A draw is half a win.

    Maximum likelihood by Newton's method; the likelihood is concave. Each two agents get `prior_games` additional drawn
    games, so that agents with only wins, only losses or no games have a rating and an error too. After n wins and nothing
    else, the difference is log(2 n / prior_games + 1).

    The covariance is the sandwich H^-1 M H^-1 of Huber (1967). H is the information, and M the sum of squares of the deals'
    contributions to its gradient, each summed over both games and all matches. No model of their dependence is needed. A
    prior game counts as a deal of its own, decided by the toss of a coin.

    Args:
        num_agents: K, at least 2.
        matches: Any number for each two agents.
        prior_games: Drawn games added for each two agents. With 0, each group of agents must have both a win and a loss against
            the others, else there is no finite maximum.
        known: Exact strengths of some agents, nats, relative to which the others are rated. None: the strengths have sum 0.

    Raises:
        ValueError: If an argument is out of range (agents, `prior_games`, points in [0, 1]), or there is no finite maximum.
    """
    if num_agents < 2:
        raise ValueError(f"num_agents must be at least 2, got {num_agents}")
    if not 0 <= prior_games < np.inf:
        raise ValueError(f"prior_games must be a finite number, at least 0, got {prior_games!r}")
    start = np.full(num_agents, np.nan)
    for agent, strength in (known or {}).items():
        if not (0 <= agent < num_agents and np.isfinite(strength)):
            raise ValueError(f"known must be finite strengths of agents 0..{num_agents - 1}, got {strength!r} of {agent!r}")
        start[agent] = strength
    # Games and points of each agent against each other agent.
    games = prior_games * (1 - np.eye(num_agents))
    points = games / 2
    for match in matches:
        i, j = match.first, match.second
        if not (0 <= i < num_agents and 0 <= j < num_agents and i != j):
            raise ValueError(f"a match must be between two different agents 0..{num_agents - 1}, got {i} and {j}")
        won = _check_points(match.points)
        games[i, j] += won.size
        games[j, i] += won.size
        points[i, j] += won.sum()
        points[j, i] += won.size - won.sum()
    is_free = np.isnan(start)
    values = _maximize(np.where(is_free, np.nanmean(start) if known else 0.0, start), is_free, games, points)
    inverse = _inverse(_information(values, games), is_free)
    return Ratings(values, inverse @ _scatter(values, matches, prior_games) @ inverse)


def _maximize(values: np.ndarray, is_free: np.ndarray, games: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the most likely strengths; those that are not free stay as they are."""
    likelihood = _log_likelihood(values, points)
    for _ in range(_MAX_NEWTON_STEPS):
        gradient = (points - games * _win_probability(values)).sum(1)
        try:
            step = _inverse(_information(values, games), is_free) @ gradient
        except np.linalg.LinAlgError:
            break
        # Newton's step may be too long if the likelihood is far from a parabola.
        while (new := _log_likelihood(values + step, points)) < likelihood and np.abs(step).max() > _TOLERANCE_NATS:
            step /= 2
        values, likelihood = values + step, max(new, likelihood)
        if np.abs(step).max() <= _TOLERANCE_NATS:
            return values - values.mean() if is_free.all() else values
    raise ValueError("the ratings have no finite maximum: some agents only won against the others; use prior_games > 0")


def _inverse(information: np.ndarray, is_free: np.ndarray) -> np.ndarray:
    """Invert the information about the free strengths; it is 0 for the others."""
    if is_free.all():
        # The values have sum 0: the information is singular along the ones, and this is its inverse orthogonal to them.
        ones = np.ones_like(information) / len(information)
        return np.linalg.inv(information + ones) - ones
    inverse, free = np.zeros_like(information), np.ix_(is_free, is_free)
    inverse[free] = np.linalg.inv(information[free])
    return inverse


def _log_likelihood(values: np.ndarray, points: np.ndarray) -> float:
    return float(-(points * np.logaddexp(0, values[None] - values[:, None])).sum())


def _win_probability(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(values[None] - values[:, None]))


def _information(values: np.ndarray, games: np.ndarray) -> np.ndarray:
    p = _win_probability(values)
    weights = games * p * p.T
    return np.diag(weights.sum(1)) - weights


def _scatter(values: np.ndarray, matches: Sequence[Match], prior_games: float) -> np.ndarray:
    """Sum the squares of the deals' gradients: float[K, K]."""
    num_agents = len(values)
    p = _win_probability(values)
    numbers, place = np.unique(np.concatenate([np.zeros(0, np.int64), *(m.deals for m in matches)]), return_inverse=True)
    gradients = np.zeros((len(numbers), num_agents))
    start = 0
    for match in matches:
        at = place[start : start + len(match.deals)]
        start += len(match.deals)
        surplus = (np.asarray(match.points) - p[match.first, match.second]).sum(1)
        of_deal = np.bincount(at, surplus, minlength=len(numbers))
        gradients[:, match.first] += of_deal
        gradients[:, match.second] -= of_deal
    # The total gradient is 0, so with few deals their squares are a little too small.
    scatter = gradients.T @ gradients * (len(numbers) / max(1, len(numbers) - 1))
    # The mean square of a coin toss's contribution is 1/4 at any ratings.
    prior = prior_games / 4 * (1 - np.eye(num_agents))
    return scatter + np.diag(prior.sum(1)) - prior


def _check_points(points: np.ndarray) -> np.ndarray:
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise ValueError(f"points must be of shape [pairs, 2] with at least one pair, got {list(points.shape)}")
    if not ((points >= 0) & (points <= 1)).all():
        raise ValueError(f"points must be in [0, 1], got {points.min()} to {points.max()}")
    return points

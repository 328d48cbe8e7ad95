"""Scores and ratings against values known by hand, against another maximiser, and by how often their intervals hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from tests.helpers import ERROR_PROBABILITY
from unojax.arena.ratings import ELO_PER_NAT, Match, Ratings, bradley_terry, paired_score, wilson_interval


def pairs_of(*counts: tuple[tuple[float, float], int]) -> np.ndarray:
    """So many pairs with each result."""
    return np.concatenate([np.tile(result, (number, 1)) for result, number in counts])


def test_score_by_hand():
    # The pairs' means are 1, 1/2, 1/2, 0 (ten each): squares around 1/2 sum to 20/4, and the pair that is added has 1/8. Apart,
    # two games have 40 squares of 1/4 around their means, and a quarter of these counts.
    points = pairs_of(((1, 1), 10), ((1, 0), 10), ((0, 1), 10), ((0, 0), 10))
    score = paired_score(points)
    assert score.num_pairs == 40
    assert score.value == 0.5
    assert score.standard_error == pytest.approx(math.sqrt(5.125) / 40)
    assert score.variance_reduction == pytest.approx(1)


@pytest.mark.parametrize(
    ("points", "reduction"),
    [
        # Apart, a quarter of 1000 squares of 1/4 for each of two games, and 1/8 for the pair that is added. The same game twice:
        # that 1/8 alone.
        (pairs_of(((1, 0), 500), ((0, 1), 500)), 125.125 / 0.125),
        # The same result in both games: twice as much.
        (pairs_of(((1, 1), 500), ((0, 0), 500)), 125.125 / 250.125),
    ],
)
def test_variance_reduction_by_hand(points: np.ndarray, reduction: float):
    score = paired_score(points)
    assert score.variance_reduction == pytest.approx(reduction)
    low, high = score.interval
    assert low < 0.5 < high


def test_interval_of_independent_games_is_that_of_wilson():
    points = np.random.default_rng(1).random((4000, 2)) < 0.7
    score = paired_score(points)
    wilson = scipy.stats.binomtest(int(points.sum()), points.size).proportion_ci(method="wilson")
    # The estimated variance differs from p (1 - p) by some per cent.
    assert score.interval == pytest.approx((wilson.low, wilson.high), abs=0.002)


@pytest.mark.parametrize(("number", "total"), [(0, 1), (1, 1), (0, 30), (30, 30), (1, 1000), (517, 1000), (999, 1000)])
def test_wilson_interval(number: int, total: int):
    wilson = scipy.stats.binomtest(number, total).proportion_ci(method="wilson")
    low, high = wilson_interval(number, total)
    assert (low, high) == pytest.approx((wilson.low, wilson.high))
    assert (low == 0) == (number == 0) and (high == 1) == (number == total)


@pytest.mark.parametrize(("points", "games"), [(0, 0), (-1, 3), (4, 3), (1, -1), (math.nan, 3)])
def test_wilson_interval_refuses_what_is_no_share(points: float, games: float):
    with pytest.raises(ValueError, match="points must be in"):
        wilson_interval(points, games)


def test_interval_if_all_is_won():
    low, high = paired_score(np.ones((30, 2))).interval
    wilson = scipy.stats.binomtest(60, 60).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((wilson.low, 1.0))
    assert paired_score(np.zeros((30, 2))).interval == pytest.approx((0.0, 1 - wilson.low))


def test_one_pair_has_an_interval():
    low, high = paired_score(np.array([[1.0, 0.0]])).interval
    assert 0 < low < 0.2 and 0.8 < high < 1


def test_pairs_of_a_series_are_taken_together():
    # Series of two pairs, worth 2, 1, 1, 0 (ten each): squares around 1 sum to 20, and the series that is added has 1/4. Games
    # apart as in `test_score_by_hand`, twice as many.
    points = pairs_of(((1, 1), 20), ((1, 0), 20), ((0, 1), 20), ((0, 0), 20))
    score = paired_score(points, series=2)
    assert (score.num_pairs, score.value, score.series) == (80, 0.5, 2)
    assert score.standard_error == pytest.approx(math.sqrt(20.25) / 80)
    assert score.variance_reduction == pytest.approx(10.25 / 20.25)
    # One series says nothing of how series differ: as much as independent games.
    alone = paired_score(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), series=3)
    assert alone.standard_error == pytest.approx(math.sqrt(2 / 3 * 1 / 3 / 6))
    with pytest.raises(ValueError, match="of which num_pairs, 3, is a multiple, got 2"):
        paired_score(np.zeros((3, 2)), series=2)


def test_intervals_of_series_hold_the_truth():
    """Agents that find each other out early in some series and late in others: 95 % of intervals hold the mean, and those of
    single pairs too few."""
    rng, held = np.random.default_rng(0), {1: 0, 10: 0}
    for _ in range(400):
        chances = np.repeat(rng.uniform(0.3, 0.9, 60), 10)
        points = (rng.random((600, 2)) < chances[:, None]).astype(float)
        for series in held:
            low, high = paired_score(points, series=series).interval
            held[series] += low < 0.6 < high
    assert 366 <= held[10] <= 393 and held[1] < 330


@pytest.mark.parametrize("points", [np.zeros((0, 2)), np.zeros(4), np.full((3, 2), 1.5), np.full((3, 2), np.nan)])
def test_points_are_checked(points: np.ndarray):
    with pytest.raises(ValueError, match="points must be"):
        paired_score(points)


def test_rating_of_two_is_the_log_odds():
    # 60 wins, 20 losses and 20 drawn games: 70 points of 100.
    points = pairs_of(((1, 1), 25), ((1, 0), 10), ((0.5, 0.5), 10), ((0, 0), 5))
    ratings = bradley_terry(2, [Match(0, 1, np.arange(50), points)], prior_games=0)
    log_odds = math.log(0.7 / 0.3)
    assert ratings.values == pytest.approx([log_odds / 2, -log_odds / 2])
    assert ratings.elo == pytest.approx(np.array([1, -1]) * log_odds / 2 * 400 / math.log(10))
    # By the delta method the difference has the error of the score, divided by p (1 - p).
    spread = np.square(points.mean(1) - 0.7).sum() / 50 / 49
    assert ratings.covariance[0, 0] == pytest.approx(spread / (0.7 * 0.3) ** 2 / 4)
    assert ratings.elo_margin == pytest.approx(1.96 * ELO_PER_NAT * np.sqrt(np.diag(ratings.covariance)), rel=1e-4)


def test_ratings_of_three_maximise_the_likelihood():
    rng = np.random.default_rng(2)
    matches = [
        Match(i, j, np.arange(n), rng.choice([0, 0.5, 1], p=p, size=(n, 2)))
        for i, j, n, p in ((0, 1, 40, (0.2, 0.1, 0.7)), (1, 2, 90, (0.4, 0.2, 0.4)), (2, 0, 60, (0.1, 0.0, 0.9)))
    ]
    ratings = bradley_terry(3, matches, prior_games=2)

    def loss(free: np.ndarray) -> float:
        values = np.append(free, -free.sum())
        total = 0.0
        for m in matches:
            d = values[m.first] - values[m.second]
            total += (m.points * np.log1p(np.exp(-d)) + (1 - m.points) * np.log1p(np.exp(d))).sum()
        for i, j in ((0, 1), (1, 2), (0, 2)):
            d = values[i] - values[j]
            total += np.log1p(np.exp(-d)) + np.log1p(np.exp(d))
        return total

    best = scipy.optimize.minimize(loss, np.zeros(2), tol=1e-12).x
    assert ratings.values == pytest.approx(np.append(best, -best.sum()), abs=1e-5)
    assert ratings.values.sum() == pytest.approx(0, abs=1e-9)


def test_all_won_has_a_finite_rating_by_the_prior():
    match = Match(0, 1, np.arange(100), np.ones((100, 2)))
    ratings = bradley_terry(2, [match])
    assert ratings.values[0] - ratings.values[1] == pytest.approx(math.log(2 * 200 + 1))
    assert ratings.elo_margin[0] > 100
    with pytest.raises(ValueError, match="no finite maximum"):
        bradley_terry(2, [match], prior_games=0)


def test_who_has_not_played_is_in_the_middle_with_a_wide_interval():
    points = pairs_of(((1, 1), 30), ((1, 0), 30), ((0, 0), 20))
    ratings = bradley_terry(3, [Match(0, 2, np.arange(80), points)])
    assert ratings.values[1] == pytest.approx(0, abs=1e-6)
    assert ratings.elo_margin[1] > 300


def test_equal_deals_in_two_matches_are_one():
    # Against 2, agents 0 and 1 win with the same deals: by how much they differ is known better than if the deals were different.
    points = pairs_of(((1, 1), 60), ((0, 0), 40))

    def variance_of_difference(ratings: Ratings) -> float:
        c = ratings.covariance
        return c[0, 0] + c[1, 1] - 2 * c[0, 1]

    same = bradley_terry(3, [Match(0, 2, np.arange(100), points), Match(1, 2, np.arange(100), points)])
    other = bradley_terry(3, [Match(0, 2, np.arange(100), points), Match(1, 2, np.arange(100, 200), points)])
    np.testing.assert_allclose(same.values, other.values)
    assert variance_of_difference(same) < 0.1 * variance_of_difference(other)


@pytest.mark.parametrize(("num_agents", "first", "second"), [(1, 0, 0), (2, 0, 2), (2, 1, 1), (2, -1, 0)])
def test_agents_are_checked(num_agents: int, first: int, second: int):
    with pytest.raises(ValueError, match="must be"):
        bradley_terry(num_agents, [Match(first, second, np.arange(1), np.ones((1, 2)))])


@pytest.mark.parametrize("prior_games", [-1.0, np.inf, np.nan])
def test_prior_games_are_checked(prior_games: float):
    with pytest.raises(ValueError, match="prior_games must be a finite number, at least 0"):
        bradley_terry(2, [Match(0, 1, np.arange(1), np.ones((1, 2)))], prior_games=prior_games)


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say():
    """The games of a pair depend on each other, and so do matches with the same deals; each game alone follows the model."""
    rng = np.random.default_rng(3)
    strengths = np.array([0.6, 0.0, -0.6])
    num_runs, num_deals = 1000, 150
    rated = scored = 0
    for _ in range(num_runs):
        luck = rng.random(num_deals)
        matches = []
        for i, j in ((0, 1), (0, 2), (1, 2)):
            p = 1 / (1 + math.exp(strengths[j] - strengths[i]))
            own = rng.random((num_deals, 2))
            # In four deals of five the luck is that of the deal, and turned round in the second game.
            shared = np.stack([luck, 1 - luck], axis=1)
            matches.append(Match(i, j, np.arange(num_deals), np.where(rng.random((num_deals, 1)) < 0.8, shared, own) < p))
        ratings = bradley_terry(3, matches)
        rated += int((np.abs(ratings.elo - ELO_PER_NAT * strengths) < ratings.elo_margin)[0])
        low, high = paired_score(matches[0].points).interval
        scored += int(low < 1 / (1 + math.exp(-0.6)) < high)
    # 95 % up to one point, which is what the normal approximation may be wrong by here.
    for hits in (rated, scored):
        assert scipy.stats.binom.cdf(hits, num_runs, 0.94) > ERROR_PROBABILITY / 4
        assert scipy.stats.binom.sf(hits - 1, num_runs, 0.96) > ERROR_PROBABILITY / 4

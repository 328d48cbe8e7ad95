"""Scores and ratings against hand computation, another maximizer, and their coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from tests.helpers import ERROR_PROBABILITY, refusals
from unojax.arena.ratings import ELO_PER_NAT, Match, Ratings, bradley_terry, paired_score, wilson_interval


def pairs_of(*counts: tuple[tuple[float, float], int]) -> np.ndarray:
    """Return points of pairs, float[P, 2], from results and their frequencies."""
    return np.concatenate([np.tile(result, (number, 1)) for result, number in counts])


def wilson(number: int, total: int) -> tuple[float, float]:
    return tuple(scipy.stats.binomtest(number, total).proportion_ci(method="wilson"))


EACH_RESULT = (((1, 1), 10), ((1, 0), 10), ((0, 1), 10), ((0, 0), 10))


@pytest.mark.parametrize(
    ("points", "series", "standard_error", "reduction"),
    [
        # The means of the pairs are 1, 1/2, 1/2, 0 (ten each): squares around 1/2 sum to 20/4, and the prior pair has 1/8. Two
        # separate games have 40 squares of 1/4 around their means, and a quarter of these counts.
        (pairs_of(*EACH_RESULT), 1, math.sqrt(5.125) / 40, 1.0),
        # Separate games: a quarter of 1000 squares of 1/4 for each of two games, and 1/8. The same game twice: that 1/8 alone.
        (pairs_of(((1, 0), 500), ((0, 1), 500)), 1, math.sqrt(0.125) / 1000, 125.125 / 0.125),
        # The same result in both games: twice as much.
        (pairs_of(((1, 1), 500), ((0, 0), 500)), 1, math.sqrt(250.125) / 1000, 125.125 / 250.125),
        # Series of two pairs, worth 2, 1, 1, 0 (ten each): squares around 1 sum to 20, and the prior series has 1/4.
        (pairs_of(*((result, 2 * number) for result, number in EACH_RESULT)), 2, math.sqrt(20.25) / 80, 10.25 / 20.25),
    ],
    ids=["each result", "same game twice", "same result twice", "series"],
)
def test_scores_by_hand(points: np.ndarray, series: int, standard_error: float, reduction: float):
    score = paired_score(points, series=series)
    assert (score.num_pairs, score.value) == (len(points), 0.5)
    assert score.standard_error == pytest.approx(standard_error)
    assert score.variance_reduction == pytest.approx(reduction)
    low, high = score.interval
    assert low < 0.5 < high


def test_intervals_at_the_edges():
    """Only wins, one pair, and one series, which shows no difference between series."""
    all_won = wilson(60, 60)
    assert paired_score(np.ones((30, 2))).interval == pytest.approx((all_won[0], 1.0))
    assert paired_score(np.zeros((30, 2))).interval == pytest.approx((0.0, 1 - all_won[0]))
    low, high = paired_score(np.array([[1.0, 0.0]])).interval
    assert 0 < low < 0.2 and 0.8 < high < 1
    alone = paired_score(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), series=3)
    assert alone.standard_error == pytest.approx(math.sqrt(2 / 3 * 1 / 3 / 6))


def test_wilson_intervals():
    for number, total in ((0, 1), (1, 1), (0, 30), (30, 30), (1, 1000), (517, 1000), (999, 1000)):
        low, high = wilson_interval(number, total)
        assert (low, high) == pytest.approx(wilson(number, total)), (number, total)
        assert (low == 0) == (number == 0) and (high == 1) == (number == total), (number, total)
    # Independent games: the estimated variance differs from p (1 - p) by some per cent.
    points = np.random.default_rng(1).random((4000, 2)) < 0.7
    assert paired_score(points).interval == pytest.approx(wilson(int(points.sum()), points.size), abs=0.002)


def test_intervals_of_series_cover_the_truth():
    """If chances differ between series, 95% of intervals cover the mean; those of single pairs do not."""
    rng, held = np.random.default_rng(0), {1: 0, 10: 0}
    for _ in range(400):
        chances = np.repeat(rng.uniform(0.3, 0.9, 60), 10)
        points = (rng.random((600, 2)) < chances[:, None]).astype(float)
        for series in held:
            low, high = paired_score(points, series=series).interval
            held[series] += low < 0.6 < high
    assert 366 <= held[10] <= 393 and held[1] < 330


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


def test_ratings_of_three_maximize_the_likelihood():
    rng = np.random.default_rng(2)
    matches = [
        Match(i, j, np.arange(n), rng.choice([0, 0.5, 1], p=p, size=(n, 2)))
        for i, j, n, p in ((0, 1, 40, (0.2, 0.1, 0.7)), (1, 2, 90, (0.4, 0.2, 0.4)), (2, 0, 60, (0.1, 0.0, 0.9)))
    ]
    ratings = bradley_terry(3, matches, prior_games=2)

    def loss(free: np.ndarray) -> float:
        values = np.append(free, -free.sum())
        drawn = [(i, j, np.array([0.0, 1.0])) for i, j in ((0, 1), (1, 2), (0, 2))]
        total = 0.0
        for i, j, points in [*((m.first, m.second, m.points) for m in matches), *drawn]:
            difference = values[i] - values[j]
            total += (points * np.log1p(np.exp(-difference)) + (1 - points) * np.log1p(np.exp(difference))).sum()
        return total

    best = scipy.optimize.minimize(loss, np.zeros(2), tol=1e-12).x
    assert ratings.values == pytest.approx(np.append(best, -best.sum()), abs=1e-5)


def test_known_strengths_stay_and_the_others_are_relative_to_them():
    points = pairs_of(((1, 1), 30), ((1, 0), 30), ((0, 0), 20))
    matches = [Match(0, 1, np.arange(80), points), Match(0, 2, np.arange(80), 1 - points)]
    free = bradley_terry(3, matches)
    both = bradley_terry(3, matches, known={1: 5.0 + free.values[1], 2: 5.0 + free.values[2]})
    # What the others are known to be is what was estimated, five nats higher.
    assert both.values == pytest.approx(5.0 + free.values)
    assert (both.elo_margin[1:] == 0).all() and 0 < both.elo_margin[0]
    one = bradley_terry(3, matches, known={2: 5.0 + free.values[2]})
    assert one.values == pytest.approx(5.0 + free.values) and one.elo_margin[0] > both.elo_margin[0]


def test_ratings_without_losses_or_games():
    won = Match(0, 1, np.arange(100), np.ones((100, 2)))
    ratings = bradley_terry(2, [won])
    assert ratings.values[0] - ratings.values[1] == pytest.approx(math.log(2 * 200 + 1))
    assert ratings.elo_margin[0] > 100
    # An agent that has not played is in the middle, with a wide interval.
    points = pairs_of(((1, 1), 30), ((1, 0), 30), ((0, 0), 20))
    ratings = bradley_terry(3, [Match(0, 2, np.arange(80), points)])
    assert ratings.values[1] == pytest.approx(0, abs=1e-6) and ratings.elo_margin[1] > 300


def test_equal_deals_in_two_matches_are_one_deal():
    # Against 2, agents 0 and 1 win with the same deals: their difference is known better than from different deals.
    points = pairs_of(((1, 1), 60), ((0, 0), 40))

    def variance_of_difference(ratings: Ratings) -> float:
        c = ratings.covariance
        return c[0, 0] + c[1, 1] - 2 * c[0, 1]

    same = bradley_terry(3, [Match(0, 2, np.arange(100), points), Match(1, 2, np.arange(100), points)])
    other = bradley_terry(3, [Match(0, 2, np.arange(100), points), Match(1, 2, np.arange(100, 200), points)])
    np.testing.assert_allclose(same.values, other.values)
    assert variance_of_difference(same) < 0.1 * variance_of_difference(other)


def test_bad_input():
    one = np.ones((1, 2))

    def rate(num_agents: int, first: int = 0, second: int = 1, points: np.ndarray = one, **options: float) -> Ratings:
        return bradley_terry(num_agents, [Match(first, second, np.arange(len(points)), points)], **options)

    refusals(
        {
            "points (no pair)": lambda: paired_score(np.zeros((0, 2))),
            "points (no column)": lambda: paired_score(np.zeros(4)),
            "points (above 1)": lambda: paired_score(np.full((3, 2), 1.5)),
            "points (nan)": lambda: paired_score(np.full((3, 2), np.nan)),
            "series": lambda: paired_score(np.zeros((3, 2)), series=2),
            "points (no game)": lambda: wilson_interval(0, 0),
            "points (negative)": lambda: wilson_interval(-1, 3),
            "points (more than games)": lambda: wilson_interval(4, 3),
            "points (negative games)": lambda: wilson_interval(1, -1),
            "points (not a number)": lambda: wilson_interval(math.nan, 3),
            "num_agents": lambda: rate(1, 0, 0),
            "agents (beyond the last)": lambda: rate(2, 0, 2),
            "agents (twice the same)": lambda: rate(2, 1, 1),
            "agents (negative)": lambda: rate(2, -1, 0),
            "prior_games (negative)": lambda: rate(2, prior_games=-1.0),
            "prior_games (infinite)": lambda: rate(2, prior_games=np.inf),
            "prior_games (nan)": lambda: rate(2, prior_games=np.nan),
            "known (beyond the last)": lambda: bradley_terry(2, [], known={2: 0.0}),
            "known (nan)": lambda: bradley_terry(2, [], known={0: math.nan}),
            "no finite maximum": lambda: rate(2, points=np.ones((100, 2)), prior_games=0),
        }
    )


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_stated():
    """Games of a pair are dependent, as are matches with the same deals."""
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
            # In four deals of five the luck is that of the deal, and reversed in the second game.
            shared = np.stack([luck, 1 - luck], axis=1)
            matches.append(Match(i, j, np.arange(num_deals), np.where(rng.random((num_deals, 1)) < 0.8, shared, own) < p))
        ratings = bradley_terry(3, matches)
        rated += int((np.abs(ratings.elo - ELO_PER_NAT * strengths) < ratings.elo_margin)[0])
        low, high = paired_score(matches[0].points).interval
        scored += int(low < 1 / (1 + math.exp(-0.6)) < high)
    # 95 % up to one point, the error of the normal approximation here.
    for hits in (rated, scored):
        assert scipy.stats.binom.cdf(hits, num_runs, 0.94) > ERROR_PROBABILITY / 4
        assert scipy.stats.binom.sf(hits - 1, num_runs, 0.96) > ERROR_PROBABILITY / 4

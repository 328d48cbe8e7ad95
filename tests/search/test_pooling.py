"""Pooled replicates of a search: means, errors and costs."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from unojax import Observation, Rules, cards, parse_observation
from unojax.device.platform import tuned_for
from unojax.games.advising import read_search
from unojax.search import pooling
from unojax.search.agents import Remembered, SearchAgent
from unojax.search.monte_carlo import Estimate
from unojax.search.pooling import cost_of, pool, replicates, search_once

PLAYS = np.arange(cards.DRAW)


def estimates(values: list[list[float]] | np.ndarray, sizes: list[int] | np.ndarray | None = None) -> list[Estimate]:
    """Return replicates with these values of the first plays, compared with play 1; play 0 has `sizes` samples, others 100."""
    made = []
    for row, size in zip(values, [100] * len(values) if sizes is None else sizes, strict=True):
        value = np.zeros(cards.DRAW, np.float32)
        value[: len(row)] = row
        gain = np.where(PLAYS < len(row), value - value[1], 0).astype(np.float32)
        tried = np.where(PLAYS < len(row), np.where(PLAYS == 0, size, 100), 0).astype(np.int32)
        made.append(Estimate(value, gain, 0 * value, 0 * value, tried, np.int32(1), (1 + value) / 2, 0 * value))
    return made


def test_replicates_are_pooled():
    """Play 2 is better than play 1 by -0.1, 0.1, 0.3, 0.5: by 0.2, with error sqrt(0.2 / 3 / 4) = 0.129."""
    values = [[-0.5, 0.2, 0.1], [-0.5, 0.1, 0.2], [-0.5, 0.0, 0.3], [-0.5, -0.1, 0.4]]
    for keep, recommended in ((0.0, "R2"), (1.5, "R2"), (2.5, "R1")):
        pooled = pool(estimates(values), PLAYS < 3, keep)
        assert [play.action for play in pooled.plays] == ["R2", "R1", "R0"]
        assert (pooled.own, pooled.replicates, pooled.recommended) == ("R1", 4, recommended)
    best, own, worst = pooled.plays
    error = np.sqrt(0.2 / 3 / 4)
    assert best.win == pytest.approx(0.625) and best.win_error == pytest.approx(error / 4)
    assert (best.gain, best.gain_error) == pytest.approx((0.1, error / 2))
    assert (best.behind, best.behind_error, own.gain, own.gain_error) == (0, 0, 0, 0)
    assert (own.behind, own.behind_error) == pytest.approx((0.1, error / 2))
    assert (worst.win, worst.win_error, worst.behind) == pytest.approx((0.25, 0, 0.375))
    assert worst.behind_error == pytest.approx(error / 4)
    assert {play.rollouts for play in pooled.plays} == {400}
    # The order is that of the values, and the figures are wins: under a discount, play 0 wins most often, and play 2 soonest.
    discounted = [one._replace(win=np.where(PLAYS == 0, 0.9, one.win)) for one in estimates([[0.1, 0.2, 0.4]] * 4)]
    pooled = pool(discounted, PLAYS < 3, 0.0)
    assert [(play.action, round(play.win, 6)) for play in pooled.plays] == [("R2", 0.7), ("R1", 0.6), ("R0", 0.9)]
    assert (pooled.recommended, pooled.own) == ("R2", "R1")
    assert pooled.plays[2].behind == pytest.approx(-0.2) and pooled.plays[2].gain == pytest.approx(0.3)


def test_pruned_plays_are_not_underrated():
    """The win rate is that of all games together, so a replicate with fewer games has less weight."""
    sizes, wins = np.array([100, 50, 200, 200]), np.array([0.5, 0.0, 0.375, 0.375])
    pooled = pool(estimates(np.stack([2 * wins - 1, 0 * wins], 1), sizes), PLAYS < 2, 1.0)
    own, other = pooled.plays
    assert (own.win, own.win_error) == (0.5, 0)
    assert other.rollouts == 550
    assert other.win == pytest.approx((sizes * wins).sum() / 550) and other.win > wins.mean()
    # The standard error of a ratio of sums over independent replicates.
    residuals = sizes * wins - other.win * sizes
    error = np.sqrt((residuals**2).sum() / (4 * 3)) / sizes.mean()
    assert (other.win_error, other.behind_error) == pytest.approx((error, error))
    # A play that one replicate pruned can be the best.
    pooled = pool(estimates([[-0.2, 0.0], [0.5, 0.0], [0.5, 0.0], [0.5, 0.0]], [50, 100, 100, 100]), PLAYS < 2, 1.0)
    assert pooled.plays[0].gain > 2 * pooled.plays[0].gain_error
    assert (pooled.plays[0].action, pooled.own, pooled.recommended) == ("R0", "R1", "R0")


def test_a_network_counts_equally_in_every_replicate():
    """Replicates of 50 and 200 games with a value of weight 100: the mean of all games and all four values."""
    sizes, means, prior, valued = np.array([50, 200, 200, 200]), np.array([-1.0, 0.5, 0.5, 0.5]), 100.0, 0.2
    mixed = (sizes * means + prior * valued) / (sizes + prior)
    made = estimates(np.stack([mixed, 0 * mixed], 1), sizes)
    total = ((sizes * means).sum() + 4 * prior * valued) / (sizes.sum() + 4 * prior)
    found = next(play for play in pool(made, PLAYS < 2, 1.0, prior).plays if play.action == "R0")
    assert found.win == pytest.approx((1 + total) / 2) and found.rollouts == 650
    # Each half of the replicates values the choice of the other: 0 and 2, and 1 and 3; play 0 is the better one in both.
    halves = [((sizes * means)[part].sum() + 2 * prior * valued) / (sizes[part].sum() + 2 * prior) for part in ([0, 2], [1, 3])]
    assert cost_of(made, PLAYS < 2, 1, prior)[0] == pytest.approx(np.mean(halves) / 2)


def test_costs_by_hand():
    certain = estimates(2 * np.tile([0.25, 0.75, 0.5, 0.125], (4, 1)) - 1)
    before = [estimate.value.copy() for estimate in certain]
    assert cost_of(certain, PLAYS < 4, 0) == (0.5, 0.0, 1)
    assert cost_of(certain, PLAYS < 4, 1) == (0.0, 0.0, 1)
    np.testing.assert_array_equal([estimate.value for estimate in certain], before)
    # The best play has the highest value, and the cost is in wins: under a discount a slower play may win more often, and then
    # it costs less than nothing.
    slow, fast = 0.75, 0.625
    weights = np.where(PLAYS == 0, 0.1, 1)
    discounted = [one._replace(value=one.value * weights) for one in estimates(2 * np.tile([slow, fast, 0, 0], (4, 1)) - 1)]
    assert cost_of(discounted, PLAYS < 4, 0) == (fast - slow, 0.0, 1)
    # Shared noise of all plays cancels, so that only the difference counts.
    wins = np.array([0.2, 0.3, 0.4, 0.6])
    for action in range(4):
        shared = np.random.default_rng(action).normal(0, 0.1, (8, 1))
        cost, error, best = cost_of(estimates(2 * (wins + shared) - 1), PLAYS < 4, action)
        assert cost == pytest.approx(0.6 - wins[action], abs=1e-6) and error == pytest.approx(0, abs=1e-6) and best == 3


def test_costs_are_unbiased_and_their_errors_honest():
    """Four equal plays cost nothing on average, although the luckiest one is ahead by 0.011.

    2,000 decisions of 8 replicates of 500 games; means are within six standard errors. Stated errors are right within a tenth.
    """
    wins = np.random.default_rng(0).binomial(500, 0.5, (2000, 8, 4)) / 500
    found = [cost_of(estimates(2 * decision - 1), PLAYS < 4, 0) for decision in wins]
    costs, errors = (np.array([one[i] for one in found]) for i in (0, 1))
    naive = wins.mean(1).max(1) - wins.mean(1)[:, 0]
    assert naive.mean() > 0.006
    assert abs(costs.mean()) < 6 * costs.std() / np.sqrt(len(costs))
    assert costs.std() <= 1.1 * np.sqrt((errors**2).mean())
    assert np.mean(np.abs(costs) > 3 * errors) < 0.05


LEFT = 12
"""Steps until truncation at the decision; the number of steps in the memory makes beliefs differ."""


@pytest.fixture(scope="module")
def decision() -> tuple[SearchAgent, Remembered, Observation, np.ndarray]:
    agent = read_search("mc:rollouts=32,belief=unseen,policy=uniform", Rules(max_steps=LEFT))
    seen = parse_observation("R1,RS,W/7/-/* R0 0 0 0 - *", rules=Rules(max_steps=LEFT))
    return agent, Remembered((), np.int32(0)), seen, np.asarray(seen.legal_mask)[: cards.DRAW]


def test_replicates_do_not_depend_on_threads_and_take_the_beliefs_in_turn(decision, monkeypatch):
    agent, memory, seen, legal = decision
    key, memories = jax.random.key(2), [memory, memory._replace(num_steps=np.int32(LEFT - 3))]
    by_hand = [
        jax.device_get(search_once(jax.random.fold_in(key, i), memories[i % 2], seen, legal, agent=agent)) for i in range(6)
    ]
    for number in (3, 1):
        monkeypatch.setattr(pooling, "available_cores", lambda number=number: number)
        assert_trees_equal(list(replicates(agent, memories, seen, legal, key, 6)), by_hand)
    first = next(replicates(agent, memories[1:], seen, legal, key, 1))
    assert (first.value != by_hand[0].value).any(), "the beliefs differ"
    # A program that was compiled ahead is not traced again.
    with jax.no_tracing():
        search_once(key, memory, seen, legal, agent=agent)


def test_an_interrupt_is_not_swallowed(decision, monkeypatch):
    """After any number of replicates."""
    agent, memory, seen, legal = decision
    done = []

    def search(*args):
        done.append(1)
        if len(done) > 6:
            raise KeyboardInterrupt
        return search_once(*args, agent=agent)

    monkeypatch.setattr(pooling, "search_once", SimpleNamespace(compile=lambda *args, **options: search))
    with pytest.raises(KeyboardInterrupt):
        list(replicates(agent, [memory], seen, legal, jax.random.key(2), None))
    assert len(done) > 6


@dataclass(frozen=True)
class Idle:
    """A search without compilation."""

    def hands(self, key, memory, observation):
        return ()

    def estimate(self, keys, observations, hands, legal, num_steps):
        return Estimate(*[jnp.zeros((1, cards.DRAW))] * len(Estimate._fields))


def test_threads_search_for_the_platform_of_the_caller(decision):
    """Threads do not inherit the setting, but use one program for the caller's platform."""
    (_, memory, seen, legal), agent = decision, cast(SearchAgent, Idle())
    list(replicates(agent, [memory], seen, legal, jax.random.key(2), 3))
    before = search_once._compiled.cache_info().misses
    with tuned_for("gpu"):
        list(replicates(agent, [memory], seen, legal, jax.random.key(2), 3))
    assert search_once._compiled.cache_info().misses == before + 1

"""Replicates of a search pooled: means over all samples, and errors from the differences between replicates."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from unojax import Observation, Rules, cards, parse_observation
from unojax.belief.tracking import track
from unojax.device.platform import tuned_for
from unojax.games.advising import read_search
from unojax.search import pooling
from unojax.search.agents import Remembered, SearchAgent
from unojax.search.monte_carlo import Estimate
from unojax.search.pooling import cost_of, pool, replicates, search_once


def estimates(values: list[list[float]]) -> list[Estimate]:
    """Rounds that estimate the first plays so, compared with play 1."""
    rounds = []
    for row in values:
        value = np.zeros(cards.DRAW, np.float32)
        value[: len(row)] = row
        gain = np.where(np.arange(cards.DRAW) < len(row), value - value[1], 0).astype(np.float32)
        tried = np.where(np.arange(cards.DRAW) < len(row), 100, 0).astype(np.int32)
        rounds.append(Estimate(value, gain, 0 * value, 0 * value, tried, np.int32(1), (1 + value) / 2, 0 * value))
    return rounds


def test_the_order_is_that_of_the_values_and_the_figures_are_wins():
    """Under a discount, play 0 wins most often, and play 2 soonest."""
    rounds = [one._replace(win=np.where(np.arange(cards.DRAW) == 0, 0.9, one.win)) for one in estimates([[0.1, 0.2, 0.4]] * 4)]
    pooled = pool(rounds, np.arange(cards.DRAW) < 3, 0.0)
    assert [(play.action, round(play.win, 6)) for play in pooled.plays] == [(2, 0.7), (1, 0.6), (0, 0.9)]
    assert (pooled.recommended, pooled.own) == (2, 1)
    assert pooled.plays[2].behind == pytest.approx(-0.2) and pooled.plays[2].gain == pytest.approx(0.3)


@pytest.mark.parametrize(("keep", "recommended"), [(0.0, 2), (1.5, 2), (2.5, 1)])
def test_rounds_are_pooled(keep: float, recommended: int):
    """Play 2 is better than play 1 by -0.1, 0.1, 0.3, 0.5: 0.2, and its error sqrt(0.2 / 3 / 4) = 0.129 is 1/1.55 of that."""
    values = [[-0.5, 0.2, 0.1], [-0.5, 0.1, 0.2], [-0.5, 0.0, 0.3], [-0.5, -0.1, 0.4]]
    legal = np.arange(cards.DRAW) < 3
    pooled = pool(estimates(values), legal, keep)
    assert [play.action for play in pooled.plays] == [2, 1, 0]
    assert (pooled.own, pooled.replicates, pooled.recommended) == (1, 4, recommended)
    best, own, worst = pooled.plays
    error = np.sqrt(0.2 / 3 / 4)
    assert best.win == pytest.approx(0.625) and best.win_error == pytest.approx(error / 4)
    assert (best.gain, best.gain_error) == pytest.approx((0.1, error / 2))
    assert (best.behind, best.behind_error, own.gain, own.gain_error) == (0, 0, 0, 0)
    assert (own.behind, own.behind_error) == pytest.approx((0.1, error / 2))
    assert (worst.win, worst.win_error, worst.behind) == pytest.approx((0.25, 0, 0.375))
    assert worst.behind_error == pytest.approx(error / 4)
    assert {play.rollouts for play in pooled.plays} == {400}


def test_a_play_given_up_where_it_looks_bad_is_not_underrated():
    """The round of few games counts less, so that the win rate is that of all games together."""
    rounds = estimates([[0.0, 0.0], [-1.0, 0.0], [-0.25, 0.0], [-0.25, 0.0]])
    sizes = np.array([100, 50, 200, 200])
    rounds = [
        one._replace(num_samples=np.where(np.arange(cards.DRAW) == 0, size, one.num_samples).astype(np.int32))
        for one, size in zip(rounds, sizes, strict=True)
    ]
    wins = np.array([0.5, 0.0, 0.375, 0.375])
    pooled = pool(rounds, np.arange(cards.DRAW) < 2, 1.0)
    own, other = pooled.plays
    assert (own.win, own.win_error) == (0.5, 0)
    assert other.rollouts == 550
    assert other.win == pytest.approx((sizes * wins).sum() / 550) and other.win > wins.mean()
    # The standard error of a ratio of sums over independent rounds.
    residuals = sizes * wins - other.win * sizes
    error = np.sqrt((residuals**2).sum() / (4 * 3)) / sizes.mean()
    assert (other.win_error, other.behind_error) == pytest.approx((error, error))


def test_a_network_counts_as_often_in_every_round():
    """Rounds of 50 and 200 games whose means are averaged with a value that counts as 100: that of all games and both values."""
    sizes, means, prior, valued = np.array([50, 200, 200, 200]), np.array([-1.0, 0.5, 0.5, 0.5]), 100.0, 0.2
    mixed = (sizes * means + prior * valued) / (sizes + prior)
    tried = [np.where(np.arange(cards.DRAW) == 0, size, 100).astype(np.int32) for size in sizes]
    rounds = [one._replace(num_samples=n) for one, n in zip(estimates(np.stack([mixed, 0 * mixed], 1)), tried, strict=True)]
    legal = np.arange(cards.DRAW) < 2
    total = ((sizes * means).sum() + 4 * prior * valued) / (sizes.sum() + 4 * prior)
    found = next(play for play in pool(rounds, legal, 1.0, prior).plays if play.action == 0)
    assert found.win == pytest.approx((1 + total) / 2) and found.rollouts == 650
    # Halves of the rounds value what the others chose: rounds 0 and 2, and 1 and 3, in both of which play 0 is the better one.
    halves = [((sizes * means)[part].sum() + 2 * prior * valued) / (sizes[part].sum() + 2 * prior) for part in ([0, 2], [1, 3])]
    assert cost_of(rounds, legal, 1, prior)[0] == pytest.approx(np.mean(halves) / 2)


def test_a_play_that_one_round_gave_up_can_be_the_best():
    rounds = estimates([[-0.2, 0.0], [0.5, 0.0], [0.5, 0.0], [0.5, 0.0]])
    few = np.where(np.arange(cards.DRAW) == 0, 50, rounds[0].num_samples).astype(np.int32)
    pooled = pool([rounds[0]._replace(num_samples=few), *rounds[1:]], np.arange(cards.DRAW) < 2, 1.0)
    assert pooled.plays[0].gain > 2 * pooled.plays[0].gain_error
    assert (pooled.plays[0].action, pooled.own, pooled.recommended) == (0, 1, 0)


@pytest.fixture(scope="module")
def decision() -> tuple[SearchAgent, Remembered, Observation]:
    agent = read_search("mc:rollouts=32,particles=64,policy=uniform", Rules())
    seen = parse_observation("R1,RS,W/7/-/* R0 0 0 0 - *")
    ((belief, _),) = track(agent.updater, jax.random.key(1), [seen])
    return agent, Remembered(belief, jnp.int32(0)), seen


def test_replicates_are_the_same_side_by_side(decision, monkeypatch):
    agent, memory, seen = decision
    legal, key = np.asarray(seen.legal_mask)[: cards.DRAW], jax.random.key(2)

    def searched(at_a_time: int) -> list[Estimate]:
        monkeypatch.setattr(pooling, "available_cores", lambda: at_a_time)
        return list(replicates(agent, [memory], seen, legal, key, 6))

    by_hand = [jax.device_get(search_once(jax.random.fold_in(key, i), memory, seen, legal, agent=agent)) for i in range(6)]
    for number in (3, 1):
        assert_trees_equal(searched(number), by_hand)


def test_replicates_take_the_beliefs_in_turn(decision):
    agent, memory, seen = decision
    legal, key = np.asarray(seen.legal_mask)[: cards.DRAW], jax.random.key(2)
    other = memory._replace(num_steps=jnp.int32(7))
    expected = [
        jax.device_get(search_once(jax.random.fold_in(key, i), (memory, other)[i % 2], seen, legal, agent=agent))
        for i in range(3)
    ]
    assert_trees_equal(list(replicates(agent, [memory, other], seen, legal, key, 3)), expected)


def test_ctrl_c_goes_through(decision, monkeypatch):
    """A loop over searches can be stopped, however many replicates are done."""
    agent, memory, seen = decision
    legal, key = np.asarray(seen.legal_mask)[: cards.DRAW], jax.random.key(2)
    done = []

    def search(*args):
        done.append(1)
        if len(done) > 6:
            raise KeyboardInterrupt
        return search_once(*args, agent=agent)

    monkeypatch.setattr(pooling, "search_once", SimpleNamespace(compile=lambda *args, **options: search))
    with pytest.raises(KeyboardInterrupt):
        list(replicates(agent, [memory], seen, legal, key, None))
    assert len(done) > 6


def test_threads_search_as_they_are_told(decision):
    """Tuned for another platform there is one program, for the threads too, which can't see what it is tuned for."""
    agent, memory, seen = decision
    legal, before = np.asarray(seen.legal_mask)[: cards.DRAW], search_once._compiled.cache_info().misses
    with tuned_for("gpu"):
        list(replicates(agent, [memory], seen, legal, jax.random.key(2), 3))
    assert search_once._compiled.cache_info().misses == before + 1


def test_a_search_that_was_compiled_ahead_is_not_traced_again(decision):
    agent, memory, seen = decision
    legal, key = np.zeros(cards.DRAW, bool), jax.random.key(3)
    search_once.compile(key, memory, seen, legal, agent=agent)
    with jax.no_tracing():
        search_once(key, memory, seen, legal, agent=agent)

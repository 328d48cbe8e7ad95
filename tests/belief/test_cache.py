"""The belief cache: its computations, its entries, and answers that never depend on them."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.games import games_of
from tests.belief.oracle import FORFEITING
from tests.helpers import assert_trees_equal, refusals
from unojax.belief import Belief, Info, adaptive, history
from unojax.belief.adaptive import AdaptiveFilter
from unojax.belief.cache import BeliefCache
from unojax.belief.tracking import track
from unojax.belief.updaters import ExactFilter, ParticleFilter, UniformFilter
from unojax.observation import Observation
from unojax.rules import Rules

LENGTH = 13
PROGRAMS = 60  # Beliefs of several updaters begin outside `jit`.


def views_of(number: int, seat: int = 0) -> list[Observation]:
    steps = games_of(FORFEITING).steps(seat, number)
    return [steps[0][0], *(after for _, _, after in steps)][:LENGTH]


@pytest.fixture(scope="module")
def views() -> list[Observation]:
    return next(views for number in range(50) if len(views := views_of(number)) == LENGTH and not views[-1].terminated)


class Quick(ParticleFilter):
    """Fast filter whose particles depend on earlier ones but not on the game."""

    def update(self, key: jax.Array, belief: Belief, before: Observation, action: jax.Array, after: Observation) -> Any:
        key = jax.random.fold_in(key, belief.trajectories.labels.sum(dtype=jnp.uint32))
        return self.init(key, after), Info(np.float32(self.num_particles), inconsistent=~history.belongs(before, action, after))


QUICK = Quick(64, prior="uniform")


def make(**options: Any) -> BeliefCache:
    return BeliefCache(QUICK, **options)


def test_only_the_missing_suffix_is_computed(views: list[Observation]) -> None:
    """Contract: keyed by the canonical observation and the action history, unbounded by default, with hit statistics."""
    cache = make()
    assert cache.track(views[:1]).info is None
    cache.belief(views[:5])
    assert (cache.stats.updates, cache.stats.entries) == (4, 5)
    first = cache.belief(views)
    assert (cache.stats.hits, cache.stats.misses, cache.stats.updates) == (0, 3, LENGTH - 1)
    assert cache.belief(views) is first and cache.belief(views[:3]) is not first
    assert 0 < float(cache.track(views[:4]).info.ess) <= 64.01 and cache.track(views[:4]) is cache.track(views[:4])
    assert astuple(cache.stats) == (5, 3, LENGTH - 1, 0, LENGTH)
    assert cache.belief(jax.tree.map(np.copy, views)) is first, "equal observations have the same key"
    # Another start is another belief, and so is another game or another deck.
    cache.belief(views[3:6])
    assert cache.stats.updates == LENGTH - 1 + 2
    cache.belief(views_of(7)[:4])
    assert cache.stats.updates == LENGTH - 1 + 2 + 3
    other_rules = replace(views[0].rules, hand_size=3)
    assert cache.belief([replace(views[0], rules=other_rules)]).rules == other_rules
    cache.clear()
    assert astuple(cache.stats) == (0,) * 5
    assert_trees_equal(cache.belief(views), first)


def test_the_answer_does_not_depend_on_the_cache(views: list[Observation]) -> None:
    """`track` with the same key gives the same answer."""
    key = jax.random.key(5)
    step_by_step, tiny = make(key=key), make(key=key, max_entries=1)
    for number, (belief, info) in enumerate(track(QUICK, key, views), 1):
        tracked = step_by_step.track(views[:number])
        assert_trees_equal(tracked.belief, belief)
        assert (tracked.info is None) == (info is None)
        if number % 4 == 0:
            assert_trees_equal(tiny.belief(views[:number]), belief)
            assert tiny.stats.entries == 1
    assert step_by_step.stats.updates == LENGTH - 1
    other = make().belief(views[:1])
    assert (np.asarray(other.trajectories.labels) != np.asarray(step_by_step.belief(views[:1]).trajectories.labels)).any()


def test_the_least_recently_used_entry_goes_first(views: list[Observation]) -> None:
    """Contract: an optional limit."""
    cache = make(max_entries=3)
    for t in (1, 2, 3, 1, 4):
        cache.belief(views[:t])
    assert (cache.stats.entries, cache.stats.evictions, cache.stats.hits) == (3, 1, 1)
    cache.belief(views[:1])
    assert cache.stats.hits == 2, "used again, so kept"
    updates = cache.stats.updates
    cache.belief(views[:2])
    assert cache.stats.updates == updates + 1, "the oldest one was dropped"


def test_any_updater_is_cached(views: list[Observation]) -> None:
    cache = BeliefCache(ExactFilter())
    exact = cache.belief(views[:4])
    assert exact is cache.belief(views[:4]) and exact.expected_counts.sum() == pytest.approx(int(views[3].opponent_count))
    assert BeliefCache(UniformFilter()).belief(views[:4]) == ()
    updater = AdaptiveFilter(QUICK, sizes=(64, 128), cards_left=(1,), low_ess=0.0)
    assert (updater.name, updater.num_particles) == ("particles 64/128", 128)
    cache, sizes, programs = BeliefCache(updater), set[int](), adaptive._update._cache_size()
    for t in range(LENGTH):
        belief = cache.belief(views[: t + 1])
        fewest = min(int(views[t].hand_count), int(views[t].opponent_count))
        assert belief.num_particles == (128 if fewest <= 1 else 64)
        sizes.add(belief.num_particles)
        assert (np.asarray(belief.particles).sum(-1) == views[t].opponent_count).all()
    assert sizes == {64, 128}
    assert adaptive._update._cache_size() <= programs + 2, "a program for each size"


def test_refusals(views: list[Observation]) -> None:
    cache, batch = make(), jax.tree.map(lambda x: np.stack([x, x]), views[0])
    other_seat = views_of(0, seat=1)
    refusals(
        {
            "observations": lambda: cache.belief([]),
            "single observation": lambda: cache.belief([batch]),
            "single observation (later)": lambda: cache.belief([views[0], batch]),
            "max_entries": lambda: make(max_entries=0),
        }
    )
    assert cache.stats.entries == 0
    refusals(
        {
            "observations 0 and 1 are not one transition apart (another seat)": lambda: cache.belief([views[0], other_seat[1]]),
            "deck of 108 cards": lambda: cache.belief([views[0], replace(views[1], rules=Rules())]),
            "observations 0 and 1 are not one transition apart": lambda: cache.belief([views[0], views[2]]),
            "observations 1 and 2 are not one transition apart": lambda: cache.belief([views[0], views[1], views[0]]),
        }
    )
    # The beliefs up to there are kept.
    assert (cache.stats.entries, cache.stats.updates) == (2, 1)

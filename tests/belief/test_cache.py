"""The belief cache: what it computes, what it keeps, and that an answer never depends on what it kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.filtering import FILTER
from tests.belief.oracle import FORFEITING, play_games
from tests.helpers import assert_trees_equal
from unojax.belief import Belief, adaptive, history, summary
from unojax.belief.adaptive import AdaptiveFilter
from unojax.belief.cache import BeliefCache
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.tracking import track
from unojax.belief.updaters import ExactFilter, ParticleFilter, UniformFilter, plain_info
from unojax.observation import Observation
from unojax.rules import Rules

LENGTH = 13


def sequence(player: int, lane: int, length: int = LENGTH) -> list[Observation]:
    record = play_games(seed=3, num_games=300, num_steps=25, rules=FORFEITING)
    return [record.view(player, t, lane) for t in range(length)]


class Quick(ParticleFilter):
    """Begins anew at each position, with particles that depend on those before: what is kept matters, what is believed does not.

    The filter itself takes long to compile.
    """

    def update(self, key: jax.Array, belief: Belief, before: Observation, action: jax.Array, after: Observation) -> Any:
        key = jax.random.fold_in(key, belief.trajectories.labels.sum(dtype=jnp.uint32))
        return self.init(key, after), plain_info(~history.belongs(before, action, after), ess=self.num_particles)


def make(num_particles: int = 64, **options) -> BeliefCache:
    return BeliefCache(Quick(num_particles, prior="uniform"), **options)


@pytest.fixture(scope="module")
def views() -> list[Observation]:
    return sequence(0, 0)


def test_only_the_missing_suffix_is_computed(views: list[Observation]) -> None:
    cache = make()
    cache.belief(views[:5])
    assert (cache.stats.updates, cache.stats.entries) == (4, 5)
    first = cache.belief(views)
    assert (cache.stats.hits, cache.stats.misses, cache.stats.updates) == (0, 2, LENGTH - 1)
    again = cache.belief(views)
    earlier = cache.belief(views[:3])
    assert again is first
    assert earlier is not first
    stats = cache.stats
    assert (stats.hits, stats.misses, stats.updates, stats.entries, stats.evictions) == (2, 2, LENGTH - 1, LENGTH, 0)


def test_the_answer_does_not_depend_on_the_cache(views: list[Observation]) -> None:
    expected = make().belief(views)
    step_by_step, tiny = make(), make(max_entries=1)
    for t in range(LENGTH):
        one = step_by_step.belief(views[: t + 1])
        two = tiny.belief(views[: t + 1])
        assert_trees_equal(one, two)
        assert tiny.stats.entries == 1
    assert_trees_equal(one, expected)
    assert step_by_step.stats.updates == LENGTH - 1


def test_the_least_recently_used_entry_goes_first(views: list[Observation]) -> None:
    cache = make(max_entries=3)
    for t in (1, 2, 3):
        cache.belief(views[:t])
    cache.belief(views[:1])
    cache.belief(views[:4])
    assert (cache.stats.entries, cache.stats.evictions, cache.stats.hits) == (3, 1, 1)
    cache.belief(views[:1])
    assert cache.stats.hits == 2, "used again, so kept"
    updates = cache.stats.updates
    cache.belief(views[:2])
    assert cache.stats.updates == updates + 1, "the oldest one was dropped"


def test_decks_that_look_alike_are_told_apart(views: list[Observation]) -> None:
    cache = make()
    one = cache.belief(views[:1])
    other = cache.belief([replace(views[0], rules=replace(views[0].rules, hand_size=3))])
    assert (cache.stats.misses, cache.stats.entries) == (2, 2)
    assert one.rules != other.rules


def test_games_with_a_common_past_share_it(views: list[Observation]) -> None:
    """Two games that part after some steps, and two that look the same now but had another past."""
    cache = make()
    record = play_games(seed=3, num_games=300, num_steps=25, rules=FORFEITING)
    cache.belief(views[:6])
    cache.belief(views[3:6])
    assert cache.stats.updates == 5 + 2, "another start is another belief"
    other = [record.view(0, t, 7) for t in range(4)]
    cache.belief(other)
    assert cache.stats.updates == 5 + 2 + 3


def test_other_keys_give_other_particles(views: list[Observation]) -> None:
    one, two = make().belief(views[:1]), make(key=jax.random.key(1)).belief(views[:1])
    assert (np.asarray(one.trajectories.labels) != np.asarray(two.trajectories.labels)).any()


def test_beliefs_are_those_of_track(views: list[Observation]) -> None:
    cache, key = make(key=jax.random.key(5)), jax.random.key(5)
    for number, (belief, info) in enumerate(track(Quick(64, prior="uniform"), key, views[:6]), 1):
        tracked = cache.track(views[:number])
        assert_trees_equal(tracked.belief, belief)
        assert (tracked.info is None) == (info is None)


def test_any_updater_is_cached(views: list[Observation]) -> None:
    cache = BeliefCache(ExactFilter())
    exact = cache.belief(views[:4])
    assert exact is cache.belief(views[:4]) and exact.expected_counts.sum() == pytest.approx(int(views[3].opponent_count))
    assert BeliefCache(UniformFilter()).belief(views[:4]) == ()


def test_belief_is_right() -> None:
    """Against the exact filter, through all kinds of events: mean absolute error of the expected counts, 1024 particles."""
    cache = BeliefCache(FILTER)
    errors = []
    for lane in range(4):
        views = sequence(lane % 2, lane, 20)
        record = play_games(seed=3, num_games=300, num_steps=25, rules=FORFEITING)
        exact = exact_init(views[0])
        for t in range(1, len(views)):
            exact, _ = exact_update(exact, views[t - 1], int(record.happened[t - 1, lane]), views[t])
        got = np.asarray(summary.expected_counts(cache.belief(views)))
        errors.append(np.abs(got - exact.expected_counts)[np.asarray(FORFEITING.deck) > 0].mean())
        assert not any(cache.track(views[: t + 1]).info.restarted for t in range(1, len(views)))
    # The standard error of one count is below 0.02 with 1024 particles of an ESS above a half.
    assert max(errors) < 0.05


def test_schedule(views: list[Observation]) -> None:
    updater = AdaptiveFilter(Quick(64, prior="uniform"), sizes=(64, 1024), cards_left=(1,), low_ess=0.0)
    assert (updater.name, updater.num_particles) == ("particles 64/1024", 1024)
    cache = BeliefCache(updater)
    sizes, programs = set(), adaptive._update._cache_size()
    for t in range(LENGTH):
        belief = cache.belief(views[: t + 1])
        fewest = min(int(views[t].hand_count), int(views[t].opponent_count))
        assert belief.num_particles == (1024 if fewest <= 1 else 64)
        sizes.add(belief.num_particles)
        assert (np.asarray(belief.particles).sum(-1) == views[t].opponent_count).all()
    assert sizes == {64, 1024}
    assert adaptive._update._cache_size() <= programs + 2, "a program for each size"


def test_track_tells_what_happened(views: list[Observation]) -> None:
    cache = make()
    assert cache.track(views[:1]).info is None
    tracked = cache.track(views[:4])
    assert 0 < float(tracked.info.ess) <= 64.01
    assert cache.track(views[:4]) is tracked


def test_clear(views: list[Observation]) -> None:
    cache = make()
    before = cache.belief(views[:3])
    cache.clear()
    assert cache.stats.entries == cache.stats.updates == cache.stats.misses == 0
    assert_trees_equal(cache.belief(views[:3]), before)


def test_bad_input(views: list[Observation]) -> None:
    cache = make()
    with pytest.raises(ValueError, match="got none"):
        cache.belief([])
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), views[0])
    with pytest.raises(ValueError, match="takes a single observation, got a hand of shape"):
        cache.belief([batch])
    assert cache.stats.entries == 0
    with pytest.raises(ValueError, match="a hand of shape"):
        cache.belief([views[0], batch])
    with pytest.raises(ValueError, match="observations 0 and 1 are not one transition apart"):
        cache.belief([views[0], sequence(1, 0)[1]])
    with pytest.raises(ValueError, match="deck of 108 cards instead of 14"):
        cache.belief([views[0], replace(views[1], rules=Rules())])
    with pytest.raises(ValueError, match="observations 0 and 1 are not one transition apart"):
        cache.belief([views[0], views[2]])
    with pytest.raises(ValueError, match="observations 1 and 2 are not one transition apart"):
        cache.belief([views[0], views[1], views[0]])
    # What was right up to there is kept.
    assert (cache.stats.entries, cache.stats.updates) == (2, 1)
    with pytest.raises(ValueError, match="max_entries must be at least 1, or None"):
        make(max_entries=0)
    with pytest.raises(ValueError, match="num_particles must be an integer of at least 1, got 0"):
        make(num_particles=0)

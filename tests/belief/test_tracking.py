"""Filters of all kinds follow the same games, on the device and on the host, and refuse what does not belong together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from tests.belief.oracle import FORFEITING, play_games
from unojax.belief import closed_form, summary
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.tracking import run_filter, track
from unojax.belief.updaters import BootstrapFilter, ClosedFormFilter, ExactFilter, UniformFilter, Updater
from unojax.observation import Observation

LANE, NUM_UPDATES, ROOM = 0, 9, 25
KEY = jax.random.key(4)
QUICK = [
    BootstrapFilter(64),
    ClosedFormFilter(),
    pytest.param(ClosedFormFilter(exclude_drawn=True), marks=pytest.mark.slow),
    UniformFilter(),
]
EACH = pytest.mark.parametrize("filter", [*QUICK, ExactFilter()], ids=lambda filter: filter.name)


@pytest.fixture(scope="module")
def views() -> list[Observation]:
    record = play_games(seed=3, num_games=300, num_steps=ROOM, rules=FORFEITING)
    live = (record.happened >= 0).sum(0) - record.states.terminated[-1]
    lane = int(np.flatnonzero(live >= NUM_UPDATES)[LANE])
    return [record.view(0, t, lane) for t in range(ROOM + 1)]


@EACH
def test_following_on_the_host(filter: Updater, views: list[Observation]) -> None:
    """Probabilities of how many copies the opponent holds, which add up to its hand; and no update has trouble."""
    updates = 0
    for t, (belief, info) in enumerate(track(filter, KEY, views[: NUM_UPDATES + 1])):
        probs = np.asarray(filter.count_probs(belief, views[t]))
        np.testing.assert_allclose(probs.sum(1), 1.0, rtol=1e-4)
        np.testing.assert_allclose((probs @ np.arange(5)).sum(), views[t].opponent_count, rtol=1e-3)
        assert (info is None) == (t == 0)
        if info is not None:
            assert 0 < float(info.ess) <= filter.num_particles * (1 + 1e-4)
            assert not (info.depleted or info.inconsistent)
            updates += 1
    assert updates == NUM_UPDATES


def test_the_exact_filter_is_that_of_its_functions(views: list[Observation]) -> None:
    belief = exact_init(views[0], prior="deal")
    for t, (followed, info) in enumerate(track(ExactFilter(), KEY, views[: NUM_UPDATES + 1])):
        if t > 0:
            play = int(views[t].color) * 15 + int(views[t].top_rank)
            held, before = (int(seen.opponent_count + seen.hand_count) for seen in (views[t], views[t - 1]))
            belief, log_evidence = exact_update(belief, views[t - 1], 60 if held > before else play, views[t])
            assert float(info.log_evidence) == pytest.approx(log_evidence, abs=1e-6)
        np.testing.assert_array_equal(followed.probs, belief.probs)


@pytest.mark.parametrize("filter", [ClosedFormFilter(), UniformFilter()], ids=lambda filter: filter.name)
def test_the_device_follows_like_the_host(filter: Updater, views: list[Observation]) -> None:
    """With filters that draw nothing at random; positions beyond the last update are not noted."""
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *views)

    def note(out: Array, t: Array, seen: Observation, belief, info) -> Array:
        assert info.ess.shape == ()
        return out.at[t].set(filter.count_probs(belief, seen))

    @jax.jit
    def on_device(key: Array, num_updates: Array) -> Array:
        return run_filter(filter, key, stacked, num_updates, note, jnp.zeros((ROOM + 1, 54, 5)))

    rows = on_device(KEY, jnp.int32(NUM_UPDATES))
    for t, (belief, _) in enumerate(track(filter, KEY, views[: NUM_UPDATES + 1])):
        np.testing.assert_allclose(rows[t], filter.count_probs(belief, views[t]), atol=1e-6)
    assert not rows[NUM_UPDATES + 1 :].any()


@EACH
def test_a_skipped_turn_is_refused(filter: Updater, views: list[Observation]) -> None:
    followed = track(filter, KEY, [views[0], views[1], views[3]])
    next(followed), next(followed)
    with pytest.raises(ValueError, match=r"not one transition apart|does not show the position"):
        next(followed)


# `test_bootstrap.py` has the bootstrap filter's.
@pytest.mark.parametrize("filter", QUICK[1:], ids=lambda filter: filter.name)
def test_what_does_not_belong_together_is_flagged(filter: Updater, views: list[Observation]) -> None:
    """The belief stays as it was; so it does, unflagged, when nothing happened."""
    update = jax.jit(filter.update)
    belief = jax.jit(filter.init)(KEY, views[0])
    for before, action, after, is_wrong in (
        (views[0], 60, views[2], True),
        (views[0], -1, views[1], True),
        (views[0], -1, views[0], False),
        (views[0], 7, views[0], False),
    ):
        updated, info = update(KEY, belief, before, jnp.int32(action), after)
        assert bool(info.inconsistent) == is_wrong
        for a, b in zip(jax.tree.leaves(updated), jax.tree.leaves(belief), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_cloud_gives_every_possible_hand_a_chance(views: list[Observation]) -> None:
    """One particle more is spread like the uniform belief."""
    filter = BootstrapFilter(4)
    belief = jax.jit(filter.init)(KEY, views[0])
    got = np.asarray(filter.count_probs(belief, views[0]))
    uniform = np.asarray(closed_form.uniform(views[0]).count_probs)
    np.testing.assert_allclose(got, (4 * np.asarray(summary.count_probs(belief)) + uniform) / 5, atol=1e-6)
    assert (got[uniform > 0] > 0).all()

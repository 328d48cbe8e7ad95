"""The number of particles follows the position, a belief keeps its meaning when it is resized, and few programs are compiled."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.oracle import FORFEITING, play_games
from tests.helpers import slow_but
from unojax.belief.adaptive import AdaptiveFilter, resize
from unojax.belief.particles import Belief, belief_init, belief_update
from unojax.belief.resample import normalize
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_state

SIZES = AdaptiveFilter(sizes=(16, 64, 128), cards_left=(4, 2))


def view(mine: str, theirs: str) -> Observation:
    return observe(make_state(mine, theirs, "R5"), 0)


@pytest.fixture(scope="module")
def uneven() -> Belief:
    """64 particles with weights from 0 to 20 %."""
    belief = jax.jit(partial(belief_init, num_particles=64))(view("R1 R2", "B1 B2 B3 B4 B5"), jax.random.key(0))
    weights = np.random.default_rng(1).gamma(0.3, size=64)
    weights[:9] = 0.0
    weights[20] = weights.sum() / 4
    with np.errstate(divide="ignore"):
        log_weights = jnp.asarray(np.log(weights / weights.sum()), jnp.float32)
    return dataclasses.replace(belief, log_weights=log_weights, log_likelihood=jnp.arange(64.0))


@pytest.mark.parametrize(
    ("mine", "theirs", "ess_share", "size"),
    [
        ("R1 R2 R3 R4 R6", "B1 B2 B3 B4 B5", 1.0, 16),
        ("R1 R2 R3 R4 R6", "B1 B2 B3 B4", 1.0, 64),
        ("R1 R2 R3 R4", "B1 B2 B3 B4 B5", 1.0, 64),
        ("R1 R2 R3 R4 R6", "B1 B2", 1.0, 128),
        ("R1", "B1 B2 B3 B4 B5", 1.0, 128),
        ("R1 R2 R3 R4 R6", "B1 B2 B3 B4 B5", 0.2, 64),
        ("R1 R2 R3 R4", "B1 B2 B3 B4 B5", 0.2, 128),
        ("R1", "B1 B2 B3 B4 B5", 0.0, 128),
    ],
)
def test_schedule(mine: str, theirs: str, ess_share: float, size: int) -> None:
    assert SIZES.num_particles_for(view(mine, theirs), ess_share) == size


@pytest.mark.parametrize("num_particles", slow_but([10, 100], [10, 48, 100, 256]))
def test_copies_follow_the_weights(uneven: Belief, num_particles: int) -> None:
    """Over seeds each particle is copied M w times on average, always within one of it, and never for w = 0.

    The mean is tested at 6 standard errors of a number that varies by less than 1: error probability below 1e-5.
    """
    seeds = 400
    several = jax.jit(jax.vmap(partial(resize, num_particles=num_particles), (None, 0)))
    resized = several(uneven, jax.random.split(jax.random.key(2), seeds))
    np.testing.assert_allclose(jnp.exp(resized.log_weights).sum(-1), 1.0, atol=1e-5)
    assert np.ptp(resized.log_weights) == 0
    # Each particle is known by its likelihood, and hands and labels move along with it.
    ancestors = np.asarray(resized.log_likelihood).astype(int)
    np.testing.assert_array_equal(resized.trajectories.labels, jnp.moveaxis(uneven.trajectories.labels[:, ancestors], 1, 0))
    np.testing.assert_array_equal(resized.packed[2], uneven.packed[2][ancestors])
    copies = np.stack([np.bincount(row, minlength=64) for row in ancestors])
    expected = num_particles * np.exp(np.asarray(uneven.log_weights, np.float64))
    assert (np.abs(copies - expected) < 1 + 1e-3).all()
    assert (copies[:, expected == 0] == 0).all()
    standard_errors = copies.std(0) / np.sqrt(seeds) + 1 / np.sqrt(seeds) * (copies.std(0) == 0)
    assert (np.abs(copies.mean(0) - expected) <= 6 * standard_errors + 1e-3).all()


def test_same_size_is_the_same_belief(uneven: Belief) -> None:
    assert resize(uneven, jax.random.key(0), num_particles=64) is uneven


def test_some_trajectory_that_is_possible_is_kept() -> None:
    """Where hardly any is, under rules that tell of hands: the others, which may help later on, would leave nothing to report."""
    seen = observe(make_state("R1 R2", "B1 B2 B3", "R5", rules=Rules.official()), 0)
    belief = jax.jit(partial(belief_init, num_particles=64))(seen, jax.random.key(1))
    assert belief.target is not None
    is_possible = jnp.arange(64) == 7
    softened, _ = normalize(jnp.where(is_possible, -30.0, 0.0))
    target = belief.target._replace(log_weights=softened, log_possible=softened[7])
    belief = dataclasses.replace(belief, log_weights=jnp.where(is_possible, 0.0, -jnp.inf), target=target)
    smaller = jax.jit(partial(resize, num_particles=16))(belief, jax.random.key(2))
    assert np.exp(smaller.log_weights).sum() == pytest.approx(1.0)
    for mine, kept in zip(smaller.packed, belief.packed, strict=True):
        np.testing.assert_array_equal(mine, np.broadcast_to(kept[7], 16))


@pytest.mark.slow
@pytest.mark.long
def test_a_whole_game_compiles_a_program_per_size() -> None:
    """Sizes go up and down over a game and again over a second one; each size is traced once."""
    traces: list[int] = []

    def counted(belief, before, action, after, key):
        traces.append(belief.num_particles)
        return belief_update(belief, before, action, after, key)

    update = jax.jit(counted)
    adaptive = AdaptiveFilter(sizes=(16, 32), cards_left=(1,), low_ess=0.0)
    record = play_games(seed=3, num_games=300, num_steps=25, rules=FORFEITING)
    hands = record.states.hands.sum(-1).min(-1)
    fluctuates = (np.diff((hands <= 1).astype(int), axis=0) != 0).sum(0)
    used = []
    for lane in np.argsort(-fluctuates)[:2]:
        before = record.view(0, 0, lane)
        key = jax.random.key(int(lane))
        size = adaptive.num_particles_for(before)
        belief = jax.jit(partial(belief_init, num_particles=size))(before, key)
        for step in range(25):
            after = record.view(0, step + 1, lane)
            key_update, key_resize = jax.random.split(jax.random.fold_in(key, step))
            belief, info = update(belief, before, int(record.happened[step, lane]), after, key_update)
            used.append(belief.num_particles)
            size = adaptive.num_particles_for(after, info.ess / belief.num_particles)
            belief = jax.jit(resize, static_argnames="num_particles")(belief, key_resize, num_particles=size)
            assert belief.num_particles == size
            assert not info.depleted
            assert (belief.particles.sum(-1) == after.opponent_count).all()
            before = after
    assert np.count_nonzero(np.diff(used)) >= 4
    assert sorted(traces) == [16, 32]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sizes": ()}, "sizes must be positive and increasing"),
        ({"sizes": (0, 5, 6)}, "sizes must be positive and increasing"),
        ({"sizes": (64, 32, 128)}, "sizes must be positive and increasing"),
        ({"cards_left": (3,)}, "one entry for each of the 2 sizes"),
        ({"cards_left": (3, 6)}, "cards_left must decrease"),
        ({"low_ess": 1.5}, r"share in \[0, 1\]"),
    ],
)
def test_bad_schedules(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdaptiveFilter(**fields)


def test_bad_input(uneven: Belief) -> None:
    with pytest.raises(ValueError, match="num_particles must be at least 1, got 0"):
        resize(uneven, jax.random.key(0), num_particles=0)
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), view("R1", "B1"))
    with pytest.raises(ValueError, match="must be unbatched"):
        SIZES.num_particles_for(batch)

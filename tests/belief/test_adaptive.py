"""The number of particles follows the position, and resizing a belief keeps its meaning."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers import refusals
from unojax.belief.adaptive import AdaptiveFilter, resize
from unojax.belief.particles import Belief, belief_init
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_state

SIZES = AdaptiveFilter(sizes=(16, 64, 128), cards_left=(4, 2))
begin = jax.jit(partial(belief_init, num_particles=64))


def view(mine: str, theirs: str, rules: Rules = Rules()) -> Observation:
    return jax.device_get(observe(make_state(mine, theirs, "R5", rules=rules), 0))


@pytest.fixture(scope="module")
def uneven() -> Belief:
    belief = jax.device_get(begin(view("R1 R2", "B1 B2 B3 B4 B5"), jax.random.key(0)))
    weights = np.random.default_rng(1).gamma(0.3, size=64)
    weights[:9] = 0.0
    weights[20] = weights.sum() / 4
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights / weights.sum()).astype(np.float32)
    return dataclasses.replace(belief, log_weights=log_weights, log_likelihood=np.arange(64, dtype=np.float32))


def test_schedule() -> None:
    """Contract: adaptive number of particles (more near the end of the game) in a few fixed sizes."""
    for mine, theirs, ess_share, size in (
        (5, 5, 1.0, 16),
        (5, 4, 1.0, 64),
        (4, 5, 1.0, 64),
        (5, 2, 1.0, 128),
        (1, 5, 1.0, 128),
        (5, 5, 0.2, 64),
        (4, 5, 0.2, 128),
        (1, 5, 0.0, 128),
    ):
        seen = view(" ".join("R1 R2 R3 R4 R6".split()[:mine]), " ".join("B1 B2 B3 B4 B5".split()[:theirs]))
        assert SIZES.num_particles_for(seen, ess_share) == size, (mine, theirs, ess_share)


def test_copies_follow_the_weights(uneven: Belief) -> None:
    """Each particle is copied M w times on average, always within one of it, and never for w = 0.

    The mean is tested at 6 standard errors, an error probability below 1e-5.
    """
    seeds = 400
    for number in (10, 100):
        several = jax.jit(jax.vmap(partial(resize, num_particles=number), (None, 0)))
        resized = jax.device_get(several(uneven, jax.random.split(jax.random.key(2), seeds)))
        np.testing.assert_allclose(resized.log_weights, -np.log(number), rtol=1e-5)
        # Each particle is known by its likelihood, and hands and labels move along with it.
        ancestors = resized.log_likelihood.astype(int)
        np.testing.assert_array_equal(resized.trajectories.labels, np.moveaxis(uneven.trajectories.labels[:, ancestors], 1, 0))
        np.testing.assert_array_equal(resized.packed[2], np.asarray(uneven.packed[2])[ancestors])
        copies = np.stack([np.bincount(row, minlength=64) for row in ancestors])
        expected = number * np.exp(uneven.log_weights.astype(np.float64))
        assert (np.abs(copies - expected) < 1 + 1e-3).all() and (copies[:, expected == 0] == 0).all()
        standard_errors = copies.std(0) / np.sqrt(seeds) + 1 / np.sqrt(seeds) * (copies.std(0) == 0)
        assert (np.abs(copies.mean(0) - expected) <= 6 * standard_errors + 1e-3).all()
    assert resize(uneven, jax.random.key(0), num_particles=64) is uneven


def test_some_trajectory_that_is_possible_is_kept() -> None:
    """Even if almost all trajectories have become impossible."""
    belief = jax.device_get(begin(view("R1 R2", "B1 B2 B3", Rules.official()), jax.random.key(1)))
    assert belief.target is not None
    is_possible = np.arange(64) == 7
    softened = np.where(is_possible, -30.0, 0.0) - np.log(63)
    target = belief.target._replace(log_weights=softened.astype(np.float32), log_possible=np.float32(softened[7]))
    log_weights = np.where(is_possible, 0.0, -np.inf).astype(np.float32)
    belief = dataclasses.replace(belief, log_weights=log_weights, target=target)
    smaller = jax.jit(partial(resize, num_particles=16))(belief, jax.random.key(2))
    assert np.exp(smaller.log_weights).sum() == pytest.approx(1.0)
    for mine, kept in zip(smaller.packed, belief.packed, strict=True):
        np.testing.assert_array_equal(mine, np.broadcast_to(kept[7], 16))


def test_refusals(uneven: Belief) -> None:
    batch = jax.tree.map(lambda x: np.stack([x, x]), view("R1", "B1"))
    refusals(
        {
            "sizes": lambda: AdaptiveFilter(sizes=()),
            "sizes (zero)": lambda: AdaptiveFilter(sizes=(0, 5, 6)),
            "sizes (falling)": lambda: AdaptiveFilter(sizes=(64, 32, 128)),
            "cards_left": lambda: AdaptiveFilter(cards_left=(3,)),
            "cards_left (rising)": lambda: AdaptiveFilter(cards_left=(3, 6)),
            "low_ess": lambda: AdaptiveFilter(low_ess=1.5),
            "num_particles": lambda: resize(uneven, jax.random.key(0), num_particles=0),
            "unbatched": lambda: SIZES.num_particles_for(batch),
        }
    )

"""Systematic resampling, effective sample size, normalising: with weights of zero, and at the ends of the unit interval."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax.belief import resample

BELOW_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))
systematic = jax.jit(jax.vmap(resample.systematic, (0, None)))
INF = np.inf


def uniforms(n: int, seed: int = 0) -> np.ndarray:
    """Random numbers in [0, 1), and both ends."""
    return np.append(np.random.default_rng(seed).random(n, np.float32), np.array([0.0, BELOW_ONE], np.float32))


def some_weights(n: int, seed: int, dead: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < dead, -INF, rng.normal(scale=2.0, size=n)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 7, 100, 4096, 65536])
@pytest.mark.parametrize("seed", range(3))
def test_a_particle_of_weight_zero_is_never_picked(n: int, seed: int) -> None:
    """Also with many particles, where the rounding of cumulative sums differs from place to place."""
    log_weights = some_weights(n, seed, dead=0.5)
    log_weights[np.random.default_rng(seed).integers(n)] = 0.0
    ancestors = np.asarray(systematic(uniforms(20, seed), log_weights))
    assert ancestors.dtype == np.int32
    assert np.isfinite(log_weights[ancestors]).all()
    assert (np.diff(ancestors) >= 0).all()


@pytest.mark.parametrize("alive", [(0,), (4,), (2,), (0, 4), (1, 3)])
def test_ends_of_the_unit_interval(alive: tuple[int, ...]) -> None:
    log_weights = np.full(5, -INF, np.float32)
    log_weights[list(alive)] = 0.0
    ancestors = np.asarray(systematic(np.array([0.0, BELOW_ONE], np.float32), log_weights))
    assert set(ancestors.ravel().tolist()) == set(alive)


@pytest.mark.parametrize("scale", [0.0, 50.0, -50.0])
def test_each_particle_is_picked_floor_or_ceil_of_n_w_times(scale: float) -> None:
    log_weights = some_weights(200, seed=1, dead=0.2)
    share = 200 * np.exp(log_weights, dtype=np.float64) / np.exp(log_weights, dtype=np.float64).sum()
    for ancestors in np.asarray(systematic(uniforms(100), log_weights + np.float32(scale))):
        picked = np.bincount(ancestors, minlength=200)
        # Within the rounding of float32 sums.
        assert (picked >= np.floor(share - 1e-3)).all()
        assert (picked <= np.ceil(share + 1e-3)).all()


def test_picks_are_unbiased() -> None:
    """Averaged over an even grid of uniforms, each particle is picked N w times; exact but for the grid of 1/1000."""
    log_weights = some_weights(20, seed=2, dead=0.2)
    weights = np.exp(log_weights, dtype=np.float64)
    grid = ((np.arange(1000) + 0.5) / 1000).astype(np.float32)
    picked = np.bincount(np.asarray(systematic(grid, log_weights)).ravel(), minlength=20) / 1000
    np.testing.assert_allclose(picked, 20 * weights / weights.sum(), atol=2.5e-3)


def test_equal_weights_pick_everyone_once() -> None:
    log_weights = resample.uniform_log_weights(64)
    assert float(jnp.exp(log_weights).sum()) == pytest.approx(1.0, abs=1e-6)
    for ancestors in np.asarray(systematic(np.array([0.25, 0.5, 0.75], np.float32), log_weights)):
        np.testing.assert_array_equal(ancestors, np.arange(64))


def test_all_weights_zero() -> None:
    dead = jnp.full(6, -INF)
    np.testing.assert_array_equal(resample.systematic(jnp.float32(0.5), dead), np.arange(6))
    log_weights, total = resample.normalize(dead)
    assert np.isneginf(log_weights).all() and np.isneginf(total)
    assert float(resample.effective_sample_size(log_weights)) == 0.0


def test_normalize() -> None:
    log_weights, total = resample.normalize(jnp.log(jnp.array([2.0, 0.0, 6.0])))
    np.testing.assert_allclose(np.exp(log_weights), [0.25, 0.0, 0.75], rtol=1e-6)
    assert np.isneginf(log_weights[1])
    assert float(total) == pytest.approx(np.log(8.0), rel=1e-6)
    # Far below what float32 can hold, but for the logarithm.
    tiny, total = resample.normalize(jnp.array([-100.0, -100.0]))
    np.testing.assert_allclose(np.exp(tiny), 0.5, rtol=1e-5)
    assert float(total) == pytest.approx(-100.0 + np.log(2.0))


@pytest.mark.parametrize(
    ("weights", "expected"), [([0.25] * 4, 4.0), ([1.0, 0.0, 0.0], 1.0), ([0.5, 0.5, 0.0], 2.0), ([0.5, 0.25, 0.25], 8 / 3)]
)
def test_effective_sample_size(weights: list[float], expected: float) -> None:
    assert float(resample.effective_sample_size(jnp.log(jnp.array(weights)))) == pytest.approx(expected, rel=1e-6)

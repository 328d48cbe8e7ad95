"""Systematic resampling, effective sample size, normalising."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from unojax.belief import resample

BELOW_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))
INF = np.inf
systematic = jax.jit(jax.vmap(resample.systematic, (0, None)))
normalize, effective_sample_size = jax.jit(resample.normalize), jax.jit(resample.effective_sample_size)


def uniforms(n: int, seed: int = 0) -> np.ndarray:
    """Return random numbers in [0, 1), and both ends."""
    return np.append(np.random.default_rng(seed).random(n, np.float32), np.array([0.0, BELOW_ONE], np.float32))


def some_weights(n: int, seed: int, dead: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < dead, -INF, rng.normal(scale=2.0, size=n)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 7, 100, 65536])
def test_a_particle_of_weight_zero_is_never_picked(n: int) -> None:
    """Contract: never a zero-weight pick. Cumulative sums of many particles round differently."""
    for seed in range(3):
        log_weights = some_weights(n, seed, dead=0.5)
        log_weights[np.random.default_rng(seed).integers(n)] = 0.0
        ancestors = np.asarray(systematic(uniforms(20, seed), log_weights))
        assert ancestors.dtype == np.int32 and np.isfinite(log_weights[ancestors]).all() and (np.diff(ancestors) >= 0).all()


def test_ends_of_the_unit_interval() -> None:
    for alive in ((0,), (4,), (2,), (0, 4), (1, 3)):
        log_weights = np.full(5, -INF, np.float32)
        log_weights[list(alive)] = 0.0
        ancestors = np.asarray(systematic(np.array([0.0, BELOW_ONE], np.float32), log_weights))
        assert set(ancestors.ravel().tolist()) == set(alive)


def test_each_particle_is_picked_n_w_times() -> None:
    """Rounded up or down, within float32 rounding, for weights of any scale; exact on average over an even grid."""
    log_weights = some_weights(200, seed=1, dead=0.2)
    share = 200 * np.exp(log_weights, dtype=np.float64) / np.exp(log_weights, dtype=np.float64).sum()
    for scale in (0.0, 50.0, -50.0):
        for ancestors in np.asarray(systematic(uniforms(100), log_weights + np.float32(scale))):
            picked = np.bincount(ancestors, minlength=200)
            assert ((picked >= np.floor(share - 1e-3)) & (picked <= np.ceil(share + 1e-3))).all()
    grid = ((np.arange(1000) + 0.5) / 1000).astype(np.float32)
    picked = np.bincount(np.asarray(systematic(grid, log_weights)).ravel(), minlength=200) / 1000
    np.testing.assert_allclose(picked, share, atol=2.5e-3)
    even = np.asarray(resample.uniform_log_weights(64))
    np.testing.assert_allclose(even, -np.log(64), rtol=1e-6)
    for ancestors in np.asarray(systematic(np.array([0.25, 0.5, 0.75], np.float32), even)):
        np.testing.assert_array_equal(ancestors, np.arange(64))


@pytest.mark.parametrize(
    ("weights", "ess"),
    [
        ([2.0, 0.0, 6.0], 64 / 40),
        ([0.25] * 4, 4.0),
        ([1.0, 0.0, 0.0], 1.0),
        # Far below what float32 can hold, except for the logarithm.
        ([np.exp(-200), np.exp(-200)], 2.0),
    ],
)
def test_normalised_weights_and_their_effective_sample_size(weights: list[float], ess: float) -> None:
    with np.errstate(divide="ignore"):
        normalised, total = normalize(np.log(weights).astype(np.float32))
    np.testing.assert_allclose(np.exp(normalised), np.array(weights) / np.sum(weights), rtol=1e-5)
    assert float(total) == pytest.approx(np.log(np.sum(weights)), rel=1e-6, abs=1e-6)
    assert float(effective_sample_size(normalised)) == pytest.approx(ess, rel=1e-5)


def test_all_weights_zero() -> None:
    dead = np.full(5, -INF, np.float32)
    np.testing.assert_array_equal(systematic(np.array([0.5, 0.0], np.float32), dead), [np.arange(5)] * 2)
    log_weights, total = normalize(dead)
    assert np.isneginf(log_weights).all() and np.isneginf(total) and effective_sample_size(log_weights) == 0.0

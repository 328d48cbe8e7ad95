"""Weights of particles: normalise, measure, resample."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp

from unojax.device.platform import by_platform
from unojax.device.tracing import traced_once


@traced_once
def normalize(log_weights: Array) -> tuple[Array, Array]:
    """Normalise log weights, and return the log of their former sum: (float32[N], float32[]), nats.

    If all weights are zero, both are -inf and never NaN.
    """
    total = logsumexp(log_weights)
    return jnp.where(jnp.isneginf(total), -jnp.inf, log_weights - jnp.where(jnp.isneginf(total), 0.0, total)), total


@traced_once
def effective_sample_size(log_weights: Array) -> Array:
    """Compute 1 / sum w^2 for normalised weights (Kong, Liu, Wong 1994): float32[] in [1, N]; 0 if all weights are zero."""
    sum_of_squares = jnp.exp(2.0 * log_weights).sum()
    size = 1.0 / jnp.where(sum_of_squares > 0, sum_of_squares, 1.0)
    return jnp.where(sum_of_squares > 0, jnp.minimum(size, log_weights.shape[0]), 0.0)


@partial(traced_once, static=("num",))
def systematic(uniform: Array, log_weights: Array, num: int | None = None) -> Array:
    """Resample systematically (Kitagawa 1996): int32[M] ancestors, each particle drawn floor or ceil of M w times.

    It never picks a particle of zero weight and accepts any `uniform` in [0, 1), including 0. If all weights are zero, the result
    is the identity (0, 1, ..., repeated from 0 if M > N).

    Args:
        uniform: float32[], one random number in [0, 1).
        log_weights: float32[N], nats; need not be normalised.
        num: M, static; N if None.
    """
    n = log_weights.shape[0]
    num = n if num is None else num
    largest = log_weights.max()
    is_dead = jnp.isneginf(largest)
    weights = jnp.exp(log_weights - jnp.where(is_dead, 0.0, largest))
    # Neighbours of a parallel sum can differ by rounding alone. Clamping at the last positive weight and taking the running
    # maximum leave a particle of weight zero no interval.
    ends = lax.cummax(jnp.where(weights > 0, jnp.cumsum(weights), 0.0))
    # Scale by the accumulated sum instead of 1, so that rounding leaves no point beyond the last end or before the first.
    points = (jnp.arange(num, dtype=jnp.float32) + uniform) * (ends[-1] / num)
    # side="right": a point that equals an end belongs to the next particle of positive weight, even if the point is 0.
    search = partial(jnp.searchsorted, side="right")
    # On a GPU the unrolled steps of the search are one kernel.
    ancestors = by_platform(partial(search, method="scan"), partial(search, method="scan_unrolled"), ends, points)
    ancestors = ancestors.astype(jnp.int32)
    last = jnp.max(jnp.where(weights > 0, jnp.arange(n, dtype=jnp.int32), 0))
    ancestors = jnp.minimum(ancestors, last)
    return jnp.where(is_dead, jnp.arange(num, dtype=jnp.int32) % n, ancestors)


def uniform_log_weights(n: int) -> Array:
    """Return equal normalised log weights: float32[n]."""
    return jnp.full(n, -np.log(n), jnp.float32)

"""Logarithms of binomial coefficients as tables, for up to 108 cards."""

from __future__ import annotations

import math
from typing import Final

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

LARGEST: Final = 108
"""Largest n and k of the tables."""


def _log_binomial_table() -> np.ndarray:
    """Return ln C(n, k) as float32 and its remainder, float32[2, 109, 109].

    The logarithms reach 73, so a single float32 would be off by up to 4e-6.
    """
    sizes = range(LARGEST + 1)
    exact = np.array([[math.log(math.comb(n, k)) if k <= n else -np.inf for k in sizes] for n in sizes])
    high = exact.astype(np.float32)
    low = np.where(np.isfinite(exact), exact - np.where(np.isfinite(exact), high, 0), 0).astype(np.float32)
    table = np.stack([high, low])
    table.flags.writeable = False
    return table


_LOG_BINOMIAL: Final = _log_binomial_table()


def log_binomial(n: ArrayLike, k: ArrayLike) -> Array:
    """Return ln C(n, k), float32, for integers n, k of 0..108; -inf for k > n."""
    return jnp.asarray(_LOG_BINOMIAL[0])[jnp.asarray(n).astype(jnp.int32), jnp.asarray(k).astype(jnp.int32)]


def log_binomial_ratio(n: ArrayLike, j: ArrayLike, m: ArrayLike, k: ArrayLike) -> Array:
    """Return ln [C(n, j) / C(m, k)] without cancellation, float32; -inf unless 0 <= j <= n.

    n and j are at most 108, and 0 <= k <= m <= 108.
    """
    n, j, m, k = (jnp.asarray(x).astype(jnp.int32) for x in (n, j, m, k))
    table = jnp.asarray(_LOG_BINOMIAL)
    above, below = table[:, jnp.maximum(n, 0), jnp.maximum(j, 0)], table[:, m, k]
    ratio = (above[0] - below[0]) + (above[1] - below[1])
    return jnp.where((n < 0) | (j < 0), -jnp.inf, ratio)


def log_hypergeometric(j: ArrayLike, marked: ArrayLike, total: ArrayLike, picked: ArrayLike) -> Array:
    """Return ln P(j of the `marked` cards are among `picked` cards, which are uniform over `total`), float32."""
    marked, picked = jnp.asarray(marked), jnp.asarray(picked)
    return log_binomial(marked, j) + log_binomial_ratio(total - marked, picked - j, total, picked)

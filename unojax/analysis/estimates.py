"""Means with their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Measure:
    """A number with its standard error; `f"{e:.1%}"` is `50.9 % ± 0.1`, with the 95% margin."""

    value: float
    standard_error: float

    @property
    def margin(self) -> float:
        """Half the width of the 95% interval."""
        # The arena takes long to import, and beliefs along a game do not need it.
        from unojax.arena.ratings import Z_95

        return Z_95 * self.standard_error

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval by the normal approximation, for means of 100 values or more."""
        return self.value - self.margin, self.value + self.margin

    def __sub__(self, other: Measure) -> Measure:
        """Subtract an independent estimate."""
        return Measure(self.value - other.value, math.hypot(self.standard_error, other.standard_error))

    def __format__(self, spec: str) -> str:
        spec = spec or ".3g"
        if spec.endswith("%"):
            number = spec[:-1] + "f"
            return f"{100 * self.value:{number}} % ± {100 * self.margin:{number.lstrip('+')}}"
        return f"{self.value:{spec}} ± {self.margin:{spec.lstrip('+')}}"

    def __str__(self) -> str:
        return format(self)


def estimate_mean(values: ArrayLike) -> Measure:
    """Return the mean of independent values, float[n], with its error.

    Raises:
        ValueError: If there are fewer than two values.
    """
    array = np.asarray(values, np.float64).ravel()
    if array.size < 2:
        raise ValueError(f"an error needs at least two values, got {array.size}")
    return Measure(float(array.mean()), float(array.std(ddof=1) / math.sqrt(array.size)))


def estimate_ratio(totals: ArrayLike, sizes: ArrayLike) -> Measure:
    """Return the mean over members of independent clusters, such as positions of games.

    mean = sum S_g / sum n_g, with variance G / (G - 1) sum (S_g - mean n_g)^2 / (sum n_g)^2, that of a ratio estimator
    (Cochran 1977, "Sampling Techniques", section 6.4).

    Args:
        totals: Sum of each cluster, S, float[G].
        sizes: Number of members of each cluster, n, float[G]; zeros are allowed.

    Raises:
        ValueError: If the shapes differ, there are fewer than two clusters, or no members at all.
    """
    totals, sizes = np.asarray(totals, np.float64), np.asarray(sizes, np.float64)
    if totals.shape != sizes.shape or totals.ndim != 1 or len(totals) < 2:
        raise ValueError(f"totals and sizes must be of one shape [G], G at least 2, got {totals.shape} and {sizes.shape}")
    if (number := sizes.sum()) <= 0:
        raise ValueError("there is nothing to average: all clusters are empty")
    mean = totals.sum() / number
    spread = ((totals - mean * sizes) ** 2).sum() * len(totals) / (len(totals) - 1)
    return Measure(float(mean), float(math.sqrt(spread) / number))

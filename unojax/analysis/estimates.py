"""Means with their errors. NumPy on the host."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unojax.arena.ratings import Z_95


@dataclass(frozen=True)
class Estimate:
    """A number and how far off it may be. `f"{e:.1%}"` and `f"{e:.2f}"` give it with half its 95 % interval: `50.9 % ± 0.1`.

    Attributes:
        value: the estimate.
        standard_error: of it.
    """

    value: float
    standard_error: float

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval."""
        return Z_95 * self.standard_error

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval, by the normal approximation: for means of a hundred values or more."""
        return self.value - self.margin, self.value + self.margin

    def excludes(self, value: float) -> bool:
        """Whether `value` lies outside the 95 % interval."""
        low, high = self.interval
        return not low <= value <= high

    def __sub__(self, other: Estimate) -> Estimate:
        """The difference from an independent estimate."""
        return Estimate(self.value - other.value, math.hypot(self.standard_error, other.standard_error))

    def __format__(self, spec: str) -> str:
        spec = spec or ".3g"
        if spec.endswith("%"):
            number = spec[:-1] + "f"
            return f"{100 * self.value:{number}} % ± {100 * self.margin:{number.lstrip('+')}}"
        return f"{self.value:{spec}} ± {self.margin:{spec.lstrip('+')}}"

    def __str__(self) -> str:
        return format(self)


def estimate_mean(values: ArrayLike) -> Estimate:
    """The mean of independent values, float[n].

    Raises:
        ValueError: there are fewer than two values.
    """
    array = np.asarray(values, np.float64).ravel()
    if array.size < 2:
        raise ValueError(f"an error needs at least two values, got {array.size}")
    return Estimate(float(array.mean()), float(array.std(ddof=1) / math.sqrt(array.size)))


def estimate_ratio(totals: ArrayLike, sizes: ArrayLike) -> Estimate:
    """The mean over all members of clusters that are independent, while members of the same cluster need not be.

    mean = sum S_g / sum n_g, with variance G / (G - 1) sum (S_g - mean n_g)^2 / (sum n_g)^2, that of a ratio estimator
    (Cochran 1977, "Sampling Techniques", section 6.4). A game's positions, for example, are a cluster.

    Args:
        totals: S, float[G] the sum of each cluster.
        sizes: n, float[G] its number of members; zeros are allowed.

    Raises:
        ValueError: the shapes differ, there are fewer than two clusters, or no members at all.
    """
    totals, sizes = np.asarray(totals, np.float64), np.asarray(sizes, np.float64)
    if totals.shape != sizes.shape or totals.ndim != 1 or len(totals) < 2:
        raise ValueError(f"totals and sizes must be of one shape [G], G at least 2, got {totals.shape} and {sizes.shape}")
    if (number := sizes.sum()) <= 0:
        raise ValueError("there is nothing to average: all clusters are empty")
    mean = totals.sum() / number
    spread = ((totals - mean * sizes) ** 2).sum() * len(totals) / (len(totals) - 1)
    return Estimate(float(mean), float(math.sqrt(spread) / number))


def share_interval(number: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share that was seen `number` times in `total` independent trials; right at 0 and at all, too.

    The score interval of Wilson (1927).

    Raises:
        ValueError: not 0 <= number <= total, or total is not positive.
    """
    if not 0 <= number <= total or total < 1:
        raise ValueError(f"number must be in [0, total] and total at least 1, got {number} of {total}")
    share, z2 = number / total, Z_95**2
    center = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = Z_95 / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    # At 0 and 1 one end is exactly that, which rounding must not push past it.
    return max(0.0, center - half) if number else 0.0, min(1.0, center + half) if number < total else 1.0

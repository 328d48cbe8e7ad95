"""Checks that options have in common."""

from __future__ import annotations

import math
from collections.abc import Callable


def check_options(options: object, table: str, names: str, holds: Callable[[float], bool], demand: str) -> None:
    """Check some numbers of a configuration.

    Args:
        options: has them.
        table: its name with a dot, as on the command line; or nothing.
        names: of the numbers, separated by spaces.
        holds: whether a finite number will do; no other does.
        demand: in words, "must be at least 1".

    Raises:
        ValueError: one will not.
    """
    for name in names.split():
        value = getattr(options, name)
        # Not `math.isfinite`, for which an integer may be too large.
        if not -math.inf < value < math.inf:
            raise ValueError(f"{table}{name} must be a finite number, got {value}")
        if not holds(value):
            raise ValueError(f"{table}{name} {demand}, got {value}")


def is_positive(number: float) -> bool:
    """Tell whether a number is at least 1."""
    return number >= 1


def is_share(number: float) -> bool:
    """Tell whether a number is in [0, 1]."""
    return 0 <= number <= 1


def is_not_negative(number: float) -> bool:
    """Tell whether a number is at least 0."""
    return number >= 0

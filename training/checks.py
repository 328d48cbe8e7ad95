"""Checks shared by options."""

from __future__ import annotations

import math
from collections.abc import Callable


def check_options(options: object, table: str, names: str, holds: Callable[[float], bool], demand: str) -> None:
    """Check some numbers of a configuration.

    Args:
        options: Object with the numbers.
        table: Its name with a dot, as on the command line, or "".
        names: Names of the numbers, separated by spaces.
        holds: Whether a finite number is valid; others never are.
        demand: Requirement in words, "must be at least 1".

    Raises:
        ValueError: If a number is invalid.
    """
    for name in names.split():
        value = getattr(options, name)
        # Not `math.isfinite`, which fails on very large integers.
        if not -math.inf < value < math.inf:
            raise ValueError(f"{table}{name} must be a finite number, got {value}")
        if not holds(value):
            raise ValueError(f"{table}{name} {demand}, got {value}")


def is_positive(number: float) -> bool:
    """Return whether a number is at least 1."""
    return number >= 1


def is_share(number: float) -> bool:
    """Return whether a number is in [0, 1]."""
    return 0 <= number <= 1


def is_not_negative(number: float) -> bool:
    """Return whether a number is at least 0."""
    return number >= 0

"""Deciding by search over a belief: rollouts, flat Monte Carlo, a tree over what the player sees, and both as agents."""

from numbers import Integral
from typing import Final

DEFAULT_SEARCH: Final = "mc:particles=4096"
"""What values plays in advice and reviews."""
ADVISE_ROUNDS: Final = 32
"""Rounds of a search with fresh samples that advice pools."""
REVIEW_ROUNDS: Final = 8
"""Rounds that a review pools, for each choice."""
MIN_ROUNDS: Final = 4
"""Standard errors come from the differences between the rounds of a search."""


def check_rounds(rounds: int, name: str = "rounds") -> None:
    """Raise a ValueError if it is no number of rounds, or so many give no standard errors."""
    # Not `rules.is_int`: that imports JAX, and commands check their options before.
    if isinstance(rounds, bool) or not isinstance(rounds, Integral):
        raise ValueError(f"{name} must be an integer, got {rounds!r}")
    if rounds < MIN_ROUNDS:
        raise ValueError(f"{name} must be at least {MIN_ROUNDS}, from which standard errors come, got {rounds}")

"""Deciding by search over a belief: rollouts, flat Monte Carlo, a tree over what the player sees, and both as agents."""

from typing import Final

from unojax.decks import is_int

ADVISER_MODEL: Final = "peer"
"""Opponent model of advisers: their win probabilities are right against an opponent who plays as well as the player."""
DEFAULT_SEARCH: Final = f"mc:particles=4096,model={ADVISER_MODEL}"
"""What values plays in advice and reviews."""
TABLE_SEARCH: Final = f"mc:rollouts=250,model={ADVISER_MODEL}"
"""What follows a game at a table: an answer after each event."""
TABLE_REPLICATES: Final = 4
"""Replicates of that search that advice pools."""
ADVISE_REPLICATES: Final = 32
"""Replicates of a search, with fresh samples each, that advice pools."""
REVIEW_REPLICATES: Final = 8
"""Replicates that a review pools for each choice, each with a belief of its own."""
MIN_REPLICATES: Final = 4
"""Standard errors come from the differences between the replicates of a search."""


def check_replicates(number: int, name: str = "replicates") -> None:
    """Check a number of replicates. Raises ValueError if it is none, or too small for standard errors."""
    if not is_int(number):
        raise ValueError(f"{name} must be an integer, got {number!r}")
    if number < MIN_REPLICATES:
        raise ValueError(f"{name} must be at least {MIN_REPLICATES}, from which standard errors come, got {number}")

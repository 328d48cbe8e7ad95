"""Decisions by search over a belief: rollouts, flat Monte Carlo, tree search, and agents."""

from typing import Final

from unojax.decks import is_int

ADVISER_MODEL: Final = "peer"
"""Opponent model of advisors: their win probabilities hold against an opponent who plays as well as the player."""
DEFAULT_SEARCH: Final = f"mc:particles=4096,model={ADVISER_MODEL}"
"""Search that values plays in advice and reviews."""
TABLE_SEARCH: Final = f"mc:rollouts=250,model={ADVISER_MODEL}"
"""Search that follows a game at a table, with an answer after each event."""
TABLE_REPLICATES: Final = 4
"""Replicates of that search that advice pools."""
ADVISE_REPLICATES: Final = 32
"""Replicates of a search, with fresh samples each, that advice pools."""
REVIEW_REPLICATES: Final = 8
"""Replicates that a review pools for each choice, each with its own belief."""
MIN_REPLICATES: Final = 4
"""Least number of replicates, because standard errors come from their differences."""


def check_replicates(number: int, name: str = "replicates") -> None:
    """Raise ValueError unless a number of replicates is large enough for standard errors."""
    if not is_int(number):
        raise ValueError(f"{name} must be an integer, got {number!r}")
    if number < MIN_REPLICATES:
        raise ValueError(f"{name} must be at least {MIN_REPLICATES}, from which standard errors come, got {number}")

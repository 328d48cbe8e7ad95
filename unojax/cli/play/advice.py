"""The search behind the advice in a game."""

from __future__ import annotations

from unojax.cli.options import get_opponent
from unojax.cli.play.command import PlayGame
from unojax.rules import Rules
from unojax.search.agents import SearchAgent
from unojax.specs import parse_agent


def read_adviser(request: PlayGame, rules: Rules) -> SearchAgent | None:
    """Make the search behind the advice, if there is to be any. Raises ValueError where there is no such model."""
    if request.adviser is None:
        return None
    if request.opponent_model is not None:
        # The search reads it again; a mistake in it is told by the name of the option.
        get_opponent(request.opponent_model)
    search = parse_agent(request.adviser, rules=rules)
    assert isinstance(search, SearchAgent)
    return search

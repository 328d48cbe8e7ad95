"""The particle filters of players in training."""

from __future__ import annotations

from typing import Final

from unojax.belief.filters import ParticleFilter
from unojax.belief.opponents import parse_opponent
from unojax.rules import Rules

BELIEF_CHUNK: Final = {"cpu": 32, "gpu": 4096}
"""Beliefs updated at a time: on CPU so few that they stay in the cache."""
_MAX_SLOTS: Final = 128
_MAX_PLAYS: Final = 48
"""Capacity of the beliefs under rules with plain steps, under others the default; a game that outgrows it begins its belief anew,
which happens to one game in a hundred."""


def make_filter(particles: int, model: str, rules: Rules) -> ParticleFilter:
    """Make the filter of a player: of so many particles, which takes the other one for `model`, see `parse_opponent`."""
    max_plays = _MAX_PLAYS if rules.has_plain_steps else None
    return ParticleFilter(particles, parse_opponent(model), max_slots=_MAX_SLOTS, max_plays=max_plays)

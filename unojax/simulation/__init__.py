"""Thousands of games at once: `simulate`, `Stream` for results as games end, `count_games` for sums alone.

`rollout` continues games in env slots, as a pure function. `slots` has the loop under all of them, `harvest` the device's side of
`simulate`, `games` its results.
"""

from unojax.simulation.games import Collector, Finished, Games
from unojax.simulation.rollouts import Transitions, check_slots, rollout, start_slots
from unojax.simulation.run import (
    MAX_GAMES,
    MOST_LANES,
    Counting,
    LongGameError,
    Options,
    Stream,
    count_games,
    default_batch_size,
    simulate,
)
from unojax.simulation.slots import Slots

__all__ = [
    "MAX_GAMES",
    "MOST_LANES",
    "Collector",
    "Counting",
    "Finished",
    "Games",
    "LongGameError",
    "Options",
    "Slots",
    "Stream",
    "Transitions",
    "check_slots",
    "count_games",
    "default_batch_size",
    "rollout",
    "simulate",
    "start_slots",
]

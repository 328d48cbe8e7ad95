"""Thousands of games at once: `simulate`, `stream` for those who want results as they come, `count_games` for sums alone.

`games` has the results, `lanes` the device's side.
"""

from unojax.simulation.games import Collector, Finished, Games
from unojax.simulation.run import (
    MAX_GAMES,
    MOST_LANES,
    Counting,
    LongGameError,
    Stream,
    count_games,
    default_batch_size,
    simulate,
    stream,
)

__all__ = [
    "MAX_GAMES",
    "MOST_LANES",
    "Collector",
    "Counting",
    "Finished",
    "Games",
    "LongGameError",
    "Stream",
    "count_games",
    "default_batch_size",
    "simulate",
    "stream",
]

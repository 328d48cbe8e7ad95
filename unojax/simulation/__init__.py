"""Thousands of games at once: `simulate`, and `stream` for those who want results as they come.

`games` has the results, `lanes` the device's side.
"""

from unojax.simulation.games import Collector, Finished, Games
from unojax.simulation.run import MAX_GAMES, MOST_LANES, default_batch_size, simulate, stream

__all__ = ["MAX_GAMES", "MOST_LANES", "Collector", "Finished", "Games", "default_batch_size", "simulate", "stream"]

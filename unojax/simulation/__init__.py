"""Thousands of games at once, in env slots with auto-reset.

    slots            `Slots` and `play_rows`, the loop under everything here
    rollouts, rows   `rollout`, a pure function of slots, and its trajectory
    run, harvest     `simulate`, `Stream` (results as games end), `count_games` (sums alone): the host's and the device's side
    games, tally     results of games, and sums over them

The random words of node t of game g are Threefry(key, (g, t)): a game depends on its key and number only, not on its slot, the
other games, or the number of slots, devices and processes. Memory does not grow with the number of steps.
"""

from unojax.simulation.games import Finished, Games
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

"""Sums over many games, a slice at a time, without memory for each game. NumPy on the host."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Final

import jax
import numpy as np

from unojax.simulation.games import Games

_GAMES_PER_SLICE: Final = 2**20


@jax.tree_util.register_dataclass
@dataclass
class Tally:
    """Sums over games.

    Attributes:
        games: Number of games.
        wins: Wins of player 0 and of player 1.
        stalemates: Games ended by an impossible draw; the smaller hand wins.
        drawn: Stalemates with equal hands.
        truncated: Games cut off by `max_steps`.
        steps, choices, reshuffles: Totals.
        lengths: int64[longest + 1], games of each number of steps.
    """

    games: int = 0
    wins: tuple[int, int] = (0, 0)
    stalemates: int = 0
    drawn: int = 0
    truncated: int = 0
    steps: int = 0
    choices: int = 0
    reshuffles: int = 0
    lengths: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))

    @classmethod
    def of(cls, games: Games) -> Tally:
        """Sum over games."""
        starts = range(0, len(games), _GAMES_PER_SLICE)
        return sum((cls._of_slice(games[start : start + _GAMES_PER_SLICE]) for start in starts), cls())

    @classmethod
    def _of_slice(cls, games: Games) -> Tally:
        return cls(
            games=len(games),
            wins=(int(np.count_nonzero(games.winner == 0)), int(np.count_nonzero(games.winner == 1))),
            stalemates=int(np.count_nonzero(games.stalemate)),
            drawn=int(np.count_nonzero((games.winner < 0) & ~games.truncated)),
            truncated=int(np.count_nonzero(games.truncated)),
            steps=int(games.num_steps.sum(dtype=np.int64)),
            choices=int(games.num_choices.sum(dtype=np.int64)),
            reshuffles=int(games.num_reshuffles.sum(dtype=np.int64)),
            lengths=np.bincount(games.num_steps),
        )

    def __add__(self, other: Tally) -> Tally:
        lengths = np.zeros(max(len(self.lengths), len(other.lengths)), np.int64)
        for part in (self.lengths, other.lengths):
            lengths[: len(part)] += part
        numbers = [field.name for field in fields(self) if field.name not in ("wins", "lengths")]
        sums = {name: getattr(self, name) + getattr(other, name) for name in numbers}
        return Tally(wins=(self.wins[0] + other.wins[0], self.wins[1] + other.wins[1]), lengths=lengths, **sums)

    def length_quantile(self, q: float) -> int:
        """Return the smallest number of steps that at least a share `q` of the games does not exceed."""
        return int(np.searchsorted(np.cumsum(self.lengths), math.ceil(q * self.games)))

    @property
    def longest(self) -> int:
        """Steps of the longest game."""
        return int(np.flatnonzero(self.lengths)[-1])

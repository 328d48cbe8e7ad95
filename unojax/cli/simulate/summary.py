"""Sums over many games, and what they say. Works on slices, so that it needs no memory of its own for each game."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from unojax.simulation import Games

QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)

_GAMES_PER_SLICE: Final = 2**20
_Z_95: Final = 1.959963984540054
"""The 0.975 quantile of the standard normal distribution."""


@dataclass
class Tally:
    """Sums over games.

    Attributes:
        games: how many.
        wins: of player 0 and player 1.
        stalemates: ended by an impossible draw; the smaller hand wins.
        drawn: stalemates with equal hands.
        truncated: cut off by `max_steps`.
        steps, choices, reshuffles: totals.
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
        """Add up games."""
        total = cls()
        for start in range(0, len(games), _GAMES_PER_SLICE):
            total += cls._of_slice(games[start : start + _GAMES_PER_SLICE])
        return total

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
        return Tally(
            games=self.games + other.games,
            wins=(self.wins[0] + other.wins[0], self.wins[1] + other.wins[1]),
            stalemates=self.stalemates + other.stalemates,
            drawn=self.drawn + other.drawn,
            truncated=self.truncated + other.truncated,
            steps=self.steps + other.steps,
            choices=self.choices + other.choices,
            reshuffles=self.reshuffles + other.reshuffles,
            lengths=lengths,
        )

    def length_quantile(self, q: float) -> int:
        """The smallest number of steps that at least a share `q` of the games does not exceed."""
        return int(np.searchsorted(np.cumsum(self.lengths), math.ceil(q * self.games)))

    @property
    def longest(self) -> int:
        """Steps of the longest game."""
        return int(np.flatnonzero(self.lengths)[-1])


@dataclass(frozen=True)
class Rate:
    """A share of games with its 95 % Wilson interval."""

    wins: int
    games: int

    @property
    def value(self) -> float:
        """The share, 0..1."""
        return self.wins / self.games

    @property
    def interval(self) -> tuple[float, float]:
        """Score interval for a binomial proportion (Wilson 1927); inside [0, 1] and not empty at 0 or 1 either."""
        n, p, z2 = self.games, self.value, _Z_95**2
        center = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = _Z_95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
        # At p = 0 and p = 1 one end is exactly p, which rounding must not push past it.
        return min(p, center - half), max(p, center + half)

    def text(self) -> str:
        """In per cent, `68.2 (67.8-68.6)`, with a second decimal where the interval is narrower than 0.3 points."""
        low, high = self.interval
        decimals = 1 if high - low > 0.003 else 2
        return f"{100 * self.value:.{decimals}f} ({100 * low:.{decimals}f}-{100 * high:.{decimals}f})"

    def to_json(self) -> dict[str, float]:
        low, high = self.interval
        return {"wins": self.wins, "games": self.games, "rate": self.value, "low": low, "high": high}

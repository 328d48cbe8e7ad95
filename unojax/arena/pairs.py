"""Results of a match of two agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Self

import jax
import numpy as np

from unojax.decks import is_int
from unojax.device.shares import Share


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pairs:
    """Results of P pairs of games of agents A and B, on the host.

    A is player 0 in the first game of a pair, and player 1 in the second.

    Attributes:
        index: int64[P]. Numbers of the pairs.
        winner: int8[P, 2]. 0 for A and 1 for B; -1 for a drawn or truncated game.
        num_steps: int32[P, 2]. As in `unojax.Games`.
        num_choices: int32[P, 2, 2]. Decisions (plays with more than one legal action), by game and agent.
        seconds: float64[2]. Wall-clock time in the functions of A and of B: `init`, `update`, `act` and their observations.
            Each call serves many games. Seconds per decision therefore measure throughput with many parallel games, not the
            latency of one move. Parallel workers share the machine.
        card_points: int32[P, 2]. Points of the cards in the loser's hand (`rules.POINTS`), 0 without a loser. Zero in results
            files.
        adjusted: float64[P]. Variance-reduced points of A per game of each pair (`unojax.arena.adjusted`); NaN if not requested.
    """

    index: np.ndarray
    winner: np.ndarray
    num_steps: np.ndarray
    num_choices: np.ndarray
    seconds: np.ndarray
    card_points: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    adjusted: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if len(self.adjusted) != len(self.index):
            object.__setattr__(self, "adjusted", np.full(len(self.index), np.nan))
        if len(self.card_points) != len(self.index):
            object.__setattr__(self, "card_points", np.zeros((len(self.index), 2), np.int32))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def points(self) -> np.ndarray:
        """float64[P, 2]: points of A in each game, 1 for a win and 1/2 for a draw."""
        return np.select([self.winner == 0, self.winner == 1], [1.0, 0.0], 0.5)

    def swapped(self) -> Self:
        """Return the results of the match of B and A, with the two games of each pair in the other order."""
        return replace(
            self,
            winner=np.where(self.winner < 0, self.winner, 1 - self.winner)[:, ::-1],
            num_steps=self.num_steps[:, ::-1],
            num_choices=self.num_choices[:, ::-1, ::-1],
            seconds=self.seconds[::-1],
            card_points=self.card_points[:, ::-1],
            adjusted=1 - self.adjusted,
        )

    @classmethod
    def none(cls) -> Self:
        """Return results without pairs."""
        return cls(
            index=np.zeros(0, np.int64),
            winner=np.zeros((0, 2), np.int8),
            num_steps=np.zeros((0, 2), np.int32),
            num_choices=np.zeros((0, 2, 2), np.int32),
            seconds=np.zeros(2),
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Combine results, in the order of their pairs' numbers."""
        every = [cls.none(), *parts]
        joined = {f.name: np.concatenate([getattr(part, f.name) for part in every]) for f in fields(cls) if f.name != "seconds"}
        order = np.argsort(joined["index"], kind="stable")
        return cls(**{name: array[order] for name, array in joined.items()}, seconds=np.sum([p.seconds for p in every], axis=0))


def check_series(series: int, num_pairs: int) -> None:
    """Check that pairs form whole series. Raises ValueError if they do not."""
    if not (is_int(series) and series >= 1 and num_pairs % series == 0):
        raise ValueError(f"series must be a number of pairs of which num_pairs, {num_pairs}, is a multiple, got {series!r}")


def pairs_of(share: Share, num_pairs: int, series: int = 1) -> np.ndarray:
    """Return the numbers of the pairs of a share, int64[P], in whole series."""
    pairs = np.arange(num_pairs)
    return pairs[share.holds(pairs // series)]


def split_pairs(pairs: np.ndarray, batch_size: int, series: int = 1) -> list[np.ndarray]:
    """Divide numbers of pairs, int64[P], into batches of whole series.

    The number of series in a batch is at most the number of pairs at a time.
    """
    size = batch_size // 2 * series
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]

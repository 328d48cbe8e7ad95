"""Results of games, on the host, in the order of their index."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from unojax.device import struct


@struct.dataclass
class Games:
    """Results of G complete games, NumPy or JAX arrays in the order of the game index.

    Attributes:
        winner: int8[G] player 0 or 1; -1 for a drawn or truncated game.
        num_steps: int32[G] plays and draws of both players; a draw of several cards counts once.
        num_choices: int32[G] steps of a player who had more than one legal action.
        num_reshuffles: int32[G] number of reshuffles of the pile into the deck.
        hand_sizes: int8[G, 2] cards left in each player's hand.
        truncated: bool[G] game cut off by `max_steps`.
    """

    winner: np.ndarray
    num_steps: np.ndarray
    num_choices: np.ndarray
    num_reshuffles: np.ndarray
    hand_sizes: np.ndarray
    truncated: np.ndarray

    def __len__(self) -> int:
        return len(self.winner)

    def __getitem__(self, index: slice) -> Games:
        return Games(*(getattr(self, f.name)[index] for f in fields(self)))

    @property
    def stalemate(self) -> np.ndarray:
        """bool[G]: ended by an impossible draw, with cards in both hands."""
        return ~self.truncated & (self.hand_sizes > 0).all(axis=1)


@dataclass(frozen=True)
class Finished:
    """Some finished games, in no particular order: their indices int64[n] and results."""

    index: np.ndarray
    games: Games

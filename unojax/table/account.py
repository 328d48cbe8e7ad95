"""The tenth word of tables, under rules that need it."""

from __future__ import annotations

from typing import Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array


class Field(NamedTuple):
    """A bit field of a word."""

    shift: int
    width: int

    def get(self, word: Array) -> Array:
        return (word >> np.uint32(self.shift)) & np.uint32((1 << self.width) - 1)

    def put(self, value: Array) -> Array:
        return value.astype(jnp.uint32) << np.uint32(self.shift)

    @property
    def mask(self) -> np.uint32:
        return np.uint32(((1 << self.width) - 1) << self.shift)

    @property
    def bit(self) -> np.uint32:
        return np.uint32(1 << self.shift)


_DUE: Final = Field(0, 5)
_DRAWN_COLOR: Final = Field(5, 2)
_DRAWN_RANK: Final = Field(7, 4)
_HAS_DRAWN: Final = Field(11, 1)
_CONTESTED: Final = Field(12, 3)
_KEEPS_TURN: Final = Field(15, 1)


class Account(NamedTuple):
    """The additional bookkeeping word, unpacked: uint32.

    Attributes:
        due: The full pending penalty; that of `Meta` is at most 6.
        drawn_color, drawn_rank: Colour (0 for a wild) and rank of the card that the mover has drawn in this turn.
        has_drawn: 1 if there is such a card.
        contested: 1 + the colour before the pending Wild+4, if it may be challenged; else 0.
        keeps_turn: 1 while the first player draws the cards of a start card, after which it moves.
    """

    due: Array
    drawn_color: Array
    drawn_rank: Array
    has_drawn: Array
    contested: Array
    keeps_turn: Array

    @classmethod
    def unpack(cls, word: Array) -> Account:
        drawn = _DRAWN_COLOR.get(word), _DRAWN_RANK.get(word), _HAS_DRAWN.get(word)
        return cls(_DUE.get(word) << np.uint32(1), *drawn, _CONTESTED.get(word), _KEEPS_TURN.get(word))

    def pack(self) -> Array:
        drawn = _DRAWN_COLOR.put(self.drawn_color) | _DRAWN_RANK.put(self.drawn_rank) | _HAS_DRAWN.put(self.has_drawn)
        return _DUE.put(self.due >> 1) | drawn | _CONTESTED.put(self.contested) | _KEEPS_TURN.put(self.keeps_turn)

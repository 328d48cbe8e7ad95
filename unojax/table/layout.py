"""Bit layout of the words of a table and of a move."""

from __future__ import annotations

from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits
from unojax.bits import Words
from unojax.rules import Rules
from unojax.table.account import Account, Field

DECK, HAND_0, HAND_1, PILE = range(4)
"""Owners of a card; bit 0 lies in plane `low`, bit 1 in plane `high`."""

DEAL, START, PLAY, OVER_WON_BY_0, OVER_WON_BY_1, OVER_DRAWN = range(6)
"""Phases of a game."""


# The bookkeeping word `meta`.
RANK_FIELD: Final = Field(0, 4)
COLOR_FIELD: Final = Field(4, 2)
PLAYER_FIELD: Final = Field(6, 1)
PENALTY_FIELD: Final = Field(7, 2)
TO_DRAW_FIELD: Final = Field(9, 6)
PHASE_FIELD: Final = Field(15, 3)
META_BITS: Final = np.uint32((1 << 18) - 1)
WILD_POSITION: Final = 25
MAX_PENALTY: Final = 6
"""Largest penalty that `Meta` holds; an account holds larger ones."""
# A move is the next `meta` and, above it, the changes of the cards and of a game's counters.
POSITION_FIELD: Final = Field(18, 5)
WORD_FIELD: Final = Field(23, 2)
OWNER_FIELD: Final = Field(25, 2)
RESHUFFLE_FIELD: Final = Field(27, 1)
STEP_FIELD: Final = Field(28, 1)
PLAY_FIELD: Final = Field(29, 1)
CHOICE_FIELD: Final = Field(30, 1)


class Meta(NamedTuple):
    """The bookkeeping word, unpacked: uint32.

    Attributes:
        rank: Rank 0..14 of the top card.
        color: Active colour 0..3.
        player: Player to move (or to be dealt to).
        penalty: Cards due for a +2 or Wild+4: 0, 2 or 4; 6 after a failed challenge, more when stacked.
        to_draw: Cards still to come in a draw or deal.
        phase: DEAL, START, PLAY or one of OVER_*.
    """

    rank: Array
    color: Array
    player: Array
    penalty: Array
    to_draw: Array
    phase: Array

    @property
    def begins_step(self) -> Array:
        """Whether a step begins here, or a reshuffle before its draw, bool[...]."""
        return (self.phase == PLAY) & (self.to_draw == 0)

    @property
    def is_over(self) -> Array:
        """bool[...]: the game has ended."""
        return self.phase > PLAY

    @property
    def outcome(self) -> Array:
        """float32[...]: result of player 0: 1 won, -1 lost, 0 drawn or unfinished."""
        return jnp.where(self.phase == OVER_WON_BY_0, 1.0, jnp.where(self.phase == OVER_WON_BY_1, -1.0, 0.0))

    def pack(self) -> Array:
        return (
            RANK_FIELD.put(self.rank)
            | COLOR_FIELD.put(self.color)
            | PLAYER_FIELD.put(self.player)
            | PENALTY_FIELD.put(self.penalty >> 1)
            | TO_DRAW_FIELD.put(self.to_draw)
            | PHASE_FIELD.put(self.phase)
        )


IDLE: Final = np.uint32(OVER_DRAWN << PHASE_FIELD.shift)
"""A `meta` that never changes, whatever the cards."""


class Table(NamedTuple):
    """One game, or a batch. `low` and `high` are the owners' bit planes.

    `account` is an `Account`, packed, under `Rules.keeps_account`; else an empty tuple.
    """

    low: Words
    high: Words
    meta: Array
    account: Array | tuple[()] = ()

    @classmethod
    def of_words(cls, words: Array) -> Table:
        """Return the tables with these words, uint32[..., 9], or 10 with an account."""
        w = [words[..., i] for i in range(words.shape[-1])]
        return cls((w[0], w[1], w[2], w[3]), (w[4], w[5], w[6], w[7]), *w[8:])

    def words(self) -> Array:
        """Return the words of the tables, uint32[..., 9], or 10 with an account."""
        return jnp.stack(jax.tree.leaves(self), -1)

    def unpack_meta(self) -> Meta:
        m = self.meta
        penalty = PENALTY_FIELD.get(m) << np.uint32(1) if isinstance(self.account, tuple) else Account.unpack(self.account).due
        return Meta(RANK_FIELD.get(m), COLOR_FIELD.get(m), PLAYER_FIELD.get(m), penalty, TO_DRAW_FIELD.get(m), PHASE_FIELD.get(m))

    def unpack_account(self) -> Account:
        """Unpack the account; zeros if the rules keep none."""
        return Account.unpack(jnp.zeros_like(self.meta) if isinstance(self.account, tuple) else self.account)

    def cards_of(self, owner: int, rules: Rules) -> Words:
        """Return the labelled cards of DECK, HAND_0, HAND_1 or PILE."""
        low, high = self.low, self.high
        if owner == DECK:
            return deck(self, rules)
        if owner == HAND_0:
            return bits.without(low, high)
        if owner == HAND_1:
            return bits.without(high, low)
        return bits.both(low, high)


def new_table(like: Array, rules: Rules) -> Table:
    """Return tables before the deal, with the shape of `like`."""
    zero = jnp.zeros_like(like, jnp.uint32)
    meta = Meta(zero, zero, zero, zero, zero + np.uint32(rules.hand_size), zero + np.uint32(DEAL))
    return Table(bits.empty(like), bits.empty(like), meta.pack(), zero if rules.keeps_account else ())


def deck(table: Table, rules: Rules) -> Words:
    """Return the cards left to draw."""
    return bits.map_words(lambda full, low, high: full & ~(low | high), bits.all_cards(rules.deck), table.low, table.high)

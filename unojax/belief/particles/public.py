"""The public history of a particle belief: the opponent's acquired cards, the types it could not hold, and its choices.

The opponent's hand is a row of **slots**, one for each card it ever acquired, in the order of acquisition. A slot could hold all
types, except those that the opponent proved later not to hold.

Each choice of the opponent is a **record**. Under rules that reveal facts about the whole hand, each fact is a record too
(`FITS`, `FAILS`, `HOLDS_COLOR`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards
from unojax.device import struct
from unojax.observation import Observation

FITS, FAILS, HOLDS_COLOR = range(cards.CHALLENGE + 1, cards.CHALLENGE + 4)
"""Facts revealed, instead of an action: the drawn card was playable; it was not; a card of the contested colour is held."""


class Record(NamedTuple):
    """One choice of the opponent or one fact revealed, with the state that its options depended on. Arrays of any one shape.

    Attributes:
        pile: uint32[..., 4] the pile before the choice, a packed canonical set.
        slots_before: int32[...] slots filled before the choice.
        action, last_action: int32[...] the action, or a fact; the action before.
        play_color, play_rank: int32[...] of a play.
        color, rank: int32[...] active colour and rank of the top card before the choice.
        observer_count, deck_count: int32[...] cards in the observer's hand and in the deck.
        penalty, contested: int32[...] as in `Observation`.
        has_drawn: bool[...] the last slot before the choice holds a card drawn in the same turn.
    """

    pile: Array
    slots_before: Array
    action: Array
    last_action: Array
    play_color: Array
    play_rank: Array
    color: Array
    rank: Array
    observer_count: Array
    deck_count: Array
    penalty: Array
    contested: Array
    has_drawn: Array


_COLUMNS = 7
"""Words of an encoded record."""


def encode(record: Record) -> Array:
    """Encode records: uint32[..., 7], the four words of the pile and three words of small numbers."""
    groups = (
        ((record.slots_before, 0), (record.action, 16), (record.last_action + 1, 24)),
        ((record.color, 0), (record.rank, 8), (record.observer_count, 16), (record.deck_count, 24)),
        ((record.penalty, 0), (record.contested + 1, 8), (record.has_drawn, 12), (record.play_color, 16), (record.play_rank, 24)),
    )
    words = [sum(number.astype(jnp.uint32) << np.uint32(shift) for number, shift in group) for group in groups]
    return jnp.concatenate([record.pile, jnp.stack(words, -1)], -1)


def decode(rows: Array) -> Record:
    """Decode records, the inverse of `encode`."""

    def number(word: int, shift: int, bits: int = 8) -> Array:
        return ((rows[..., 4 + word] >> np.uint32(shift)) & np.uint32((1 << bits) - 1)).astype(jnp.int32)

    return Record(
        pile=rows[..., :4],
        slots_before=number(0, 0, 16),
        action=number(0, 16),
        last_action=number(0, 24) - 1,
        play_color=number(2, 16),
        play_rank=number(2, 24),
        color=number(1, 0),
        rank=number(1, 8),
        observer_count=number(1, 16),
        deck_count=number(1, 24),
        penalty=number(2, 0),
        contested=number(2, 8, 4) - 1,
        has_drawn=number(2, 12, 1) > 0,
    )


class Deal(NamedTuple):
    """Information in the start card about a deal (`Prior` "deal"); see `likelihood.start_log_prob`. int32[] each.

    Attributes:
        num_dealt: Number of first slots that form a hand whose deal affects the start card; 0 if it does not.
        num_startable: Startable cards that the observer did not hold when the start card was turned up.
        num_drawn: Cards that the first player drew for the start card (`start_effects="keep_turn"`), 0 to 2.
        own_startable: Startable cards in the observer's first hand if the observer drew these; else -1.
    """

    num_dealt: Array
    num_startable: Array
    num_drawn: Array
    own_startable: Array


@struct.dataclass
class PublicHistory:
    """Public facts about the opponent's cards, the same for all particles.

    Attributes:
        allowed: uint32[4, S] cards that each slot could hold: with any copy of a type all of its copies.
        recent: bool[S] the slot was filled after the latest reshuffle.
        num_slots: int32[] slots filled so far.
        records: uint32[T, 7] the opponent's choices and the facts revealed, encoded.
        num_records: int32[] number of records.
        deal: int32[4] a `Deal`.
        known: int8[54] cards that the opponent certainly holds, by type: those of a hand that it showed, without those played
            since.
    """

    allowed: Array
    recent: Array
    num_slots: Array
    records: Array
    num_records: Array
    deal: Array
    known: Array

    @property
    def max_slots(self) -> int:
        """S, the capacity for slots."""
        return self.recent.shape[-1]

    @property
    def max_records(self) -> int:
        """T, the capacity for records."""
        return self.records.shape[-2]


def empty(*, max_slots: int, max_records: int) -> PublicHistory:
    """Return a history without slots or records."""
    return PublicHistory(
        allowed=jnp.zeros((cards.NUM_COLORS, max_slots), jnp.uint32),
        recent=jnp.zeros(max_slots, bool),
        num_slots=jnp.int32(0),
        records=jnp.zeros((max_records, _COLUMNS), jnp.uint32),
        num_records=jnp.int32(0),
        deal=jnp.array([0, 0, 0, -1], jnp.int32),
        known=jnp.zeros(cards.NUM_TYPES, jnp.int8),
    )


def add_slots(history: PublicHistory, number: Array, could_hold: Array | np.uint32 = bits.ALL_SLOTS) -> PublicHistory:
    """Add the slots of `number` cards that the opponent draws, which could be any of `could_hold` (uint32[4, 1] or [4, S])."""
    index = jnp.arange(history.max_slots)
    is_new = (index >= history.num_slots) & (index < history.num_slots + number)
    return replace(
        history,
        allowed=jnp.where(is_new, could_hold, history.allowed),
        recent=history.recent | is_new,
        num_slots=history.num_slots + number,
    )


def cards_by_slot(known: Array, max_slots: int) -> Array:
    """Return the cards that each slot of a hand could hold if the known ones (int8[54]) fill the first slots: uint32[4, S]."""
    ends, index = jnp.cumsum(known, dtype=jnp.int32), jnp.arange(max_slots)
    of_type = bits.type_mask(*bits.color_and_rank(jnp.argmax(ends[None] > index[:, None], axis=1)))
    return jnp.where(index < ends[-1], jnp.stack(of_type), bits.ALL_SLOTS)


def observed_choice(history: PublicHistory, before: Observation, action: Array) -> Record:
    """Return the record of a choice that the opponent makes at a position."""

    def number(value: Array) -> Array:
        return jnp.asarray(value).astype(jnp.int32)

    return Record(
        pile=jnp.stack(bits.pack(before.pile)),
        slots_before=history.num_slots,
        action=number(action),
        last_action=number(before.last_action),
        play_color=number(action) // cards.NUM_RANKS,
        play_rank=number(action) % cards.NUM_RANKS,
        color=number(before.color),
        rank=number(before.top_rank),
        observer_count=number(before.hand_count),
        deck_count=number(before.deck_count),
        penalty=number(before.penalty),
        contested=number(before.contested),
        has_drawn=before.has_drawn | (action == FITS) | (action == FAILS),
    )


def append(history: PublicHistory, record: Record, where: Array) -> PublicHistory:
    """Append a record if `where` (bool[]); no effect beyond the capacity."""
    is_next = where & (jnp.arange(history.max_records) == history.num_records)
    records = jnp.where(is_next[:, None], encode(record), history.records)
    return replace(history, records=records, num_records=history.num_records + where.astype(jnp.int32))

"""The public side of a particle belief: when the opponent acquired cards, what it could not hold, and what it played.

The opponent's hand is a row of **slots**, one for each card it ever acquired, in the order of acquisition. A slot could hold all
types, less those that were playable at a later time when the opponent could not play.

Where rules leave more to choose than a play, other choices of the opponent's are recorded as its plays are, and so is what was
told of its hand and is no matter of single slots (`FITS`, `FAILS`, `HOLDS_COLOR`).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from unojax import bits, cards
from unojax.bits import Words
from unojax.device import struct
from unojax.observation import Observation
from unojax.rules import Rules

FITS, FAILS, HOLDS_COLOR = range(cards.CHALLENGE + 1, cards.CHALLENGE + 4)
"""Told of the hand, in place of an action: the card drawn could be played; could not; a card of the contested colour is held."""


class Plays(NamedTuple):
    """The opponent's plays so far and what it could see at each, a row per play; T rows of capacity.

    Attributes:
        slots_before: int32[T] slots filled before the play.
        action: int8[T] the action 0..59; where turns are not plain, also another choice, or what was told of the hand.
        color, rank: int8[T] active colour and rank of the top card before the play.
        observer_count: int8[T] cards in the observer's hand.
        deck_count: int8[T] cards in the deck.
        pile: uint32[T, 4] the pile before the play, a packed canonical set.
        last_action: int8[T] the action before.
    """

    slots_before: Array
    action: Array
    color: Array
    rank: Array
    observer_count: Array
    deck_count: Array
    pile: Array
    last_action: Array


class Turns(NamedTuple):
    """What else the opponent's options at each of its plays depended on; see `Observation`.

    Attributes:
        penalty, contested: int8[T].
        has_drawn: bool[T] the last slot before the play holds a card drawn in the same turn.
    """

    penalty: Array
    contested: Array
    has_drawn: Array


class StartDraw(NamedTuple):
    """Cards that the first player drew between the deal and the first turn, for the start card (`start_effects="keep_turn"`).

    Attributes:
        number: int32[] how many, 0 to 2.
        startable: int32[] cards that might be turned up in the observer's first hand if it was the observer that drew; else -1.
    """

    number: Array
    startable: Array


@struct.dataclass
class Ledger:
    """Public bookkeeping of one belief.

    Attributes:
        allowed: uint32[S, 4] cards that each slot could hold: with any copy of a type all of its copies.
        epoch: int32[S] reshuffles before the slot was filled.
        num_reshuffles: int32[] reshuffles so far.
        num_slots: int32[] slots filled so far.
        plays: the opponent's plays.
        num_plays: int32[] how many there were.
        num_dealt: int32[] the first so many slots are a hand whose deal shows in the start card (`Prior` "deal"); else 0.
        num_startable: int32[] cards that might be turned up, and that the observer did not hold, when the start card was.
        turns: of the plays, under rules without plain steps; else an empty tuple.
        start_draw: of that hand or of the observer's, under rules where there may be one; else an empty tuple.
    """

    allowed: Array
    epoch: Array
    num_reshuffles: Array
    num_slots: Array
    plays: Plays
    num_plays: Array
    num_dealt: Array
    num_startable: Array
    turns: Turns | tuple[()] = ()
    start_draw: StartDraw | tuple[()] = ()


def as_words(array: Array) -> Words:
    """Take uint32[4, ...] apart into four words."""
    return array[0], array[1], array[2], array[3]


def empty(*, max_slots: int, max_plays: int, rules: Rules | None = None) -> Ledger:
    """Make a ledger without slots or plays, with room for so many; the default rules if none are given."""
    pile = jnp.zeros((max_plays, cards.NUM_COLORS), jnp.uint32)
    others = dict.fromkeys(set(Plays._fields) - {"slots_before", "pile"}, jnp.zeros(max_plays, jnp.int8))
    return Ledger(
        allowed=jnp.zeros((max_slots, cards.NUM_COLORS), jnp.uint32),
        epoch=jnp.zeros(max_slots, jnp.int32),
        num_reshuffles=jnp.int32(0),
        num_slots=jnp.int32(0),
        plays=Plays(slots_before=jnp.zeros(max_plays, jnp.int32), pile=pile, **others),
        num_plays=jnp.int32(0),
        num_dealt=jnp.int32(0),
        num_startable=jnp.int32(0),
        turns=() if rules is None or rules.has_plain_steps else _no_turns(max_plays),
        start_draw=() if rules is None or rules.start_effects != "keep_turn" else StartDraw(jnp.int32(0), jnp.int32(-1)),
    )


def _no_turns(max_plays: int) -> Turns:
    nothing = jnp.zeros(max_plays, jnp.int8)
    return Turns(penalty=nothing, contested=nothing, has_drawn=jnp.zeros(max_plays, bool))


def add_slots(ledger: Ledger, number: Array) -> Ledger:
    """Add the slots of cards that the opponent draws, which could hold anything."""
    index = jnp.arange(ledger.epoch.shape[0])
    is_new = (index >= ledger.num_slots) & (index < ledger.num_slots + number)
    return dataclasses.replace(
        ledger,
        allowed=jnp.where(is_new[:, None], bits.ALL_SLOTS, ledger.allowed),
        epoch=jnp.where(is_new, ledger.num_reshuffles, ledger.epoch),
        num_slots=ledger.num_slots + number,
    )


def forbid(ledger: Ledger, playable: Words, where: Array | None = None) -> Ledger:
    """Rule these cards out of all slots filled so far, or of those `where` (bool[S])."""
    ruled_out = jnp.stack(playable)[None]
    if where is not None:
        ruled_out = jnp.where(where[:, None], ruled_out, 0)
    return dataclasses.replace(ledger, allowed=ledger.allowed & ~ruled_out)


def record_play(ledger: Ledger, before: Observation, action: Array) -> Ledger:
    """Append a play of the opponent."""
    row = Plays(
        slots_before=ledger.num_slots,
        action=action.astype(jnp.int8),
        color=before.color,
        rank=before.top_rank,
        observer_count=before.hand_count,
        deck_count=before.deck_count,
        pile=jnp.stack(bits.pack(before.pile)),
        last_action=before.last_action,
    )
    is_next = jnp.arange(ledger.plays.action.shape[0]) == ledger.num_plays

    def put(rows: Array, one: Array) -> Array:
        return jnp.where(is_next.reshape(-1, *[1] * (rows.ndim - 1)), one, rows)

    plays, turns = Plays(*map(put, ledger.plays, row)), ledger.turns
    if isinstance(turns, Turns):
        has_drawn = before.has_drawn | (action == FITS) | (action == FAILS)
        turns = Turns(*map(put, turns, Turns(before.penalty, before.contested, has_drawn)))
    return dataclasses.replace(ledger, plays=plays, turns=turns, num_plays=ledger.num_plays + 1)


def last_slot(ledger: Ledger) -> Array:
    """Mark the slot filled last: bool[S]."""
    return jnp.arange(ledger.epoch.shape[0]) == ledger.num_slots - 1


def cards_playable_on(color: Array, rank: Array) -> Words:
    """Collect all cards that may be played on a top card of `rank` with `color` active: four uint32[]."""
    return bits.map_words(lambda m: bits.both_copies(m & bits.FIRST_COPIES) | (m & bits.WILDS), bits.matching(color, rank))

"""Next pick at a table: `find_node`."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits
from unojax.bits import Words
from unojax.rules import Rules
from unojax.table import options
from unojax.table.layout import HAND_0, HAND_1, PLAY, START, Meta, Table, deck
from unojax.table.options import Turn


class Node(NamedTuple):
    """Next pick of a game: its set, and whether the mover or chance picks.

    Attributes:
        meta: The unpacked bookkeeping.
        hand: Labelled cards of the player to move.
        legal: The mover's options (see `bits`), meaningful in phase PLAY with no draw under way: cards that fit the top card if
            all turns are plain (`Rules.has_plain_turns`), else by `options.options_of`.
        deck: Cards that chance picks from.
        hand_count, opponent_count: uint32 cards of the mover and of the other player.
        is_decision: The mover picks one of `legal`; otherwise chance picks one of `deck`, or nothing is picked.
        is_reshuffle: The pile goes back into the deck.
        is_dead_end: The draw is impossible; the game ends here.
        is_over: The game has ended.
    """

    meta: Meta
    hand: Words
    legal: Words
    deck: Words
    hand_count: Array
    opponent_count: Array
    is_decision: Array
    is_reshuffle: Array
    is_dead_end: Array
    is_over: Array

    @property
    def is_choice(self) -> Array:
        """The mover picks one of several options."""
        return self.is_decision & (bits.count(self.legal) > 1)

    @property
    def options(self) -> Words:
        """The mover's options, empty if it has no decision."""
        return bits.map_words(lambda w: jnp.where(self.is_decision, w, np.uint32(0)), self.legal)


def find_node(table: Table, rules: Rules) -> Node:
    """Find the next pick at each table."""
    meta = table.unpack_meta()
    is_mover_0 = meta.player == 0
    hand = bits.where(is_mover_0, table.cards_of(HAND_0, rules), table.cards_of(HAND_1, rules))
    stock = deck(table, rules)
    deck_count = bits.count(stock)
    hand_count = bits.count(hand)
    opponent_count = bits.count(bits.map_words(lambda a, b: a ^ b, table.low, table.high)) - hand_count
    pile_count = np.uint32(rules.num_cards) - deck_count - hand_count - opponent_count

    begins_step = meta.begins_step
    if rules.has_plain_turns:
        legal = bits.playable(hand, meta.color, meta.rank)
        is_decision = begins_step & (meta.penalty == 0) & (bits.any_of(legal) != 0)
    else:
        legal = options.options_of(hand, turn_at(table, options.has_drawable(deck_count, pile_count, rules)), rules)
        is_decision = begins_step & (bits.any_of(legal) != 0)
    if rules.draw_is_option or rules.keeps_account:
        # The first card of a chosen draw, or of one that a start card caused, is due as well.
        due = jnp.where(begins_step, cards_due(meta), meta.to_draw)
        lacks_cards = (meta.phase == PLAY) & ~is_decision & (deck_count < due)
    else:
        lacks_cards = begins_step & ~is_decision & (deck_count < cards_due(meta))
    is_reshuffle = lacks_cards & (pile_count > (0 if rules.reshuffle_top else 1))
    if rules.start_card != "any":
        may_start = bits.COLORED if rules.start_card == "non_wild" else bits.COLORED | bits.WILD_BIT
        only = jnp.where(meta.phase == START, may_start, bits.ALL_SLOTS)
        stock = bits.map_words(lambda w: w & only, stock)
    return Node(
        meta=meta,
        hand=hand,
        legal=legal,
        deck=stock,
        hand_count=hand_count,
        opponent_count=opponent_count,
        is_decision=is_decision,
        is_reshuffle=is_reshuffle,
        is_dead_end=lacks_cards & ~is_reshuffle,
        is_over=meta.is_over,
    )


def turn_at(table: Table, can_draw: Array) -> Turn:
    """Return the facts of the turn that options depend on."""
    meta, account = table.unpack_meta(), table.unpack_account()
    drawn = account.drawn_color, account.drawn_rank, account.has_drawn != 0
    return Turn(meta.color, meta.rank, meta.penalty, can_draw, *drawn, account.contested)


def cards_due(meta: Meta) -> Array:
    """Count the cards of a draw: the pending penalty, else one."""
    return jnp.maximum(meta.penalty, np.uint32(1))

"""Options of a player to move, from its hand and its turn; no other module defines them."""

from __future__ import annotations

from typing import Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards
from unojax.bits import Words
from unojax.rules import Rules

DRAW_POSITION: Final = 13
CHALLENGE_POSITION: Final = 14


class Turn(NamedTuple):
    """Facts that options depend on, apart from the hand.

    Attributes:
        color, rank, penalty: As in `Meta`.
        can_draw: bool, there is a card to draw, in the deck or after a reshuffle.
        drawn_color, drawn_rank, contested: As in `Account`.
        has_drawn: bool.
    """

    color: Array
    rank: Array
    penalty: Array
    can_draw: Array
    drawn_color: Array
    drawn_rank: Array
    has_drawn: Array
    contested: Array


class Picked(NamedTuple):
    """A pick: word 0..3 (declared colour, or slot block of a card) and bit 0..26."""

    word: Array
    position: Array


def pick_of(action: Array, rules: Rules | None = None) -> Picked:
    """Return the pick of an action, uint32: a play 0..59 or, with `rules`, any other option."""
    return pick_of_type(action // np.uint32(cards.NUM_RANKS), action % np.uint32(cards.NUM_RANKS), action, rules)


def pick_of_type(color: Array, rank: Array, action: Array, rules: Rules | None = None) -> Picked:
    """Return the pick of an action, as `pick_of` does, from the colour and the rank that it plays (uint32)."""
    position = bits.position_at(rank)
    if rules is None or not rules.draw_is_option:
        return Picked(color, position)
    is_play = action < cards.DRAW
    other = action - np.uint32(cards.DRAW - DRAW_POSITION)
    return Picked(jnp.where(is_play, color, np.uint32(0)), jnp.where(is_play, position, other))


def action_of(pick: Picked, rules: Rules) -> Array:
    """Return the action of an option, the inverse of `pick_of`."""
    play = pick.word * np.uint32(cards.NUM_RANKS) + bits.rank_at(pick.position)
    if not rules.draw_is_option:
        return play
    is_play = (pick.position < DRAW_POSITION) | (pick.position > CHALLENGE_POSITION)
    return jnp.where(is_play, play, pick.position + np.uint32(cards.DRAW - DRAW_POSITION))


def options_of(hand: Words, turn: Turn, rules: Rules) -> Words:
    """Return the options with a labelled or canonical hand; empty if the player must draw.

    Elementwise: one turn can be evaluated for many hands.
    """
    plays = playable(hand, turn.color, turn.rank, rules)
    is_free = turn.penalty == 0
    if rules.stacking:
        # A penalty is answered by its like, unless it was challenged (or turned up, under rules with challenges).
        can_answer = turn.rank != cards.WILD_DRAW_FOUR if rules.wild_draw_four == "challenge" else jnp.ones_like(is_free)
        can_answer |= turn.contested > 0
        answer = jnp.where(is_free, bits.PLAYS, jnp.where(can_answer, bits.rank_bit(turn.rank), np.uint32(0)))
    else:
        answer = jnp.where(is_free, bits.PLAYS, np.uint32(0))
    plays = bits.map_words(lambda w: w & answer, plays)
    if rules.keeps_account:
        drawn = of_type(turn.drawn_color, turn.drawn_rank)
        if rules.play_drawn != "may":
            drawn = bits.empty(turn.rank)
        plays = bits.map_words(lambda w, d: jnp.where(turn.has_drawn, w & d, w), plays, drawn)
    if not rules.draw_is_option:
        return plays
    may_draw = turn.has_drawn | ~is_free | turn.can_draw if rules.may_draw else turn.has_drawn
    others = jnp.where((bits.any_of(plays) != 0) & may_draw, bits.DRAW_OPTION, np.uint32(0))
    if rules.wild_draw_four == "challenge":
        others |= jnp.where(turn.contested > 0, bits.CHALLENGE_OPTION | bits.DRAW_OPTION, np.uint32(0))
    return plays[0] | others, plays[1], plays[2], plays[3]


def playable(hand: Words, color: Array, rank: Array, rules: Rules) -> Words:
    """Return the plays of a hand on a top card, without a penalty, as option bits."""
    plays = bits.playable(hand, color, rank)
    if rules.wild_draw_four == "no_color":
        others = bits.word_at(hand, color) & bits.COLORED
    elif rules.wild_draw_four == "last":
        others = bits.any_of(plays) & ~bits.WILD_DRAW_FOUR_BIT
    else:
        return plays
    kept = jnp.where(others != 0, ~bits.WILD_DRAW_FOUR_BIT, ~np.uint32(0))
    return bits.map_words(lambda w: w & kept, plays)


def of_type(color: Array, rank: Array) -> Words:
    """Return the options that play a card of a type."""
    bit, is_wild = bits.rank_bit(rank), rank >= cards.WILD
    w0, w1, w2, w3 = (jnp.where(is_wild | (color == c), bit, np.uint32(0)) for c in range(cards.NUM_COLORS))
    return w0, w1, w2, w3


def fits_top(hand: Words, card: tuple[Array, Array], top: tuple[Array, Array], rules: Rules) -> Array:
    """Return whether a card of a hand may be played on the top card, without a penalty; cards as colour and rank: bool[...]."""
    return bits.any_of(bits.both(playable(hand, *top, rules), of_type(*card))) != 0


def has_drawable(deck_count: Array, pile_count: Array, rules: Rules) -> Array:
    """Return whether there is a card to draw, in the deck or after a reshuffle."""
    return deck_count + pile_count > (0 if rules.reshuffle_top else 1)

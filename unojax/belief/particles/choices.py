"""Likelihood of one choice of the opponent's where turns are not plain: of a play, a draw, a pass or a challenge.

What is told of the hand (`ledger.FITS` and the like) has the likelihood 1 or 0. All functions work on N particles at once.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, game
from unojax.belief.opponents import OpponentModel, PackedOpponent, likelihood_of, packed_likelihood_of
from unojax.belief.particles.accounts import common
from unojax.belief.particles.ledger import FAILS, FITS, HOLDS_COLOR, Plays, Turns, as_words
from unojax.bits import Words
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.table import Turn, options_of, pick_of
from unojax.table.options import has_drawable, playable
from unojax.view import View


class Choice(NamedTuple):
    """A row of a ledger: what the opponent did, or what was told of its hand, and what its options depended on."""

    play: Plays
    turn: Turns


def choice_prob(hand: Words, drawn: Words, choice: Choice, opponent: OpponentModel, like: Observation) -> Array:
    """Compute the probability of a choice given each hand: float32[N].

    Args:
        hand: four uint32[N], before the choice.
        drawn: four uint32[N], the card in the hand that was drawn in the same turn; looked at only if there was one.
        choice: scalars.
        opponent: the model.
        like: any observation of the observer's.
    """
    play, turn = choice.play, choice.turn
    code = play.action.astype(jnp.int32)
    at_turn = _turn(drawn, choice, like.rules)
    legal = options_of(hand, at_turn, like.rules)
    is_forced = bits.any_of(legal) == 0
    chosen = _by_model(hand, drawn, legal, at_turn, choice, opponent, like)
    # Who has drawn and passes, could have played the card.
    forced = ((code == cards.DRAW) & ~turn.has_drawn).astype(jnp.float32)
    prob = jnp.where(is_forced, forced, chosen)

    fits = card_fits(hand, drawn, play, like.rules)
    holds_color = (bits.word_at(hand, turn.contested.astype(jnp.uint32)) & bits.COLORED) != 0
    prob = jnp.where(code == FITS, fits.astype(jnp.float32), prob)
    prob = jnp.where(code == FAILS, (~fits).astype(jnp.float32), prob)
    return jnp.where(code == HOLDS_COLOR, holds_color.astype(jnp.float32), prob)


def card_fits(hand: Words, drawn: Words, play: Plays, rules: Rules) -> Array:
    """Tell whether the card `drawn`, in the hand, may be played on the top card of a row: bool[N]."""
    on_top = playable(hand, play.color.astype(jnp.uint32), play.rank.astype(jnp.uint32), rules)
    return bits.any_of(common(on_top, bits.types(drawn))) != 0


def _turn(drawn: Words, choice: Choice, rules: Rules) -> Turn:
    play, turn = choice.play, choice.turn
    word, position = bits.nth(drawn, jnp.uint32(0))
    rank = bits.rank_at(position)
    pile_count = bits.count(as_words(play.pile)).astype(jnp.int32)
    return Turn(
        color=play.color.astype(jnp.uint32),
        rank=play.rank.astype(jnp.uint32),
        penalty=turn.penalty.astype(jnp.uint32),
        can_draw=has_drawable(play.deck_count.astype(jnp.int32), pile_count, rules),
        drawn_color=jnp.where(rank >= cards.WILD, np.uint32(0), word),
        drawn_rank=rank,
        has_drawn=turn.has_drawn,
        contested=(turn.contested.astype(jnp.int32) + 1).astype(jnp.uint32),
    )


def _by_model(
    hand: Words, drawn: Words, legal: Words, at_turn: Turn, choice: Choice, opponent: OpponentModel, like: Observation
) -> Array:
    """Ask the model for the probability of an action that is one of several options."""
    play, rules = choice.play, like.rules
    action = jnp.clip(play.action.astype(jnp.int32), 0, rules.num_actions - 1).astype(jnp.uint32)
    is_option = (action < cards.DRAW) | rules.draw_is_option
    if isinstance(opponent, PackedOpponent):
        view = View(
            hand=hand,
            opponent_count=play.observer_count.astype(jnp.uint32),
            pile=as_words(play.pile),
            color=at_turn.color,
            rank=at_turn.rank,
            penalty=at_turn.penalty,
            is_own_turn=jnp.ones_like(at_turn.color, bool),
            rules=rules,
            account=game.account_at(at_turn).pack() if rules.keeps_account else (),
        )
        return jnp.where(is_option, packed_likelihood_of(opponent, view, legal, pick_of(action, rules)), 0.0)

    them = (1 - like.player).astype(like.player.dtype)
    view = Observation(
        player=them,
        hand=like.hand,
        pile=bits.unpack(as_words(play.pile)),
        opponent_count=play.observer_count,
        deck_count=play.deck_count,
        top_rank=play.rank,
        color=play.color,
        penalty=choice.turn.penalty,
        current_player=them,
        last_action=play.last_action,
        terminated=jnp.zeros_like(like.terminated),
        rules=rules,
        has_drawn=choice.turn.has_drawn,
        contested=choice.turn.contested,
    )

    def one_hand(onehot: Array, drawn: Array) -> Array:
        imagined = dataclasses.replace(view, hand=onehot, drawn=drawn)
        return likelihood_of(opponent, imagined, imagined.legal_mask, action)

    type_drawn = cards.type_of(at_turn.drawn_color, at_turn.drawn_rank).astype(jnp.int8)
    type_drawn = jnp.where(choice.turn.has_drawn, type_drawn, game.NONE).astype(jnp.int8)
    return jnp.where(is_option, jax.vmap(one_hand)(bits.unpack(bits.canonical(hand)), type_drawn), 0.0)

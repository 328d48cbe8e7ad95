"""What two observations around one micro-step tell, and how an opponent is imagined.

An observer holds what it saw `before` and `after` one micro-step: one action of one player, with the whole draw if it
was a draw. The functions here read off what happened in between from public facts and the observer's own hand alone;
`last_action` is not trusted, so positions set up by hand work too. All are pure, unbatched, and jit- and vmap-able.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import bits, cards, game
from unojax.observation import Observation

Prior = Literal["uniform", "deal"]
"""What a belief starts from; `exact.exact_init` says what the two are."""


def imagine(observation: Observation, hand: ArrayLike) -> Observation:
    """The opponent's view at the same moment if the opponent held `hand` (bool[108], with `opponent_count` cards)."""
    return dataclasses.replace(
        observation,
        player=(1 - observation.player).astype(observation.player.dtype),
        hand=jnp.asarray(hand),
        opponent_count=observation.hand_count,
    )


def playable_types(color: ArrayLike, rank: ArrayLike) -> Array:
    """bool[54]: the card types that may be played on a top card of `rank` with `color` active; wild cards always may."""
    options = bits.matching(jnp.asarray(color, jnp.uint32), jnp.asarray(rank, jnp.uint32))
    # A wild is playable with any colour declared; red will do.
    declared = np.maximum(cards.COLOR_OF_TYPE, 0) * cards.NUM_RANKS
    return game.options_to_mask(options)[declared + cards.RANK_OF_TYPE]


def opponent_moved(before: Observation) -> Array:
    """bool[]: the micro-step after `before` is the opponent's."""
    return before.current_player != before.player


def infer_action(before: Observation, after: Observation) -> Array:
    """The public action that led from one observation to the next: int32[], 0..60.

    A play is told by the mover's hand, which shrinks: the top card may look the same after it (a second red 5 on a
    red 5). A draw is told by a hand that grows, or by a game that ends with the hands as they were (a draw that was
    impossible). If nothing of this happened (the game was over, or the action was illegal) the answer is
    `game.NO_ACTION`, -1.
    """
    is_mine = ~opponent_moved(before)
    change = jnp.where(
        is_mine,
        after.hand_count - before.hand_count,
        after.opponent_count - before.opponent_count,
    )
    play = after.color.astype(jnp.int32) * cards.NUM_RANKS + after.top_rank
    drew = (change > 0) | (after.terminated & ~before.terminated)
    return jnp.where(change < 0, play, jnp.where(drew, cards.DRAW, game.NO_ACTION)).astype(jnp.int32)


def played_type(after: Observation) -> Array:
    """int32[]: the card type 0..53 on top after a play, which is the one that was played."""
    return cards.type_of(after.color, after.top_rank)


def reshuffled(before: Observation, after: Observation) -> Array:
    """bool[]: the pile except its top card went back into the deck (before the cards were drawn, if any were)."""
    return after.pile.sum(-1) < before.pile.sum(-1)


def unseen_at_draw(before: Observation, after: Observation) -> Array:
    """int8[54]: what opponent and deck held together at the moment of a draw: after a reshuffle, before the first card."""
    composition = jnp.asarray(np.asarray(before.rules.deck, np.int8))
    return composition - cards.counts(before.hand) - cards.counts(after.pile)


def opponent_drew(before: Observation, after: Observation) -> Array:
    """int32[]: how many cards the opponent drew; 0 if it drew none."""
    return jnp.maximum(after.opponent_count.astype(jnp.int32) - before.opponent_count, 0)


def observer_drew(before: Observation, after: Observation) -> Array:
    """int8[54]: the cards that the observer drew, by type; zeros if it drew none."""
    return jnp.maximum(cards.counts(after.hand) - cards.counts(before.hand), 0)


def opponent_could_not_play(before: Observation, action: ArrayLike) -> Array:
    """bool[]: by `action` (from `infer_action`) the opponent drew with no penalty pending, so it held no playable card."""
    return opponent_moved(before) & (jnp.asarray(action) == cards.DRAW) & (before.penalty == 0)

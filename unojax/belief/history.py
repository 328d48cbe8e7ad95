"""Read off two observations around one micro-step what happened in between.

A micro-step is one action of one player, with the whole draw if it was a draw. The functions here tell what lies between from
public facts and the observer's own hand alone; `last_action` is not trusted, so positions set up by hand work too. All are pure,
unbatched, and jit- and vmap-able.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import bits, cards, game
from unojax.bits import Words
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import agreed_rules

Prior = Literal["uniform", "deal"]
"""The start of a belief; `exact.exact_init` says what the two are."""


def imagine(observation: Observation, hand: ArrayLike) -> Observation:
    """Give the opponent's view at the same moment if the opponent held `hand` (bool[108], with `opponent_count` cards)."""
    return dataclasses.replace(
        observation,
        player=(1 - observation.player).astype(observation.player.dtype),
        hand=jnp.asarray(hand),
        opponent_count=observation.hand_count,
    )


def playable_types(color: ArrayLike, rank: ArrayLike) -> Array:
    """Mark the card types that may be played on a top card of `rank` with `color` active; wild cards always may: bool[54]."""
    options = bits.matching(jnp.asarray(color).astype(jnp.uint32), jnp.asarray(rank).astype(jnp.uint32))
    # A wild is playable with any colour declared; red will do.
    declared = np.maximum(cards.COLOR_OF_TYPE, 0) * cards.NUM_RANKS
    return game.options_to_mask(options)[declared + cards.RANK_OF_TYPE]


def opponent_moved(before: Observation) -> Array:
    """Tell whether the micro-step after `before` is the opponent's: bool[]."""
    return before.current_player != before.player


def infer_action(before: Observation, after: Observation) -> Array:
    """Tell the public action that led from one observation to the next: int32[], 0..60.

    A play is told by the mover's hand, which shrinks: the top card may look the same after it (a second red 5 on a red 5). A draw
    is told by a hand that grows, or by a game that ends with the hands as they were (a draw that was impossible). If nothing of
    this happened (the game was over, or the action was illegal) the answer is `game.NO_ACTION`, -1.
    """
    change = jnp.where(opponent_moved(before), after.opponent_count - before.opponent_count, after.hand_count - before.hand_count)
    play = after.color.astype(jnp.int32) * cards.NUM_RANKS + after.top_rank.astype(jnp.int32)
    drew = (change > 0) | (after.terminated & ~before.terminated)
    return jnp.where(change < 0, play, jnp.where(drew, cards.DRAW, game.NO_ACTION)).astype(jnp.int32)


def imagine_state(observation: Observation, hidden: ArrayLike) -> State:
    """Give the whole position if the opponent held `hidden` (int8[54] counts) and the deck all else that is unseen."""
    theirs, no = cards.onehot(hidden), jnp.zeros_like(observation.terminated)
    is_first = observation.player == 0
    return State(
        hands=jnp.stack([jnp.where(is_first, *pair) for pair in ((observation.hand, theirs), (theirs, observation.hand))]),
        deck=cards.onehot(observation.unseen - hidden),
        pile=observation.pile,
        top_rank=observation.top_rank,
        color=observation.color,
        current_player=observation.current_player,
        penalty=observation.penalty,
        terminated=observation.terminated,
        truncated=no,
        winner=jnp.full_like(observation.player, game.NO_WINNER),
        rewards=jnp.zeros(2, jnp.float32),
        step_count=jnp.int32(0),
        error=jnp.uint8(0),
        last_action=observation.last_action,
        rules=observation.rules,
    )


def is_one_step(before: Observation, after: Observation) -> Array:
    """Tell whether one play, one draw, or nothing at all can lie between two observations of a player: bool[].

    The rules of the game say so: the step is taken from the position with some hidden hand that allows it, and must show what
    `after` shows, `last_action` apart. Which hand it is does not matter to what the observer sees.

    Raises:
        ValueError: the rules of the two differ.
    """
    agreed_rules(before.rules, after.rules)
    action = infer_action(before, after)
    is_play = (action >= 0) & (action < cards.DRAW) & opponent_moved(before)
    played = ((np.arange(cards.NUM_TYPES) == played_type(after)) & is_play).astype(jnp.int8)
    # Cards that can have been in the hidden hand all the time, and were not played.
    could_keep = jnp.maximum(jnp.minimum(before.unseen - played, after.unseen), np.int8(0))
    had_none = opponent_could_not_play(before, action) & playable_types(before.color, before.top_rank)
    could_keep = jnp.where(had_none, np.int8(0), could_keep).astype(jnp.int32)
    number = before.opponent_count.astype(jnp.int32) - played.sum(dtype=jnp.int32)
    kept = jnp.clip(number - (jnp.cumsum(could_keep, dtype=jnp.int32) - could_keep), 0, could_keep).astype(jnp.int8)

    reached = game.step_with(imagine_state(before, kept + played), action, lambda index, deck: bits.nth(deck, jnp.uint32(0)))
    expected = observe(reached, before.player)
    # The observer's own draw may be any cards that it can have come to hold.
    drew = (action == cards.DRAW) & ~opponent_moved(before)
    could_draw = (~before.hand | after.hand).all() & (after.hand_count == expected.hand_count) & (after.unseen >= 0).all()
    hand = jnp.where(drew & could_draw, after.hand, expected.hand)
    expected = dataclasses.replace(expected, hand=hand, last_action=after.last_action)
    same = jax.tree.map(lambda a, b: (a == b).all(), expected, after)
    is_legal = (reached.error == 0) | (action == game.NO_ACTION)
    return jnp.stack(jax.tree.leaves(same)).all() & (kept.sum(dtype=jnp.int32) == number) & is_legal


def belongs(before: Observation, action: Array, after: Observation) -> Array:
    """Tell whether an action may be what two observations show: bool[].

    They are one micro-step apart, and `action` is that step. Where nothing happened, an action was refused, whatever it was.
    """
    shown = infer_action(before, after)
    return is_one_step(before, after) & ((shown < 0) | (shown == action))


def unseen_words(observation: Observation) -> Words:
    """Collect what opponent and deck hold together: a packed canonical set."""
    not_in_pile = _rest(bits.all_cards(observation.rules.deck), bits.pack(observation.pile))
    return _rest(not_in_pile, bits.pack(observation.hand))


def played_type(after: Observation) -> Array:
    """Tell the card type 0..53 on top after a play, which is the one that was played: int32[]."""
    return cards.type_of(after.color, after.top_rank)


def reshuffled(before: Observation, after: Observation) -> Array:
    """Tell whether the pile except its top card went back into the deck (before the cards were drawn, if any were): bool[]."""
    return after.pile.sum(-1) < before.pile.sum(-1)


def unseen_at_draw(before: Observation, after: Observation) -> Array:
    """Count what opponent and deck held together at a draw, after a reshuffle and before the first card: int8[54]."""
    composition = jnp.asarray(np.asarray(before.rules.deck, np.int8))
    return composition - cards.counts(before.hand) - cards.counts(after.pile)


def opponent_drew(before: Observation, after: Observation) -> Array:
    """Count the cards that the opponent drew: int32[], 0 if it drew none."""
    return jnp.maximum(after.opponent_count.astype(jnp.int32) - before.opponent_count.astype(jnp.int32), 0)


def observer_drew(before: Observation, after: Observation) -> Array:
    """Count the cards that the observer drew, by type: int8[54], zeros if it drew none."""
    return jnp.maximum(cards.counts(after.hand) - cards.counts(before.hand), 0)


def opponent_could_not_play(before: Observation, action: ArrayLike) -> Array:
    """Tell whether the opponent, by `action`, drew with no penalty pending, so that it held no playable card: bool[]."""
    return opponent_moved(before) & (jnp.asarray(action) == cards.DRAW) & (before.penalty == 0)


def looks_dealt(observation: Observation) -> bool:
    """Tell whether a position is one right after the deal, or looks the same, so that the prior "deal" fits; on the host."""
    rules = observation.rules
    return (
        int(observation.last_action) == game.NO_ACTION
        and int(observation.pile.sum()) == 1
        and int(observation.hand_count) == int(observation.opponent_count) == rules.hand_size
        and (rules.start_card == "any" or int(observation.top_rank) < cards.WILD)
    )


def _rest(everything: Words | bits.StaticWords, taken: Words) -> Words:
    """Take a part out of a canonical set; the rest is canonical."""
    return bits.canonical(bits.map_words(lambda x, y: x & ~y, everything, taken))

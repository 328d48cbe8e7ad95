"""Ages: how many of the opponent's cards may be of a colour, from when it last could not play one.

Whoever must draw holds no card of the active colour and no wild one. All that it may hold of them later are the cards that it has
drawn since. For each of the four colours, and for the wild cards, a bound of that number is kept: it grows with every card drawn,
falls to zero when the player can't play, and falls when a card of a colour is played, which was one of those. Every bound holds
for certain; it is `UNKNOWN` until the player has shown something. Five bounds of a player are one word, so that they cost next to
nothing beside a game: the cheapest belief that follows one.

The draw also shows that no card of the top card's rank was held, in whatever colour; that is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import cards
from unojax.belief import history
from unojax.observation import Observation

WILDS: Final = cards.NUM_COLORS
"""Place of the wild cards among the kinds, after the colours."""
NUM_KINDS: Final = cards.NUM_COLORS + 1
KIND_OF_TYPE: Final = np.where(cards.COLOR_OF_TYPE < 0, WILDS, cards.COLOR_OF_TYPE)
"""int8[54]: the kind of each card type."""
UNKNOWN: Final = 31
"""A bound that says nothing; larger ones are taken for it."""
_WIDTH: Final = 5
_SHIFTS: Final = tuple(_WIDTH * kind for kind in range(NUM_KINDS))
NOTHING_SHOWN: Final = np.uint32((1 << _WIDTH * NUM_KINDS) - 1)
"""The ages of a player who has shown nothing."""


def bounds(ages: Array) -> Array:
    """Unpack the bounds: uint32[..., 5] of the colours and of the wild cards, `UNKNOWN` where there is none."""
    return jnp.stack([_get(ages, kind) for kind in range(NUM_KINDS)], -1)


def after_draw(ages: Array, number: ArrayLike, could_not_play: Array, color: Array) -> Array:
    """Give the ages after a player has drawn.

    Args:
        ages: uint32[...] before.
        number: [...] cards drawn.
        could_not_play: bool[...] it had no card to play on the top card.
        color: uint32[...] the active colour.
    """
    number = jnp.asarray(number).astype(jnp.uint32)
    made = jnp.zeros_like(ages)
    for kind in range(NUM_KINDS):
        lacks = could_not_play if kind == WILDS else could_not_play & (color == kind)
        bound = jnp.where(lacks, np.uint32(0), _get(ages, kind))
        bound = jnp.where(bound == UNKNOWN, bound, jnp.minimum(bound + number, np.uint32(UNKNOWN)))
        made |= bound << np.uint32(_SHIFTS[kind])
    return made


def after_play(ages: Array, kind: Array) -> Array:
    """Give the ages after a player has played a card of a kind, uint32[...]: its colour, or `WILDS`.

    The card was among those drawn since the player last lacked the kind, B of them at most. Of another kind that it may hold B
    cards of or more, it may hold one less too: either the card was among these as well, or they are all among the B.
    """
    bound = (ages >> (kind * np.uint32(_WIDTH))) & np.uint32(UNKNOWN)
    made = jnp.zeros_like(ages)
    for other in range(NUM_KINDS):
        theirs = _get(ages, other)
        is_less = (theirs >= bound) & (theirs < UNKNOWN) & (theirs > 0)
        made |= (theirs - is_less.astype(jnp.uint32)) << np.uint32(_SHIFTS[other])
    return made


@dataclass(frozen=True)
class Ages:
    """The ages of the opponent as an agent's memory: uint32[]. Hashable, so that it can be static."""

    def init(self, key: Array, observation: Observation) -> Array:
        """Begin at an observer's first position."""
        del key, observation
        return jnp.asarray(NOTHING_SHOWN)

    def update(self, key: Array, memory: Array, before: Observation, action: Array, after: Observation) -> Array:
        """Give the ages after one micro-step of either player."""
        del key
        action = jnp.asarray(action).astype(jnp.int32)
        kind = jnp.where(after.top_rank >= cards.WILD, WILDS, after.color).astype(jnp.uint32)
        could_not = history.opponent_could_not_play(before, action)
        drawn = after_draw(memory, history.opponent_drew(before, after), could_not, before.color.astype(jnp.uint32))
        moved = jnp.where((action >= 0) & (action < cards.DRAW), after_play(memory, kind), drawn)
        return jnp.where(history.opponent_moved(before) & (action >= 0), moved, memory)

    def next_game(self, key: Array, memory: Array, observation: Observation) -> Array:
        """Begin another game against the same opponent, of which nothing goes on."""
        del memory
        return self.init(key, observation)


def _get(ages: Array, kind: int) -> Array:
    return (ages >> np.uint32(_SHIFTS[kind])) & np.uint32(UNKNOWN)

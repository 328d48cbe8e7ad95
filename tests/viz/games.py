"""Random games, played once for all tests of pictures."""

from __future__ import annotations

from functools import cache, partial

import jax
import numpy as np

from unojax import cards
from unojax.game import NO_ACTION, State
from unojax.games.record import Trajectory, play_game

NUM_GAMES = 6


@cache
def trajectories() -> list[Trajectory]:
    """Some games; most are over."""
    keys = jax.random.split(jax.random.key(3), NUM_GAMES)
    games = jax.device_get(jax.jit(jax.vmap(partial(play_game, num_steps=150)))(keys))
    return [jax.tree.map(lambda leaf, g=g: leaf[g], games) for g in range(NUM_GAMES)]


def positions(game: Trajectory) -> list[State]:
    """Its positions, without the repeated last one."""
    num_steps = int((game.actions != NO_ACTION).sum())
    return [jax.tree.map(lambda leaf, i=i: leaf[i], game.states) for i in range(num_steps + 1)]


def with_other_hand(state: State, player: int) -> State:
    """The same to everyone but `player`, whose cards change places with as many of the deck."""
    hands = np.asarray(state.hands).copy()
    held, deck = (np.bincount(cards.TYPE_OF_SLOT[c], minlength=cards.NUM_TYPES) for c in (hands[player], state.deck))
    unseen = np.repeat(np.arange(cards.NUM_TYPES), held + deck)
    other = np.bincount(np.roll(unseen, 7)[: held.sum()], minlength=cards.NUM_TYPES)
    hands[player] = other[cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT
    return state.replace(hands=hands, deck=(held + deck - other)[cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT)

"""Games for the tests of pictures: positions of the corpus under the default rules."""

from __future__ import annotations

from functools import cache

import jax
import numpy as np

from tests import corpus
from unojax import cards
from unojax.game import NO_ACTION, State
from unojax.games.record import Trajectory
from unojax.observation import observe

NUMBERS = (0, 2, 3, 10, 14, 1)
"""Games of the corpus of 12 to 150 steps: player 0 wins some, player 1 others, and the last is unfinished."""

jitted_observe = jax.jit(observe)


@cache
def games() -> list[list[State]]:
    """Return the positions of some games, without illegal steps."""
    states = corpus.games("default").states
    rows = [(game, np.unique(states.step_count[game], return_index=True)[1]) for game in NUMBERS]
    return [[jax.tree.map(lambda leaf, i=i, game=game: leaf[game, i], states) for i in steps] for game, steps in rows]


def some_positions() -> list[State]:
    """Return every ninth position of all games, and the last ones."""
    return [state for states in games() for state in [*states[::9], states[-1]]]


def trajectory(states: list[State], *, padding: int = 3) -> Trajectory:
    """Return a game in the form of `record.play_game`: after the end, the last position repeats."""
    actions = [state.last_action for state in states[1:]] + [NO_ACTION] * padding
    rows = states + states[-1:] * padding
    return Trajectory(jax.tree.map(lambda *leaves: np.stack(leaves), *rows), np.array(actions, np.int32))


def with_other_hand(state: State, player: int) -> State:
    """Exchange a player's cards for unseen ones, which nobody else can notice."""
    hands = np.asarray(state.hands).copy()
    held, deck = cards.count_types(hands[player]), cards.count_types(state.deck)
    unseen = np.repeat(np.arange(cards.NUM_TYPES), held + deck)
    other = np.bincount(np.roll(unseen, 7)[: held.sum()], minlength=cards.NUM_TYPES)
    hands[player] = cards.onehot_of(other)
    return state.replace(hands=hands, deck=cards.onehot_of(held + deck - other))

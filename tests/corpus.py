"""Random games that many tests read: five rule sets, 100 games each, as NumPy arrays. They are made once in a process.

`tests/test_game_against_oracle.py` compares every state and legal mask of them with the plain-Python oracle. A test that needs
games, positions or views takes them from here instead of playing its own, which costs a compilation for each rule set and shape.
"""

from __future__ import annotations

import functools
from typing import Final

import jax
import numpy as np

from tests.helpers import NUM_GAMES, Played, play
from unojax.decks import small_deck
from unojax.observation import Observation, observe
from unojax.rules import Rules

RULES: Final = {
    "default": Rules(),
    "official": Rules.official(),
    "house": Rules.house(),
    "rlcard": Rules.rlcard(),
    "few cards": Rules.official(
        stacking=True,
        first_player="random",
        deck=small_deck(colors=2, ranks=(0, 1, 2, 10, 11, 12), wilds=2),
        hand_size=3,
    ),
}
"""The rule sets. "few cards" has a small deck, in which penalties add up and the draw pile is soon empty."""

NUM_STEPS: Final = 160
"""Steps of each game. Most games end before; further steps change nothing."""


@functools.cache
def games(name: str) -> Played:
    """Return the games of a rule set, with one illegal action in about thirty: states [100, 161, ...], masks [100, 161, A],
    actions [100, 160], on the host."""
    return play(0, num_games=NUM_GAMES, num_steps=NUM_STEPS, rules=RULES[name])


@functools.cache
def views(name: str, seat: int) -> Observation:
    """Return what a seat observes in the games of a rule set: fields [100, 161, ...], on the host."""
    return jax.device_get(_observe_all(games(name).states, seat))


_observe_all = jax.jit(jax.vmap(jax.vmap(observe, (0, None)), (0, None)))


def positions(name: str, number: int, *, seed: int = 0) -> list[tuple[int, int]]:
    """Draw random positions in which the game goes on: pairs of a game and a step, without repetition."""
    states = games(name).states
    running = np.argwhere(~(states.terminated | states.truncated)[:, :-1])
    chosen = np.random.default_rng(seed).choice(len(running), number, replace=False)
    return [(int(game), int(step)) for game, step in running[chosen]]

"""Random games for many tests: seven rule sets, 100 games each, NumPy, played once in a process.

`tests/test_game_against_oracle.py` compares every state and legal mask with the plain-Python oracle, so other tests may rely on
them. Take games, positions and views from here, because own ones cost a compilation for each rule set and shape:

    played = corpus.games("default")                  # states [100, 161, ...], masks [100, 161, 61], actions [100, 160]
    seen = corpus.views("default", 0)                 # what player 0 observes of these states, [100, 161, ...]
    states = corpus.at(played.states, corpus.moments("default")[::50])    # every fiftieth position, [N, ...]
"""

from __future__ import annotations

import functools
from typing import Final, TypeVar

import jax
import numpy as np

from tests.helpers import NUM_GAMES, Played, play
from unojax.decks import small_deck
from unojax.games.replay import Replay, Step
from unojax.observation import Observation, observe
from unojax.rules import Rules

Tree = TypeVar("Tree")

_FEW: Final = {"deck": small_deck(colors=2, ranks=(0, 1, 2, 10, 11, 12), wilds=2), "hand_size": 3}

RULES: Final = {
    "default": Rules(),
    "official": Rules.official(),
    "house": Rules.house(),
    "rlcard": Rules.rlcard(),
    "rlcard, few cards": Rules.rlcard(**_FEW),
    "few cards": Rules.official(stacking=True, first_player="random", **_FEW),
    "limited": Rules(skip_forfeits=False, start_card="any", first_player="random", max_steps=40, step_penalty=0.125, **_FEW),
}
"""The rule sets. Decks of few cards are soon empty. Penalties of "few cards" add up; "limited" has the turns of the default
rules, and another value in each other field of them."""

NUM_STEPS: Final = 160
"""Steps of each game. Most games end before; further steps change nothing."""


@functools.cache
def games(name: str) -> Played:
    """Return the games of a rule set, with one illegal action in about thirty."""
    return play(0, num_games=NUM_GAMES, num_steps=NUM_STEPS, rules=RULES[name])


@functools.cache
def views(name: str, seat: int) -> Observation:
    """Return a seat's observations of the games of a rule set, [100, 161, ...]."""
    return jax.device_get(_observe_all(games(name).states, seat))


_observe_all = jax.jit(jax.vmap(jax.vmap(observe, (0, None)), (0, None)))


@functools.cache
def moments(name: str) -> np.ndarray:
    """Return all positions of the games up to their ends, game and step, int[N, 2]."""
    states = games(name).states
    is_over = states.terminated | states.truncated
    return np.argwhere(np.cumsum(is_over, axis=1) <= 1)


def endings(name: str) -> np.ndarray:
    """Return the positions among `moments` at which a game has ended, int[N, 2]."""
    states = games(name).states
    return np.array([place for place in moments(name) if (states.terminated | states.truncated)[*place]])


def positions(name: str, number: int, *, seed: int = 0) -> list[tuple[int, int]]:
    """Draw random positions of unfinished games, pairs of game and step, without repetition."""
    states = games(name).states
    running = np.argwhere(~(states.terminated | states.truncated)[:, :-1])
    chosen = np.random.default_rng(seed).choice(len(running), number, replace=False)
    return [(int(game), int(step)) for game, step in running[chosen]]


def at(rows: Tree, places: np.ndarray | tuple[int, int]) -> Tree:
    """Return the rows of arrays [100, 161, ...] at one place (game, step), or at places int[N, 2]."""
    game, step = np.moveaxis(np.asarray(places), -1, 0)
    return jax.tree.map(lambda x: x[game, step], rows)


def replay(name: str, game: int, num_steps: int = NUM_STEPS) -> Replay:
    """Return a game, or its first steps, without the illegal actions."""
    played = games(name)
    states = played.states.replace(error=np.zeros_like(played.states.error))
    legal = np.flatnonzero(np.diff(states.step_count[game]))[:num_steps]
    steps = tuple(Step(int(played.actions[game, t]), at(states, (game, t)), at(states, (game, t + 1))) for t in legal)
    return Replay(at(states, (game, 0)), steps)

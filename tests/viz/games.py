"""Random games of the oracle, for all tests of pictures: nothing has to be compiled for them."""

from __future__ import annotations

from collections import Counter
from functools import cache

import jax
import numpy as np

from tests.oracle import game as oracle
from tests.oracle.positions import from_oracle
from unojax import cards
from unojax.game import NO_ACTION, State
from unojax.games.record import Trajectory
from unojax.observation import observe
from unojax.rules import Rules

MAX_STEPS = 150
_SEEDS = (0, 37, 10, 26, 5, 6)
"""Games of 11 to 150 steps; player 0 wins some, player 1 others, one is not over after `MAX_STEPS`."""


seen_by = jax.jit(lambda state: (observe(state, 0), observe(state, 1)))
"""Observations of both players."""


@cache
def trajectories() -> list[Trajectory]:
    """Some games; most are over."""
    return [_play(np.random.default_rng(seed)) for seed in _SEEDS]


def positions(game: Trajectory) -> list[State]:
    """Its positions, without the repeated last one."""
    num_steps = int((game.actions != NO_ACTION).sum())
    return [jax.tree.map(lambda leaf, i=i: leaf[i], game.states) for i in range(num_steps + 1)]


def with_other_hand(state: State, player: int) -> State:
    """The same to everyone but `player`, whose cards change places with as many of the deck."""
    hands = np.asarray(state.hands).copy()
    held, deck = cards.count_types(hands[player]), cards.count_types(state.deck)
    unseen = np.repeat(np.arange(cards.NUM_TYPES), held + deck)
    other = np.bincount(np.roll(unseen, 7)[: held.sum()], minlength=cards.NUM_TYPES)
    hands[player] = cards.onehot_of(other)
    return state.replace(hands=hands, deck=cards.onehot_of(held + deck - other))


def _play(random: np.random.Generator) -> Trajectory:
    variant = oracle.Variant()
    deck = variant.deck.copy()
    hands = [_draw(random, deck, variant.hand_size) for _ in range(2)]
    (top,) = _draw(random, deck - Counter(dict.fromkeys(oracle.WILDS, 4)), 1)
    game = oracle.Game.deal(variant, hands, top, top[0], 0)
    states, actions = [from_oracle(game, Rules())], []
    while not game.is_over and len(actions) < MAX_STEPS:
        actions.append(int(random.choice(sorted(game.legal_actions()))))
        due = game.penalty or 1
        left = game.deck if game.deck.total() >= due else game.deck + game.pile - Counter([game.top])
        drawn = _draw(random, left.copy(), due) if actions[-1] == oracle.DRAW and left.total() >= due else Counter()
        game.step(actions[-1], drawn)
        states.append(from_oracle(game, Rules()))
    # After the end a trajectory repeats its last position.
    padding = MAX_STEPS - len(actions)
    rows = states + states[-1:] * padding
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
    return Trajectory(stacked, np.array(actions + [NO_ACTION] * padding, np.int32))


def _draw(random: np.random.Generator, deck: Counter[str], num: int) -> Counter[str]:
    """Take cards out of a deck."""
    drawn = Counter(random.permutation(sorted(deck.elements()))[:num].tolist())
    deck -= drawn
    return drawn

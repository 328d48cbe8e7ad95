"""States of random games to write and read, and cards by name."""

from __future__ import annotations

import functools

import jax
import numpy as np

from tests.helpers import play
from unojax import cards, observation
from unojax.decks import small_deck
from unojax.game import State
from unojax.rules import Rules

TINY = Rules(deck=small_deck(colors=2, ranks=(1, 12), copies=1, wilds=1), hand_size=1, start_card="any")
RULES = {
    "default": Rules(),
    "truncated": Rules(start_card="any", first_player="random", max_steps=40, step_penalty=0.1),
    "stacking": Rules(stacking=True, may_draw=True, deck=small_deck(colors=2, ranks=(1, 12), wilds=2), hand_size=3),
    "draws until laid": Rules(
        play_drawn="auto", draw_until_playable=True, deck=small_deck(colors=3, ranks=(1, 2, 12)), hand_size=4
    ),
    "draws without end": Rules(deck=small_deck(colors=3, ranks=(1, 12), wilds=2), hand_size=4, start_card="any"),
}
# The sizes of other modules, so that they share the compiled programs.
NUM_STEPS = {"default": 320, "truncated": 45}
NUM_LINES = 120


@functools.cache
def some_states(name: str) -> State:
    """States of random games, and all the kinds of endings: fields [NUM_LINES, ...]."""
    states = play(0, num_steps=NUM_STEPS.get(name, 160), rules=RULES[name]).states
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), states)
    flat = flat.replace(error=np.zeros_like(flat.error))
    over = flat.terminated | flat.truncated
    # A game fills up with copies of its last state; take the first, and as many unfinished ones.
    ends = np.flatnonzero(over & ~np.roll(over, 1))
    # Some with a penalty pending among them.
    ends = np.concatenate([ends[flat.penalty[ends] > 0][: NUM_LINES // 6], ends])[: NUM_LINES // 3]
    others = np.random.default_rng(0).choice(np.flatnonzero(~over), NUM_LINES - len(ends))
    return jax.tree.map(lambda x: x[np.concatenate([ends, others])], flat)


observe = jax.jit(observation.observe)


def one(states: State, index: int) -> State:
    return jax.tree.map(lambda x: x[index], states)


def slots(*names: str) -> set[tuple[str, int]]:
    """Card names to (name, copy) pairs: what a canonical one-hot of these cards must show."""
    return {(name, names[:i].count(name)) for i, name in enumerate(names)}


def shown(onehot: np.ndarray) -> set[tuple[str, int]]:
    return {(cards.TYPE_NAMES[cards.TYPE_OF_SLOT[s]], int(cards.COPY_OF_SLOT[s])) for s in np.flatnonzero(onehot)}

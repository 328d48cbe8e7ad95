"""Engine games beside those of an adapter, with the same keys and actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import corpus
from tests.helpers import deck_of, jitted_mask, jitted_step, slow_but
from unojax import game
from unojax.adapters.seats import game_key
from unojax.game import State
from unojax.rules import Rules

SMALL = Rules(deck=deck_of("R1 R1 R2 Y1 Y2 Y2 RS Y+2 W W+4"), hand_size=2, max_steps=20, step_penalty=0.01)
RULES = corpus.RULES | {
    "a step penalty": SMALL,
    "any start card": Rules(skip_forfeits=False, start_card="any", first_player="random", hand_size=3),
}
every_rules = pytest.mark.parametrize("name", slow_but(("default", "few cards"), RULES))
some_rules = pytest.mark.parametrize("name", slow_but(("few cards",), ("few cards", "default", "a step penalty", "rlcard")))
"""For adapters by `unojax.adapters.seats`, which pgx's test takes through all rules."""

jitted_init = jax.jit(game.init, static_argnames="rules")


def play_beside(
    begin: Callable[[jax.Array], Any], play: Callable[[Any, jax.Array, jax.Array], Any], rules: Rules, *, any_number: int = 0
) -> tuple[State, Any]:
    """Play 64 games of 60 random steps: `begin(key)` and `play(theirs, action, key)` beside `init` and `step`.

    With `any_number`, one action in thirty is a number below it, legal or not. Returns the engine's and the adapter's states
    after each step, NumPy, [64, 60, ...].
    """

    def one_step(carry, key):
        ours, theirs = carry
        key_legal, key_any, key_which, key_step = jax.random.split(key, 4)
        action = jax.random.categorical(key_legal, jnp.where(game.legal_mask(ours), 0.0, -jnp.inf))
        if any_number:
            anything = jax.random.randint(key_any, (), 0, any_number)
            action = jnp.where(jax.random.bernoulli(key_which, 1 / 30), anything, action)
        after = game.step(ours, action, key_step), play(theirs, action, key_step)
        return after, after

    @jax.jit
    def play_all(key):
        keys = jax.random.split(key, 64)
        key_init, key_steps = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        start = jax.vmap(lambda key: (game.init(key, rules=rules), begin(key)))(key_init)
        # Batched inside the loop: a loop that is batched as a whole is traced again and again.
        of_steps = jax.vmap(lambda key: jax.random.split(key, 60), out_axes=1)(key_steps)
        played = jax.lax.scan(jax.vmap(one_step), start, of_steps)[1]
        return jax.tree.map(lambda rows: jnp.moveaxis(rows, 1, 0), played)

    return jax.device_get(play_all(jax.random.key(0)))


class Position(NamedTuple):
    """Number of a game, state, sum of its rewards, legal actions, and the action played (None: over)."""

    number: int
    state: State
    total: np.ndarray
    legal: list[int]
    action: int | None


def engine_positions(rules: Rules, *, seed: int, num_steps: int = 200) -> Iterator[Position]:
    """Yield the positions of random engine games with the keys of a `HostGame`, for `num_steps` or more steps."""
    rng, number, steps = np.random.default_rng(0), 0, 0
    while steps < num_steps:
        key = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), number)
        state, total = jax.device_get(jitted_init(game_key(key, 0), rules=rules)), np.zeros(2)
        while not state.is_over:
            legal = np.flatnonzero(jitted_mask(state)).tolist()
            action = int(rng.choice(legal))
            yield Position(number, state, total, legal, action)
            state = jax.device_get(jitted_step(state, np.int32(action), game_key(key, 1 + state.step_count)))
            total, steps = total + state.rewards, steps + 1
        yield Position(number, state, total, [], None)
        number += 1

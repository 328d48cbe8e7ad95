"""What the tests of all adapters share: the rules to play under, and games of an adapter's beside the engine's own, with the same
keys and actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal, deck_of, jitted_mask, jitted_step
from tests.test_game_against_oracle import MORE_VARIANTS, VARIANTS
from unojax import game
from unojax.adapters.seats import game_key
from unojax.game import State
from unojax.rules import Rules

SMALL = Rules(deck=deck_of("R1 R1 R2 Y1 Y2 Y2 RS Y+2 W W+4"), hand_size=2, max_steps=20, step_penalty=0.01)
_ALWAYS = {
    "default": Rules(),
    "official, few cards": VARIANTS["official, few cards, penalties add up"],
}
"""Rules that are played under in every run; others, those of the engine's own tests among them, are marked slow."""
_OTHERS = {
    "a few cards": SMALL,
    "any start card": Rules(skip_forfeits=False, start_card="any", first_player="random", hand_size=3),
    **VARIANTS,
    **MORE_VARIANTS,
}
_always = [pytest.param(rules, id=name) for name, rules in _ALWAYS.items()]
_others = {name: pytest.param(rules, id=name, marks=pytest.mark.slow) for name, rules in _OTHERS.items()}
EVERY_RULES = [*_always, *_others.values()]
SOME_RULES = [*_always, _others["rlcard, few cards"]]
"""For what has every rule in another test: adapters that share `unojax.adapters.seats`, a second test of the same adapter."""

jitted_init = jax.jit(game.init, static_argnames="rules")


def on_the_device(
    begin: Callable[[jax.Array], Any], play: Callable[[Any, jax.Array, jax.Array], Any], rules: Rules, *, any_number: int = 0
) -> tuple[State, Any]:
    """Play 64 games of 60 random steps: `begin(key)` and `play(theirs, action, key)` beside `init` and `step`.

    With `any_number` one action in thirty is a number below it, legal or not. Returns the engine's states and the adapter's after
    each step, NumPy, [64, 60, ...].
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
    def play_all(keys):
        key_init, key_steps = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        start = jax.vmap(lambda key: (game.init(key, rules=rules), begin(key)))(key_init)
        # Batched inside the loop: one that is batched as a whole is traced again and again.
        of_steps = jax.vmap(lambda key: jax.random.split(key, 60), out_axes=1)(key_steps)
        played = jax.lax.scan(jax.vmap(one_step), start, of_steps)[1]
        return jax.tree.map(lambda rows: jnp.moveaxis(rows, 1, 0), played)

    return jax.device_get(play_all(jax.random.split(jax.random.key(0), 64)))


def on_the_host(
    rules: Rules,
    *,
    seed: int,
    begin: Callable[[int], None],
    legal: Callable[[], list[int]],
    play: Callable[[int], None],
    state: Callable[[], State],
    check: Callable[[State, np.ndarray], None],
    num_steps: int = 200,
) -> None:
    """Play whole games of a seed of a `HostGame`'s, so many steps or more: after each step the adapter's state is the engine's.

    Args:
        rules, seed: of the games.
        begin: begins the game of this number.
        legal: lists the legal actions that the adapter gives its player to move, as ours.
        play: plays one.
        state: gives the adapter's state.
        check: looks at what else the adapter shows, beside the engine's state and the sum of all rewards so far.
    """
    rng, number, steps = np.random.default_rng(0), 0, 0
    while steps < num_steps:
        key = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), number)
        ours, total = jax.device_get(jitted_init(game_key(key, 0), rules=rules)), np.zeros(2)
        begin(number)
        number += 1
        check(ours, total)
        while not ours.is_over:
            assert legal() == np.flatnonzero(jitted_mask(ours)).tolist()
            action = int(rng.choice(legal()))
            ours = jax.device_get(jitted_step(ours, np.int32(action), game_key(key, 1 + ours.step_count)))
            play(action)
            assert_trees_equal(ours, state())
            total += ours.rewards
            check(ours, total)
            steps += 1

"""Whole games with every intermediate position, on the device: `play_game`."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from unojax import game
from unojax.decks import is_int
from unojax.device import control
from unojax.device.random_bits import check_key
from unojax.device.tracing import traced_once
from unojax.game import State
from unojax.observation import observe
from unojax.policies import Policy, as_policies, ask, distinct, uniform
from unojax.rules import Rules


class Trajectory(NamedTuple):
    """One game of at most T steps.

    Attributes:
        states: `State` [T + 1]: the start and the position after each step, the last one repeated after the end.
        actions: int32[T], -1 after the end.
    """

    states: State
    actions: Array


def play_game(
    key: Array, policies: tuple[str | Policy, str | Policy] = (uniform, uniform), *, num_steps: int, rules: Rules = Rules()
) -> Trajectory:
    """Play one game of two policies and keep every position. Pure, unbatched, jit-able.

    Args:
        key: Random key, consumed.
        policies: Names or policies of player 0 and player 1.
        num_steps: T, static. The game may be unfinished after T steps.
        rules: Rules of the game, static.

    Raises:
        ValueError: If `key` is a batch, `policies` are not two policies, or `num_steps` is invalid.
    """
    check_key(key, "play_game")
    if not (is_int(num_steps) and num_steps >= 0):
        raise ValueError(f"num_steps must be an integer of at least 0, got {num_steps!r}")
    return _play(key, policies=distinct(as_policies(policies)), num_steps=num_steps, rules=rules)


@partial(traced_once, static=("policies", "num_steps", "rules"))
def _play(key: Array, *, policies: tuple[Policy, ...], num_steps: int, rules: Rules) -> Trajectory:
    key_start, key_steps = jax.random.split(key)
    start = game.init(key_start, rules=rules)

    def one_step(state: State, key: Array) -> tuple[State, tuple[State, Array]]:
        # Cloned, because `jax_debug_key_reuse` mistakes the way a scan under `vmap` passes keys on for a use.
        key_policy, key_draw = jax.random.split(jax.random.clone(key))
        observation = observe(state, state.current_player)
        legal = game.legal_mask(state)
        action = ask(policies, key_policy, observation, legal)
        after = game.step(state, action, key_draw)
        return after, (after, jnp.where(state.is_over, game.NO_ACTION, action))

    _, (states, actions) = control.scan(one_step, start, jax.random.split(key_steps, num_steps))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)
    return Trajectory(states, actions)

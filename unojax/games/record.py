"""Whole games with every position in between, for analysis: `play_game`."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from unojax import game
from unojax.game import State
from unojax.observation import observe
from unojax.policies import Policy, distinct, uniform
from unojax.rules import Rules


class Trajectory(NamedTuple):
    """One game of at most T steps.

    Attributes:
        states: `State` with a leading axis T + 1: the start, and the position after each step. After the end it repeats the
            last one.
        actions: int32[T] the action of each step; -1 after the end.
    """

    states: State
    actions: Array


def play_game(
    key: Array,
    policies: tuple[Policy, Policy] = (uniform, uniform),
    *,
    num_steps: int,
    rules: Rules = Rules(),
) -> Trajectory:
    """Play one game and keep every position. Pure; batch it with `vmap`.

    Args:
        key: consumed.
        policies: player p follows `policies[p]`, called through the protocol.
        num_steps: T, static. The game may be unfinished after that many.
        rules: static.
    """
    key_start, key_steps = jax.random.split(key)
    start = game.init(key_start, rules=rules)

    def one_step(state: State, key: Array) -> tuple[State, tuple[State, Array]]:
        key_policy, key_draw = jax.random.split(key)
        observation = observe(state, state.current_player, rules=rules)
        legal = game.legal_mask(state, rules=rules)
        actions = [policy(key_policy, observation, legal) for policy in distinct(policies)]
        action = jnp.where(state.current_player == 0, actions[0], actions[-1]).astype(jnp.int32)
        after = game.step(state, action, key_draw, rules=rules)
        return after, (after, jnp.where(state.is_over, game.NO_ACTION, action))

    _, (states, actions) = lax.scan(one_step, start, jax.random.split(key_steps, num_steps))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)
    return Trajectory(states, actions)

"""JAX's stricter modes: nothing relies on implicit promotion, on 32-bit defaults, or on a random key used twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.experimental.key_reuse._core import check_key_reuse_jaxpr

from tests.helpers import assert_trees_equal
from unojax import cards, game, pomdp
from unojax.arena import Pairs, play_match
from unojax.game import State
from unojax.games.record import play_game
from unojax.observation import Observation, observe
from unojax.policies import POLICIES
from unojax.rules import Rules
from unojax.simulation import Games, simulate
from unojax.text import make_state
from unojax.view import view_of

LIMITED = Rules(max_steps=40, start_card="any", first_player="random", step_penalty=0.5)


def lowest(key: jax.Array, observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """A policy by protocol."""
    del key, observation
    return legal_mask.argmax()


def all_of(observation: Observation) -> tuple[Any, ...]:
    """Everything that an observation and a view work out."""
    view = view_of(observation)
    return (
        (observation.unseen, observation.hand_count, observation.top_type, observation.is_my_turn, observation.legal_mask),
        (view.unseen(), view.playable_types()),
    )


def two_of(rules: str) -> tuple[State, int, State]:
    """A state under rules of a name, an action, and what it might lead to."""
    state = make_state("R5 W W+4 R+2", "G1 B2", "R7", rules=rules)
    return state, cards.DRAW, state


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Functions with arguments for them, a fresh key for each."""
    state = make_state("R5 W W+4 R+2", "G1 B2", "R7", rules=LIMITED)
    states = jax.tree.map(lambda x: jnp.stack([x, x]), state)
    seen = jax.jit(observe)(state, 0)
    mask = jnp.ones(cards.NUM_ACTIONS, bool)
    keys = iter([jax.random.key(seed) for seed in range(20)])
    counts = np.zeros((2, cards.NUM_TYPES), np.int8)
    return {
        "init": (partial(game.init, rules=LIMITED), (next(keys),)),
        "legal_mask": (game.legal_mask, (state,)),
        "step": (game.step, (state, 60, next(keys))),
        "step_checked": (checkify.checkify(game.step_checked), (state, jnp.int8(5), next(keys))),
        "batched step": (jax.vmap(game.step, (0, None, None)), (states, 60, next(keys))),
        "observe": (observe, (state, jnp.int32(1))),
        "observation": (all_of, (seen,)),
        "batched view": (jax.vmap(all_of), (jax.tree.map(lambda x: jnp.stack([x, x]), seen),)),
        "cards": (lambda c: cards.counts(cards.onehot(c)), (counts,)),
        "transition_log_prob": (pomdp.transition_log_prob, (state, 5, state)),
        "observation_log_prob": (pomdp.observation_log_prob, (seen, state)),
        **{f"transition_log_prob, {other}": (pomdp.transition_log_prob, (*two_of(other),)) for other in ("official", "rlcard")},
        "reward": (pomdp.reward, (state, 5, state)),
        **{name: (POLICIES[name], (next(keys), seen, mask)) for name in ("uniform", "guard", "lookahead", "linear")},
        **{f"{name} probs": (POLICIES[name].action_probs, (seen, mask)) for name in ("uniform", "lookahead", "linear")},
        "play_game": (partial(play_game, policies=("linear", lowest), num_steps=3, rules=LIMITED), (next(keys),)),
        "batched play_game": (
            jax.vmap(partial(play_game, policies=("lookahead", "scarcest-color"), num_steps=3)),
            (jax.random.split(next(keys), 2),),
        ),
    }


def some_games() -> Games:
    """Games by packed policies."""
    return simulate(jax.random.key(0), 16, ("linear", "lookahead"), batch_size=16)


def some_games_by_protocol() -> Games:
    return simulate(jax.random.key(0), 16, (lowest, POLICIES["uniform"]), rules=LIMITED, batch_size=16)


def some_pairs() -> Pairs:
    return play_match(jax.random.key(0), ("linear", "uniform"), 8, batch_size=16, workers=1)


def test_nothing_is_promoted_implicitly_and_no_key_is_used_twice():
    """Types and ranks are checked when a program is traced; keys before it runs, which takes no compiling here."""
    prepared = programs()
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        for function, arguments in prepared.values():
            check_key_reuse_jaxpr(jax.jit(function).trace(*arguments).jaxpr.jaxpr)


@pytest.mark.slow
def test_whole_games_in_the_three_modes_at_once():
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        some_games()
        some_games_by_protocol()
        some_pairs()


@pytest.mark.slow
@pytest.mark.parametrize("play", [some_pairs, some_games])
def test_64_bit_mode_changes_no_result(play: Callable[[], Games | Pairs]):
    expected = play()
    with jax.enable_x64(True):
        played = play()
    for field in fields(expected):
        if field.name != "seconds":
            np.testing.assert_array_equal(getattr(played, field.name), getattr(expected, field.name), err_msg=field.name)


@pytest.mark.slow
def test_64_bit_mode_changes_no_position():
    function, arguments = programs()["play_game"]
    expected = jax.device_get(jax.jit(function)(*arguments))
    with jax.enable_x64(True):
        assert_trees_equal(jax.device_get(jax.jit(function)(*arguments)), expected)

"""JAX's stricter modes: no implicit promotion, no 32-bit defaults, no random key used twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import checkify
from jax.experimental.key_reuse._core import check_key_reuse_jaxpr

from tests.helpers import assert_trees_equal
from unojax import cards, game, pomdp
from unojax.arena import Pairs, play_match
from unojax.games.record import play_game
from unojax.observation import Observation, observe
from unojax.policies import POLICIES
from unojax.rules import Rules
from unojax.simulation import Games, simulate
from unojax.text import make_state
from unojax.view import view_of

PROGRAMS = 100  # Whole games, with and without 64-bit mode.

LIMITED = Rules(max_steps=40, start_card="any", first_player="random", step_penalty=0.5)


def lowest(key: jax.Array, observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """A policy by protocol."""
    del key, observation
    return legal_mask.argmax()


def computed(observation: Observation) -> tuple[Any, ...]:
    """Return all properties of an observation and of its view."""
    view = view_of(observation)
    of_observation = observation.unseen, observation.hand_count, observation.top_type, observation.is_my_turn
    return of_observation, observation.legal_mask, view.unseen(), view.playable_types()


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return functions with arguments, a fresh key for each."""
    state = make_state("R5 W W+4 R+2", "G1 B2", "R7", rules=LIMITED)
    variants = {name: make_state("R5 W W+4 R+2", "G1 B2", "R7", rules=name) for name in ("official", "rlcard")}
    seen, mask = jax.jit(observe)(state, 0), np.ones(cards.NUM_ACTIONS, bool)
    keys = iter([jax.random.key(seed) for seed in range(20)])

    def batch(tree: Any) -> Any:
        return jax.tree.map(lambda x: np.stack([x, x]), tree)

    return {
        "init": (partial(game.init, rules=LIMITED), (next(keys),)),
        "legal_mask": (game.legal_mask, (state,)),
        "step": (game.step, (state, 60, next(keys))),
        "step_checked": (checkify.checkify(game.step_checked), (state, np.int8(5), next(keys))),
        "batched step": (jax.vmap(game.step, (0, None, None)), (batch(state), 60, next(keys))),
        "observe": (observe, (state, np.int32(1))),
        "observation": (computed, (seen,)),
        "batched view": (jax.vmap(computed), (batch(seen),)),
        "cards": (lambda c: cards.counts(cards.onehot(c)), (np.zeros((2, cards.NUM_TYPES), np.int8),)),
        "transition_log_prob": (pomdp.transition_log_prob, (state, 5, state)),
        "observation_log_prob": (pomdp.observation_log_prob, (seen, state)),
        **{f"T, {name}": (pomdp.transition_log_prob, (other, cards.DRAW, other)) for name, other in variants.items()},
        "reward": (pomdp.reward, (state, 5, state)),
        **{name: (POLICIES[name], (next(keys), seen, mask)) for name in ("uniform", "guard", "lookahead", "linear")},
        **{f"{name} probs": (POLICIES[name].action_probs, (seen, mask)) for name in ("uniform", "lookahead", "linear")},
        "play_game": (partial(play_game, policies=("linear", lowest), num_steps=3, rules=LIMITED), (next(keys),)),
        "batched play_game": (
            jax.vmap(partial(play_game, policies=("lookahead", "scarcest-color"), num_steps=3)),
            (jax.random.split(next(keys), 2),),
        ),
    }


def test_nothing_is_promoted_implicitly_and_no_key_is_used_twice():
    """Tracing checks types and ranks, and keys without compilation."""
    prepared = programs()
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        for function, arguments in prepared.values():
            check_key_reuse_jaxpr(jax.jit(function).trace(*arguments).jaxpr.jaxpr)


def some_games() -> Games:
    """Return games of packed policies."""
    return simulate(jax.random.key(0), 16, ("linear", "lookahead"), batch_size=16)


def some_pairs() -> Pairs:
    return play_match(jax.random.key(0), ("linear", "uniform"), 8, batch_size=16, workers=1)


@pytest.mark.slow
def test_whole_games_in_the_three_modes_at_once_and_in_64_bit_mode():
    """64-bit mode changes no result and no position."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        expected = some_games(), some_pairs()
        simulate(jax.random.key(0), 16, (lowest, POLICIES["uniform"]), rules=LIMITED, batch_size=16)
    function, arguments = programs()["play_game"]
    positions = jax.device_get(jax.jit(function)(*arguments))
    with jax.enable_x64(True):
        played = some_games(), some_pairs()
        assert_trees_equal(jax.device_get(jax.jit(function)(*arguments)), positions)
    for before, after in zip(expected, played, strict=True):
        for field in fields(before):
            if field.name != "seconds":
                np.testing.assert_array_equal(getattr(after, field.name), getattr(before, field.name), err_msg=field.name)

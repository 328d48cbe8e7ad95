"""A second call of a public function outside `jit` compiles nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unojax
from tests.conftest import programs_built
from tests.helpers import slow_but
from unojax.adapters.encoding import Encoder
from unojax.adapters.seats import deal
from unojax.belief import bootstrap, updaters
from unojax.rules import Rules

PROGRAMS = 250  # Operations outside `jit` are the subject.

KEY = jax.random.key(0)


@cache
def step_seen() -> tuple[Any, ...]:
    """Return a state, an action and the next state, and player 0's observations of both."""
    state = unojax.init(KEY)
    action = jnp.int32(np.asarray(unojax.legal_mask(state)).argmax())
    after = unojax.step(state, action, KEY)
    return state, action, after, unojax.observe(state, 0), unojax.observe(after, 0)


def play_game() -> Any:
    return unojax.play_game(KEY, ("linear", "uniform"), num_steps=3)


def core() -> Any:
    state, action, after, before, seen = step_seen()
    mask = unojax.legal_mask(state)
    of_states = unojax.transition_log_prob(state, action, after), unojax.reward(state, action, after)
    return (
        of_states,
        unojax.uniform(KEY, before, mask),
        unojax.infer_action(before, seen),
        unojax.observation_log_prob(before, state),
    )


def bootstrapped() -> Any:
    _, action, _, before, after = step_seen()
    belief = bootstrap.bootstrap_init(before, KEY, num_particles=8)
    return bootstrap.bootstrap_update(belief, before, action, after, KEY)


def particles() -> Any:
    _, action, _, before, after = step_seen()
    belief = unojax.belief_init(before, KEY, num_particles=8)
    return unojax.belief_update(belief, before, action, after, KEY)


def batches_of_particles() -> Any:
    _, action, _, before, after = step_seen()
    belief = unojax.belief_init(before, KEY, num_particles=8)
    update = jax.vmap(lambda key: unojax.belief_update(belief, before, action, after, key)[1])
    return update(jax.random.split(KEY, 2))


def closed_forms() -> Any:
    _, action, _, before, after = step_seen()
    every = [updaters.ColorBoundsFilter(), updaters.UniformFilter(), updaters.ClosedFormFilter()]
    return [each.update(KEY, each.init(KEY, before), before, action, after) for each in every]


def decide(spec: str) -> Any:
    state, *_, before, _ = step_seen()
    agent = unojax.parse_agent(spec)
    return agent.act(KEY, agent.init(KEY, before), before, unojax.legal_mask(state))


def search() -> Any:
    return decide("mc:belief=unseen,particles=4,rollouts=8")


def network() -> Any:
    return decide("value:belief=unseen")


def seats() -> Any:
    return deal(KEY, encoder=Encoder(rules=Rules(hand_size=3))).play(jnp.int32(60), KEY).look(0)


QUICK = [core, particles, closed_forms, network]


@pytest.mark.parametrize("call", slow_but(QUICK, [*QUICK, play_game, seats, bootstrapped, batches_of_particles, search]))
def test_the_second_call_compiles_nothing(call: Callable[[], Any]):
    call()
    before = programs_built()
    jax.block_until_ready(jax.tree.leaves(call()))
    assert programs_built() == before

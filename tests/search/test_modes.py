"""Searches and networks as agents in JAX's strict modes: no implicit promotion, no 32-bit defaults, no key used twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.key_reuse._core import check_key_reuse_jaxpr

from tests.helpers import slow_but
from unojax import game, make_state
from unojax.agents import Agent, reveal
from unojax.arena import play_match
from unojax.decks import small_deck
from unojax.game import State
from unojax.observation import observe
from unojax.rules import Rules
from unojax.specs import parse_agent

RULES = Rules(deck=small_deck(colors=2, ranks=(0, 1, 2), wilds=0), hand_size=2)
STATE = make_state("R0 R1", "Y2 Y1", "R2", rules=RULES)
SPECS = (
    "mc:rollouts=32,stop=1,belief=unseen,particles=4,discount=0.9",
    "mc:rollouts=4,belief=truth,leaf=pretrained,policy=uniform",
    "mc:rollouts=4,belief=truth,policy=uniform,opponent=lookahead",
    "tree:simulations=32,belief=truth,policy=uniform",
    "value:belief=unseen",
    "value:particles=2",
)


def decide(agent: Agent, keys: jax.Array, state: State) -> jax.Array:
    """Return an agent's first decision, after a step without an event."""

    def one(key: jax.Array) -> jax.Array:
        key_init, key_update, key_act = jax.random.split(key, 3)
        seen = observe(state, 0)
        memory = agent.update(key_update, agent.init(key_init, seen), seen, jnp.int32(-1), seen)
        return agent.act(key_act, reveal(agent, memory, state, 0), seen, game.legal_mask(state))

    return jax.vmap(one)(keys)


@contextmanager
def strict() -> Iterator[None]:
    """Forbid implicit promotion of types or ranks, and the reuse of keys."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        yield


@pytest.mark.parametrize("spec", slow_but([SPECS[1], SPECS[3], SPECS[5]], SPECS))
def test_agents_are_strict(spec: str):
    agent = parse_agent(spec, rules=RULES)
    keys = jax.random.split(jax.random.key(0), 2)
    with strict():
        # Types and ranks are checked by tracing; keys before a program runs, but here without compiling it.
        traced = jax.jit(partial(decide, agent)).trace(keys, STATE)
        check_key_reuse_jaxpr(traced.jaxpr.jaxpr)


@pytest.mark.slow
def test_a_match_of_a_search_is_strict():
    agents = parse_agent("mc:rollouts=2,particles=2,belief=unseen,policy=uniform", rules=RULES), parse_agent("uniform")
    with strict():
        played = play_match(jax.random.key(0), agents, 1, rules=RULES, workers=1)
    assert (played.num_steps > 0).all()


@pytest.mark.slow
@pytest.mark.long
def test_64_bit_mode_changes_no_play():
    spec = "mc:rollouts=32,stop=1,belief=unseen,particles=4,policy=uniform,leaf=pretrained"
    program = partial(decide, parse_agent(spec, rules=RULES))
    keys = jax.random.split(jax.random.key(0), 16)
    expected = np.asarray(jax.jit(program)(keys, STATE))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.jit(program)(keys, STATE), expected)

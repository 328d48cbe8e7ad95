"""The JaxMARL environment: what JaxMARL's own tests look at in theirs, and the engine's states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("jaxmarl", reason="jaxmarl is not installed")

from jaxmarl.environments.multi_agent_env import MultiAgentEnv

from tests.adapters.variants import VARIANTS
from tests.helpers import assert_trees_equal
from unojax import game
from unojax.adapters.jaxmarl import NOTHING, Uno
from unojax.rules import Rules

# JaxMARL's `tests/test_envs_implement_base_api.py` is not in its wheel and has a fixed list of environments; these are its
# checks.


def test_the_base_interface():
    env = Uno()
    assert isinstance(env, MultiAgentEnv) and env.num_agents == len(env.agents) == 2
    assert sorted(agent for agents in env.agent_classes.values() for agent in agents) == env.agents
    assert env.name == "unojax_uno"
    obs, state = env.reset(jax.random.key(0))
    for _ in range(30):
        available = env.get_avail_actions(state)
        for agent in env.agents:
            assert obs[agent].shape == env.observation_space(agent).shape and env.observation_space(agent).contains(obs[agent])
            assert available[agent].shape == (env.action_space(agent).n,) and available[agent].any()
        actions = {agent: env.action_space(agent).sample(jax.random.key(1)) for agent in env.agents}
        obs, state, rewards, dones, _ = env.step(jax.random.key(2), state, actions)
        assert set(rewards) == set(obs) == set(env.agents) and set(dones) == {*env.agents, "__all__"}


@pytest.mark.parametrize("rules", VARIANTS)
def test_games_are_the_engines(rules: Rules):
    """64 games of 40 random steps without resets: the same keys and actions give the engine's states and rewards."""
    env = Uno(rules)

    def one_step(carry, key):
        ours, theirs = carry
        key_action, key_step = jax.random.split(key)
        available = env.get_avail_actions(theirs)
        keys = dict(zip(env.agents, jax.random.split(key_action), strict=True))
        actions = {agent: jax.random.categorical(keys[agent], jnp.where(available[agent], 0.0, -jnp.inf)) for agent in env.agents}
        mover = jnp.where(ours.current_player == 0, actions["agent_0"], actions["agent_1"])
        idle = jnp.where(ours.current_player == 0, actions["agent_1"], actions["agent_0"])
        _, theirs, rewards, dones, _ = env.step_env(key_step, theirs, actions)
        ours = game.step(ours, mover, key_step)
        return (ours, theirs), (ours, theirs, idle, jnp.stack([rewards[a] for a in env.agents]), dones["__all__"])

    def one_game(key):
        key_init, key_steps = jax.random.split(key)
        start = game.init(key_init, rules=rules), env.reset(key_init)[1]
        return jax.lax.scan(one_step, start, jax.random.split(key_steps, 40))[1]

    ours, theirs, idle, rewards, dones = jax.device_get(jax.jit(jax.vmap(one_game))(jax.random.split(jax.random.key(0), 64)))
    assert_trees_equal(ours, theirs.seats.state)
    assert (idle == NOTHING).all() and dones.any()
    np.testing.assert_array_equal(rewards, ours.rewards)
    np.testing.assert_array_equal(dones, ours.is_over)


def test_the_next_game_is_dealt_and_doing_nothing_loses():
    env = Uno()
    _, state = env.reset(jax.random.key(0))
    nothing = dict.fromkeys(env.agents, jnp.int32(NOTHING))
    _, after, rewards, dones, _ = env.step(jax.random.key(1), state, nothing)
    assert dones["__all__"] and rewards == {"agent_0": -1.0, "agent_1": 1.0}
    assert after.step == 0 and not after.done

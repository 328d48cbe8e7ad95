"""The JaxMARL environment: JaxMARL's own checks, and the engine's games."""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("jaxmarl", reason="jaxmarl is not installed")

from jaxmarl.environments.multi_agent_env import MultiAgentEnv
from jaxmarl.wrappers.baselines import LogWrapper

from tests.adapters.engine import RULES, play_beside, some_rules
from tests.helpers import assert_trees_equal
from unojax import game
from unojax.adapters.jaxmarl import Uno

PROGRAMS: Final = 100  # a game of each rule set


def test_the_base_interface():
    """The checks of JaxMARL's `tests/test_envs_implement_base_api.py`, then a lost game and the next one."""
    env = Uno()
    assert isinstance(env, MultiAgentEnv) and env.num_agents == len(env.agents) == 2 and env.name == "unojax_uno"
    assert sorted(agent for agents in env.agent_classes.values() for agent in agents) == env.agents
    obs, state = env.reset(jax.random.key(0))
    for _ in range(30):
        available = env.get_avail_actions(state)
        for agent in env.agents:
            assert obs[agent].shape == env.observation_space(agent).shape and env.observation_space(agent).contains(obs[agent])
            assert available[agent].shape == (env.action_space(agent).n,) and available[agent].any()
        actions = {agent: env.action_space(agent).sample(jax.random.key(1)) for agent in env.agents}
        obs, state, rewards, dones, _ = env.step(jax.random.key(2), state, actions)
        assert set(rewards) == set(obs) == set(env.agents) and set(dones) == {*env.agents, "__all__"}
    _, state = env.reset(jax.random.key(0))
    _, after, rewards, dones, _ = env.step(jax.random.key(1), state, dict.fromkeys(env.agents, np.int32(env.nothing)))
    assert dones["__all__"] and rewards == {"agent_0": -1.0, "agent_1": 1.0}
    assert after.step == 0 and not after.done


@some_rules
def test_games_are_the_engines(name: str):
    """Compare states, masks, rewards and infos without resets."""
    rules = RULES[name]
    env = Uno(rules)

    def play(theirs, action, key):
        state = theirs[0]
        mover = state.seats.state.current_player
        actions = {agent: jnp.where(mover == player, action, env.nothing) for player, agent in enumerate(env.agents)}
        _, state, rewards, dones, info = env.step_env(key, state, actions)
        return state, jnp.stack([rewards[a] for a in env.agents]), dones["__all__"], env.get_avail_actions(state), info

    def begin(key):
        state = env.reset(key)[1]
        info = {"truncated": jnp.zeros(2, bool), "winner": jnp.full(2, game.NO_WINNER, jnp.int8)}
        return state, jnp.zeros(2), jnp.bool_(False), env.get_avail_actions(state), info

    ours, (theirs, rewards, dones, available, info) = play_beside(begin, play, rules)
    assert_trees_equal(ours, theirs.seats.state)
    np.testing.assert_array_equal(rewards, ours.rewards)
    np.testing.assert_array_equal(dones, ours.is_over)
    assert dones.any()
    for field in ("truncated", "winner"):
        np.testing.assert_array_equal(info[field], np.stack([getattr(ours, field)] * 2, -1))
    legal = jax.device_get(jax.jit(jax.vmap(jax.vmap(game.legal_mask)))(ours))
    for player, agent in enumerate(env.agents):
        moves = ours.current_player == player
        np.testing.assert_array_equal(available[agent][moves][:, : env.nothing], legal[moves])
        np.testing.assert_array_equal(available[agent][:, :, env.nothing], ~moves)
        assert not available[agent][~moves][:, : env.nothing].any()


def test_info_fits_the_training_loops_of_jaxmarl():
    """`baselines/IPPO` and `environments/smax/speed.py` need one number for each actor."""
    env, num_envs = Uno(), 3
    wrapped = LogWrapper(env)

    @jax.jit
    def reset_and_step(key):
        keys = jax.random.split(key, num_envs)
        _, state = jax.vmap(wrapped.reset)(keys)
        available = jax.vmap(env.get_avail_actions)(state.env_state)
        return jax.vmap(wrapped.step)(keys, state, {agent: available[agent].argmax(-1) for agent in env.agents})

    *_, dones, info = jax.device_get(reset_and_step(jax.random.key(0)))
    for_actors = jax.tree.map(lambda x: x.reshape(num_envs * env.num_agents), info)
    assert set(for_actors) > {"truncated", "winner"}
    np.testing.assert_array_equal(for_actors["returned_episode"], np.repeat(dones["__all__"], env.num_agents))

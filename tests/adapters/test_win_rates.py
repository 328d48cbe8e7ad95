"""Who wins how often is the same through the adapters as in our own arena and simulations.

Each comparison is of two independent scores, which differ by more than five standard errors once in a million."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax import paired_score, play_match, simulate

pytestmark = pytest.mark.slow


def assert_same_share(wins: float, num: int, share: float, error: float) -> None:
    """Compare `wins` of `num` independent games with a share known to a standard error."""
    own = wins / num
    assert abs(own - share) < 5 * np.hypot(error, np.sqrt(own * (1 - own) / num)), (own, share)


@pytest.fixture(scope="module")
def first_wins() -> tuple[float, float]:
    """The share of the games of random play that player 0 wins, and its standard error."""
    won = simulate(jax.random.key(5), 100_000).winner == 0
    return float(won.mean()), float(won.std() / np.sqrt(len(won)))


@pytest.mark.parametrize(("opponent", "num_envs"), [("linear", 1024), ("value", 64)])
def test_gymnasium(opponent: str, num_envs: int):
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    from unojax.adapters.gymnasium import UnoVectorEnv

    envs, rng = UnoVectorEnv(num_envs, opponent), np.random.default_rng(0)
    observation, _ = envs.reset(seed=0)
    # The first game of each lane: counted to their end, so that short ones are not favoured.
    won, running = 0.0, np.ones(num_envs, bool)
    while running.any():
        mask = observation["action_mask"]
        observation, rewards, terminated, _, _ = envs.step((rng.random(mask.shape) * mask).argmax(1))
        won += (rewards[running & terminated] > 0).sum()
        running &= ~terminated
    score = paired_score(play_match(jax.random.key(1), ("uniform", opponent), num_envs).points)
    assert_same_share(won, num_envs, score.value, score.standard_error)


def test_pgx(first_wins):
    pytest.importorskip("pgx", reason="pgx is not installed")
    from unojax.adapters.pgx import Uno

    env, num = Uno(dtype="int8"), 2048

    @jax.jit
    def play(states, key):
        key_action, key_step = jax.random.split(key)
        actions = jax.random.categorical(key_action, jnp.where(states.legal_action_mask, 0.0, -jnp.inf))
        return jax.vmap(env.step)(states, actions, jax.random.split(key_step, num))

    states = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), num))
    won, step = 0, 0
    while not states.terminated.all():
        states = play(states, jax.random.fold_in(jax.random.key(1), step))
        won, step = won + int((states.rewards[:, 0] > 0).sum()), step + 1
    assert_same_share(won, num, *first_wins)


def test_jaxmarl(first_wins):
    pytest.importorskip("jaxmarl", reason="jaxmarl is not installed")
    from unojax.adapters.jaxmarl import Uno

    env, num = Uno(dtype="int8"), 1024

    @jax.jit
    def play(states, key):
        keys = jax.random.split(key, (3, num))
        available = jax.vmap(env.get_avail_actions)(states)
        choose = jax.vmap(lambda key, mask: jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf)))
        actions = {agent: choose(k, available[agent]) for agent, k in zip(env.agents, keys[1:], strict=True)}
        _, states, rewards, dones, _ = jax.vmap(env.step)(keys[0], states, actions)
        return states, rewards["agent_0"], dones["__all__"]

    states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), num))[1]
    won, running, step = 0.0, np.ones(num, bool), 0
    while running.any():
        states, rewards, over = play(states, jax.random.fold_in(jax.random.key(1), step))
        won += float((np.asarray(rewards)[running & np.asarray(over)] > 0).sum())
        running, step = running & ~np.asarray(over), step + 1
    assert_same_share(won, num, *first_wins)


def test_pettingzoo(first_wins):
    pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")
    from unojax.adapters.pettingzoo import raw_env

    env, rng, won, num = raw_env(), np.random.default_rng(0), 0, 150
    env.reset(seed=0)
    for _ in range(num):
        env.reset()
        while not env.terminations["player_0"]:
            mask = env.observe(env.agent_selection)["action_mask"]
            env.step(int(rng.choice(np.flatnonzero(mask))))
        won += env.rewards["player_0"] > 0
    assert_same_share(won, num, *first_wins)


def test_openspiel(first_wins):
    pytest.importorskip("pyspiel", reason="open_spiel is not installed")
    from open_spiel.python.algorithms import evaluate_bots
    from open_spiel.python.bots.uniform_random import UniformRandomBot

    from unojax.adapters import openspiel

    spiel, rng, num = openspiel.load_game(), np.random.RandomState(0), 100  # what OpenSpiel takes
    bots = [UniformRandomBot(player, rng) for player in (0, 1)]
    won = sum(evaluate_bots.evaluate_bots(spiel.new_initial_state(), bots, rng)[0] > 0 for _ in range(num))
    assert_same_share(won, num, *first_wins)

"""The PettingZoo environment: PettingZoo's own tests, and the engine's states."""

from __future__ import annotations

import jax
import numpy as np
import pytest

pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")

from pettingzoo.test import api_test, seed_test

from tests.adapters.variants import VARIANTS
from tests.helpers import assert_trees_equal, jitted_step
from unojax import game
from unojax.adapters.pettingzoo import AGENTS, env, raw_env
from unojax.adapters.seats import game_key
from unojax.rules import Rules

# `api_test` has a list of the environments whose observations may be dicts, its own.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Observation is not a NumPy array"),
    pytest.mark.filterwarnings("ignore:.*should be gymnasium.spaces"),
]


def test_api():
    api_test(env(), num_cycles=200)


def test_seeds():
    seed_test(lambda: env(Rules(hand_size=3)), num_cycles=60)


@pytest.mark.parametrize("rules", VARIANTS)
def test_games_are_the_engines(rules: Rules):
    """Three games, step by step: the engine with the same keys and actions; rewards and ends for both agents."""
    aec, rng = raw_env(rules), np.random.default_rng(0)
    for number in range(3):
        aec.reset(seed=7 if number == 0 else None)
        key = jax.random.fold_in(jax.random.key(7, impl="threefry2x32"), number)
        state = jax.jit(game.init, static_argnames="rules")(game_key(key, 0), rules=rules)
        total = np.zeros(2)
        while aec.agents and not aec.terminations[aec.agent_selection] and not aec.truncations[aec.agent_selection]:
            assert aec.agent_selection == AGENTS[int(state.current_player)]
            mask = aec.observe(aec.agent_selection)["action_mask"]
            assert not aec.observe(AGENTS[1 - int(state.current_player)])["action_mask"].any()
            action = rng.choice(np.flatnonzero(mask))
            state = jitted_step(state, np.int32(action), game_key(key, 1 + state.step_count))
            aec.step(action)
            assert_trees_equal(jax.device_get(state), aec._game.shown.state)
            total += state.rewards
            assert [aec.rewards[agent] for agent in AGENTS] == state.rewards.tolist()
        assert state.is_over
        assert total.sum() == pytest.approx(-2 * rules.step_penalty * (int(state.step_count) - bool(state.terminated)), abs=1e-5)


def test_an_illegal_action_loses():
    aec = env(render_mode="ansi")
    aec.reset(seed=0)
    assert "player 0 to move" in aec.render()
    mask = aec.observe("player_0")["action_mask"]
    aec.step(int((mask == 0).argmax()))
    assert aec.terminations == {"player_0": True, "player_1": True}
    assert aec.rewards == {"player_0": -1.0, "player_1": 1.0}


def test_errors():
    with pytest.raises(ValueError, match="render_mode must be None or 'ansi', got 'human'"):
        env(render_mode="human")

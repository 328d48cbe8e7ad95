"""The PettingZoo environment: PettingZoo's own tests, and the engine's states."""

from __future__ import annotations

import jax
import numpy as np
import pytest

pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")

from pettingzoo.test import api_test, seed_test

from tests.adapters.engine import SOME_RULES, on_the_host
from unojax.adapters.encoding import Encoder
from unojax.adapters.pettingzoo import AGENTS, env, raw_env
from unojax.game import State
from unojax.observation import observe
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


@pytest.mark.parametrize("rules", SOME_RULES)
def test_games_are_the_engines(rules: Rules):
    """Step by step: the engine's states, and its rewards and ends for both agents."""
    aec = raw_env(rules)

    def legal() -> list[int]:
        assert not aec.observe(AGENTS[1 - AGENTS.index(aec.agent_selection)])["action_mask"].any()
        return np.flatnonzero(aec.observe(aec.agent_selection)["action_mask"]).tolist()

    def check(ours: State, total: np.ndarray) -> None:
        assert aec.agent_selection == AGENTS[int(ours.current_player)]
        assert [aec.rewards[agent] for agent in AGENTS] == ours.rewards.tolist()
        assert all(aec.terminations[agent] == ours.terminated and aec.truncations[agent] == ours.truncated for agent in AGENTS)
        for player, agent in enumerate(AGENTS):
            seen = np.asarray(encode(ours, player))
            np.testing.assert_array_equal(aec.observe(agent)["observation"], seen)
        if ours.terminated:
            # What one wins the other loses, but for the steps' price.
            assert total.sum() == pytest.approx(-2 * rules.step_penalty * (int(ours.step_count) - 1), abs=1e-5)

    encode = jax.jit(lambda state, player: Encoder(rules=rules).encode((), observe(state, player)))
    on_the_host(
        rules,
        seed=7,
        begin=lambda number: aec.reset(seed=None if number else 7),
        legal=legal,
        play=aec.step,
        state=aec._game.state,
        check=check,
    )


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

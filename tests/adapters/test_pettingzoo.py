"""The PettingZoo environment: PettingZoo's own tests, and the engine's games."""

from __future__ import annotations

from typing import Final

import jax
import numpy as np
import pytest

pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")

from pettingzoo.test import api_test, seed_test

from tests.adapters.engine import RULES, engine_positions, some_rules
from tests.helpers import assert_trees_equal, refusals
from unojax.adapters.encoding import Encoder
from unojax.adapters.pettingzoo import AGENTS, env, raw_env
from unojax.observation import observe

PROGRAMS: Final = 60  # a game of each rule set
# `api_test` has a list of its own of environments whose observations may be dicts.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Observation is not a NumPy array"),
    pytest.mark.filterwarnings("ignore:.*should be gymnasium.spaces"),
]


def test_the_tests_of_pettingzoo():
    api_test(env(), num_cycles=200)
    seed_test(env, num_cycles=60)


@some_rules
def test_games_are_the_engines(name: str):
    """Compare states, observations, masks, rewards and ends of both agents."""
    rules, aec = RULES[name], raw_env(RULES[name])
    encode = jax.jit(lambda state: [Encoder(rules=rules).encode((), observe(state, player)) for player in (0, 1)])
    for number, state, total, legal, action in engine_positions(rules, seed=7):
        if state.step_count == 0:
            aec.reset(seed=None if number else 7)
        assert_trees_equal(state, aec._game.state())
        mover = int(state.current_player)
        assert aec.agent_selection == AGENTS[mover]
        assert [aec.rewards[agent] for agent in AGENTS] == state.rewards.tolist()
        assert all(aec.terminations[agent] == state.terminated and aec.truncations[agent] == state.truncated for agent in AGENTS)
        seen = [aec.observe(agent) for agent in AGENTS]
        np.testing.assert_array_equal([of_agent["observation"] for of_agent in seen], encode(state))
        assert not seen[1 - mover]["action_mask"].any()
        if action is not None:
            assert np.flatnonzero(seen[mover]["action_mask"]).tolist() == legal
            aec.step(action)
        elif state.terminated:
            # The agents win and lose the same, except for the price of the steps.
            assert total.sum() == pytest.approx(-2 * rules.step_penalty * (int(state.step_count) - 1), abs=1e-5)


def test_an_illegal_action_loses():
    aec = env(render_mode="ansi")
    aec.reset(seed=0)
    assert "player 0 to move" in aec.render()
    refusals({f"[0, 60], got {action}": lambda action=action: aec.step(action) for action in (70, -1)})
    aec.step(int((aec.observe("player_0")["action_mask"] == 0).argmax()))
    assert aec.terminations == {"player_0": True, "player_1": True}
    assert aec.rewards == {"player_0": -1.0, "player_1": 1.0}
    refusals({"render_mode": lambda: env(render_mode="human"), "rules": lambda: env("homely")})

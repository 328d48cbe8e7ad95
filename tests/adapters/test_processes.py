"""Environments of all adapters in other processes: copied, pickled, and in children of a fork."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unojax.rules import Rules

RULES = Rules(hand_size=2, max_steps=12)


def gymnasium_env() -> tuple[Any, Callable[[Any], Any]]:
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    from unojax.adapters.gymnasium import UnoEnv

    env = UnoEnv("uniform", RULES)
    info = env.reset(seed=3)[1]
    action = int(info["action_mask"].argmax())
    return env, lambda env: env.step(action)[0]["observation"]


def many_envs() -> tuple[Any, Callable[[Any], Any]]:
    """So many that threads share them."""
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    from unojax.adapters.gymnasium import UnoVectorEnv

    envs = UnoVectorEnv(512, "uniform", RULES)
    actions = envs.reset(seed=3)[1]["action_mask"].argmax(1)
    return envs, lambda envs: envs.step(actions)[0]["observation"]


def pettingzoo_env() -> tuple[Any, Callable[[Any], Any]]:
    pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")
    from unojax.adapters.pettingzoo import env

    aec = env(RULES)
    aec.reset(seed=3)

    def play(aec: Any) -> Any:
        aec.step(int(aec.observe(aec.agent_selection)["action_mask"].argmax()))
        return aec.observe("player_0")["observation"]

    return aec, play


def rlcard_env() -> tuple[Any, Callable[[Any], Any]]:
    pytest.importorskip("rlcard", reason="rlcard is not installed")
    from unojax.adapters import rlcard

    env = rlcard.make(RULES, seed=3)
    state, _ = env.reset()
    action = next(iter(state["legal_actions"]))
    return env, lambda env: env.step(action)[0]["obs"]


@pytest.mark.parametrize("make", [gymnasium_env, many_envs, pettingzoo_env, rlcard_env])
def test_environments_survive_copies_and_pickles(make: Callable[[], tuple[Any, Callable[[Any], Any]]]):
    """In mid-game; the copies go on as the environment does."""
    env, play = make()
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = play(env)
    for each in copies:
        np.testing.assert_array_equal(play(each), expected)


CONSTRUCTORS = {
    "gymnasium": "import unojax.adapters.gymnasium as a; a.UnoEnv({0!r}); a.UnoVectorEnv(600, {0!r})",
    "pettingzoo": "import unojax.adapters.pettingzoo as a; a.env()",
    "rlcard": "import unojax.adapters.rlcard as a; a.make()",
}


@pytest.mark.parametrize("library", CONSTRUCTORS)
def test_nothing_of_jax_starts_before_a_game_begins(library: str):
    pytest.importorskip(library, reason=f"{library} is not installed")
    code = [CONSTRUCTORS[library].format(agent) for agent in ("linear", "value", "mc:rollouts=8,particles=32")]
    code += ["from jax._src import xla_bridge", "assert not xla_bridge.backends_are_initialized()"]
    subprocess.run([sys.executable, "-c", "\n".join(code)], check=True)


FORKED = """
import sys
import gymnasium, jax, unojax.adapters.gymnasium
if "started" in sys.argv:
    jax.devices()
envs = gymnasium.make_vec("unojax/Uno-v0", num_envs=2, vectorization_mode="async", opponent="uniform")
print(envs.reset(seed=1)[0]["observation"].shape)
envs.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("started", [False, True])
def test_forked_workers_play_or_say_why_not(started: bool):
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    command = [sys.executable, "-W", "ignore", "-c", FORKED, *["started"] * started]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if started:
        assert "JAX had started before this process was forked" in ran.stderr
    else:
        assert ran.stdout.startswith("(2, "), ran.stderr

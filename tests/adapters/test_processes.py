"""Environments of all adapters in other processes: copied, pickled, and after a fork."""

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
    from unojax.adapters.gymnasium import UnoEnv

    env = UnoEnv("uniform", RULES)
    action = int(env.reset(seed=3)[1]["action_mask"].argmax())
    return env, lambda env: env.step(action)[0]["observation"]


def many_gymnasium_envs() -> tuple[Any, Callable[[Any], Any]]:
    """Return enough environments for several threads."""
    from unojax.adapters.gymnasium import UnoVectorEnv

    envs = UnoVectorEnv(512, "uniform", RULES)
    actions = envs.reset(seed=3)[1]["action_mask"].argmax(1)
    return envs, lambda envs: envs.step(actions)[0]["observation"]


def pettingzoo_env() -> tuple[Any, Callable[[Any], Any]]:
    from unojax.adapters.pettingzoo import env

    aec = env(RULES)
    aec.reset(seed=3)

    def play(aec: Any) -> Any:
        aec.step(int(aec.observe(aec.agent_selection)["action_mask"].argmax()))
        return aec.observe("player_0")["observation"]

    return aec, play


def rlcard_env() -> tuple[Any, Callable[[Any], Any]]:
    from unojax.adapters import rlcard

    env = rlcard.make(RULES, seed=3)
    action = next(iter(env.reset()[0]["legal_actions"]))
    return env, lambda env: env.step(action)[0]["obs"]


MAKERS = {gymnasium_env: "gymnasium", many_gymnasium_envs: "gymnasium", pettingzoo_env: "pettingzoo", rlcard_env: "rlcard"}


@pytest.mark.parametrize("make", MAKERS)
def test_copies_and_pickles_in_mid_game_continue_as_the_environment(make: Callable[[], tuple[Any, Callable[[Any], Any]]]):
    pytest.importorskip(MAKERS[make])
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
FORKED = """
import sys
import gymnasium, jax, unojax.adapters.gymnasium
if "started" in sys.argv:
    jax.devices()
envs = gymnasium.make_vec("unojax/Uno-v0", num_envs=2, vectorization_mode="async", opponent="uniform")
print(envs.reset(seed=1)[0]["observation"].shape)
envs.close()
"""


@pytest.mark.parametrize("library", CONSTRUCTORS)
def test_no_constructor_starts_jax(library: str):
    pytest.importorskip(library)
    code = [CONSTRUCTORS[library].format(agent) for agent in ("linear", "value", "mc:rollouts=8,particles=32")]
    code += ["from jax._src import xla_bridge", "assert not xla_bridge.backends_are_initialized()"]
    subprocess.run([sys.executable, "-c", "\n".join(code)], check=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_forked_workers_play_unless_jax_had_started():
    pytest.importorskip("gymnasium")
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    fresh, late = (
        subprocess.run([*command, *args], capture_output=True, text=True, check=False, timeout=300) for args in ([], ["started"])
    )
    assert fresh.stdout.startswith("(2, "), fresh.stderr
    assert "JAX had started before this process was forked" in late.stderr

"""The gymnasium environments: gymnasium's own checker, one against many, the engine's states."""

from __future__ import annotations

import jax
import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import gymnasium
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from tests.adapters.variants import VARIANTS
from tests.helpers import jitted_mask, jitted_step
from unojax import game, get_policy
from unojax.adapters import solo
from unojax.adapters.encoding import Encoder
from unojax.adapters.gymnasium import UnoEnv, UnoVectorEnv
from unojax.observation import observe
from unojax.rules import Rules

SHORT = Rules(hand_size=2, max_steps=12)


def random_actions(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    """One of the legal actions in each game."""
    return (rng.random(mask.shape) * mask).argmax(-1)


@pytest.mark.filterwarnings("ignore:.*not within the observation space.*")
def test_checker():
    check_env(UnoEnv("uniform"), skip_render_check=True)


def test_registered():
    env = gymnasium.make("unojax/Uno-v0", opponent="uniform", rules=SHORT, render_mode="ansi")
    observation, info = env.reset(seed=1)
    assert (observation["action_mask"] == info["action_mask"]).all()
    assert env.unwrapped.action_masks().dtype == bool
    assert "to move" in env.render()
    envs = gymnasium.make_vec("unojax/Uno-v0", num_envs=3, opponent="uniform", rules=SHORT)
    assert isinstance(envs.unwrapped, UnoVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observation, _ = envs.reset(seed=1)
    assert observation in envs.observation_space


def test_many_play_the_games_of_one():
    """Every lane of a vector environment is a single environment with its own seed, through several resets."""
    envs, rng = UnoVectorEnv(4, "uniform", SHORT), np.random.default_rng(0)
    singles = [UnoEnv("uniform", SHORT) for _ in range(4)]
    together, _ = envs.reset(seed=5)
    alone = [env.reset(seed=5 + i)[0] for i, env in enumerate(singles)]
    over, resets = np.zeros(4, bool), 0
    for _ in range(25):
        for i, one in enumerate(alone):
            np.testing.assert_array_equal(together["observation"][i], one["observation"])
            np.testing.assert_array_equal(together["action_mask"][i], one["action_mask"])
        actions = random_actions(rng, together["action_mask"])
        together, rewards, terminated, truncated, _ = envs.step(actions)
        for i, env in enumerate(singles):
            if over[i]:
                alone[i], _ = env.reset()
                assert (rewards[i], terminated[i], truncated[i]) == (0.0, False, False)
                resets += 1
            else:
                alone[i], *rest, _ = env.step(actions[i])
                assert rest == [rewards[i], terminated[i], truncated[i]]
        over = terminated | truncated
    assert resets >= 4


@pytest.mark.parametrize("rules", VARIANTS)
def test_games_are_the_engines(rules: Rules):
    """The same keys and actions give the same states: what the seat sees is an engine's game, replayed here step by step."""
    num, num_steps = 48, 40
    envs, rng = UnoVectorEnv(num, "linear", rules), np.random.default_rng(1)
    envs.reset(seed=0)
    keys = [jax.random.key(i, impl="threefry2x32") for i in range(num)]
    checked = 0
    mask = envs.action_masks()
    for _ in range(num_steps):
        before = envs._games.lanes
        actions = random_actions(rng, mask)
        _, rewards, terminated, truncated, _ = envs.step(actions)
        mask = envs.action_masks()
        after = envs._games.lanes
        for i in rng.choice(num, 3, replace=False):
            checked += replay(keys[i], i, before, after, actions, rewards, terminated | truncated)
    assert checked > 2 * num_steps


def replay(key, i, before, after, actions, rewards, over) -> int:
    """Take one lane from a position of the seat's to the next with the engine; the number of steps."""
    number = int(after.number[i])
    game_key = jax.random.fold_in(key, number)
    rules = before.state.rules
    started = number != before.number[i]
    seat = int(after.seat[i])
    if started:
        state = game.init(solo.key_for(game_key, 0, solo.DEAL), rules=rules)
    else:
        state = jax.tree.map(lambda leaf: leaf[i], before.state)
    taken, reward = 0, 0.0
    while int(state.step_count) < int(after.state.step_count[i]):
        if int(state.current_player) == seat:
            assert taken == 0 and not started, "the seat moves once in a step"
            action = int(actions[i])
        else:
            legal = jitted_mask(state)
            key_act = solo.key_for(game_key, state.step_count, solo._ACT)
            chosen = get_policy("linear")(key_act, observe(state, 1 - seat), legal)
            action = int(legal.argmax()) if legal.sum() == 1 else int(chosen)
        state = jitted_step(state, np.int32(action), solo.key_for(game_key, state.step_count, solo.DRAW))
        reward += float(state.rewards[seat])
        taken += 1
    assert state.error == 0
    for name in ("hands", "deck", "pile", "top_rank", "color", "current_player", "penalty", "terminated", "truncated", "winner"):
        np.testing.assert_array_equal(getattr(state, name), getattr(after.state, name)[i], name)
    assert rewards[i] == pytest.approx(reward, abs=1e-6)
    assert over[i] == bool(state.is_over)
    assert over[i] or int(state.current_player) == seat
    return taken


def test_reset_in_the_same_step():
    """The games are those of the other mode, and the last observation of each is handed out beside the first of the next."""
    at_once = UnoVectorEnv(6, "uniform", SHORT, autoreset_mode=AutoresetMode.SAME_STEP)
    later = UnoVectorEnv(6, "uniform", SHORT)
    assert at_once.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    now, _ = at_once.reset(seed=2)
    then, _ = later.reset(seed=2)
    # Lanes in step with each other: as long as no game has ended in the lane.
    in_step = np.ones(6, bool)
    for _ in range(14):
        np.testing.assert_array_equal(now["observation"][in_step], then["observation"][in_step])
        actions = now["action_mask"].argmax(1)
        now, rewards, terminated, truncated, info = at_once.step(actions)
        then, others, *ends, _ = later.step(actions)
        np.testing.assert_array_equal(rewards[in_step], others[in_step])
        over = terminated | truncated
        np.testing.assert_array_equal(over[in_step], (ends[0] | ends[1])[in_step])
        for i in np.flatnonzero(over & in_step):
            np.testing.assert_array_equal(info["final_obs"][i]["observation"], then["observation"][i])
            assert info["_final_obs"][i] and now["observation"][i, Encoder().columns("terminated")] == 0
            assert now["action_mask"][i].sum() < now["action_mask"].shape[1]
        in_step &= ~over
    assert not in_step.all()
    with pytest.raises(ValueError, match="NEXT_STEP or SAME_STEP, got DISABLED"):
        UnoVectorEnv(2, "uniform", autoreset_mode=AutoresetMode.DISABLED)


def test_an_illegal_action_loses():
    envs = UnoVectorEnv(8, "uniform")
    observation, _ = envs.reset(seed=0)
    wrong = (observation["action_mask"] == 0).argmax(1)
    wrong[0] = -5
    _, rewards, terminated, _, info = envs.step(wrong)
    assert terminated.all() and (rewards == -1).all() and info["illegal_action"].all()
    _, rewards, terminated, _, info = envs.step(wrong)
    assert not terminated.any() and (rewards == 0).all() and not info["illegal_action"].any()


@pytest.mark.slow
def test_beliefs_and_small_numbers():
    envs = UnoVectorEnv(2, "uniform", SHORT, belief="particles", particles=16, seat=1)
    observation, _ = envs.reset(seed=0)
    assert observation in envs.observation_space
    observation, *_ = envs.step(observation["action_mask"].argmax(1))
    assert observation in envs.observation_space
    assert UnoEnv("uniform", dtype="int8").reset(seed=3)[0]["observation"].dtype == np.int8


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: UnoEnv("nobody"), "no agent is called 'nobody'"),
        (lambda: UnoEnv(seat=2), "seat must be 0, 1 or 'random'"),
        (lambda: UnoEnv("uniform", belief="truth"), "belief must be one of none, unseen, particles"),
        (lambda: UnoEnv("uniform", belief="unseen", dtype="int8"), "dtype must be float32"),
        (lambda: UnoVectorEnv(0), "num_envs must be"),
        (lambda: UnoVectorEnv(2, "uniform").step(np.zeros(3, int)), "actions must be 2 integers"),
    ],
)
def test_errors(make, says: str):
    with pytest.raises(ValueError, match=says):
        make()


def test_step_needs_reset():
    with pytest.raises(gymnasium.error.ResetNeeded):
        UnoEnv("uniform").step(0)

"""The gymnasium environments: gymnasium's checker and vector environment, the engine's games, opponent faults."""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import gymnasium
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList

from tests.adapters.engine import RULES, every_rules
from tests.helpers import assert_trees_equal, refusals, slow_but
from unojax import cards, game, uniform
from unojax.adapters import solo
from unojax.adapters.gymnasium import UnoEnv, UnoVectorEnv
from unojax.adapters.solo import Lanes
from unojax.agents import RESIGN
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules

PROGRAMS: Final = 170  # each opponent, number of games and rule set has its own
SHORT, FEW = Rules(hand_size=2, max_steps=12), 4
"""Rules and number of games of most tests, which share their programs."""
NEXT_STEP, SAME_STEP = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP


def random_actions(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    return (rng.random(mask.shape) * mask).argmax(-1)


@pytest.mark.filterwarnings("ignore:.*not within the observation space.*")
def test_the_checker_and_the_registry_of_gymnasium():
    check_env(UnoEnv("uniform", SHORT), skip_render_check=True)
    env = gymnasium.make("unojax/Uno-v0", opponent="uniform", rules=SHORT, render_mode="ansi")
    observation, info = env.reset(seed=1)
    assert (observation["action_mask"] == info["action_mask"]).all()
    assert env.unwrapped.action_masks().dtype == bool and "to move" in env.render()
    envs = gymnasium.make_vec("unojax/Uno-v0", num_envs=FEW, opponent="uniform", rules=SHORT)
    assert isinstance(envs.unwrapped, UnoVectorEnv) and envs.metadata["autoreset_mode"] is NEXT_STEP
    assert envs.reset(seed=1)[0] in envs.observation_space


def test_many_games_are_those_of_single_environments():
    """Compare with gymnasium's `SyncVectorEnv` in both modes: resets, last observations, infos, illegal actions."""
    for mode in (NEXT_STEP, SAME_STEP):
        ours = DictInfoToList(UnoVectorEnv(FEW, "uniform", SHORT, autoreset_mode=mode))
        theirs = DictInfoToList(SyncVectorEnv([lambda: UnoEnv("uniform", SHORT)] * FEW, autoreset_mode=mode))
        assert ours.metadata["autoreset_mode"] is mode
        rng, played, over = np.random.default_rng(0), np.zeros((), int), np.zeros(FEW, bool)
        for seed in (5, None, [None, 7, None, 5]):
            one, other = ours.reset(seed=seed), theirs.reset(seed=seed)
            np.testing.assert_equal(one, other)
            over[:] = False
            for step in range(9):
                actions = random_actions(rng, one[0]["action_mask"])
                illegal = np.full(FEW, step % 4 == 3) & ~(over & (mode is NEXT_STEP))
                actions[illegal] = (one[0]["action_mask"] == 0).argmax(1)[illegal]
                actions[over & (mode is NEXT_STEP)] = -5
                one, other = ours.step(actions), theirs.step(actions)
                np.testing.assert_equal(one, other)
                observation, rewards, terminated, truncated, infos = one
                over = terminated | truncated
                assert (rewards[illegal] == -1).all() and terminated[illegal].all()
                for i, info in enumerate(infos):
                    np.testing.assert_array_equal(info["action_mask"], observation["action_mask"][i])
                    final = info.get("final_info", info)
                    assert ("final_info" in info) == (over[i] and mode is SAME_STEP) and final["illegal_action"] == illegal[i]
                played += over.sum()
        assert played > 15


@every_rules
def test_games_are_the_engines(name: str):
    """The engine replays every lane step by step."""
    num, rng = 64, np.random.default_rng(1)
    envs = UnoVectorEnv(num, "uniform", RULES[name])
    envs.reset(seed=0)
    keys = jax.jit(jax.vmap(lambda seed: jax.random.key(seed, impl="threefry2x32")))(np.arange(num))
    replayed, masks = jax.jit(jax.vmap(replay)), jax.jit(jax.vmap(game.legal_mask))
    seats, steps, mask = set(), 0, envs.action_masks()
    for _ in range(30):
        before = envs.lanes
        actions = random_actions(rng, mask).astype(np.int32)
        _, rewards, terminated, truncated, _ = envs.step(actions)
        mask, after = envs.action_masks(), envs.lanes
        state, reward, own_steps = jax.device_get(replayed(keys, before, after, actions))
        assert_trees_equal(state, after.state)
        # The seat does not pay for the opponent's steps before its first.
        np.testing.assert_allclose(rewards, np.where(own_steps, reward, 0.0), atol=1e-6)
        np.testing.assert_array_equal(terminated, state.terminated)
        np.testing.assert_array_equal(truncated, state.truncated)
        assert ((state.current_player == after.seat) | state.is_over).all()
        # The seat moves once in a step, and not at all in one that deals.
        np.testing.assert_array_equal(own_steps, after.number == before.number)
        np.testing.assert_array_equal(mask, masks(state))
        seats |= set(after.seat.tolist())
        steps += int((state.step_count - np.where(own_steps, before.state.step_count, 0)).sum())
    assert seats == {0, 1} and steps > 2000


def replay(key: jax.Array, before: Lanes, after: Lanes, action: jax.Array) -> tuple[State, jax.Array, jax.Array]:
    """Replay a lane up to the seat's next position: the state, the seat's reward and its own steps."""
    game_key = jax.random.fold_in(key, after.number)
    fresh = game.init(solo.key_for(game_key, 0, solo.DEAL), rules=before.state.rules)
    state = jax.tree.map(lambda new, old: jnp.where(after.number != before.number, new, old), fresh, before.state)

    def one_step(carry):
        state, reward, own_steps = carry
        is_mine, legal = state.current_player == after.seat, game.legal_mask(state)
        chosen = uniform(solo.key_for(game_key, state.step_count, solo._ACT), observe(state, 1 - after.seat), legal)
        chosen = jnp.where(legal.sum() == 1, legal.argmax(), chosen)
        key_draw = solo.key_for(game_key, state.step_count, solo.DRAW)
        state = game.step(state, jnp.where(is_mine, action, chosen), key_draw)
        return state, reward + state.rewards[after.seat], own_steps + is_mine

    start = state, jnp.float32(0), jnp.int32(0)
    return jax.lax.while_loop(lambda carry: carry[0].step_count < after.state.step_count, one_step, start)


@pytest.mark.parametrize("mode", slow_but([NEXT_STEP], [NEXT_STEP, SAME_STEP]))
def test_a_game_that_ends_before_the_first_move_is_passed_over(mode: AutoresetMode):
    """The first player can often win at once."""
    rules = Rules(hand_size=1, max_steps=40, step_penalty=0.01)
    envs, rng = UnoVectorEnv(24, "uniform", rules, seat=1, autoreset_mode=mode), np.random.default_rng(0)
    observation, _ = envs.reset(seed=[None, *range(23)])
    numbers, passed_over = np.full(24, -1), 0
    for _ in range(30):
        lanes = envs.lanes
        dealt = lanes.number != numbers
        assert not lanes.packed.is_over[dealt].any() and (lanes.packed.current_player[dealt] == 1).all()
        assert (lanes.reward[dealt] == 0).all()
        passed_over += int((lanes.number - numbers > 1).sum())
        numbers = lanes.number
        observation, *_ = envs.step(random_actions(rng, observation["action_mask"]))
    assert passed_over > 20


def always_wrong(key: jax.Array, observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """Resign, or play an invalid or illegal action."""
    return jax.random.choice(key, jnp.stack([jnp.int32(RESIGN), jnp.int32(cards.NUM_ACTIONS), (~legal_mask).argmax()]))


@pytest.mark.filterwarnings("ignore:the opponent .* fails")
def test_a_fault_of_the_opponent_wins_the_game_in_either_seat():
    envs, rng = UnoVectorEnv(8, always_wrong), np.random.default_rng(0)
    observation, _ = envs.reset(seed=0)
    seats = np.zeros(2, int)
    for _ in range(20):
        observation, rewards, terminated, _, info = envs.step(random_actions(rng, observation["action_mask"]))
        lanes = envs.lanes
        failed = terminated & (lanes.packed.error != 0)
        np.add.at(seats, lanes.seat[failed], 1)
        assert (rewards[failed] == 1).all() and not info["illegal_action"].any()
        np.testing.assert_array_equal(info["opponent_failed"], failed)
    # Most games in which the opponent begins are over before the seat's first move, and passed over.
    assert (seats > 2).all()


class Remembers:
    """Agent that resigns if a transition or a decision does not continue its last observation."""

    name = "remembers"

    def init(self, key: jax.Array, observation: Observation) -> tuple[Observation, jax.Array]:
        return observation, jnp.bool_(True)

    def update(self, key, memory, before: Observation, action: jax.Array, after: Observation):
        last, is_complete = memory
        return after, is_complete & are_equal(last, before) & (after.last_action == action)

    def act(self, key: jax.Array, memory, observation: Observation, legal_mask: jax.Array) -> jax.Array:
        last, is_complete = memory
        return jnp.where(is_complete & are_equal(last, observation), legal_mask.argmax(), RESIGN)


def are_equal(one: Observation, other: Observation) -> jax.Array:
    return jnp.array([(a == b).all() for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)]).all()


def test_an_opponent_with_memory_observes_every_transition_of_its_own_view():
    envs, over = UnoVectorEnv(8, Remembers(), SHORT), 0
    observation, _ = envs.reset(seed=0)
    for _ in range(30):
        observation, _, terminated, truncated, info = envs.step(observation["action_mask"].argmax(1))
        assert not info["opponent_failed"].any()
        over += (terminated | truncated).sum()
    assert over > 20


class OnTheHost:
    """Agent that plays the first legal action, resigns, or raises; counts its calls, and reports its faults."""

    name, does, calls = "on the host", "play", 0

    def init(self, key: jax.Array, observation: Observation) -> tuple[()]:
        return ()

    def update(self, key: jax.Array, memory: tuple[()], *around) -> tuple[()]:
        return memory

    def act(self, key: jax.Array, memory: tuple[()], observation: Observation, legal_mask: jax.Array) -> jax.Array:
        shape = jax.ShapeDtypeStruct((), np.int32)
        return jax.pure_callback(self.answer, shape, legal_mask, vmap_method="broadcast_all")

    def answer(self, legal_mask: jax.Array) -> np.ndarray:
        self.calls += 1
        if self.does == "break":
            raise RuntimeError("broken")
        legal = np.asarray(legal_mask)
        return np.where(self.does == "give up", RESIGN, legal.argmax(-1)).astype(np.int32)

    def report(self) -> list[str]:
        return ["gave up: so often"] if self.does == "give up" else []


def test_an_opponent_on_the_host():
    """A reset requests no unneeded move, each fault gives one warning, and a failed step requires a reset."""
    # More lanes than a chunk has, for the answer that is computed for all.
    num, opponent = 17, OnTheHost()
    envs = UnoVectorEnv(num, opponent, SHORT, autoreset_mode=SAME_STEP)
    programs = solo.step._cache_size()
    first, _ = envs.reset(seed=0)
    envs.step(first["action_mask"].argmax(1))
    calls = opponent.calls
    envs._renew()
    assert opponent.calls == calls > 0 and solo.step._cache_size() == programs + 1

    opponent.does, (observation, _) = "give up", envs.reset(seed=0)
    with pytest.warns(RuntimeWarning, match="the opponent 'on the host' fails, and loses games by that: gave up: so often"):
        observation, *_, info = envs.step(observation["action_mask"].argmax(1))
    assert info["final_info"]["opponent_failed"].any() and not info["opponent_failed"].any()
    # A second warning would be an error here.
    envs.step(observation["action_mask"].argmax(1))

    opponent.does = "break"
    with pytest.raises(Exception, match="broken"):
        envs.step(observation["action_mask"].argmax(1))
    with pytest.raises(gymnasium.error.ResetNeeded, match="the last step failed"):
        envs.step(observation["action_mask"].argmax(1))
    opponent.does = "play"
    np.testing.assert_equal(envs.reset(seed=0)[0], first)


def test_arrays_are_the_callers():
    """Overwriting a returned array changes nothing else, and no returned array keeps others alive."""
    for env in (UnoVectorEnv(FEW, "uniform", SHORT, autoreset_mode=SAME_STEP), UnoEnv("uniform", SHORT)):
        ends, results = 0, [env.reset(seed=5)]
        while not ends:
            observation, _, *over, info = env.step(env.action_masks().argmax(-1))
            ends = np.sum(over)
            results.append((observation, info))
        finals = [final for final in info.get("final_obs", ()) if final]
        for result in results:
            arrays = [leaf for leaf in jax.tree.leaves(result) if isinstance(leaf, np.ndarray) and leaf.dtype != object]
            arrays += [part for final in finals for part in final.values()] if result is results[-1] else []
            assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
            masks = env.action_masks()
            for array in arrays:
                array[...] = 0
            np.testing.assert_array_equal(env.action_masks(), masks)
        assert all(part.base is None for final in finals for part in final.values())


@pytest.mark.slow
def test_beliefs_and_small_numbers():
    envs = UnoVectorEnv(2, "uniform", SHORT, belief="particles", particles=16, seat=1)
    observation, _ = envs.reset(seed=0)
    assert observation in envs.observation_space
    observation, *_ = envs.step(observation["action_mask"].argmax(1))
    assert observation in envs.observation_space
    assert UnoEnv("uniform", dtype="int8").reset(seed=3)[0]["observation"].dtype == np.int8


def test_seeds_and_refusals():
    envs, drawn = UnoVectorEnv(FEW, "uniform", SHORT), []
    for _ in range(2):
        envs.reset(seed=np.int64(3))
        assert envs.np_random_seed == 3
        drawn.append(envs.np_random.random())
    assert drawn[0] == drawn[1]
    bad_seeds = (-1, [0, -1, 0, 0], [0, 1, 2], 0.5, [0, 0, 0, 0.5])
    refusals(
        {f"seed ({seed})": lambda seed=seed: envs.reset(seed=seed) for seed in bad_seeds}
        | {
            "agent": lambda: UnoEnv("nobody"),
            "seat": lambda: UnoEnv(seat=2),
            "belief": lambda: UnoEnv("uniform", belief="truth"),
            "dtype": lambda: UnoEnv("uniform", belief="unseen", dtype="int8"),
            "particles": lambda: UnoEnv("uniform", belief="particles", particles="64"),
            "num_envs": lambda: UnoVectorEnv(0),
            "autoreset_mode": lambda: UnoVectorEnv(2, "uniform", autoreset_mode=AutoresetMode.DISABLED),
            "render_mode": lambda: UnoEnv("uniform", render_mode="human"),
            "render_mode (many)": lambda: UnoVectorEnv(2, "uniform", render_mode="ansi"),
            "reset_mask": lambda: envs.reset(options={"reset_mask": np.ones(FEW, bool)}),
            "rules": lambda: UnoEnv(rules="homely"),
            "rules (a dict)": lambda: UnoEnv(rules={"stacking": True}),
            "agent 'value'": lambda: UnoEnv(rules="house,skip_forfeits=false"),
            "the seat's first move": lambda: UnoEnv("uniform", Rules(max_steps=1), seat=1).reset(seed=0),
            "actions": lambda: envs.step(np.zeros(3, int)),
            "[0, 60], got 99": lambda: envs.step(np.array([0, 99, 0, 0])),
            "[0, 60], got -5": lambda: envs.step(np.full(FEW, -5)),
        }
    )
    single = UnoEnv("uniform", render_mode="ansi")
    for too_early in (lambda: single.step(0), single.render, lambda: UnoVectorEnv(2, "uniform").step(np.zeros(2, int))):
        with pytest.raises(gymnasium.error.ResetNeeded):
            too_early()

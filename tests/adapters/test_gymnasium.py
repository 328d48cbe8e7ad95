"""The gymnasium environments: gymnasium's own checker, one against many, the engine's states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import gymnasium
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList

from tests.adapters.engine import EVERY_RULES
from tests.helpers import assert_trees_equal, slow_but
from unojax import cards, game, uniform
from unojax.adapters import solo
from unojax.adapters.encoding import Encoder
from unojax.adapters.gymnasium import UnoEnv, UnoVectorEnv
from unojax.adapters.solo import Lanes
from unojax.agents import RESIGN
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules

SHORT, FEW = Rules(hand_size=2, max_steps=12), 4
"""What most tests play, so that they share its programs."""


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
    envs, rng = UnoVectorEnv(FEW, "uniform", SHORT), np.random.default_rng(0)
    singles = [UnoEnv("uniform", SHORT) for _ in range(FEW)]
    together, _ = envs.reset(seed=5)
    alone = [env.reset(seed=5 + i)[0] for i, env in enumerate(singles)]
    over, resets = np.zeros(FEW, bool), 0
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


@pytest.mark.parametrize("rules", EVERY_RULES)
def test_games_are_the_engines(rules: Rules):
    """The same keys and actions give the same states: every lane goes the way of an engine's game, taken there step by step."""
    num, rng = 64, np.random.default_rng(1)
    envs = UnoVectorEnv(num, "uniform", rules)
    envs.reset(seed=0)
    keys = jax.vmap(lambda seed: jax.random.key(seed, impl="threefry2x32"))(np.arange(num))
    replayed, masks = jax.jit(jax.vmap(replay)), jax.jit(jax.vmap(game.legal_mask))
    seats, steps = set(), 0
    mask = envs.action_masks()
    for _ in range(30):
        before = envs._games.lanes
        actions = random_actions(rng, mask).astype(np.int32)
        _, rewards, terminated, truncated, _ = envs.step(actions)
        mask, after = envs.action_masks(), envs._games.lanes
        state, reward, own_steps = jax.device_get(replayed(keys, before, after, actions))
        assert_trees_equal(state, after.state)
        # What the opponent's steps before the seat's first cost is not the seat's doing.
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
    """Take a lane from a position of the seat's to the next with the engine: the state, the seat's reward and its own steps."""
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


def test_reset_in_the_same_step():
    """The games are those of the other mode, and the last observation of each is handed out beside the first of the next."""
    at_once = UnoVectorEnv(FEW, "uniform", SHORT, autoreset_mode=AutoresetMode.SAME_STEP)
    later = UnoVectorEnv(FEW, "uniform", SHORT)
    assert at_once.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    now, _ = at_once.reset(seed=2)
    then, _ = later.reset(seed=2)
    # Lanes in step with each other: as long as no game has ended in the lane.
    in_step = np.ones(FEW, bool)
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


def test_many_are_told_as_gymnasiums_own_many():
    """Beside `SyncVectorEnv`: resets with and without seeds and in the same step, and all infos, also of illegal actions."""
    mode = AutoresetMode.SAME_STEP
    ours = DictInfoToList(UnoVectorEnv(FEW, "uniform", SHORT, autoreset_mode=mode))
    theirs = DictInfoToList(SyncVectorEnv([lambda: UnoEnv("uniform", SHORT)] * FEW, autoreset_mode=mode))
    for seed in (5, None, [None, 7, None, 5]):
        told, others = ours.reset(seed=seed), theirs.reset(seed=seed)
        np.testing.assert_equal(told, others)
        over = 0
        for step in range(9):
            actions = told[0]["action_mask"].argmax(1)
            actions[step % 4 == 3] = -5
            told, others = ours.step(actions), theirs.step(actions)
            np.testing.assert_equal(told, others)
            observation, _, terminated, truncated, infos = told
            for i, ended in enumerate(terminated | truncated):
                np.testing.assert_array_equal(infos[i]["action_mask"], observation["action_mask"][i])
                assert not infos[i]["illegal_action"] and ("final_info" in infos[i]) == ended
                over += ended
        assert over > 3


def test_seeds():
    """Those of gymnasium's own generator too; one that it would refuse is refused."""
    envs = UnoVectorEnv(2, "uniform", SHORT)
    drawn = []
    for _ in range(2):
        envs.reset(seed=np.int64(3))
        assert envs.np_random_seed == 3
        drawn.append(envs.np_random.random())
    assert drawn[0] == drawn[1]
    for seed in (-1, [0, -1], [0, 1, 2], 0.5, [0, 0.5]):
        with pytest.raises(ValueError, match="seed must be None, an integer of at least 0, or a list of 2 of those"):
            envs.reset(seed=seed)


@pytest.mark.parametrize("mode", slow_but([AutoresetMode.NEXT_STEP], [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]))
def test_a_game_that_ends_before_the_first_move_is_passed_over(mode: AutoresetMode):
    """The player to begin wins with its first card wherever it can, and pays for each step."""
    rules = Rules(hand_size=1, max_steps=40, step_penalty=0.01)
    envs, rng = UnoVectorEnv(24, "uniform", rules, seat=1, autoreset_mode=mode), np.random.default_rng(0)
    observation, _ = envs.reset(seed=[None, *range(23)])
    numbers, passed_over = np.full(24, -1), 0
    for _ in range(30):
        lanes = envs._games.lanes
        dealt = lanes.number != numbers
        assert not lanes.packed.is_over[dealt].any() and (lanes.packed.current_player[dealt] == 1).all()
        assert (lanes.reward[dealt] == 0).all()
        passed_over += int((lanes.number - numbers > 1).sum())
        numbers = lanes.number
        observation, *_ = envs.step(random_actions(rng, observation["action_mask"]))
    assert passed_over > 20


def test_an_illegal_action_loses():
    envs = UnoVectorEnv(FEW, "uniform", SHORT)
    observation, _ = envs.reset(seed=0)
    wrong = (observation["action_mask"] == 0).argmax(1)
    wrong[0] = -5
    _, rewards, terminated, _, info = envs.step(wrong)
    assert terminated.all() and (rewards == -1).all() and info["illegal_action"].all()
    _, rewards, terminated, _, info = envs.step(wrong)
    assert not terminated.any() and (rewards == 0).all() and not info["illegal_action"].any()


def always_wrong(key: jax.Array, observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """Give up, play what does not exist, or what is not legal."""
    return jax.random.choice(key, jnp.stack([jnp.int32(RESIGN), jnp.int32(cards.NUM_ACTIONS), (~legal_mask).argmax()]))


@pytest.mark.filterwarnings("ignore:the opponent .* fails")
def test_what_the_opponent_does_wrong_is_not_the_seats_doing():
    """The game is won, in either seat, and nothing that the seat did was illegal; whose fault it was is told."""
    envs, rng = UnoVectorEnv(8, always_wrong), np.random.default_rng(0)
    observation, _ = envs.reset(seed=0)
    seats = np.zeros(2, int)
    for _ in range(20):
        observation, rewards, terminated, _, info = envs.step(random_actions(rng, observation["action_mask"]))
        lanes = envs._games.lanes
        failed = terminated & (lanes.packed.error != 0)
        np.add.at(seats, lanes.seat[failed], 1)
        assert (rewards[failed] == 1).all() and not info["illegal_action"].any()
        np.testing.assert_array_equal(info["opponent_failed"], failed)
    # Most games where the opponent begins are over before the seat's first move, and passed over.
    assert (seats > 2).all()


class OnTheHost:
    """Plays the first legal action, gives up, or breaks; counts the batches that it is asked about, and reports what it did."""

    name, does, asked = "on the host", "play", 0

    def init(self, key: jax.Array, observation: Observation) -> tuple[()]:
        return ()

    def update(self, key: jax.Array, memory: tuple[()], *around) -> tuple[()]:
        return memory

    def act(self, key: jax.Array, memory: tuple[()], observation: Observation, legal_mask: jax.Array) -> jax.Array:
        shape = jax.ShapeDtypeStruct((), np.int32)
        return jax.pure_callback(self.answer, shape, legal_mask, vmap_method="broadcast_all")

    def answer(self, legal_mask: jax.Array) -> np.ndarray:
        self.asked += 1
        if self.does == "break":
            raise RuntimeError("broken")
        legal = np.asarray(legal_mask)
        return np.where(self.does == "give up", RESIGN, legal.argmax(-1)).astype(np.int32)

    def report(self) -> list[str]:
        return ["gave up: so often"] if self.does == "give up" else []


def test_an_opponent_on_the_host():
    """A game begins by the program of a step, and none asks for moves where no game waits for one; what goes wrong is warned of
    once, and after a step that failed the games begin anew."""
    # More lanes than a chunk has, for the answer that is computed for all.
    num, opponent = 17, OnTheHost()
    envs = UnoVectorEnv(num, opponent, SHORT, autoreset_mode=AutoresetMode.SAME_STEP)
    programs = solo.step._cache_size()
    first, _ = envs.reset(seed=0)
    envs.step(first["action_mask"].argmax(1))
    asked = opponent.asked
    envs._games.renew()
    assert opponent.asked == asked > 0
    assert solo.step._cache_size() == programs + 1

    opponent.does, (observation, _) = "give up", envs.reset(seed=0)
    with pytest.warns(RuntimeWarning, match="the opponent 'on the host' fails, and loses games by that: gave up: so often"):
        observation, *_, info = envs.step(observation["action_mask"].argmax(1))
    failed = [info["final_info"]["opponent_failed"], info["opponent_failed"]]
    assert failed[0].any() and not failed[1].any()
    # No second warning, which would be an error here.
    envs.step(observation["action_mask"].argmax(1))

    opponent.does = "break"
    with pytest.raises(Exception, match="broken"):
        envs.step(observation["action_mask"].argmax(1))
    with pytest.raises(gymnasium.error.ResetNeeded, match="the last step failed"):
        envs.step(observation["action_mask"].argmax(1))
    opponent.does = "play"
    np.testing.assert_equal(envs.reset(seed=0)[0], first)


@pytest.mark.parametrize("many", [False, True])
def test_arrays_are_the_callers(many: bool):
    """What is written into one of them is seen in no other, nor in the environment, and keeps no more alive than itself."""
    mode = AutoresetMode.SAME_STEP
    env = UnoVectorEnv(FEW, "uniform", SHORT, autoreset_mode=mode) if many else UnoEnv("uniform", SHORT)
    (observation, info), ends = env.reset(seed=5), 0
    told = [(observation, info)]
    while not ends:
        masks = env.action_masks().copy()
        observation, _, *over, info = env.step(masks.argmax(-1))
        ends = np.sum(over)
        told.append((observation, info))
    for told_once in told:
        arrays = [leaf for leaf in jax.tree.leaves(told_once) if isinstance(leaf, np.ndarray) and leaf.dtype != object]
        arrays += [part for final in info.get("final_obs", ()) if final for part in final.values()]
        assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
        masks = env.action_masks()
        for array in arrays:
            array[...] = 0
        np.testing.assert_array_equal(env.action_masks(), masks)
    for final in info.get("final_obs", ()):
        assert final is None or all(part.base is None for part in final.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the opponent .* fails")
def test_whose_action_was_illegal_in_a_single_game():
    env = UnoEnv(always_wrong)
    observation, _ = env.reset(seed=0)
    terminated, reward, info = False, 0.0, {}
    while not terminated:
        observation, reward, terminated, _, info = env.step(observation["action_mask"].argmax())
    assert env._games.lanes.packed.error[0] and reward == 1 and info["illegal_action"] is False
    assert info["opponent_failed"] is True
    env.reset()
    _, reward, terminated, _, info = env.step(-5)
    assert terminated and reward == -1 and info["illegal_action"] is True


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
        (lambda: UnoEnv(rules="homely"), "rules must be a unojax.Rules or one of default, official, house, rlcard"),
        (lambda: UnoEnv(rules="official"), "agent 'value': network pretrained was trained for"),
        (lambda: UnoEnv("uniform", Rules(max_steps=1), seat=1).reset(seed=0), "were over before the seat's first move"),
        (lambda: UnoVectorEnv(2, "uniform").step(np.zeros(3, int)), "actions must be 2 integers"),
        (lambda: UnoEnv(rules={"stacking": True}), "rules must be a unojax.Rules or one of default"),
        (lambda: UnoEnv("uniform", belief="particles", particles="64"), "particles must be an integer of at least 1, got '64'"),
    ],
)
def test_errors(make, says: str):
    with pytest.raises(ValueError, match=says):
        make()


def test_step_needs_reset():
    env = UnoEnv("uniform", render_mode="ansi")
    for too_early in (lambda: env.step(0), env.render):
        with pytest.raises(gymnasium.error.ResetNeeded):
            too_early()
    with pytest.raises(gymnasium.error.ResetNeeded):
        UnoVectorEnv(2, "uniform").step(np.zeros(2, int))

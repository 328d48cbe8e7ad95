"""Who wins how often is the same through the adapters as in our own arena: the value network, here without particles, since it
then needs no memory, against random play, by each library's own random player where it has one. Where thousands of games run at
once, random play alone is compared too.

Each comparison is of two independent scores, which differ by more than five standard errors once in a million. The numbers of
games were fixed beforehand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax import observe, paired_score, parse_agent, parse_observation, play_match, simulate

pytestmark = pytest.mark.slow
VALUE = "value:belief=unseen"


def assert_same_share(wins: float, num: int, share: float, error: float) -> None:
    """Compare `wins` (a draw: half a win) of `num` independent games with a share known to a standard error."""
    own = wins / num
    assert abs(own - share) < 5 * np.hypot(error, np.sqrt(own * (1 - own) / num)), (own, share)


@pytest.fixture(scope="module")
def first_wins() -> tuple[float, float]:
    """The share of the games of random play that player 0 wins, and its standard error."""
    won = simulate(jax.random.key(5), 100_000).winner == 0
    return float(won.mean()), float(won.std() / np.sqrt(len(won)))


@pytest.fixture(scope="module")
def value_wins() -> tuple[float, float]:
    """The share of the points that the value network wins against random play in the arena, and its standard error."""
    score = paired_score(play_match(jax.random.key(9), (VALUE, "uniform"), 2000).points)
    return score.value, score.standard_error


def value_act(observation, mask):
    """The value network's choice; it takes neither a memory nor a key."""
    return parse_agent(VALUE).act(jax.random.key(0), (), observation, mask)


jitted_value_act = jax.jit(value_act)


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


@pytest.mark.parametrize(("player", "num"), [("random", 2048), ("value", 512)])
def test_pgx(player: str, num: int, request: pytest.FixtureRequest):
    pytest.importorskip("pgx", reason="pgx is not installed")
    from unojax.adapters.pgx import Uno

    env = Uno(dtype="int8")
    # Player 0 is counted in random play; in the games of the value network, the seat that it has, one in every other game.
    seat = np.zeros(num, int) if player == "random" else np.arange(num) % 2

    @jax.jit
    def play(states, key):
        key_action, key_step = jax.random.split(key)
        actions = jax.random.categorical(key_action, jnp.where(states.legal_action_mask, 0.0, -jnp.inf))
        if player == "value":
            seen = jax.vmap(observe)(states._seats.state, states.current_player)
            chosen = jax.vmap(value_act)(seen, states.legal_action_mask)
            actions = jnp.where(states.current_player == seat, chosen, actions)
        return jax.vmap(env.step)(states, actions, jax.random.split(key_step, num))

    states = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), num))
    won, step = 0.0, 0
    while not states.terminated.all():
        running = ~np.asarray(states.terminated)
        states = play(states, jax.random.fold_in(jax.random.key(1), step))
        points = np.asarray((states.rewards[np.arange(num), seat] + 1) / 2)
        won, step = won + points[running & np.asarray(states.terminated)].sum(), step + 1
    assert_same_share(won, num, *request.getfixturevalue("first_wins" if player == "random" else "value_wins"))


@pytest.mark.parametrize(("player", "num"), [("random", 1024), ("value", 512)])
def test_jaxmarl(player: str, num: int, request: pytest.FixtureRequest):
    pytest.importorskip("jaxmarl", reason="jaxmarl is not installed")
    from unojax.adapters.jaxmarl import Uno

    env, seat = Uno(dtype="int8"), np.zeros(num, int) if player == "random" else np.arange(num) % 2

    @jax.jit
    def play(states, key):
        keys = jax.random.split(key, (3, num))
        available = jax.vmap(env.get_avail_actions)(states)
        choose = jax.vmap(lambda key, mask: jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf)))
        actions = {agent: choose(k, available[agent]) for agent, k in zip(env.agents, keys[1:], strict=True)}
        if player == "value":
            seen = jax.vmap(observe)(states.seats.state, seat)
            legal = jnp.where((seat == 0)[:, None], available["agent_0"], available["agent_1"])
            chosen = jax.vmap(value_act)(seen, legal[:, : env.nothing])
            chosen = jnp.where(legal[:, env.nothing], env.nothing, chosen)
            actions = {agent: jnp.where(seat == who, chosen, actions[agent]) for who, agent in enumerate(env.agents)}
        _, states, rewards, dones, _ = jax.vmap(env.step)(keys[0], states, actions)
        return states, jnp.where(seat == 0, rewards["agent_0"], rewards["agent_1"]), dones["__all__"]

    states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), num))[1]
    won, running, step = 0.0, np.ones(num, bool), 0
    while running.any():
        states, rewards, over = play(states, jax.random.fold_in(jax.random.key(1), step))
        won += float((np.asarray(rewards)[running & np.asarray(over)] + 1).sum() / 2)
        running, step = running & ~np.asarray(over), step + 1
    assert_same_share(won, num, *request.getfixturevalue("first_wins" if player == "random" else "value_wins"))


def test_pettingzoo(request: pytest.FixtureRequest):
    pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")
    from unojax.adapters.pettingzoo import AGENTS, raw_env

    env, num, won = raw_env(), 150, 0.0
    env.reset(seed=0)
    for agent in AGENTS:
        env.action_space(agent).seed(AGENTS.index(agent))
    for number in range(num):
        env.reset()
        seat = AGENTS[number % 2]
        while not env.terminations[seat]:
            agent = env.agent_selection
            mask = env.observe(agent)["action_mask"]
            action = env.action_space(agent).sample(mask)
            if agent == seat:
                action = jitted_value_act(env._game.observation(AGENTS.index(agent)), mask.astype(bool))
            env.step(int(action))
        won += (env.rewards[seat] + 1) / 2
    assert_same_share(won, num, *request.getfixturevalue("value_wins"))


def test_openspiel(request: pytest.FixtureRequest):
    """The value network as one of OpenSpiel's bots, which reads the observation's text."""
    pyspiel = pytest.importorskip("pyspiel", reason="open_spiel is not installed")
    from open_spiel.python.algorithms import evaluate_bots
    from open_spiel.python.bots.uniform_random import UniformRandomBot

    from unojax.adapters import openspiel

    class ValueBot(pyspiel.Bot):
        def __init__(self, player: int):
            pyspiel.Bot.__init__(self)
            self.player = player

        def player_id(self) -> int:
            return self.player

        def restart_at(self, state) -> None:
            """Begin anew: there is nothing to forget."""

        def step(self, state) -> int:
            mask = np.isin(np.arange(spiel.num_distinct_actions()), state.legal_actions())
            return int(jitted_value_act(parse_observation(state.observation_string(self.player)), mask))

    spiel, rng, num = openspiel.load_game(), np.random.RandomState(0), 100  # what OpenSpiel takes
    random = [UniformRandomBot(player, rng) for player in (0, 1)]
    points = 0.0
    for number in range(num):
        seat = number % 2
        bots = [ValueBot(player) if player == seat else random[player] for player in (0, 1)]
        points += (evaluate_bots.evaluate_bots(spiel.new_initial_state(), bots, rng)[seat] + 1) / 2
    assert_same_share(points, num, *request.getfixturevalue("value_wins"))


def test_rlcard(request: pytest.FixtureRequest):
    """RLCard's own random agent, and the value network as one of its agents; its rule agent is in `test_rlcard.py`."""
    pytest.importorskip("rlcard.agents", reason="rlcard, or what its agents import, is not installed")
    from rlcard.agents import RandomAgent

    from unojax.adapters import rlcard as bridge

    env, num = bridge.make(seed=0), 150

    class ValueAgent:
        use_raw = False

        def __init__(self, player: int):
            self.player = player

        def eval_step(self, state):
            mask = np.isin(np.arange(env.num_actions), list(map(bridge.to_rlcard, state["legal_actions"])))
            return bridge.to_rlcard(int(jitted_value_act(env.game.observation(self.player), mask))), {}

    np.random.seed(0)  # noqa: NPY002  (RLCard's agents draw from NumPy's one global generator)
    won = 0.0
    for number in range(num):
        seat = number % 2
        agents: list = [RandomAgent(env.num_actions), RandomAgent(env.num_actions)]
        agents[seat] = ValueAgent(seat)
        env.set_agents(agents)
        won += (env.run()[1][seat] + 1) / 2
    assert_same_share(won, num, *request.getfixturevalue("value_wins"))

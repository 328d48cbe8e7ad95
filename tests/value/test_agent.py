"""The network as a player."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import seated
from tests.value.positions import SMALL, legal_all, observe_all, random_network, random_states, values_of
from unojax import cards, game
from unojax.arena.fingerprint import describe
from unojax.belief.opponents import parse_opponent
from unojax.belief.updaters import ParticleFilter, UniformFilter
from unojax.device import static
from unojax.game import State
from unojax.observation import observe
from unojax.rules import Rules
from unojax.specs import parse_agent, settings_of
from unojax.value import NetworkConfig, features, outlook_of_hands, outlook_of_unseen, save_network
from unojax.value.agent import ValueAgent, policy, value
from unojax.view import view_of

NUM = 32
NETWORK = random_network()
agent_of = partial(value, network="random", loaded=NETWORK)
UNSEEN = agent_of(belief="unseen")
PARTICLES = agent_of(particles=8)
POLICY = agent_of(belief="unseen", head="policy")


@pytest.mark.parametrize(
    ("spec", "belief", "particles", "head"),
    [
        ("value", "particles", 128, "value"),
        ("value:belief=unseen", "unseen", 128, "value"),
        ("value:particles=16", "particles", 16, "value"),
        ("value:particles=1e3", "particles", 1000, "value"),
    ],
)
def test_specs(spec: str, belief: str, particles: int, head: str):
    agent = parse_agent(spec)
    assert isinstance(agent, ValueAgent) and agent.head == head
    if belief == "particles":
        assert isinstance(agent.updater, ParticleFilter) and agent.updater.num_particles == particles
    else:
        assert agent.updater == UniformFilter(particles)
    assert parse_agent(agent.name) == agent
    settings = {
        "network": "pretrained",
        "belief": belief,
        "model": "family",
        "particles": particles,
        "head": head,
        "discount": None,
    }
    assert settings_of(agent.name) == settings


def test_both_take_types_of_opponents():
    for made in (value, policy):
        agent = made(network="random", loaded=NETWORK, belief="particles", particles=8, model="uniform|linear")
        assert isinstance(agent.updater, ParticleFilter)
        assert agent.updater.opponent == parse_opponent("uniform|linear")
        assert agent.name.endswith("model=uniform|linear,particles=8")


def test_it_plays_by_the_type_that_it_takes_the_opponent_for(states: State):
    """Nothing but P(type) differs: the hands do not."""
    network = random_network(config=NetworkConfig(width=8, types=True))
    seen, legal = seen_and_legal(states)
    agent = value(network="telling", loaded=network, particles=8)
    memory = jax.vmap(agent.init)(jax.random.split(jax.random.key(0), NUM), seen)
    types = np.eye(6, dtype=np.float32)[:2] * 20

    def scores(log_types):
        told = replace(memory, log_types=jnp.broadcast_to(log_types, memory.log_types.shape))
        return jax.vmap(agent.scores, (None, 0, 0, 0))(jax.random.key(0), told, seen, legal[:, : cards.DRAW])

    first, second = (np.asarray(jax.jit(scores)(jax.nn.log_softmax(each))) for each in types)
    is_scored = np.isfinite(first)
    np.testing.assert_array_equal(is_scored, np.isfinite(second))
    assert (np.abs(first[is_scored] - second[is_scored]) > 1e-3).any()


def test_the_shortest_spec():
    assert parse_agent("value:belief=particles,particles=128,network=pretrained").name == "value"
    assert parse_agent("value:particles=128,belief=unseen").name == "value:belief=unseen"
    assert PARTICLES.name == "value:network=random,particles=8"


def test_rules_go_along(states):
    rules = Rules(hand_size=5)
    agent = parse_agent("value:belief=unseen", rules=rules)
    assert isinstance(agent, ValueAgent) and agent.rules == rules
    with pytest.raises(ValueError, match="rules differ"):
        jax.eval_shape(agent.act, jax.random.key(0), (), *jax.tree.map(lambda leaf: leaf[0], seen_and_legal(states)))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("value:belief=exact", "belief must be one of particles, ages, unseen"),
        ("value:particles=0", "particles must be at least 1, got 0"),
        ("value:particles=half", "particles must be a whole number"),
        ("value:head=both", "head must be one of value, policy"),
        ("value:loaded=3", "unknown key 'loaded'"),
        ("value:network=/no/such/file", "no such file"),
        ("value:depth=2", "unknown key 'depth'"),
    ],
)
def test_a_spec_that_says_nothing_sensible_is_a_value_error(spec: str, message: str):
    with pytest.raises(ValueError, match=message):
        parse_agent(spec)


def test_constructed_with_something_wrong():
    with pytest.raises(ValueError, match="belief must be one of particles, ages, unseen, got 'exact'"):
        agent_of(belief="exact")  # type: ignore[arg-type]  # a wrong type is what is tested
    with pytest.raises(ValueError, match="head must be value or policy"):
        agent_of(head="both")  # type: ignore[arg-type]  # a wrong type is what is tested
    headless = random_network(config=type(SMALL)(width=4))
    with pytest.raises(ValueError, match="has no policy head; use head=value"):
        value(network="headless", loaded=headless, head="policy")


def test_a_network_from_a_file(tmp_path: Path):
    save_network(tmp_path / "mine.safetensors", random_network())
    agent = parse_agent(f"value:network={tmp_path / 'mine.safetensors'},belief=unseen,head=policy")
    assert isinstance(agent, ValueAgent) and agent.network.config == SMALL and agent.head == "policy"


def test_a_network_that_is_overwritten_makes_another_agent(tmp_path: Path):
    """As a static argument, too, where what was compiled is found again by equality."""
    file = tmp_path / "last.safetensors"
    networks = [NETWORK, jax.tree.map(lambda leaf: leaf + 1, NETWORK), NETWORK]
    agents = []
    for network in networks:
        save_network(file, network)
        agents.append(parse_agent(f"value:network={file},belief=unseen"))
    first, second, again = agents
    assert first != second and first == again and hash(first) == hash(again)
    assert first != replace(first, head="policy") and first != first.name
    num_traced = 0

    @partial(jax.jit, static_argnames="agent")
    def total(*, agent: ValueAgent):
        nonlocal num_traced
        num_traced += 1
        return sum(leaf.sum() for leaf in jax.tree.leaves(agent.network))

    for agent, network in zip(agents, networks, strict=True):
        expected = sum(leaf.astype(np.float64).sum() for leaf in jax.tree.leaves(jax.device_get(network)))
        np.testing.assert_allclose(total(agent=agent), expected, rtol=1e-4, atol=1e-3)
    assert num_traced == 2


def test_one_program_serves_all_networks_of_a_shape():
    other = agent_of(belief="unseen", loaded=jax.tree.map(lambda leaf: leaf + 1, NETWORK))
    assert other != UNSEEN and static.split(other)[1] == static.split(UNSEEN)[1]


def test_agents_are_told_apart_while_they_are_traced():
    @jax.jit
    def compare(agent: ValueAgent, other: ValueAgent):
        assert agent == replace(agent) and agent != other and agent != UNSEEN
        return agent.network.params

    compare(UNSEEN, agent_of(belief="unseen"))


def test_a_network_is_nothing_to_find_a_kept_program_by():
    with pytest.raises(TypeError, match="not of the package"):
        describe(UNSEEN)


FORCED = [
    # One legal play; nothing but drawing; a penalty; the last card.
    (seated(0, "R7 B1 B3", "G3 G4", "R2"), 7),
    (seated(1, "B1 B3", "G3 G4", "R2"), cards.DRAW),
    (seated(0, "R7 W", "G3 G4", "R+2", penalty=2), cards.DRAW),
    (seated(1, "R7", "G3 G4", "R2"), 7),
]
HIDDEN = [seated(0, "R5 R7 W GS B5", theirs, "R2") for theirs in ("B1 B2 Y3", "W W+4 R9", "R1 R2 R3", "G0 Y0 B0")]


@pytest.fixture(scope="module")
def states() -> State:
    """24 decisions, four forced positions, and four that differ in the hidden hand alone."""
    others = [state for state, _ in FORCED] + HIDDEN
    found = random_states(31, NUM - len(others), deciding=True)
    return jax.tree.map(lambda leaf, *one: np.concatenate([leaf, np.stack(one)]), found, *others)


def seen_and_legal(states: State):
    return observe_all(states, jnp.asarray(states.current_player, jnp.int32)), legal_all(states)


@partial(jax.jit, static_argnums=1)
def _decide(numbers, skeleton, states: State):
    (agent,) = static.join(numbers, skeleton)

    def one(state: State):
        seen, legal = observe(state, state.current_player), game.legal_mask(state)
        # One key for all, so that nothing but hidden hands could make a difference.
        key_init, key_act = jax.random.split(jax.random.key(0))
        memory = agent.init(key_init, seen)
        return memory, agent.act(key_act, memory, seen, legal)

    return jax.vmap(one)(states)


@pytest.fixture(scope="module")
def decide(states: State):
    """Memory and action of an agent that comes into the games."""
    return {agent.name: _decide(*static.split((agent,)), states) for agent in (UNSEEN, PARTICLES, POLICY)}


@jax.jit
def look(seen, memory):
    """By what is known of the hidden hand, what it says; and what the policy head says."""
    view = view_of(seen)
    unseen = outlook_of_unseen(view)
    believed = outlook_of_hands(view, memory)
    return unseen, believed, NETWORK(features(view, unseen)).policy_logits


@pytest.fixture(scope="module")
def best_of(states: State, decide) -> dict[str, np.ndarray]:
    """By agent, what each action should be the best of."""
    seen, legal = seen_and_legal(states)
    legal = legal[:, : cards.DRAW]
    unseen, believed, logits = look(seen, decide[PARTICLES.name][0])
    return {
        UNSEEN.name: np.asarray(values_of(NETWORK, seen, unseen, legal)),
        PARTICLES.name: np.asarray(values_of(NETWORK, seen, believed, legal)),
        POLICY.name: np.where(legal, logits, -np.inf),
    }


@pytest.mark.parametrize("agent", [UNSEEN, PARTICLES, POLICY], ids=["unseen", "particles", "policy head"])
def test_greedy_on_what_the_network_says(best_of, decide, agent: ValueAgent):
    memory = decide[PARTICLES.name][0]
    np.testing.assert_allclose(np.exp(memory.log_weights).sum(-1), 1, atol=1e-5)
    values = best_of[agent.name][:24]
    action = np.asarray(decide[agent.name][1])[:24]
    np.testing.assert_allclose(values[np.arange(len(action)), action], values.max(-1), atol=1e-5)
    assert len(set(action.tolist())) > 5
    assert (action != np.argmax(values > -np.inf, -1)).any(), "not just the first legal play"


@pytest.mark.parametrize("agent", [UNSEEN, PARTICLES, POLICY], ids=["unseen", "particles", "policy head"])
def test_forced_moves_and_wins(decide, agent: ValueAgent):
    assert decide[agent.name][1][24:28].tolist() == [wanted for _, wanted in FORCED]


@pytest.mark.parametrize("agent", [UNSEEN, PARTICLES], ids=["unseen", "particles"])
def test_the_hidden_hand_changes_nothing(decide, agent: ValueAgent):
    for leaf in jax.tree.leaves(decide[agent.name]):
        assert (leaf[28:] == leaf[28:29]).all()


def test_an_agent_remembers_what_its_knowledge_does(states):
    """Whole games are played in the tests of the arena."""
    state = jax.tree.map(lambda leaf: leaf[0], states)
    seen, key = observe(state, 0), jax.random.key(0)
    assert UNSEEN.init(key, seen) == UNSEEN.update(key, (), seen, jnp.int32(-1), seen) == ()
    memory = jax.eval_shape(PARTICLES.init, key, seen)
    updated = jax.eval_shape(PARTICLES.update, key, memory, seen, jnp.int32(-1), seen)
    assert updated == memory and memory.log_weights.shape == (8,)

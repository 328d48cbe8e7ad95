"""The network as a player."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import refusals, seated
from tests.value.positions import SMALL, legal_all, observe_all, random_network, random_states, values_of
from unojax import cards, game
from unojax.arena.fingerprint import describe
from unojax.belief.hands import Hands
from unojax.belief.opponents import parse_opponent
from unojax.belief.updaters import ParticleFilter, UniformFilter
from unojax.device.static import Argument
from unojax.game import State
from unojax.observation import observe
from unojax.rules import Rules
from unojax.specs import parse_agent, settings_of
from unojax.value import features, outlook_of_hands, outlook_of_unseen, save_network
from unojax.value.agent import ValueAgent, policy, value
from unojax.view import view_of

NUM = 32
NETWORK = random_network(config=replace(SMALL, types=True))
agent_of = partial(value, network="random", loaded=NETWORK)
UNSEEN = agent_of(belief="unseen")
PARTICLES = agent_of(particles=8)
POLICY = policy(network="random", loaded=NETWORK, belief="unseen", greedy=True)
AGENTS = UNSEEN, PARTICLES, POLICY
FORCED = [
    # One legal play; nothing but drawing; a penalty; the last card.
    (seated(0, "R7 B1 B3", "G3 G4", "R2"), 7),
    (seated(1, "B1 B3", "G3 G4", "R2"), cards.DRAW),
    (seated(0, "R7 W", "G3 G4", "R+2", penalty=2), cards.DRAW),
    (seated(1, "R7", "G3 G4", "R2"), 7),
]
HIDDEN = [seated(0, "R5 R7 W GS B5", theirs, "R2") for theirs in ("B1 B2 Y3", "W W+4 R9", "R1 R2 R3", "G0 Y0 B0")]


def test_specs(tmp_path: Path):
    common = {"network": "pretrained", "model": "family", "discount": None}
    for spec, shortest, belief, particles in (
        ("value", "value", "particles", 128),
        ("value:belief=particles,particles=128,network=pretrained", "value", "particles", 128),
        ("value:belief=unseen,particles=128", "value:belief=unseen", "unseen", 128),
        ("value:particles=16", "value:particles=16", "particles", 16),
        ("value:particles=1e3", "value:particles=1000", "particles", 1000),
    ):
        agent = parse_agent(spec)
        assert isinstance(agent, ValueAgent) and agent.name == shortest and parse_agent(agent.name) == agent, spec
        assert settings_of(agent.name) == common | {"belief": belief, "particles": particles}, spec
        if belief == "particles":
            assert isinstance(agent.updater, ParticleFilter) and agent.updater.num_particles == particles, spec
        else:
            assert agent.updater == UniformFilter(particles), spec
    for make in (value, policy):
        agent = make(network="random", loaded=NETWORK, belief="particles", particles=8, model="uniform|linear")
        assert isinstance(agent.updater, ParticleFilter) and agent.updater.opponent == parse_opponent("uniform|linear")
        assert agent.name.endswith("model=uniform|linear,particles=8")
    agent = parse_agent("value:belief=unseen", rules=Rules(hand_size=5))
    assert isinstance(agent, ValueAgent) and agent.rules == Rules(hand_size=5)
    save_network(tmp_path / "mine.safetensors", random_network())
    agent = parse_agent(f"value:network={tmp_path / 'mine.safetensors'},belief=unseen")
    assert isinstance(agent, ValueAgent) and agent.network.config == SMALL and (agent.head, agent.is_greedy) == ("value", True)
    agent = parse_agent(f"policy:network={tmp_path / 'mine.safetensors'},belief=unseen,greedy=true")
    assert isinstance(agent, ValueAgent) and agent.network.config == SMALL and (agent.head, agent.is_greedy) == ("policy", True)


def test_refusals(states: State):
    seen, legal = jax.tree.map(lambda leaf: leaf[0], seen_and_legal(states))
    headless = random_network(config=replace(SMALL, policy_head=False))
    settings = ("belief", "exact"), ("particles", "0"), ("particles", "half"), ("network", "/no/such/file")
    calls = {f"{key} ({text})": lambda key=key, text=text: parse_agent(f"value:{key}={text}") for key, text in settings}
    # `loaded` is no key, and `depth` is none of this agent's.
    calls |= {f"'{key}'": lambda key=key: parse_agent(f"value:{key}=2") for key in ("loaded", "depth")}
    refusals(
        calls
        | {
            "belief (an argument)": lambda: agent_of(belief="exact"),
            "policy:network=FILE,greedy=true": lambda: parse_agent("value:head=policy"),
            "policy head": lambda: policy(network="headless", loaded=headless),
            "rules": lambda: jax.eval_shape(agent_of(rules=Rules(hand_size=5)).act, jax.random.key(0), (), seen, legal),
        }
    )


def test_agents_are_equal_if_their_networks_are(tmp_path: Path):
    """Also as static arguments; one program serves all networks of a shape."""
    file, other_network = tmp_path / "last.safetensors", jax.tree.map(lambda leaf: leaf + 1, NETWORK)
    agents = []
    for network in (NETWORK, other_network, NETWORK):
        save_network(file, network)
        agents.append(parse_agent(f"value:network={file},belief=unseen"))
    first, second, again = agents
    assert first != second and first == again and hash(first) == hash(again)
    assert first != replace(first, head="policy") and first != first.name
    assert jax.tree.structure(Argument(first)) == jax.tree.structure(Argument(second))
    traced = []

    @partial(jax.jit, static_argnames="agent")
    def total(*, agent: ValueAgent):
        traced.append(agent)
        return sum(leaf.sum() for leaf in jax.tree.leaves(agent.network))

    @jax.jit
    def compare(agent: ValueAgent, other: ValueAgent):
        assert agent == replace(agent) and agent != other and agent != UNSEEN
        return agent.network.params

    for agent, network in zip(agents, (NETWORK, other_network, NETWORK), strict=True):
        expected = sum(np.asarray(leaf, np.float64).sum() for leaf in jax.tree.leaves(network))
        np.testing.assert_allclose(total(agent=agent), expected, rtol=1e-4, atol=1e-3)
    assert len(traced) == 2
    compare(UNSEEN, agent_of(belief="unseen"))
    with pytest.raises(TypeError, match="not of the package"):
        describe(UNSEEN)


@pytest.fixture(scope="module")
def states() -> State:
    """Return 24 decisions, four forced positions, and four that differ in the hidden hand alone."""
    others = [state for state, _ in FORCED] + HIDDEN
    found = random_states(31, NUM - len(others), deciding=True)
    return jax.tree.map(lambda leaf, *one: np.concatenate([leaf, np.stack(one)]), found, *others)


def seen_and_legal(states: State):
    return jax.device_get((observe_all(states, np.asarray(states.current_player, np.int32)), legal_all(states)))


@jax.jit
def _decide(argument: Argument, states: State):
    agent = argument.value

    def one(state: State):
        seen, legal = observe(state, state.current_player), game.legal_mask(state)
        # One key for all, so that only hidden hands could make a difference.
        key_init, key_act = jax.random.split(jax.random.key(0))
        memory = agent.init(key_init, seen)
        return memory, agent.act(key_act, memory, seen, legal)

    return jax.vmap(one)(states)


@pytest.fixture(scope="module")
def decide(states: State):
    """Return memory and action of each agent that begins in these positions."""
    return {agent.name: _decide(Argument(agent), states) for agent in AGENTS}


@jax.jit
def look(seen, memory):
    """Return the outlooks of unseen cards and of a belief, and the logits of the policy head."""
    view = view_of(seen)
    unseen, hands = outlook_of_unseen(view), jax.vmap(Hands.of)(memory)
    return unseen, outlook_of_hands(view, hands, PARTICLES.updater.opponent), NETWORK(features(view, unseen)).policy_logits


def test_agents_take_the_best_play(states: State, decide):
    """By values or logits, with forced moves and wins, and without the hidden hand."""
    seen, legal = seen_and_legal(states)
    one, key = jax.tree.map(lambda leaf: leaf[0], seen), jax.random.key(0)
    assert jax.eval_shape(UNSEEN.init, key, one) == jax.eval_shape(UNSEEN.update, key, (), one, np.int32(-1), one) == ()
    legal = legal[:, : cards.DRAW]
    memory = decide[PARTICLES.name][0]
    np.testing.assert_allclose(np.exp(memory.log_weights).sum(-1), 1, atol=1e-5)
    unseen, believed, logits = look(seen, memory)
    best_of = {
        UNSEEN.name: values_of(NETWORK, seen, unseen, legal),
        PARTICLES.name: values_of(NETWORK, seen, believed, legal),
        POLICY.name: np.where(legal, logits, -np.inf),
    }
    for name, (memory, action) in jax.device_get(decide).items():
        values, chosen = np.asarray(best_of[name])[:24], action[:24]
        np.testing.assert_allclose(values[np.arange(24), chosen], values.max(-1), atol=1e-5, err_msg=name)
        assert len(set(chosen.tolist())) > 5, name
        assert (chosen != np.argmax(values > -np.inf, -1)).any(), f"{name} takes more than the first legal play"
        assert action[24:28].tolist() == [wanted for _, wanted in FORCED], name
        assert all((leaf[28:] == leaf[28:29]).all() for leaf in jax.tree.leaves((memory, action))), name


def test_the_type_of_the_opponent_changes_the_values(states: State, decide):
    """The hands are equal, only P(type) differs."""
    seen, legal = seen_and_legal(states)
    memory = decide[PARTICLES.name][0]

    @jax.jit
    def scores(log_types):
        typed = replace(memory, log_types=jnp.broadcast_to(log_types, memory.log_types.shape))
        return jax.vmap(PARTICLES.scores, (None, 0, 0, 0))(jax.random.key(0), typed, seen, legal[:, : cards.DRAW])

    types = np.log(np.eye(6, dtype=np.float32)[:2] + 1e-8)
    first, second = (np.asarray(scores(each)) for each in types)
    is_scored = np.isfinite(first)
    np.testing.assert_array_equal(is_scored, np.isfinite(second))
    assert (np.abs(first[is_scored] - second[is_scored]) > 1e-3).any()

"""The network as a player."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import seated
from tests.value.positions import RULES, SMALL, legal_all, observe_all, random_network, random_states
from unojax import cards
from unojax.device import static
from unojax.agents import parse_agent
from unojax.arena import play_match
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.value import features, outlook_of_hands, outlook_of_unseen, position_of, save_network, value_plays
from unojax.value.agent import ValueAgent

UNSEEN = ValueAgent(belief="unseen", loaded=random_network())
PARTICLES = ValueAgent(particles=8, loaded=random_network())
POLICY = ValueAgent(belief="unseen", head="policy", loaded=random_network())


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
    assert (agent.belief, agent.particles, agent.head) == (belief, particles, head)
    assert parse_agent(agent.name) == agent


def test_the_shortest_spec():
    assert parse_agent("value:belief=particles,particles=128,network=pretrained").name == "value"
    assert parse_agent("value:particles=128,belief=unseen").name == "value:belief=unseen"


def test_rules_go_along():
    rules = Rules(hand_size=5)
    assert parse_agent("value", rules=rules).rules == rules


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("value:belief=exact", "belief must be one of particles, unseen"),
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
    with pytest.raises(ValueError, match="belief must be one of particles, unseen, got 'exact'"):
        ValueAgent(belief="exact", loaded=random_network())  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ValueError, match="head must be value or policy"):
        ValueAgent(head="both", loaded=random_network())  # type: ignore[arg-type]  # on purpose
    headless = random_network(config=type(SMALL)(width=4))
    with pytest.raises(ValueError, match="has no policy head; use head=value"):
        ValueAgent(head="policy", loaded=headless)


def test_a_network_from_a_file(tmp_path: Path):
    save_network(tmp_path / "mine.safetensors", random_network())
    agent = parse_agent(f"value:network={tmp_path / 'mine.safetensors'},belief=unseen,head=policy")
    assert agent.loaded.config == SMALL and agent.head == "policy"


@pytest.fixture(scope="module")
def states() -> State:
    return random_states(31, 24, deciding=True)


@pytest.fixture(scope="module")
def seen(states: State) -> Observation:
    return observe_all(states, jnp.asarray(states.current_player, jnp.int32))


@partial(jax.jit, static_argnums=1)
def decide(numbers, skeleton, seen: Observation, legal: jax.Array):
    """Memory and action of an agent that comes into games."""
    (agent,) = static.join(numbers, skeleton)

    def one(key: jax.Array, seen: Observation, legal: jax.Array):
        memory = agent.init(key, seen)
        return memory, agent.act(key, memory, seen, legal)

    return jax.vmap(one)(jax.random.split(jax.random.key(0), len(legal)), seen, legal)


@jax.jit
def values_of(seen: Observation, outlook, legal: jax.Array) -> jax.Array:
    return value_plays(random_network(), position_of(seen), outlook, legal[:, : cards.DRAW], rules=RULES)


def test_greedy_on_the_values_of_its_plays(states, seen):
    legal = legal_all(states)
    _, action = decide(*static.split((UNSEEN,)), seen, legal)
    check_best(values_of(seen, jax.jit(outlook_of_unseen)(jax.jit(position_of)(seen)), legal), action)


def test_greedy_on_what_it_believes(states, seen):
    legal = legal_all(states)
    memory, action = decide(*static.split((PARTICLES,)), seen, legal)
    weights = jnp.exp(memory.log_weights)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    believed = jax.jit(lambda seen, memory: outlook_of_hands(position_of(seen), memory.packed, jnp.exp(memory.log_weights)))
    check_best(values_of(seen, believed(seen, memory), legal), action)


def check_best(values: jax.Array, action: jax.Array) -> None:
    values, action = np.asarray(values), np.asarray(action)
    np.testing.assert_allclose(values[np.arange(len(action)), action], values.max(-1), atol=1e-5)
    assert len(set(action.tolist())) > 5
    assert (action != np.argmax(values > -np.inf, -1)).any(), "not just the first legal play"


def test_the_policy_head_chooses_the_highest_logit(states, seen):
    legal = legal_all(states)
    _, action = decide(*static.split((POLICY,)), seen, legal)

    @jax.jit
    def logits(seen: Observation) -> jax.Array:
        position = position_of(seen)
        return random_network()(features(position, outlook_of_unseen(position))).policy_logits

    check_best(jnp.where(legal[:, : cards.DRAW], logits(seen), -jnp.inf), action)


def test_forced_moves_and_wins():
    """One legal play; nothing but drawing; a penalty; the last card."""
    positions = [
        (seated(0, "R7 B1 B2", "G3 G4", "R2"), 7),
        (seated(1, "B1 B3", "G3 G4", "R2"), cards.DRAW),
        (seated(0, "R7 W", "G3 G4", "R+2", penalty=2), cards.DRAW),
        (seated(1, "R7", "G3 G4", "R2"), 7),
    ]
    states = jax.tree.map(lambda *leaves: np.stack(leaves), *(state for state, _ in positions))
    seen = observe_all(states, jnp.asarray(states.current_player, jnp.int32))
    for agent in (UNSEEN, POLICY):
        _, action = decide(*static.split((agent,)), seen, legal_all(states))
        assert action.tolist() == [wanted for _, wanted in positions]


def test_the_hidden_hand_changes_nothing():
    mine, theirs = "R5 R7 W GS B5", ("B1 B2 Y3", "W W+4 R9", "R1 R2 R3", "G0 Y0 B0")
    states = jax.tree.map(lambda *leaves: np.stack(leaves), *(seated(0, mine, hand, "R2") for hand in theirs))
    seen = jax.jit(jax.vmap(lambda state: observe(state, 0)))(states)
    legal = legal_all(states)
    for agent in (UNSEEN, PARTICLES):
        numbers, skeleton = static.split((agent,))
        # One key for all, so that nothing but the hidden hands could make a difference.
        made = [decide(numbers, skeleton, *jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], (seen, legal))) for i in range(4)]
        for other in made[1:]:
            assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), other, made[0]))


@pytest.mark.parametrize("agent", [UNSEEN, PARTICLES], ids=["unseen", "particles"])
def test_whole_games(agent: ValueAgent):
    """Illegal actions would raise."""
    result = play_match(jax.random.key(0), (agent, parse_agent("uniform")), 4, batch_size=8, workers=1)
    assert (result.num_steps >= 7).all() and np.isin(result.winner, [-1, 0, 1]).all()
    assert (result.num_choices[..., 0] > 0).any()

"""Agents from text, and their common parts: names, settings, memory between games.

Contract: policies and agents.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal, refusals, refused_texts
from unojax import cards, make_state
from unojax.agents import PolicyAgent, next_game, reveal
from unojax.belief.opponents import parse_opponent
from unojax.belief.updaters import Oracle, ParticleFilter, UniformFilter, parse_updater
from unojax.bits import unpack
from unojax.board.game import DEFAULT_ADVISER
from unojax.cli.play import PlayGame
from unojax.observation import observe
from unojax.policies import LINEAR, POLICIES, uniform
from unojax.rules import PRESETS, Rules
from unojax.search import DEFAULT_SEARCH, TABLE_SEARCH
from unojax.search.agents import SearchAgent
from unojax.specs import AGENTS, as_agent, choose_opponent, format_spec, parse_agent, register, settings_of
from unojax.value import load_network
from unojax.value.network import knows_turns

PROGRAMS = 120  # Beliefs of several agents.

look = jax.jit(observe)


@dataclass(frozen=True)
class Made:
    """An agent of the factory `example`."""

    name: str
    settings: dict[str, Any]
    rules: Rules


def example(
    *,
    rollouts: int = 1000,
    belief: Literal["particles", "exact"] = "particles",
    margin: float = 0.5,
    greedy: bool = False,
    label: str = "",
    limit: int | None = None,
    weights: tuple[float, ...] = (1.0,),
    rules: Rules = Rules(),
) -> Made:
    settings = {key: value for key, value in locals().items() if key not in ("rules", "weights")}
    if rollouts < 1:
        raise ValueError(f"rollouts must be at least 1, got {rollouts}")
    return Made(format_spec("example", example, settings), settings, rules)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AGENTS, "example", lambda: example)
    monkeypatch.setitem(AGENTS, "instance", lambda: uniform)


def test_every_name_makes_an_agent():
    """Policies are agents of their names, as are entries that are policies."""
    for name in POLICIES:
        assert parse_agent(name) == PolicyAgent(name, POLICIES[name])
    assert parse_agent("instance") == PolicyAgent("instance", POLICIES["uniform"])
    # A policy network, a program and another library's agent need a value.
    names = [name for name in AGENTS if name not in ("policy", "process", "rlcard", "instance")]
    assert [parse_agent(name).name for name in names] == names


def test_agents_of_others_are_registered_once(monkeypatch: pytest.MonkeyPatch):
    """Except if their module is imported again."""
    monkeypatch.setattr("unojax.specs.AGENTS", dict(AGENTS))

    def load() -> Any:
        return example

    for _ in range(2):
        register("their-own", load)
    assert parse_agent("their-own:rollouts=20") == example(rollouts=20)
    refusals(
        {repr(name): partial(register, name, lambda: example) for name in ("", "with space", "a:b", "linear", "example", "mc")}
    )


def test_specs_and_their_shortest_form():
    for spec, (values, canonical) in {
        "example": ({}, "example"),
        "example:rollouts=20": ({"rollouts": 20}, "example:rollouts=20"),
        "example:rollouts=1e4": ({"rollouts": 10_000}, "example:rollouts=10000"),
        "example:rollouts=1000": ({}, "example"),
        "example:belief=exact,rollouts=7": ({"belief": "exact", "rollouts": 7}, "example:rollouts=7,belief=exact"),
        "example:margin=0.25,greedy=true": ({"margin": 0.25, "greedy": True}, "example:margin=0.25,greedy=true"),
        "example:margin=2": ({"margin": 2.0}, "example:margin=2"),
        "example:margin=0.1234567890123": ({"margin": 0.1234567890123}, "example:margin=0.1234567890123"),
        "example:greedy=false,limit=none": ({}, "example"),
        "example:limit=3,label=a b": ({"limit": 3, "label": "a b"}, "example:label=a b,limit=3"),
    }.items():
        agent: Any = parse_agent(spec)
        assert agent == example(**values)
        assert agent.name == canonical
        assert parse_agent(canonical) == agent
        assert settings_of(spec) == agent.settings
    assert settings_of("uniform") == {}
    rules = Rules(hand_size=5)
    assert parse_agent("example:rollouts=3", rules=rules) == example(rollouts=3, rules=rules)
    assert parse_agent("uniform", rules=rules) == parse_agent("uniform")
    # Other values for some keys.
    assert parse_agent("example:rollouts=3,label=a", rules=rules, rollouts=1000) == example(label="a", rules=rules)


def test_specs_that_describe_no_agent_are_refused_in_one_line():
    others: list[Any] = [None, uniform]
    refusals({f"an agent must be text ({other})": partial(parse_agent, other) for other in others})
    refused_texts(
        parse_agent,
        {
            "'best'; choose one of uniform, greedy": ["best"],
            "example, instance": ["best"],
            "''": [""],
            "write just uniform": ["uniform:seed=1", "uniform:"],
            "key=value": ["example:"],
            "'depth'; choose from rollouts, belief, margin, greedy, label, limit": ["example:depth=3"],
            "'weights'": ["example:weights=3"],
            "key ''": ["example:rollouts=1,"],
            "rollouts": [
                *("example:rollouts", "example:rollouts=1,rollouts=2", "example:rollouts=many", "example:rollouts=1.5"),
                *("example:rollouts=inf", "example:rollouts=0"),
            ],
            "belief": ["example:belief=guess"],
            "margin": ["example:margin=x"],
            "greedy": ["example:greedy=1"],
            "limit": ["example:limit=x"],
        },
    )
    with pytest.raises(ValueError, match=r"agent 'example:rollouts=0': .*") as caught:
        parse_agent("example:rollouts=0")
    assert "\n" not in str(caught.value)
    refusals(
        {
            "rollouts": lambda: parse_agent("example", rollouts=0),
            "write just uniform": lambda: parse_agent("uniform", rollouts=3),
        }
    )


class OnlyActs:
    def act(self, key: Any, memory: Any, observation: Any, legal_mask: Any) -> int:
        return 0


def test_a_player_in_any_form_becomes_an_agent():
    rules = Rules(hand_size=5)
    assert as_agent("example:rollouts=3", rules=rules) == example(rollouts=3, rules=rules)
    assert as_agent("linear") == as_agent(LINEAR) == PolicyAgent("linear", LINEAR)
    agent = as_agent("mc:belief=unseen")
    assert as_agent(agent) is agent

    def lowest(key: jax.Array, observation: Any, legal_mask: jax.Array) -> jax.Array:
        return jnp.argmax(legal_mask)

    assert as_agent(lowest) == PolicyAgent("lowest", lowest)
    wrong: list[Any] = [3, None, OnlyActs(), PolicyAgent]
    refusals({f"player ({player})": partial(as_agent, player) for player in wrong} | {"'nobody'": lambda: as_agent("nobody")})


def test_an_agent_for_other_rules_says_how_to_make_one():
    """The message names the agent's rules; the caller has no argument `rules` to leave out."""
    state, key = make_state("R1 R2", "B1 W", "R7", rules=Rules(hand_size=5)), jax.random.key(0)
    seen, mask = look(state, 0), np.ones(cards.NUM_ACTIONS, bool)
    for spec in ("value:belief=unseen", "mc:belief=unseen"):
        agent = parse_agent(spec)
        with pytest.raises(ValueError, match=r"hand_size=7 instead of 5; make the agent .*parse_agent\(spec, rules=rules\)"):
            agent.act(key, agent.init(key, seen), seen, mask)


def test_the_hidden_hand_is_shown_to_oracles_alone():
    """`reveal` shows it to an oracle baseline, and to no search."""
    state, key = make_state("R1 R2", "B1 W", "R7"), jax.random.key(0)
    seen = look(state, 0)
    for spec in ("uniform", "value:belief=unseen", "mc:belief=unseen"):
        agent = as_agent(spec)
        memory = agent.init(key, seen)
        assert reveal(agent, memory, state, 0) is memory
    agent: Any = as_agent("mc:belief=truth")
    for player in (0, 1):
        hands = agent.hands(key, reveal(agent, agent.init(key, seen), state, player), seen)
        np.testing.assert_array_equal(np.asarray(jax.jit(unpack)(hands.packed))[0], state.hands[1 - player])
        assert hands.log_weights.tolist() == [0.0]


def test_an_updater_by_its_settings():
    tracked = parse_updater("particles", particles=8, model="linear+0.5")
    assert isinstance(tracked, ParticleFilter) and tracked.num_particles == 8
    assert tracked.opponent != parse_updater("particles", particles=8).opponent
    assert parse_updater("unseen", particles=8) == UniformFilter(8) and parse_updater("truth", particles=8) == Oracle()
    refusals(
        {
            "one of particles, bootstrap, closed, ages, unseen, truth": lambda: parse_updater("guess", particles=8),
            "particles": lambda: parse_updater("truth", particles=0),
        }
    )


@pytest.mark.parametrize("belief", ["particles", "unseen"])
def test_hands_of_a_player_that_tracks_and_of_one_that_does_not(belief: Literal["particles", "unseen"]):
    """Particles come from the memory, unseen cards from the current position."""
    updater = parse_updater(belief, particles=8)

    @jax.jit
    def look_twice(state: Any, seeds: jax.Array) -> Any:
        seen, key = observe(state, 0), jax.random.key(0)
        memory = updater.init(key, seen)
        hands = jax.vmap(lambda seed: updater.hands(jax.random.key(seed), memory, seen))(seeds)
        return memory, unpack(hands.packed), hands.log_weights

    memory, hands, log_weights = jax.device_get(look_twice(make_state("R1 R2", "B1 W", "R7"), np.arange(2)))
    assert (hands[0] == hands[1]).all() == (belief == "particles")
    assert (memory == ()) == (belief == "unseen")
    assert (hands.sum(-1) == 2).all()
    np.testing.assert_allclose(np.exp(log_weights).sum(-1), 1, rtol=1e-5)


def test_an_agent_plays_under_all_rules():
    """The shipped network if it knows the rules, else a search."""
    for rules in [*PRESETS.values(), Rules(skip_forfeits=False), Rules(stacking=True), Rules(hand_size=5)]:
        network, name = load_network("pretrained", rules), choose_opponent(None, rules)
        assert name == ("value" if knows_turns(network, rules) else "mc:rollouts=200")
        assert parse_agent(name, rules=rules).name == name
        assert choose_opponent("uniform", rules) == "uniform"


def test_the_registry_needs_no_jax():
    code = "import sys, unojax.specs; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("mc:rollouts=2,particles=16,model=uniform|linear", marks=pytest.mark.slow),
        "value:particles=16,model=uniform|linear",
    ],
)
def test_the_type_of_the_opponent_carries_over_to_the_next_game(spec: str):
    agent = parse_agent(spec)
    seen = look(make_state("R1 R2 B3", "Y1 Y2 Y3", "R0"), 0)
    first = jax.device_get(jax.jit(agent.init)(jax.random.key(0), seen))
    belief = getattr(first, "belief", first)
    # As if uniform play had explained everything nine times as well.
    likelihood = belief.log_likelihood + np.log([0.9, 0.1]).astype(np.float32)[:, None]
    learned = replace(belief, log_likelihood=likelihood)
    memory = learned if belief is first else first._replace(belief=learned, num_steps=7)
    later = jax.jit(partial(next_game, agent))(jax.random.key(0), memory, seen)
    begun = getattr(later, "belief", later)
    for log_probs in (begun.log_types, begun.log_type_probs):
        np.testing.assert_allclose(np.exp(log_probs), [0.9, 0.1], rtol=1e-5)
    assert jax.tree.structure(later) == jax.tree.structure(first)
    assert int(getattr(later, "num_steps", 0)) == 0
    np.testing.assert_array_equal(begun.particles, belief.particles)


def test_other_agents_begin_each_game_anew():
    seen = look(make_state("R1 R2 B3", "Y1 Y2 Y3", "R0"), 0)
    for spec in ("linear", "value:particles=16", "mc:rollouts=2,belief=unseen"):
        agent = parse_agent(spec)
        memory = jax.jit(agent.init)(jax.random.key(0), seen)
        assert_trees_equal(jax.jit(partial(next_game, agent))(jax.random.key(0), memory, seen), memory)


def test_advisers_assume_an_opponent_who_plays_as_well_as_the_player():
    """Unless another model is named."""
    for search in (*map(parse_agent, (DEFAULT_SEARCH, TABLE_SEARCH, DEFAULT_ADVISER)), PlayGame()._adviser(Rules())):
        assert isinstance(search, SearchAgent)
        assert search.updater.opponent == parse_opponent("peer")
        assert search.policies[0] == LINEAR
    search = PlayGame(hints=64, opponent_model="uniform|linear")._adviser(Rules())
    assert search is not None and search.name == "mc:model=uniform|linear,rollouts=64"

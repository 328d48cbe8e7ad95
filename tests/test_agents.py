"""Agents made from text."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from unojax import make_state
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


@dataclass(frozen=True)
class Made:
    """What the factory `example` makes; looks like an agent to the parser."""

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


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_an_agent_of_its_name(name: str):
    assert parse_agent(name) == PolicyAgent(name, POLICIES[name])


def test_agents_of_others_can_be_registered():
    def load() -> Callable[..., Made]:
        return example

    for _ in range(2):
        # A module that is imported anew registers the same again.
        register("their-own", load)
    assert parse_agent("their-own:rollouts=20") == example(rollouts=20)
    del AGENTS["their-own"]


@pytest.mark.parametrize("name", ["", "with space", "a:b", "linear", "example", "mc"])
def test_a_name_is_registered_once(name: str):
    message = "is taken" if name in (*POLICIES, *AGENTS) else "must consist of letters, digits and hyphens, got"
    with pytest.raises(ValueError, match=message):
        register(name, lambda: example)


def test_an_entry_may_be_a_policy():
    assert parse_agent("instance") == PolicyAgent("instance", POLICIES["uniform"])


@pytest.mark.parametrize(
    ("spec", "values", "canonical"),
    [
        ("example", {}, "example"),
        ("example:rollouts=20", {"rollouts": 20}, "example:rollouts=20"),
        ("example:rollouts=1e4", {"rollouts": 10_000}, "example:rollouts=10000"),
        ("example:rollouts=1000", {}, "example"),
        ("example:belief=exact,rollouts=7", {"belief": "exact", "rollouts": 7}, "example:rollouts=7,belief=exact"),
        ("example:margin=0.25,greedy=true", {"margin": 0.25, "greedy": True}, "example:margin=0.25,greedy=true"),
        ("example:margin=2", {"margin": 2.0}, "example:margin=2"),
        ("example:margin=0.1234567890123", {"margin": 0.1234567890123}, "example:margin=0.1234567890123"),
        ("example:greedy=false,limit=none", {}, "example"),
        ("example:limit=3,label=a b", {"limit": 3, "label": "a b"}, "example:label=a b,limit=3"),
    ],
)
def test_specs_and_their_shortest_form(spec: str, values: dict[str, Any], canonical: str):
    agent = parse_agent(spec)
    assert agent == example(**values)
    assert agent.name == canonical
    assert parse_agent(canonical) == agent
    assert settings_of(spec) == agent.settings


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("best", "no agent is called 'best'; choose one of uniform, greedy, keep-wilds"),
        ("best", "guard, .*example, instance"),
        ("", "no agent is called ''"),
        ("uniform:seed=1", "uniform is a policy without parameters; write just uniform"),
        ("uniform:", "uniform is a policy without parameters"),
        ("example:", "key=value must follow the colon"),
        ("example:depth=3", "unknown key 'depth'; choose from rollouts, belief, margin, greedy, label, limit$"),
        ("example:weights=3", "unknown key 'weights'"),
        ("example:rollouts", "rollouts needs a value"),
        ("example:rollouts=1,rollouts=2", "rollouts is given twice"),
        ("example:rollouts=1,", "unknown key ''"),
        ("example:rollouts=many", "rollouts must be a whole number, got 'many'"),
        ("example:rollouts=1.5", "rollouts must be a whole number, got '1.5'"),
        ("example:rollouts=inf", "rollouts must be a whole number, got 'inf'"),
        ("example:rollouts=0", "agent 'example:rollouts=0': rollouts must be at least 1, got 0"),
        ("example:belief=guess", "belief must be one of particles, exact, got 'guess'"),
        ("example:margin=x", "margin must be a number, got 'x'"),
        ("example:greedy=1", "greedy must be true or false, got '1'"),
        ("example:limit=x", "limit must be a whole number or none, got 'x'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(spec: str, says: str):
    with pytest.raises(ValueError, match=says) as caught:
        parse_agent(spec)
    assert "\n" not in str(caught.value)


def test_an_agent_gets_the_rules_of_the_game():
    rules = Rules(hand_size=5)
    agent = parse_agent("example:rollouts=3", rules=rules)
    assert agent == example(rollouts=3, rules=rules)
    assert agent.name == "example:rollouts=3"
    assert parse_agent("uniform", rules=rules) == parse_agent("uniform")


def test_other_values_for_some_keys():
    rules = Rules(hand_size=5)
    assert parse_agent("example:rollouts=3,label=a", rules=rules, rollouts=1000) == example(label="a", rules=rules)
    with pytest.raises(ValueError, match="rollouts must be at least 1, got 0"):
        parse_agent("example", rollouts=0)
    with pytest.raises(ValueError, match="uniform is a policy without parameters"):
        parse_agent("uniform", rollouts=3)
    assert settings_of("uniform") == {}


def test_a_player_in_any_form_becomes_an_agent():
    rules = Rules(hand_size=5)
    assert as_agent("example:rollouts=3", rules=rules) == example(rollouts=3, rules=rules)
    assert as_agent("linear") == as_agent(LINEAR) == PolicyAgent("linear", LINEAR)
    agent = as_agent("mc:belief=unseen")
    assert as_agent(agent) is agent

    def lowest(key: jax.Array, observation: Any, legal_mask: jax.Array) -> jax.Array:
        return jnp.argmax(legal_mask)

    assert as_agent(lowest) == PolicyAgent("lowest", lowest)


class OnlyActs:
    def act(self, key: Any, memory: Any, observation: Any, legal_mask: Any) -> int:
        return 0


@pytest.mark.parametrize(
    "wrong", [3, None, OnlyActs(), PolicyAgent, "nobody"], ids=["number", "nothing", "acts", "class", "name"]
)
def test_what_is_no_player_is_a_value_error(wrong: Any):
    with pytest.raises(ValueError, match=r"a player must be the spec .* and act; got|no agent is called 'nobody'"):
        as_agent(wrong)


def test_the_truth_is_shown_to_those_who_ask_for_it_alone():
    state, key = make_state("R1 R2", "B1 W", "R7"), jax.random.key(0)
    seen = observe(state, 0)
    for spec in ("uniform", "value:belief=unseen", "mc:belief=unseen"):
        agent = as_agent(spec)
        memory = agent.init(key, seen)
        assert reveal(agent, memory, state, 0) is memory
    agent = as_agent("mc:belief=truth")
    shown = [agent.hands(key, reveal(agent, agent.init(key, seen), state, player), seen) for player in (0, 1)]
    for hands, other in zip(shown, (1, 0), strict=True):
        held = jax.tree.map(lambda word: word[0], hands.packed)
        assert bool((unpack(held) == state.hands[other]).all()) and hands.log_weights.tolist() == [0.0]


def test_an_updater_by_its_settings():
    tracked = parse_updater("particles", particles=8, model="linear+0.5")
    assert isinstance(tracked, ParticleFilter) and tracked.num_particles == 8
    assert tracked.opponent != parse_updater("particles", particles=8).opponent
    assert parse_updater("unseen", particles=8) == UniformFilter(8) and parse_updater("truth", particles=8) == Oracle()
    with pytest.raises(ValueError, match="belief must be one of particles, bootstrap, closed, ages, unseen, truth, got 'guess'"):
        parse_updater("guess", particles=8)
    with pytest.raises(ValueError, match="particles must be at least 1, got 0"):
        parse_updater("truth", particles=0)


@pytest.mark.parametrize("belief", ["particles", "unseen"])
def test_hands_of_a_player_that_tracks_and_of_one_that_does_not(belief: Literal["particles", "unseen"]):
    """Particles stay those of the memory; unseen cards are drawn anew, from the position that is seen now."""
    updater = parse_updater(belief, particles=8)

    @jax.jit
    def look(state: Any, seeds: jax.Array) -> Any:
        seen, key = observe(state, 0), jax.random.key(0)
        memory = updater.init(key, seen)
        return memory, jax.vmap(lambda seed: updater.hands(jax.random.key(seed), memory, seen))(seeds)

    memory, hands = look(make_state("R1 R2", "B1 W", "R7"), jnp.arange(2))
    assert (jnp.stack(hands.packed, -1)[0] == jnp.stack(hands.packed, -1)[1]).all() == (belief == "particles")
    assert (memory == ()) == (belief == "unseen")
    assert (unpack(hands.packed).sum(-1) == 2).all()
    assert jnp.allclose(jnp.exp(hands.log_weights).sum(-1), 1)


def test_every_entry_makes_an_agent_of_its_name():
    # A policy network, a program and another library's agent need to be told which.
    names = [*POLICIES, *(name for name in AGENTS if name not in ("policy", "process", "rlcard"))]
    assert [parse_agent(name).name for name in names] == names


@pytest.mark.parametrize("rules", PRESETS.values(), ids=PRESETS)
def test_somebody_plays_under_all_rules(rules: Rules):
    name = choose_opponent(None, rules)
    assert parse_agent(name, rules=rules).name == name
    assert choose_opponent("uniform", rules) == "uniform"


@pytest.mark.parametrize(
    "rules", [*PRESETS.values(), Rules(skip_forfeits=False), Rules(stacking=True), Rules(hand_size=5)], ids=repr
)
def test_the_shipped_network_plays_where_it_knows_the_rules(rules: Rules):
    network = load_network("pretrained", rules)
    assert choose_opponent(None, rules) == ("value" if knows_turns(network, rules) else "mc:rollouts=200")


def test_the_registry_needs_no_jax():
    code = "import sys, unojax.specs; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("spec", ["mc:rollouts=2,particles=16,model=uniform|linear", "value:particles=16,model=uniform|linear"])
def test_the_type_of_the_opponent_goes_on_in_the_next_game(spec: str):
    """And nothing else of the last game does."""
    agent = parse_agent(spec)
    seen = observe(make_state("R1 R2 B3", "Y1 Y2 Y3", "R0"), 0)
    first = agent.init(jax.random.key(0), seen)
    belief = getattr(first, "belief", first)
    # As if uniform play had explained everything nine times as well.
    likelihood = belief.log_likelihood + jnp.log(jnp.array([0.9, 0.1]))[:, None]
    told = replace(belief, log_likelihood=likelihood)
    later = next_game(agent, jax.random.key(0), told if belief is first else first._replace(belief=told, num_steps=7), seen)
    begun = getattr(later, "belief", later)
    np.testing.assert_allclose(jnp.exp(begun.log_types), [0.9, 0.1], rtol=1e-5)
    np.testing.assert_allclose(jnp.exp(begun.log_type_probs), [0.9, 0.1], rtol=1e-5)
    assert jax.tree.structure(later) == jax.tree.structure(first)
    assert int(getattr(later, "num_steps", 0)) == 0
    np.testing.assert_array_equal(begun.particles, belief.particles)


@pytest.mark.parametrize("spec", ["linear", "value:particles=16", "mc:rollouts=2,belief=unseen"])
def test_other_agents_begin_each_game_anew(spec: str):
    agent, seen = parse_agent(spec), observe(make_state("R1 R2 B3", "Y1 Y2 Y3", "R0"), 0)
    memory = agent.init(jax.random.key(0), seen)
    assert_trees_equal(next_game(agent, jax.random.key(0), memory, seen), memory)


@pytest.mark.parametrize("spec", [DEFAULT_SEARCH, TABLE_SEARCH, DEFAULT_ADVISER, "play"])
def test_advisers_assume_an_opponent_who_plays_as_well_as_the_player(spec: str):
    search = PlayGame()._adviser(Rules()) if spec == "play" else parse_agent(spec)
    assert isinstance(search, SearchAgent)
    assert search.updater.opponent == parse_opponent("peer")
    assert search.policies[0] == LINEAR


def test_a_person_can_name_another_opponent_model():
    search = PlayGame(hints=64, opponent_model="uniform|linear")._adviser(Rules())
    assert search is not None and search.name == "mc:model=uniform|linear,rollouts=64"

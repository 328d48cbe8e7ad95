"""Agents made from text."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from unojax.agents import PolicyAgent, parse_agent
from unojax.policies import POLICIES
from unojax.rules import Rules
from unojax.specs import AGENTS, format_spec


@dataclass(frozen=True)
class Example:
    """Looks like an agent to the parser."""

    rollouts: int = 1000
    belief: Literal["particles", "exact"] = "particles"
    margin: float = 0.5
    greedy: bool = False
    label: str = ""
    limit: int | None = None
    weights: tuple[float, ...] = (1.0,)
    rules: Rules = Rules()

    def __post_init__(self) -> None:
        if self.rollouts < 1:
            raise ValueError(f"rollouts must be at least 1, got {self.rollouts}")

    @property
    def name(self) -> str:
        return format_spec("example", self)


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AGENTS, "example", f"{__name__}:Example")
    monkeypatch.setitem(AGENTS, "instance", "unojax.policies:uniform")


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_an_agent_of_its_name(name: str):
    assert parse_agent(name) == PolicyAgent(name, POLICIES[name])


def test_an_entry_may_be_a_policy():
    assert parse_agent("instance") == PolicyAgent("instance", POLICIES["uniform"])


@pytest.mark.parametrize(
    ("spec", "fields", "canonical"),
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
def test_specs_and_their_shortest_form(spec: str, fields: dict[str, Any], canonical: str):
    agent = parse_agent(spec)
    assert agent == Example(**fields)
    assert agent.name == canonical
    assert parse_agent(canonical) == agent


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("best", "no agent is called 'best'; choose one of uniform, keep-wilds"),
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
    assert agent == Example(rollouts=3, rules=rules)
    assert agent.name == "example:rollouts=3"
    assert parse_agent("uniform", rules=rules) == parse_agent("uniform")


def test_every_entry_makes_an_agent_of_its_name():
    names = [*POLICIES, *AGENTS]
    assert [parse_agent(name).name for name in names] == names


def test_the_registry_needs_no_jax():
    code = "import sys, unojax.specs; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

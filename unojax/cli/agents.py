"""`unojax agents`: agents and the keys of their specs, described by their docstrings."""

from __future__ import annotations

import re
import sys
import types
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args, get_origin

from rich.text import Text

from unojax.cli import output
from unojax.cli.options import JsonTarget, command
from unojax.docstrings import read_docstring
from unojax.specs import AGENTS, Factory, factory_of, format_value, keys_of
from unojax.terminal import tables

_OWN: Final = {
    "my.py:name": (
        "a policy of your own, choose(key, observation, legal_mask) -> action, or a function or class that makes an agent; keys "
        "follow a second colon: my.py:Clever:depth=3"
    )
}


@dataclass(frozen=True)
class Key:
    """A key of a spec.

    Attributes:
        key: Name of the key.
        kind: Allowed values.
        default: Default value.
        meaning: Meaning of the key.
        shared_with: Agent whose key has the same meaning; None: no other agent.
    """

    key: str
    kind: str
    default: str
    meaning: str
    shared_with: str | None


@dataclass(frozen=True)
class AgentHelp:
    """Description of an agent.

    Attributes:
        summary: Summary of the agent.
        parameters: Keys of its spec.
    """

    summary: str
    parameters: list[Key]


@dataclass(frozen=True)
class AgentsReport:
    """Output of `unojax agents`.

    Attributes:
        policies: Summary of each policy, by name.
        agents: Details of each agent, by name.
    """

    policies: dict[str, str]
    agents: dict[str, AgentHelp]


@command
class ShowAgents:
    """List the agents and their parameters."""

    json: JsonTarget = None

    def run(self) -> int:
        from unojax.policies import POLICIES

        policies = {name: policy.summary for name, policy in POLICIES.items()}
        report = AgentsReport(policies, {name: describe_agent(name) for name in AGENTS})
        output.report("agents", self.json, lambda: _tables(report), lambda: report)
        return 0


def _tables(report: AgentsReport) -> list[Any]:
    shown: list[Any] = [Text("Policies, which have no memory", style="bold"), tables.facts(report.policies)]
    for name, agent in report.agents.items():
        keys = agent.parameters
        rows = {f"{key.key}={key.default}": f"{key.meaning} ({key.kind})" for key in keys if key.shared_with is None}
        for other in dict.fromkeys(key.shared_with for key in keys if key.shared_with):
            rows[f"as {other}"] = ", ".join(f"{key.key}={key.default}" for key in keys if key.shared_with == other)
        heading = Text.assemble((name, "bold"), f"  {agent.summary}{' Keys, with their defaults:' if keys else ''}")
        shown += ["", heading, tables.facts(rows)]
    return [*shown, "", tables.facts(_OWN)]


def describe_agent(name: str) -> AgentHelp:
    """Describe an agent and its keys from docstrings."""
    try:
        factory = factory_of(name)
    except ValueError as error:
        # A required library is missing.
        return AgentHelp(f"{error}.", [])
    summary, meanings = read_docstring(factory)
    parameters = []
    for key, (kind, default) in keys_of(factory).items():
        # Python -OO strips docstrings.
        meaning = meanings.get(key, "")
        shared_with = None
        if meaning.lower().startswith("as in `"):
            # The function named there documents the key.
            other = getattr(sys.modules[factory.__module__], meaning.split("`")[1])
            meaning, shared_with = read_docstring(other)[1].get(key, ""), _name_of(other)
        # Measurements behind a default stand in brackets and are shown only in the docstring.
        meaning = re.sub(r"\s*\([^()]*\)", "", meaning).replace("`", "").rstrip(".")
        parameters.append(Key(key, _kind_words(kind), format_value(default), meaning, shared_with))
    return AgentHelp(summary, parameters)


def _name_of(factory: Factory) -> str | None:
    for name in AGENTS:
        # A required library may be missing.
        with suppress(ValueError):
            if factory_of(name) is factory:
                return name
    return None


def _kind_words(kind: Any) -> str:
    """Describe a type by its allowed values."""
    if kind in (int, float, str, bool, types.NoneType):
        return {int: "whole number", float: "number", str: "text", bool: "true, false", types.NoneType: "none"}[kind]
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    return " or ".join(_kind_words(option) for option in get_args(kind))

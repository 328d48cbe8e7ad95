"""Descriptions of agents and of the keys of their specs, from docstrings: `describe_agent`."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from unojax.docstrings import read_docstring
from unojax.specs import factory_of, format_value, keys_of


@dataclass(frozen=True)
class Key:
    """A key of a spec.

    Attributes:
        key: Name of the key.
        kind: Allowed values.
        default: Default value.
        meaning: Meaning of the key.
        is_shared: True if another agent documents the key in the same words.
    """

    key: str
    kind: str
    default: str
    meaning: str
    is_shared: bool


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


def describe_agent(name: str) -> AgentHelp:
    """Describe an agent and its keys, from the docstring of the function that makes it."""
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
        if is_shared := meaning.lower().startswith("as in `"):
            # The function named there documents the key.
            other = getattr(sys.modules[factory.__module__], meaning.split("`")[1])
            meaning = read_docstring(other)[1].get(key, "")
        # Measurements behind a default stand in brackets and are shown only in the docstring.
        meaning = re.sub(r"\s*\([^()]*\)", "", meaning).replace("`", "").rstrip(".")
        parameters.append(Key(key, _kind_words(kind), format_value(default), meaning, is_shared))
    return AgentHelp(summary, parameters)


def _kind_words(kind: Any) -> str:
    """Describe the type of a parameter by its allowed values."""
    if kind in (int, float, str, bool, types.NoneType):
        return {int: "whole number", float: "number", str: "text", bool: "true, false", types.NoneType: "none"}[kind]
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    return " or ".join(_kind_words(option) for option in get_args(kind))

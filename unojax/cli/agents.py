"""`unojax agents`: who can play, and what can be set."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from unojax.cli.options import JsonTarget

if TYPE_CHECKING:
    from unojax.specs import Factory

_OWN: Final = {
    "my.py:name": (
        "a policy of your own, choose(key, observation, legal_mask) -> action, or a function or class that makes an agent; keys "
        "follow a second colon: my.py:Clever:depth=3"
    )
}


class Parameter(NamedTuple):
    """A key of a spec: what is allowed, its default and what it means; `is_shared`: the same as of another agent."""

    key: str
    kind: str
    default: str
    meaning: str
    is_shared: bool


@dataclass(frozen=True)
class ShowAgents:
    """List the agents, and what can be set of each."""

    json: JsonTarget = None

    def run(self) -> int:
        from rich.text import Text

        from unojax.cli import output, targets
        from unojax.policies import POLICIES
        from unojax.specs import AGENTS

        targets.check_json_target(self.json)
        policies = {name: policy.summary for name, policy in POLICIES.items()}
        agents = {name: describe(name) for name in AGENTS}
        if self.json != output.STDOUT:
            output.show(Text("Policies, which remember nothing", style="bold"), output.facts(policies))
            for name, (summary, parameters) in agents.items():
                rows = {f"{p.key}={p.default}": f"{p.meaning} ({p.kind})" for p in parameters if not p.is_shared}
                if shared := [f"{p.key}={p.default}" for p in parameters if p.is_shared]:
                    rows["as mc"] = ", ".join(shared)
                keys = " Keys, with their defaults:" if parameters else ""
                output.show("", Text.assemble((name, "bold"), f"  {summary}{keys}"), output.facts(rows))
            output.show("", output.facts(_OWN))
        if self.json is not None:
            made = {
                name: {"summary": summary, "parameters": [p._asdict() for p in found]}
                for name, (summary, found) in agents.items()
            }
            output.write_json(self.json, {"command": "agents", "policies": policies, "agents": made})
        return 0


def describe(name: str) -> tuple[str, list[Parameter]]:
    """Say what an agent is, and list its parameters, from the docstring of the function that makes it."""
    from unojax.specs import factory_of, format_value, keys_of

    try:
        factory = factory_of(name)
    except ValueError as error:
        # It needs a library that is not there.
        return f"{error}.", []
    summary, meanings = read_docstring(factory)
    parameters = []
    for key, (kind, default) in keys_of(factory).items():
        # Python leaves docstrings out if it is told to (-OO).
        meaning = meanings.get(key, "")
        if is_shared := meaning.startswith("as in `"):
            # Told once, of the function named there.
            other = getattr(import_module(factory.__module__), meaning.split("`")[1])
            meaning = read_docstring(other)[1].get(key, "")
        # What was measured for a default stands in brackets, and in the docstring alone.
        meaning = re.sub(r"\s*\([^()]*\)", "", meaning).replace("`", "").rstrip(".")
        parameters.append(Parameter(key, kind_words(kind), format_value(default), meaning, is_shared))
    return summary, parameters


def read_docstring(factory: Factory) -> tuple[str, dict[str, str]]:
    """Read the first sentence of a docstring, and what it says of each argument, on one line each."""
    from docstring_parser import parse
    from docstring_parser.common import DocstringStyle

    read = parse(factory.__doc__ or "", style=DocstringStyle.GOOGLE)
    meanings = {}
    for param in read.params:
        for key in param.arg_name.split(","):
            meanings[key.strip()] = " ".join((param.description or "").replace('"', "").split()).replace("None:", "none:")
    return (read.short_description or "").replace("`", ""), meanings


def kind_words(kind: Any) -> str:
    """Write the type of a parameter as what may be written for it."""
    from types import NoneType
    from typing import Literal, get_args, get_origin

    if kind in (int, float, str, bool, NoneType):
        return {int: "whole number", float: "number", str: "text", bool: "true, false", NoneType: "none"}[kind]
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    return " or ".join(kind_words(option) for option in get_args(kind))

"""Agents by text: `uniform`, `name:key=value,key=value`. Imports no JAX until an agent is made.

A name stands for a named policy (`unojax.policies.POLICIES`) or for an entry of `AGENTS`. An entry names, as `module:attribute`,
a policy, or a frozen dataclass that is an agent: its fields are the keys, its `__post_init__` checks their values, and its
`name` is `format_spec(entry, self)`. A field `rules` gets the rules of the game.
"""

from __future__ import annotations

import dataclasses
import types
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from unojax.agents import Agent
    from unojax.rules import Rules

AGENTS: Final[dict[str, str]] = {
    "mc": "unojax.search.agents:MonteCarloAgent",
    "tree": "unojax.search.agents:TreeAgent",
    "value": "unojax.value.agent:ValueAgent",
}
"""Names beside those of the named policies, and where they lead."""

DEFAULT_OPPONENT: Final = "value"
"""Whom a person plays against unless another agent is asked for."""

_BOOLS: Final = {"true": True, "false": False}
_NONE: Final = "none"


def parse_agent(spec: str, *, rules: Rules | None = None) -> Agent:
    """The agent that a spec describes.

    Args:
        spec: `name` or `name:key=value,...`. Whole numbers may be written 1e4, flags are true or false, and where None is
            allowed it is none. What is left out has its default.
        rules: of the games that the agent is to play; None: the default ones.

    Raises:
        ValueError: there is no such name, key or value; the message says which there are.
    """
    from unojax.agents import PolicyAgent
    from unojax.policies import POLICIES

    name, colon, rest = spec.partition(":")
    if name in AGENTS:
        module, _, attribute = AGENTS[name].partition(":")
        found = getattr(import_module(module), attribute)
    elif name in POLICIES:
        found = POLICIES[name]
    else:
        raise ValueError(f"no agent is called {name!r}; choose one of {', '.join((*POLICIES, *AGENTS))}")
    if not isinstance(found, type):
        if colon:
            raise ValueError(f"agent {spec!r}: {name} is a policy without parameters; write just {name}")
        return PolicyAgent(name, found)
    if colon and not rest:
        raise ValueError(f"agent {spec!r}: key=value must follow the colon, or leave it out")
    values = _parse_values(spec, found, rest)
    if rules is not None and "rules" in (field.name for field in dataclasses.fields(found)):
        values["rules"] = rules
    try:
        return found(**values)
    except ValueError as error:
        raise ValueError(f"agent {spec!r}: {error}") from None


def format_spec(name: str, agent: Any) -> str:
    """The shortest spec of an agent that is a dataclass: the fields that differ from their defaults, in their order."""
    settable = _settable(type(agent))
    parts = []
    for field in dataclasses.fields(agent):
        value = getattr(agent, field.name)
        if field.name in settable and value != field.default:
            parts.append(f"{field.name}={_format_value(value)}")
    return f"{name}:{','.join(parts)}" if parts else name


def _parse_values(spec: str, cls: type, rest: str) -> dict[str, Any]:
    allowed = _settable(cls)
    values: dict[str, Any] = {}
    for part in rest.split(",") if rest else ():
        key, equals, text = part.partition("=")
        if key not in allowed:
            raise ValueError(f"agent {spec!r}: unknown key {key!r}; choose from {', '.join(allowed) or 'none at all'}")
        if not equals:
            raise ValueError(f"agent {spec!r}: {key} needs a value, {key}=...")
        if key in values:
            raise ValueError(f"agent {spec!r}: {key} is given twice")
        try:
            values[key] = _parse_value(text, allowed[key])
        except ValueError as error:
            raise ValueError(f"agent {spec!r}: {key} must be {error}, got {text!r}") from None
    return values


def _settable(cls: type) -> dict[str, Any]:
    """The fields that a spec can set, and their types; a field of another type, such as an array of weights, it can't."""
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init and _is_settable(hints[f.name])}


def _is_settable(kind: Any) -> bool:
    if get_origin(kind) is Literal or kind in (bool, int, float, str):
        return True
    return _is_union(kind) and all(option is type(None) or _is_settable(option) for option in get_args(kind))


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _parse_value(text: str, kind: Any) -> Any:
    """Raises ValueError with what would be allowed."""
    if _is_union(kind):
        allowed = []
        for option in get_args(kind):
            if option is type(None):
                if text == _NONE:
                    return None
                allowed.append(_NONE)
                continue
            try:
                return _parse_value(text, option)
            except ValueError as error:
                allowed.append(str(error))
        raise ValueError(" or ".join(allowed))
    if get_origin(kind) is Literal:
        for option in get_args(kind):
            if text == _format_value(option):
                return option
        raise ValueError(f"one of {', '.join(_format_value(option) for option in get_args(kind))}")
    if kind is bool:
        if text not in _BOOLS:
            raise ValueError("true or false")
        return _BOOLS[text]
    if kind is int:
        return _parse_int(text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            raise ValueError("a number") from None
    return text


def _parse_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number.is_integer():
        raise ValueError("a whole number")
    return int(number)


def _format_value(value: Any) -> str:
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)

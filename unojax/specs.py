"""Agents by text: `uniform`, `name:key=value,key=value`, `my.py:clever`. Only making an agent imports JAX.

A name is that of a policy (`unojax.policies.POLICIES`) or of an entry that `register` adds: a policy, or a factory whose
parameters all have defaults. Its parameters of simple types are the keys, and `rules` receives the rules of the game. The agent's
name is `format_spec(entry, factory, values)`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter, signature, unwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from unojax.device.blame import blamed_on
from unojax.files.own import file_of, is_own, load_own, split_own

if TYPE_CHECKING:
    from unojax.agents import Agent
    from unojax.policies import Policy
    from unojax.rules import Rules

POLICY_NAMES: Final = (
    *("uniform", "greedy", "keep-wilds", "wilds-first", "actions-first", "actions-last", "scarcest-color", "commonest-color"),
    *("repeat-turns", "guard", "lookahead", "linear"),
)
"""Names in `unojax.policies.POLICIES`, available without importing JAX; a test keeps the two equal."""

SHIPPED_RULES: Final = ("default", "rlcard", "official", "house")
"""Rules supported by shipped networks, available without importing JAX; a test keeps the two equal."""
_LAST_KEYS: Final = {"process": "command", "rlcard": "model"}
"""Keys without a name in the spec. Their value is the rest of the spec, verbatim: `process:seconds=2,python
my.py`.
"""
_ELSEWHERE: Final = {("value", "head"): "policy:network=FILE,greedy=true plays by the policy head of a network"}
"""Agents and keys that they lack, and the spec that does what such a key seems to do."""

_BOOLS: Final = {"true": True, "false": False}
_NONE: Final = "none"

Factory = Callable[..., "Agent"]
"""A function that makes agents; all its parameters have defaults."""

AGENTS: Final[dict[str, Callable[[], Factory]]] = {}
"""Names besides those of the named policies; each value imports and returns a factory. `unojax.registry` fills it."""


def register(name: str, load: Callable[[], Factory]) -> None:
    """Register a name for agent specs.

    Args:
        name: Letters, digits and hyphens.
        load: Function that imports and returns the factory, called on first use.

    Raises:
        ValueError: If the name is malformed or taken.
    """
    if not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise ValueError(f"an agent's name must consist of letters, digits and hyphens, got {name!r}")
    if name in POLICY_NAMES or AGENTS.get(name, load) is not load:
        raise ValueError(f"the name {name!r} is taken; register the agent under another one")
    AGENTS[name] = load


def parse_agent(spec: str, *, rules: Rules | str | None = None, **changes: Any) -> Agent:
    """Return the agent that a spec describes.

    Args:
        spec: `name` or `name:key=value,...`. Values are numbers such as 1e4, words, true, false or none.
        rules: Rules of the agent's games, or the name of a preset.
        changes: Values that override those of the spec.

    Raises:
        ValueError: If there is no such name, key or value.
    """
    from unojax.agents import PolicyAgent
    from unojax.rules import as_rules

    if not isinstance(spec, str):
        raise ValueError(f"an agent must be text, a name or a name with parameters such as mc:rollouts=200, got {spec!r}")
    rules = None if rules is None else as_rules(rules)
    found = _find(spec)
    if is_own(spec):
        return _own_agent(spec, found, rules, changes)
    if not _is_factory(found):
        if ":" in spec or changes:
            name = spec.partition(":")[0]
            raise ValueError(f"agent {spec!r}: {name} is a policy without parameters; write just {name}")
        return PolicyAgent(spec, found)
    values = _parse_values(spec, found) | changes
    if rules is not None and "rules" in signature(found).parameters:
        values["rules"] = rules
    try:
        return found(**values)
    except ValueError as error:
        raise ValueError(f"agent {spec!r}: {error}") from None


def choose_opponent(asked: str | None, rules: Rules) -> str:
    """Return the requested opponent, else the shipped network, else a search.

    A search replaces the network under rules that the network lacks.
    """
    from unojax.rules import PRESETS

    if asked is not None:
        return asked
    is_known = not rules.unknown and any(not rules.turns_unlike(PRESETS[name]) for name in SHIPPED_RULES)
    return "value" if is_known else "mc:rollouts=200"


def knowing_search(policy: str) -> str:
    """Return the spec of a search whose belief and rollouts know the opponent's policy.

    Its win rate is a lower bound of a best response's. Its opponent model has no tremble, so particle weights can be slightly
    off.
    """
    model = policy if policy == "uniform" else f"{policy}+0"
    return f"mc:keep=0,model={model},opponent={policy}"


def runs_code(spec: str) -> bool:
    """Return whether a spec runs code from outside the package.

    Reject such a spec from an untrusted source, such as a saved game.
    """
    return is_own(spec) or spec.partition(":")[0] in _LAST_KEYS


def short_name(spec: str) -> str:
    """Return an agent's name without its parameters: `value`, `my.py:clever`."""
    if not is_own(spec):
        return spec.partition(":")[0]
    path, _, name = split_own(spec)[0].rpartition(":")
    return f"{Path(path).name}:{name}"


def files_of(spec: str) -> list[Path]:
    """List the possible file paths in a spec, whether they exist or not.

    For a command, these are its words, and the text after an equals sign in a word. An installed program at the head is omitted,
    because updating an interpreter does not change the player.
    """
    if is_own(spec):
        return [file_of(spec), *_values_in(split_own(spec)[1] or "")]
    name, _, rest = spec.partition(":")
    if name not in _LAST_KEYS:
        return _values_in(rest)
    last = _part_last(rest, r"\w+")[1]
    if name != "process":
        return [Path(last)] if last else []
    try:
        program, *words = shlex.split(last)
    except ValueError:
        # If this is no command, or cannot be split, making the agent raises the error.
        return []
    named = [] if _is_installed(program) else [program]
    return [Path(part) for part in named + [part for word in words for part in (word, word.partition("=")[2])] if part]


def _values_in(settings: str) -> list[Path]:
    return [Path(value) for part in settings.split(",") if (value := part.partition("=")[2])]


def _is_installed(program: str) -> bool:
    """Return whether `PATH` leads to a program, given by name or path."""
    found = shutil.which(Path(program).name)
    return os.sep not in program or (found is not None and Path(found).resolve() == Path(program).resolve())


def parse_policy(spec: str) -> Policy:
    """Return a policy by its name, or from a user's file.

    Raises:
        ValueError: If there is no such policy, or it is an agent.
    """
    from unojax.policies import get_policy

    if not is_own(spec):
        return get_policy(spec)
    agent = parse_agent(spec)
    if not hasattr(agent, "policy"):
        raise ValueError(f"{spec!r} is an agent, which remembers, where a policy is needed; agents play in unojax arena")
    return agent.policy  # pyright: ignore[reportAttributeAccessIssue]  # looked at just now


def _own_agent(spec: str, found: Any, rules: Rules | None, changes: dict[str, Any]) -> Agent:
    """Return the agent for an object in a user's file. A policy gets its spec as name."""
    from unojax.agents import PolicyAgent
    from unojax.device.returned import takes

    name, values = split_own(spec)
    made = found
    is_agent = hasattr(found, "act") and not isinstance(found, type)
    if callable(found) and not is_agent and _is_factory(found):
        made = _make_own(spec, found, values, rules, changes)
    elif isinstance(found, type):
        raise ValueError(f"agent {spec!r}: all parameters of {name} must have defaults, so that a spec can make it")
    elif values is not None or changes:
        raise ValueError(f"agent {spec!r}: {name} has no parameters; write just {name}")
    try:
        agent = as_agent(made, rules=rules)
    except ValueError as error:
        raise ValueError(f"agent {spec!r}: {error}") from None
    if isinstance(agent, PolicyAgent):
        if not takes(agent.policy, 3):
            raise ValueError(f"agent {spec!r}: a policy takes key, observation and legal mask; {name} takes others")
        return PolicyAgent(spec, agent.policy)
    if not isinstance(getattr(agent, "name", None), str):
        raise ValueError(f"agent {spec!r}: an agent needs a name, a text, such as name = {spec!r}")
    return agent


def _make_own(spec: str, factory: Callable[..., Any], values: str | None, rules: Rules | None, changes: dict[str, Any]) -> Any:
    options = {**_parse_values(spec, factory, values), **changes}
    if rules is not None and "rules" in signature(factory).parameters:
        options["rules"] = rules
    with blamed_on(f"agent {spec!r}: making it"):
        return factory(**options)


def as_agent(player: str | Policy | Agent, *, rules: Rules | None = None) -> Agent:
    """Return the agent for a spec, a policy or an agent; `rules` apply to a spec.

    Raises:
        ValueError: If the spec or the object is not an agent.
    """
    from unojax.agents import PolicyAgent
    from unojax.policies import name_of

    if isinstance(player, str):
        return parse_agent(player, rules=rules)
    has = [name for name in ("init", "update", "act") if callable(getattr(player, name, None))]
    if len(has) == 3 and not isinstance(player, type):
        return player  # pyright: ignore[reportReturnType]  # looked at just now
    if callable(player) and not has and not isinstance(player, type):
        return PolicyAgent(name_of(player), player)
    raise ValueError(
        "a player must be the spec of an agent, such as 'linear' or 'mc:rollouts=64', a policy, called with key, observation and "
        f"legal mask, or an agent, an object with init, update and act; got {player!r}"
    )


def settings_of(spec: str) -> dict[str, Any]:
    """Return the values of all keys of a spec, including defaults. Raises as `parse_agent`."""
    found = _find(spec)
    if is_own(spec) or not _is_factory(found):
        return {}
    return {key: default for key, (_, default) in keys_of(found).items()} | _parse_values(spec, found)


def format_spec(name: str, factory: Factory, values: Mapping[str, Any]) -> str:
    """Return the shortest spec whose keys have these values."""
    differing = [key for key, (_, default) in keys_of(factory).items() if values.get(key, default) != default]
    last = _LAST_KEYS.get(name)
    parts = [format_value(values[key]) if key == last else f"{key}={format_value(values[key])}" for key in differing]
    return f"{name}:{','.join(parts)}" if parts else name


def factory_of(name: str) -> Factory:
    """Return the function behind an entry of `AGENTS`. Raises ValueError without its library."""
    try:
        return AGENTS[name]()
    except ImportError as error:
        raise ValueError(f"agent {name!r} can't be made: {error}") from error


def load_policies(policies: Sequence[str | Policy]) -> tuple[tuple[Policy, Policy], tuple[str, str]]:
    """Return two policies and their names. Errors of a user's policy name it.

    Args:
        policies: Names, specs such as `my.py:name`, or policies.

    Raises:
        ValueError: If there is no such policy, or a packed policy is not hashable.
    """
    first, second = policies
    names = [policy if isinstance(policy, str) else getattr(policy, "name", type(policy).__name__) for policy in policies]
    loaded = [_load_policy(policy) if isinstance(policy, str) else policy for policy in policies]
    # Loading a file twice would give two different policies.
    return (loaded[0], loaded[0] if first == second else loaded[1]), (names[0], names[1])


def _load_policy(spec: str) -> Policy:
    policy = parse_policy(spec)
    if not is_own(spec):
        return policy
    from unojax.device.returned import one_integer
    from unojax.device.static import Argument
    from unojax.policies import PackedPolicy

    if isinstance(policy, PackedPolicy):
        # Games call other methods of packed policies, so do not wrap them.
        Argument(policy)
        return policy

    def choose(key: Any, observation: Any, legal_mask: Any) -> Any:
        with blamed_on(f"policy {spec}"):
            action = policy(key, observation, legal_mask)
        return one_integer(action, f"policy {spec}")

    choose.__name__ = spec
    return choose


def check_policy_names(names: Sequence[str]) -> None:
    """Check names of policies without importing JAX or a user's file.

    Raises:
        ValueError: If a name is unknown.
    """
    for name in names:
        if name not in POLICY_NAMES and not is_own(name):
            raise ValueError(f"no policy is called {name!r}; choose one of {', '.join(POLICY_NAMES)}, or your own: my.py:name")


def _find(spec: str) -> Any:
    from unojax.policies import POLICIES

    if is_own(spec):
        return load_own(spec)
    name = spec.partition(":")[0]
    if name in AGENTS:
        return factory_of(name)
    if name not in POLICIES:
        raise ValueError(
            f"no agent is called {name!r}; choose one of {', '.join((*POLICIES, *AGENTS))}, or one of your own: my.py:name"
        )
    return POLICIES[name]


def _is_factory(found: Any) -> bool:
    return all(parameter.default is not Parameter.empty for parameter in signature(found).parameters.values())


def _parse_values(spec: str, factory: Callable[..., Any], rest: str | None = None) -> dict[str, Any]:
    """Parse the values of a spec. `rest`: text after the spec's colon, if known."""
    allowed = keys_of(factory)
    name, colon = spec, rest is not None
    if not is_own(spec):
        name, colon, rest = spec.partition(":")
    if colon and not rest:
        raise ValueError(f"agent {spec!r}: key=value must follow the colon, or leave it out")
    values: dict[str, Any] = {}
    if name in _LAST_KEYS and rest:
        rest, values[_LAST_KEYS[name]] = _part_last(rest, "|".join(allowed))
    for part in rest.split(",") if rest else ():
        key, equals, text = part.partition("=")
        if key not in allowed:
            hint = f" ({_ELSEWHERE[name, key]})" if (name, key) in _ELSEWHERE else ""
            raise ValueError(f"agent {spec!r}: unknown key {key!r}{hint}; choose from {', '.join(allowed) or 'none at all'}")
        if not equals:
            raise ValueError(f"agent {spec!r}: {key} needs a value, {key}=...")
        if key in values:
            raise ValueError(f"agent {spec!r}: {key} is given twice")
        try:
            values[key] = _parse_value(text, allowed[key][0])
        except ValueError as error:
            raise ValueError(f"agent {spec!r}: {key} must be {error}, got {text!r}") from None
    return values


def _part_last(rest: str, keys: str) -> tuple[str, str]:
    """Split settings from a final value of `_LAST_KEYS`, which may contain any text."""
    settings = re.match(rf"(?:(?:{keys})=[^,]*,)*", rest)
    assert settings is not None
    return settings[0].removesuffix(","), rest[settings.end() :]


def keys_of(factory: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Return types and defaults of the parameters that a spec can set, those of simple types.

    A parameter without a resolvable annotation has the type of its default.
    """
    code = unwrap(factory.__init__ if isinstance(factory, type) else factory)
    names = getattr(getattr(code, "func", code), "__globals__", {})  # `partial` has a func
    found = {name: (_kind_of(parameter, names), parameter.default) for name, parameter in signature(factory).parameters.items()}
    return {name: (kind, default) for name, (kind, default) in found.items() if _is_settable(kind)}


def _kind_of(parameter: Parameter, names: dict[str, Any]) -> Any:
    """Resolve the annotation of a parameter in its module."""

    def annotated() -> None: ...

    annotated.__annotations__ = {} if parameter.annotation is Parameter.empty else {"kind": parameter.annotation}
    try:
        return get_type_hints(annotated, names).get("kind", type(parameter.default))
    except (NameError, AttributeError, TypeError, SyntaxError):
        return type(parameter.default)


def _is_settable(kind: Any) -> bool:
    if get_origin(kind) is Literal or kind in (bool, int, float, str):
        return True
    return _is_union(kind) and all(option is type(None) or _is_settable(option) for option in get_args(kind))


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _parse_value(text: str, kind: Any) -> Any:
    """Parse one value. Raises ValueError with the allowed values."""
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
            if text == format_value(option):
                return option
        raise ValueError(f"one of {', '.join(format_value(option) for option in get_args(kind))}")
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
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        if (number := float(text)).is_integer():
            return int(number)
    raise ValueError("a whole number")


def format_value(value: Any) -> str:
    """Return a value in the form of a spec."""
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)

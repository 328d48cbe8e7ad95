"""JSON of the commands: results as plain values, and a JSON Schema of each command's output, both from dataclasses.

The dataclasses stand beside the results that they describe. Their docstrings hold the meaning of each field.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from unojax.docstrings import read_docstring
from unojax.rules import Rules

_SCALARS: Final = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}


@dataclass(frozen=True)
class Device:
    """The device of a command.

    Attributes:
        platform: JAX's platform: `cpu` or `gpu`.
        kind: Device name that JAX reports.
        count: Number of JAX devices; games run on the first.
        cpu_cores: Number of CPU cores of the machine.
    """

    platform: str
    kind: str
    count: int
    cpu_cores: int | None


@dataclass(frozen=True)
class Versions:
    """Versions that results may depend on.

    Attributes:
        unojax: Version of the package.
        rules: `unojax.rules.RULES_VERSION`: it changes when the same keys and actions give another game.
        jax: Version of JAX.
        jaxlib: Version of jaxlib, JAX's compiled part.
        python: Version of the interpreter.
    """

    unojax: str
    rules: int
    jax: str
    jaxlib: str
    python: str


@dataclass(frozen=True)
class Setting:
    """Rules and machine of a command.

    Attributes:
        rules: All fields of `unojax.Rules`; `deck` is the number of copies of each of the 54 card types.
        device: Device of the results.
        versions: Versions of the software.
    """

    rules: Rules
    device: Device
    versions: Versions


def reports() -> dict[str, tuple[type[Any], ...]]:
    """Return the dataclasses of each command's JSON, whose fields it joins. Imports JAX."""
    from unojax.analysis.reviewing import ReviewReport
    from unojax.analysis.turns import BeliefReport
    from unojax.arena.evaluation import EvaluationReport
    from unojax.arena.tournaments import ArenaReport
    from unojax.arena.win_rates import SimulationReport
    from unojax.cli.agent_help import AgentsReport
    from unojax.games.advising import AdviceReport
    from unojax.solve.runs import ExploitReport, SolveReport

    return {
        "simulate": (SimulationReport, Setting),
        "arena": (ArenaReport, Setting),
        "advise": (AdviceReport, Setting),
        "belief": (BeliefReport, Setting),
        "review": (ReviewReport, Setting),
        "evaluate": (EvaluationReport, Setting),
        "solve": (SolveReport, Setting),
        "exploit": (ExploitReport, Setting),
        "agents": (AgentsReport,),
    }


def command_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of the JSON that a command writes. Imports JAX."""
    joined = [_of_dataclass(report) for report in reports()[command]]
    properties = {"command": {"const": command}} | {name: kind for each in joined for name, kind in each["properties"].items()}
    required = ["command", *(name for each in joined for name in each["required"])]
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"unojax {command} --json"}
    return about | _object(properties, required)


def to_json(value: Any) -> Any:
    """Return a result as values of JSON: dataclasses become objects, tuples and arrays lists, NumPy's numbers Python's."""
    if is_dataclass(value):
        pairs = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: to_json(each) for field, each in pairs if not (each is None and _may_be_absent(field))}
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a dataclass, or of the type of a field."""
    origin, args = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _of_dataclass(kind)
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(each) for each in args]}
    if origin is tuple and ... not in args:
        return {"type": "array", "prefixItems": [schema_of(each) for each in args], "minItems": len(args), "maxItems": len(args)}
    if origin in (list, tuple):
        return {"type": "array", "items": schema_of(args[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(args[1])}
    return {"type": _SCALARS[kind]}


def _of_dataclass(kind: Any) -> dict[str, Any]:
    meanings, hints = _meanings(kind), get_type_hints(kind)
    properties = {}
    for field in fields(kind):
        schema = schema_of(hints[field.name])
        if _may_be_absent(field):
            # Only the first type is written; None is left out.
            schema = schema["anyOf"][0]
        properties[field.name] = schema | {"description": meanings.get(field.name, "")}
    return {"title": kind.__name__} | _object(properties, [field.name for field in fields(kind) if not _may_be_absent(field)])


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _meanings(kind: type[Any]) -> dict[str, str]:
    """Return what the docstrings of a dataclass and its bases say of each field, with JSON's null instead of None."""
    said = {name: text for base in reversed(kind.__mro__) for name, text in read_docstring(base)[1].items()}
    return {name: re.sub(r"\bNone\b|\bnone(?=:)", "null", text) for name, text in said.items()}


def _may_be_absent(field: Field[Any]) -> bool:
    return field.metadata.get("may_be_absent", False)

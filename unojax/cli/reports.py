"""JSON Schemas of the commands' outputs, from dataclasses and their docstrings."""

from __future__ import annotations

import re
import types
from dataclasses import fields, is_dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from unojax.cli.output import Setting, may_be_absent
from unojax.docstrings import read_docstring

_SCALARS: Final = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}


def reports() -> dict[str, tuple[type[Any], ...]]:
    """Return the dataclasses of each command's JSON, whose fields it joins."""
    from unojax.analysis.reviewing import ReviewReport
    from unojax.analysis.turns import BeliefReport
    from unojax.arena.evaluation import EvaluationReport
    from unojax.arena.tournaments import ArenaReport
    from unojax.arena.win_rates import SimulationReport
    from unojax.cli.agents import AgentsReport
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
    """Return the JSON Schema of a command's output."""
    joined = [_of_dataclass(report) for report in reports()[command]]
    properties = {"command": {"const": command}} | {name: kind for each in joined for name, kind in each["properties"].items()}
    required = ["command", *(name for each in joined for name in each["required"])]
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"unojax {command} --json"}
    return about | _object(properties, required)


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
        if may_be_absent(field):
            # Only the first type is written; None is left out.
            schema = schema["anyOf"][0]
        properties[field.name] = schema | {"description": meanings.get(field.name, "")}
    return {"title": kind.__name__} | _object(properties, [field.name for field in fields(kind) if not may_be_absent(field)])


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _meanings(kind: type[Any]) -> dict[str, str]:
    """Return the meaning of each field from docstrings, with null instead of None."""
    said = {name: text for base in reversed(kind.__mro__) for name, text in read_docstring(base)[1].items()}
    return {name: re.sub(r"\bNone\b|\bnone(?=:)", "null", text) for name, text in said.items()}

"""The fields of JSON by its page of the documentation, and the comparison of JSON with them: `mismatches`."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from unojax import Rules

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "json.md"
COMMON, RATE = "Of every command", "A rate"
WITHOUT_MACHINE = ("agents",)
"""Commands that compute nothing, and write neither rules nor machine."""
_HEADING = re.compile(r"^##+ (?:`unojax (?P<command>[a-z]+)`|(?P<title>.+))$")
_FIELD = re.compile(r"^`(?P<path>[\w.\[\]]+)` \((?P<kind>[^,)]+)(?:, (?P<more>[^)]+))?\)$")
_SCALARS = {"string": str, "integer": int, "number": (int, float), "boolean": bool}


@cache
def sections() -> dict[str, dict[str, tuple[str, bool]]]:
    """Return the fields of each command, or of another heading: their types, and whether they may be absent."""
    found: dict[str, dict[str, tuple[str, bool]]] = {}
    section: dict[str, tuple[str, bool]] = {}
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if heading := _HEADING.match(line):
            found[heading["command"] or heading["title"]] = section = {}
        elif after.startswith(": "):
            field = _FIELD.match(line)
            assert field is not None, f"{PAGE.name}: {line}"
            assert field["path"] not in section, f"{PAGE.name}: {line} is there twice"
            section[field["path"]] = (field["kind"], (field["more"] or "").startswith("absent "))
    return found


def mismatches(data: dict[str, Any]) -> list[str]:
    """Compare JSON of a command with the page: return fields that one of them lacks, or of another type."""
    known, command = sections(), data["command"]
    common = {path: kind for path, kind in known[COMMON].items() if path == "command" or command not in WITHOUT_MACHINE}
    return _compare("", data, common | known[command])


def _compare(path: str, value: Any, known: dict[str, tuple[str, bool]]) -> list[str]:
    """Compare an object with the fields known of it."""
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no object"]
    prefix = f"{path}." if path else ""
    names = {p.removeprefix(prefix).split(".")[0].removesuffix("[]") for p in known if p.startswith(prefix)}
    if path == "rules":
        names = {field.name for field in fields(Rules)}
    needed = {name for name in names if not known.get(prefix + name, ("", False))[1]}
    found = [f"{prefix}{name}: documented, and missing" for name in needed - set(value)]
    found += [f"{prefix}{name}: not documented" for name in set(value) - names]
    if path != "rules":
        for name in names & set(value):
            kind, _ = known.get(prefix + name, ("object", False))
            found += _check(prefix + name, kind, value[name], known)
    return found


def _check(path: str, kind: str, value: Any, known: dict[str, tuple[str, bool]]) -> list[str]:
    """Compare a value with its type."""
    if kind.endswith(" or null"):
        return [] if value is None else _check(path, kind.removesuffix(" or null"), value, known)
    if kind == "object":
        return _compare(path, value, known)
    if kind == "rate":
        return _compare("", value, sections()[RATE])
    each, _, by = kind.partition(" by ")
    if by and isinstance(value, dict):
        return [wrong for one in value.values() for wrong in _check(f"{path}[]", each, one, known)]
    if kind.startswith("list of ") and isinstance(value, list):
        each = kind.removeprefix("list of ").removesuffix("s")
        return [wrong for one in value for wrong in _check(f"{path}[]", each, one, known)]
    fits = kind in _SCALARS and isinstance(value, _SCALARS[kind]) and (kind == "boolean" or not isinstance(value, bool))
    return [] if fits else [f"{path}: {value!r} is no {kind}"]

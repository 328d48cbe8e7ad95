"""Comparison of a command's JSON with its schema: `mismatches`."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from unojax.cli.reports import command_schema


@cache
def _validator(command: str) -> Draft202012Validator:
    return Draft202012Validator(command_schema(command))


def mismatches(data: dict[str, Any]) -> list[str]:
    """Return the path of each value that does not fit the schema, and the reason."""
    return [f"{error.json_path}: {error.message}" for error in _validator(data["command"]).iter_errors(data)]

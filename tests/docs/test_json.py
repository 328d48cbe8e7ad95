"""The dataclasses behind the JSON of commands: complete, documented, with a schema that finds differences.

`tests/cli/conftest.py` compares all JSON of the commands' tests with its schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from tests.documented import mismatches
from unojax import cli
from unojax.cli.output import to_json
from unojax.cli.reports import command_schema, reports, schema_of


def fields_of(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the named fields of a schema at any depth."""
    for name, inner in schema.items() if isinstance(schema, dict) else ():
        if name == "properties":
            for key, kind in inner.items():
                yield f"{path}.{key}", kind
                yield from fields_of(kind, f"{path}.{key}")
        else:
            for each in inner if isinstance(inner, list) else [inner]:
                yield from fields_of(each, path)


def test_every_command_that_writes_json_has_a_report():
    assert set(reports()) == {name for name, command in cli.commands().items() if "json" in {f.name for f in fields(command)}}


@pytest.mark.parametrize("command", reports())
def test_a_schema_is_valid_and_says_what_each_field_means(command: str):
    schema = command_schema(command)
    Draft202012Validator.check_schema(schema)
    found = dict(fields_of(schema))
    assert found.pop(".command") == {"const": command}
    assert [path for path, kind in found.items() if not kind["description"]] == []
    assert [path for path, kind in found.items() if "None" in kind["description"]] == []


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the JSON of `unojax agents`: text, truth values, lists and objects."""
    path: Path = tmp_path_factory.mktemp("json") / "agents.json"
    assert cli.main(["agents", "--json", str(path)]) == 0
    return json.loads(path.read_text(encoding="utf-8"))


def test_differences_from_the_schema_are_found(written: dict[str, Any]):
    def wrong(change: Callable[[dict[str, Any]], object]) -> list[str]:
        data = json.loads(json.dumps(written))
        change(data)
        return mismatches(data)

    assert mismatches(written) == []
    assert wrong(lambda data: data.pop("policies")) == ["$: 'policies' is a required property"]
    assert wrong(lambda data: data.update(more=1)) == ["$: Additional properties are not allowed ('more' was unexpected)"]
    assert wrong(lambda data: data.update(policies=[])) == ["$.policies: [] is not of type 'object'"]
    assert wrong(lambda data: data["agents"]["mc"].pop("summary")) == ["$.agents.mc: 'summary' is a required property"]
    assert wrong(lambda data: data["agents"]["mc"]["parameters"][0].update(key=1)) == [
        "$.agents.mc.parameters[0].key: 1 is not of type 'string'"
    ]


@dataclass(frozen=True)
class Base:
    """A base.

    Attributes:
        count: Number; None: unknown.
    """

    count: int | None


@dataclass(frozen=True)
class Sample(Base):
    """A sample.

    Attributes:
        ends: Both ends.
        hidden: Absent if it is None.
        named: Figures by name.
    """

    ends: tuple[float, float]
    hidden: str | None = field(metadata={"may_be_absent": True})
    named: dict[str, list[Base]]


def test_a_dataclass_becomes_plain_values_that_fit_its_schema():
    count, end = cast(int, np.int32(3)), cast(float, np.float32(0.5))
    sample = Sample(count=count, ends=(end, 1.0), hidden=None, named={"a": [Base(None)]})
    plain = to_json(sample)
    assert plain == {"count": 3, "ends": [0.5, 1.0], "named": {"a": [{"count": None}]}}
    assert [type(plain["count"]), type(plain["ends"][0])] == [int, float]
    assert to_json(Sample(None, (0.0, 1.0), "x", {}))["hidden"] == "x"
    schema = schema_of(Sample)
    assert schema["properties"]["count"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "description": "Number; null: unknown.",
    }
    fits = Draft202012Validator(schema).is_valid
    assert fits(plain) and fits(plain | {"hidden": "x"})
    for wrong in ({"hidden": None}, {"ends": [0.5]}, {"ends": [0.5, 1.0, 2.0]}, {"named": {"a": [{}]}}, {"count": 0.5}):
        assert not fits(plain | wrong), wrong

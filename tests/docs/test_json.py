"""The page on the JSON of commands: all commands that write some, and a comparison that sees what is wrong.

That each command writes what the page says is seen wherever a test has it write JSON (`tests/cli/conftest.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from tests.documented import COMMON, RATE, mismatches, sections
from unojax import Rules, cli


def test_every_command_that_writes_json_is_on_the_page():
    writers = {name for name, command in cli.commands().items() if "json" in {field.name for field in fields(command)}}
    assert set(sections()) - {COMMON, RATE} == writers


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `unojax agents` writes: text, truth values, lists and objects with keys of their own."""
    path: Path = tmp_path_factory.mktemp("json") / "agents.json"
    assert cli.main(["agents", "--json", str(path)]) == 0
    return json.loads(path.read_text(encoding="utf-8"))


def test_what_is_as_documented_is_let_through(written: dict[str, Any]):
    assert mismatches(written) == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda data: data.pop("policies"), "policies: documented, and missing"),
        (lambda data: data.update(more=1), "more: not documented"),
        (lambda data: data.update(policies=[]), "policies: [] is no string by policy"),
        (lambda data: data["agents"]["mc"].pop("summary"), "agents[].summary: documented, and missing"),
        (lambda data: data["agents"]["mc"]["parameters"][0].update(key=1), "agents[].parameters[].key: 1 is no string"),
        (lambda data: data["agents"]["mc"].update(parameters=None), "agents[].parameters: None is no list of objects"),
    ],
)
def test_what_is_not_is_told(written: dict[str, Any], change: Callable[[dict[str, Any]], object], where: str):
    data = json.loads(json.dumps(written))
    change(data)
    assert mismatches(data) == [where]


def test_numbers_are_told_apart():
    machine = {
        "device": {"platform": "cpu", "kind": "cpu", "count": 1, "cpu_cores": None},
        "versions": {"unojax": "", "rules": 1, "jax": "", "jaxlib": "", "python": ""},
    }
    row: dict[str, Any] = {"agent": "linear", "returns": [0.5, 0], "exploitability": 1}
    data: dict[str, Any] = {"command": "exploit", "game": "tiny", "seed": 0, "keys": 1, "exact_belief": None, "seconds": 1}
    data |= {"rules": asdict(Rules()), "results": [row]} | machine
    assert mismatches(data) == []
    data["keys"] = 8.0
    data["seed"] = True
    del data["rules"]["deck"]
    assert sorted(mismatches(data)) == [
        "keys: 8.0 is no integer",
        "rules.deck: documented, and missing",
        "seed: True is no integer",
    ]

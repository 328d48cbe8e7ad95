"""The page on the JSON of commands lists every command that writes some, and the comparison with it finds every difference.

`tests/cli/conftest.py` compares the JSON of every test of a command with the page.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tests.documented import COMMON, RATE, mismatches, sections
from unojax import Rules, cli


def test_every_command_that_writes_json_is_on_the_page():
    writers = {name for name, command in cli.commands().items() if "json" in {field.name for field in fields(command)}}
    assert set(sections()) - {COMMON, RATE} == writers


def test_differences_from_the_page_are_found(tmp_path: Path):
    path = tmp_path / "agents.json"
    assert cli.main(["agents", "--json", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert mismatches(json.loads(text)) == []
    for change, where in [
        (lambda data: data.pop("policies"), "policies: documented, and missing"),
        (lambda data: data.update(more=1), "more: not documented"),
        (lambda data: data.update(policies=[]), "policies: [] is no string by policy"),
        (lambda data: data["agents"]["mc"].pop("summary"), "agents[].summary: documented, and missing"),
        (lambda data: data["agents"]["mc"]["parameters"][0].update(key=1), "agents[].parameters[].key: 1 is no string"),
        (lambda data: data["agents"]["mc"].update(parameters=None), "agents[].parameters: None is no list of objects"),
    ]:
        data = json.loads(text)
        change(data)
        assert mismatches(data) == [where]


def test_integers_numbers_and_truth_values_differ():
    machine = {
        "device": {"platform": "cpu", "kind": "cpu", "count": 1, "cpu_cores": None},
        "versions": {"unojax": "", "rules": 1, "jax": "", "jaxlib": "", "python": ""},
    }
    row: dict[str, Any] = {"agent": "linear", "returns": [0.5, 0], "exploitability": 1}
    data: dict[str, Any] = {"command": "exploit", "game": "tiny", "seed": 0, "keys": 1, "exact_belief": None, "seconds": 1}
    data |= {"rules": asdict(Rules()), "results": [row]} | machine
    assert mismatches(data) == []
    data |= {"keys": 8.0, "seed": True}
    del data["rules"]["deck"]
    found = ["keys: 8.0 is no integer", "rules.deck: documented, and missing", "seed: True is no integer"]
    assert sorted(mismatches(data)) == found

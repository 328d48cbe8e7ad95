"""`unojax evaluate` and `unojax agents`."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec

import pytest

from unojax.arena import evaluation
from unojax.arena.evaluation import GAMES, OPPONENTS
from unojax.arena.ratings import Score
from unojax.arena.standings import MatchRow
from unojax.cli import main
from unojax.cli.evaluate import Evaluate
from unojax.policies import POLICIES
from unojax.specs import AGENTS, parse_agent, settings_of


def test_table_and_json(run_text, tmp_path):
    out = tmp_path / "score.json"
    # Programs of `test_cli_arena.py`, if its workers were here first.
    text = run_text(*f"evaluate keep-wilds --opponents uniform scarcest-color --games 20 --quiet --json {out}".split())
    data = json.loads(out.read_text())
    results = data["results"]
    assert results["agent"] == "keep-wilds" and data["versions"]["rules"] == results["rules_version"]
    for word in ("uniform", "scarcest-color", results["digest"], f"{results['rating']:+.0f}", "version 1", "seats swapped"):
        assert word in re.sub(r"\s+", " ", text)
    assert [row["games"] for row in results["rows"]] == [20, 20]
    assert data["faults"] == {"keep-wilds": [], "uniform": [], "scarcest-color": []}
    # The command line repeats the library's defaults, since it starts without JAX.
    default = {field.name: field.default for field in dataclasses.fields(Evaluate)}
    assert (default["opponents"], default["games"]) == (OPPONENTS, GAMES)


def test_faults_of_the_agent_and_of_opponents_are_noted(capsys, monkeypatch):
    row = MatchRow("process:false", "x", 2, (0, 2), 0, Score(0.0, (0.0, 0.5), 0.0, 1.0, 1), 9.0)
    found = evaluation.Evaluation("process:false", (row,), None, None, None, 1971, "0", 1)
    monkeypatch.setattr(evaluation, "evaluate", lambda *args, **options: found)
    # Another program, which plays as the opponent.
    agents = [parse_agent(spec) for spec in ("process:seconds=1,false", "process:seconds=2,false")]
    for agent in agents:
        program = agent.program  # pyright: ignore[reportAttributeAccessIssue]
        monkeypatch.setattr(program, "faults", Counter(late=1))
        monkeypatch.setattr(program, "examples", {"late": "gave no answer in 1 s"})
    assert main(["evaluate", agents[0].name, "--opponents", agents[1].name, "uniform", "--quiet", "--json", "-"]) == 0
    captured = capsys.readouterr()
    late = "late: 1 (first: gave no answer in 1 s)"
    assert json.loads(captured.out)["faults"] == {agents[0].name: [late], agents[1].name: [late], "uniform": []}
    notes = [f"unojax evaluate: {agent.name} lost games by its own fault: {late}" for agent in agents]
    assert captured.err.splitlines() == notes


@pytest.mark.slow
def test_other_rules_have_no_rating(run_json):
    # Rules and number as in `tests/arena/test_evaluation.py`, whose programs are there.
    results = run_json(*"evaluate keep-wilds --opponents uniform --games 20 --quiet --hand-size 2".split())["results"]
    assert results["rating"] is None and results["rating_margin"] is None


def test_bad_command_lines_are_refused(refused):
    refused(
        {
            "linear --games 3": "--games",
            "nobody": "no agent is called 'nobody'",
            "mc:belief=truth": "mc:belief=truth",
            "linear --opponents linear": "opponents",
        },
        ["evaluate"],
    )


def test_every_agent_and_key_is_listed_with_its_default(run_json, run_text):
    data = run_json("agents")
    assert data["policies"] == {name: policy.summary for name, policy in POLICIES.items()}
    assert list(data["agents"]) == list(AGENTS)
    for name, agent in data["agents"].items():
        if name == "rlcard" and find_spec("rlcard") is None:
            assert "pip install 'unojax[rlcard]'" in agent["summary"] and not agent["parameters"]
            continue
        assert [p["key"] for p in agent["parameters"]] == list(settings_of(name)) and agent["summary"].endswith(".")
        for parameter in agent["parameters"]:
            assert parameter["meaning"] and "as in `" not in parameter["meaning"].lower()
            # A printed default can be typed, and changes nothing; some agents need a network, a command or a model as well.
            if parameter["default"] != "none" and name not in ("policy", "process", "rlcard"):
                assert parse_agent(f"{name}:{parameter['key']}={parameter['default']}").name == name
    out = run_text("agents")
    for word in (*POLICIES, *AGENTS, "simulations=1000", "greedy=false", "my.py:name"):
        assert word in out
    assert out.count("belief=particles") == 3
    shared = {name: {key["shared_with"] for key in agent["parameters"]} for name, agent in data["agents"].items()}
    assert (shared["mc"], shared["policy"], shared["tree"]) == ({None}, {None, "value"}, {None, "mc"})
    assert "as value" in out and "as mc" in out


def test_without_docstrings_agents_have_no_words():
    """Python omits docstrings under -OO."""
    code = "from unojax.cli import main; main(['agents'])"
    ran = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert "mc" in ran.stdout and "rollouts" in ran.stdout

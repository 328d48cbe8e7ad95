"""`unojax evaluate`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter

import pytest

from unojax.arena import evaluation
from unojax.arena.evaluation import GAMES, OPPONENTS
from unojax.cli import main
from unojax.cli.evaluate import Evaluate
from unojax.specs import parse_agent


def test_table_and_json(capsys, tmp_path):
    out = tmp_path / "score.json"
    # Programs of `test_cli_arena.py`, if its workers were here first.
    command = f"evaluate keep-wilds --opponents uniform scarcest-color --games 20 --quiet --json {out}"
    assert main(command.split()) == 0
    text = capsys.readouterr().out
    data = json.loads(out.read_text())
    results = data["results"]
    assert results["agent"] == "keep-wilds" and data["versions"]["rules"] == results["rules_version"]
    for word in ("uniform", "scarcest-color", results["digest"], f"{results['rating']:+.0f}", "version 1", "seats swapped"):
        assert word in re.sub(r"\s+", " ", text)
    assert [row["games"] for row in results["rows"]] == [20, 20]
    assert data["faults"] == {"keep-wilds": [], "uniform": [], "scarcest-color": []}


def test_faults_of_the_agent_and_of_opponents(capsys, monkeypatch):
    row = evaluation.EvaluationRow("x", 2, 0, 2, 0, 0.0, (0.0, 0.5), 0.0)
    found = evaluation.Evaluation("process:false", (row,), None, None, None, 1971, "0", 1)
    monkeypatch.setattr(evaluation, "evaluate", lambda *args, **options: found)
    # That of the opponent is another program to look at.
    agents = [parse_agent(spec) for spec in ("process:seconds=1,false", "process:seconds=2,false")]
    for agent in agents:
        program = agent.program  # pyright: ignore[reportAttributeAccessIssue]
        monkeypatch.setattr(program, "faults", Counter(late=1))
        monkeypatch.setattr(program, "examples", {"late": "gave no answer in 1 s"})
    assert main(["evaluate", agents[0].name, "--opponents", agents[1].name, "uniform", "--quiet", "--json", "-"]) == 0
    captured = capsys.readouterr()
    late = "late: 1 (first: gave no answer in 1 s)"
    assert json.loads(captured.out)["faults"] == {agents[0].name: [late], agents[1].name: [late], "uniform": []}
    said = [f"unojax evaluate: {agent.name} lost games by its own fault: {late}" for agent in agents]
    assert captured.err.splitlines() == said


def test_the_command_asks_for_what_the_library_does():
    """The command line has the defaults once more, since it starts without JAX."""
    default = {field.name: field.default for field in dataclasses.fields(Evaluate)}
    assert (default["opponents"], default["games"]) == (OPPONENTS, GAMES)


@pytest.mark.slow
def test_other_rules_have_no_rating(capsys):
    # Rules and number as in `tests/arena/test_evaluation.py`, whose programs are there.
    assert main("evaluate keep-wilds --opponents uniform --games 20 --quiet --hand-size 2 --json -".split()) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert results["rating"] is None and results["rating_margin"] is None


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("evaluate linear --games 3", "--games must be a positive even number"),
        ("evaluate nobody", "no agent is called 'nobody'"),
        ("evaluate mc:belief=truth", "mc:belief=truth looks at the hidden hand: what it does is no function of"),
        ("evaluate linear --opponents linear", "opponents must be one or more other agents than linear"),
    ],
)
def test_errors(capsys, command: str, says: str):
    assert main(command.split()) == 2
    assert says in capsys.readouterr().err

"""Commands in several processes (`--distributed`) give the results of one, also after losing a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.by_script import RULE_ARGS
from tests.helpers import ROOT, free_address
from unojax.cli import main
from unojax.device.process import EXIT_INTERRUPTED
from unojax.device.shares import Share

SMALL = [*RULE_ARGS, "--quiet"]
ARENA = ["arena", "uniform", "scarcest-color", "keep-wilds", "--games", "60", "--batch-size", "16"]


# A process that is killed as soon as its first batch of results is in the file.
KILLED = """
import os
import signal
from unojax.arena.results import ResultsFile
from unojax.cli import run_process
append = ResultsFile.append
def append_and_die(*batch):
    append(*batch)
    os.kill(os.getpid(), signal.SIGKILL)
ResultsFile.append = append_and_die
run_process()
"""


def begin_two(*args: str, killed: int | None = None) -> list[subprocess.Popen[str]]:
    """Start two processes of one command; `NUMBER` in an argument is the number of the process.

    Process `killed` dies at its first batch of results.
    """
    address, environment = free_address(), os.environ | {"JAX_PLATFORMS": "cpu"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = []
    for number in range(2):
        own = [arg.replace("NUMBER", str(number)) for arg in (*args, "--distributed", f"{address},2,NUMBER")]
        program = ["-c", KILLED] if number == killed else ["-m", "unojax"]
        both.append(subprocess.Popen([sys.executable, *program, *own], env=environment, cwd=ROOT, **pipes))
    return both


def run_two(*args: str) -> list[tuple[int, str, str]]:
    """Return status, output and notes of two processes of one command."""
    return [(process.wait(), *texts) for process in begin_two(*args) for texts in [process.communicate(timeout=600)]]


def results_of(path: Path) -> Any:
    return json.loads(path.read_text())["results"]


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(each) for name, each in value.items() if "second" not in name}
    return [without_times(each) for each in value] if isinstance(value, list) else value


@pytest.mark.slow
def test_two_processes_give_the_results_of_one(tmp_path):
    for command in (["simulate", "--games", "301"], ARENA, "evaluate uniform --opponents scarcest-color --games 60".split()):
        assert main([*command, *SMALL, "--json", str(tmp_path / "one.json")]) == 0
        (first, out, _), (second, silent, notes) = run_two(*command, *SMALL, "--json", str(tmp_path / "NUMBER.json"))
        assert (first, second) == (0, 0), notes
        assert out and not silent and not (tmp_path / "1.json").exists(), "the first one reports"
        assert without_times(results_of(tmp_path / "0.json")) == without_times(results_of(tmp_path / "one.json")), command[0]


@pytest.mark.slow
def test_rows_are_in_a_file_of_each_process(tmp_path):
    command = ["simulate", "--rows", "steps", "--games", "21", *SMALL, "--out"]
    assert main([*command, str(tmp_path / "one.npz")]) == 0
    for status, _, notes in run_two(*command, str(tmp_path / "two.npz")):
        assert status == 0, notes
    with np.load(tmp_path / "one.npz") as whole:
        for number in range(2):
            with np.load(tmp_path / f"two.{number}-of-2.npz") as part:
                for name, values in part.items():
                    np.testing.assert_array_equal(values, whole[name][whole["game"] % 2 == number], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [1, 0])
def test_a_run_whose_process_is_killed_is_completed(killed, tmp_path):
    """The same command plays the rest. Without the second process, the first one plays its share and reports the missing one;
    without the first, JAX ends the second, which has said before how to continue."""
    file = tmp_path / "results.jsonl"
    command = ["arena", "uniform", "scarcest-color", "--games", "4000", "--batch-size", "64", "--workers", "1", *SMALL]
    both = begin_two(*command, "--results", str(file), killed=killed)
    parts = [tmp_path / f"results.{number}-of-2.jsonl" for number in range(2)]
    out, notes = both[1 - killed].communicate(timeout=600)
    both[killed].communicate()
    remedy = f"start the command again in every process (games in {file} are not played again)"
    assert remedy in " ".join(notes.split())
    if killed == 1:
        assert both[0].returncode == EXIT_INTERRUPTED, notes
        assert "another process has ended too early" in notes and "the results are those of process 0 of 2 alone" in notes
        assert "2,000 to 2,000 of 4,000 of each two agents" in out
    else:
        assert both[1].returncode == -signal.SIGABRT and "another task died" in notes and "if process 0 ends too early" in notes

    def pairs_in(path: Path) -> int:
        return sum(len(json.loads(line)["pairs"]) for line in path.read_text().splitlines()) if path.exists() else 0

    kept = [pairs_in(part) for part in parts]
    assert 0 < kept[killed] < 1000 and (killed == 0 or kept[0] == 1000)
    assert main([*command, "--results", str(file), "--json", str(tmp_path / "rest.json")]) == 0
    assert main([*command, "--json", str(tmp_path / "whole.json")]) == 0
    rest, whole = (results_of(tmp_path / f"{name}.json")["matches"][0] for name in ("rest", "whole"))
    assert rest == whole
    assert pairs_in(file) + sum(kept) == 2000, "nothing is played twice"


@pytest.mark.slow
def test_processes_of_different_commands_are_refused():
    both = run_two("simulate", "--games", "2NUMBER", *SMALL)
    assert [status for status, *_ in both].count(2) >= 1
    assert any("all processes must have the same options" in notes for *_, notes in both)


def test_bad_addresses_are_refused_and_shares_have_files(refused):
    commands = ("simulate", "arena uniform linear", "evaluate linear")
    refused(
        {f"{command} --distributed here": 'distributed must be "auto" or "HOST:PORT,PROCESSES,NUMBER"' for command in commands}
    )
    assert Share(0, 1).file_of("a/steps.npz") == "a/steps.npz"
    assert Share(1, 2).file_of("a/steps.npz") == str(Path("a/steps.1-of-2.npz"))

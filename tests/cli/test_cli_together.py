"""Commands in several processes (`--distributed`): what one process gives, and what is left when one is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import ROOT, free_address
from unojax.cli import main
from unojax.device.process import EXIT_INTERRUPTED
from unojax.device.shares import Share

SMALL = ["--deck", "colors=2,ranks=0-3+S++2,copies=1,wilds=1", "--hand-size", "3", "--quiet"]


def begin(*args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "unojax", *args]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_two(*args: str) -> list[tuple[int, str, str]]:
    """Status, output and complaints of two processes of one command; `NUMBER` in an argument is that of the process."""
    address = free_address()
    both = []
    for number in range(2):
        own = [arg.replace("NUMBER", str(number)) for arg in args]
        both.append(begin(*own, "--distributed", f"{address},2,{number}"))
    return [(process.returncode, *texts) for process in both for texts in [process.communicate(timeout=600)]]


def results_of(path: Path) -> Any:
    return json.loads(path.read_text())["results"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "without"),
    [
        (["simulate", "--games", "301"], ()),
        (["arena", "uniform", "scarcest-color", "keep-wilds", "--games", "60", "--batch-size", "16"], ("decisions_per_second",)),
        (["evaluate", "uniform", "--opponents", "scarcest-color", "--games", "60"], ("decisions_per_second",)),
    ],
    ids=["simulate", "arena", "evaluate"],
)
def test_two_processes_give_what_one_gives(tmp_path: Path, command: list[str], without: tuple[str, ...]):
    assert main([*command, *SMALL, "--json", str(tmp_path / "one.json")]) == 0
    (first, said, _), (second, silent, complaints) = run_two(*command, *SMALL, "--json", str(tmp_path / "NUMBER.json"))
    assert (first, second) == (0, 0), complaints
    assert said and not silent and not (tmp_path / "1.json").exists(), "the first one reports"

    def bare(value: Any) -> Any:
        """Times aside."""
        if isinstance(value, dict):
            return {name: bare(each) for name, each in value.items() if name not in without and "second" not in name}
        return [bare(each) for each in value] if isinstance(value, list) else value

    assert bare(results_of(tmp_path / "0.json")) == bare(results_of(tmp_path / "one.json"))


@pytest.mark.slow
def test_rows_are_in_a_file_of_each_process(tmp_path: Path):
    assert main(["simulate", "--rows", "steps", "--games", "21", *SMALL, "--out", str(tmp_path / "one.npz")]) == 0
    for status, _, complaints in run_two(
        "simulate", "--rows", "steps", "--games", "21", *SMALL, "--out", str(tmp_path / "two.npz")
    ):
        assert status == 0, complaints
    with np.load(tmp_path / "one.npz") as whole:
        for number in range(2):
            with np.load(tmp_path / f"two.{number}-of-2.npz") as part:
                for name, values in part.items():
                    np.testing.assert_array_equal(values, whole[name][whole["game"] % 2 == number], err_msg=name)


@pytest.mark.slow
def test_what_is_left_when_a_process_is_killed(tmp_path: Path):
    """The other one plays its share and says what is missing; the same command plays the rest, and gives what one run gives."""
    file, address = tmp_path / "results.jsonl", free_address()
    command = ["arena", "uniform", "scarcest-color", "--games", "4000", "--batch-size", "64", "--workers", "1", *SMALL]
    both = [begin(*command, "--results", str(file), "--distributed", f"{address},2,{number}") for number in range(2)]
    parts = [tmp_path / f"results.{number}-of-2.jsonl" for number in range(2)]
    deadline = time.monotonic() + 300
    while not (parts[1].exists() and parts[1].stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    both[1].kill()
    said, complaints = both[0].communicate(timeout=600)
    both[1].communicate()
    assert both[0].returncode == EXIT_INTERRUPTED, complaints
    assert "another process has ended too early" in complaints
    assert "the results are those of process 0 of 2 alone" in complaints
    assert "2,000 to 2,000 of 4,000 of each two agents" in said
    kept = [[json.loads(line) for line in part.read_text().splitlines()] for part in parts]
    assert sum(len(line["pairs"]) for line in kept[0]) == 1000 and 0 < sum(len(line["pairs"]) for line in kept[1]) < 1000

    assert main([*command, "--results", str(file), "--json", str(tmp_path / "rest.json")]) == 0
    assert main([*command, "--json", str(tmp_path / "whole.json")]) == 0
    rest, whole = (results_of(tmp_path / f"{name}.json")["matches"][0] for name in ("rest", "whole"))
    assert rest == whole
    played = sum(len(json.loads(line)["pairs"]) for line in file.read_text().splitlines())
    assert played + sum(len(line["pairs"]) for lines in kept for line in lines) == 2000, "nothing is played twice"


@pytest.mark.slow
def test_processes_of_different_commands_are_refused():
    told = run_two("simulate", "--games", "2NUMBER", *SMALL)
    assert [status for status, *_ in told].count(2) >= 1
    assert any("all processes must have the same options" in complaints for *_, complaints in told)


@pytest.mark.parametrize("command", ["simulate", "arena uniform linear", "evaluate linear"])
def test_bad_addresses_are_refused(capsys: pytest.CaptureFixture[str], command: str):
    assert main([*command.split(), "--distributed", "here"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and 'distributed must be "auto" or "HOST:PORT,PROCESSES,NUMBER"' in captured.err


def test_files_of_shares():
    assert Share(0, 1).file_of("a/steps.npz") == "a/steps.npz"
    assert Share(1, 2).file_of("a/steps.npz") == str(Path("a/steps.1-of-2.npz"))

"""The command line as a whole: help, version, and one line for what is wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import unojax
from unojax import POLICIES
from unojax.cli import _condense, main


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"unojax {unojax.__version__}\n"


@pytest.mark.parametrize("args", [[], ["--help"]])
def test_help_names_the_commands(capsys, args: list[str]):
    assert main(args) == 0
    out = capsys.readouterr().out
    for command in ("simulate", "arena", "advise", "belief", "rules", "bench", "play", "replay", "solve", "exploit"):
        assert command in out


def test_help_of_simulate_names_options_and_policies(capsys):
    assert main(["simulate", "--help"]) == 0
    out = capsys.readouterr().out
    joined = re.sub(r"[\s│|]+", "", out)
    for word in (*POLICIES, "--no-skip-forfeits", "--deck", "colors=2,ranks=0-5+S,copies=1,wilds=1", "as-given", "--json"):
        assert word in joined
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("simulate --policies uniform best", "simulate: error: no policy is called 'best'; choose one of uniform, keep-wilds"),
        ("simulate --policies uniform", "Missing value for argument '--policies'"),
        ("simulate --games many", "--games: must be a whole number such as 100000 or 1e5, got 'many' (unojax simulate --help"),
        ("simulate --games 0", "--games: must be in [1, 2147483648], got 0"),
        ("simulate --max-steps 0", "--max-steps: must be in [1, 2147483648], got 0"),
        ("simulate --batch-size x", "--batch-size: must be a whole number"),
        ("simulate --seed -1", "--seed: must be a whole number in [0, 4294967295], got '-1'"),
        ("simulate --start-card wild", "invalid choice 'wild' for argument '--start-card'. Expected one of ('non_wild', 'any')"),
        ("simulate --step-penalty inf", "simulate: error: step_penalty must be a finite number, got inf"),
        ("simulate --hand-size 60", "simulate: error: hand_size must be an integer in [1, 49]"),
        ("simulate --deck half", "simulate: error: --deck 'half': 'half' is not understood; use full, numbers,"),
        ("simulate --polices uniform uniform", "perhaps you meant --policies"),
        ("rules --hand-size", "Missing value for argument '--hand-size'"),
        ("bench --batch-sizes 0", "--batch-sizes"),
        (
            "shuffle",
            (
                "Unrecognized options: shuffle. Available subcommands: simulate, arena, advise, belief, rules, bench, play, "
                "replay, solve, exploit ("
            ),
        ),
    ],
)
def test_errors_are_one_line(complaint, command: str, says: str):
    assert says in complaint(command.split())


def test_unknown_layout_of_the_parser_report_is_kept():
    assert _condense("something\nnew") == "something new"


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (MemoryError("Unable to allocate 17 GiB"), 1, "not enough memory: Unable to allocate 17 GiB"),
        (
            RuntimeError("RESOURCE_EXHAUSTED: out of memory\nreport\nof many lines"),
            1,
            (
                "error: RESOURCE_EXHAUSTED: out of memory (the device has too little memory; lower the batch size, or the "
                "particles or rollouts of an agent)\n"
            ),
        ),
        (KeyboardInterrupt(), 130, "unojax rules: stopped\n"),
    ],
)
def test_failures_of_the_machine_are_one_line(capsys, monkeypatch, error: BaseException, status: int, says: str):
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr("unojax.cli.rules.ShowRules.run", fail)
    assert main(["rules"]) == status
    captured = capsys.readouterr()
    assert len(captured.err.splitlines()) == 1
    assert says in captured.err


# What needs a process of its own: whether a JAX backend is started (here none could be), and a reader who goes away.
_WITHOUT_DEVICE = """
import sys
from unojax.cli import main
commands = "--help", "simulate --help", "simulate --policies x y", "simulate --hand-size 99", "rules", "bench"
print([main(command.split()) for command in commands])
"""


def run_process(*args: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"JAX_PLATFORMS": "no_such_platform", "NO_COLOR": "1"}
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_only_games_need_a_device():
    done = run_process("-c", _WITHOUT_DEVICE)
    assert done.stdout.splitlines()[-1] == "[0, 0, 2, 2, 0, 1]"
    assert "Traceback" not in done.stderr
    assert "no_such_platform" in done.stderr.splitlines()[-1]


def test_module_and_reader_that_goes_away():
    process = subprocess.Popen(
        [sys.executable, "-m", "unojax", "rules"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=60) != 0

"""The command line as a whole: help, version, and one line for what is wrong."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec

import jax
import jaxlib
import numpy as np
import pytest
from rich.text import Text

import unojax
from unojax import POLICIES
from unojax.cli import main
from unojax.cli.advise import Advise
from unojax.cli.arena import Arena
from unojax.cli.options import RuleOptions
from unojax.cli.play import PlayGame
from unojax.cli.simulate import Simulate
from unojax.cli.solve import Solve
from unojax.cli.targets import check_apart
from unojax.cli.version import describe
from unojax.terminal import tables


def test_version_names_what_a_report_needs(capsys):
    assert main(["--version"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"unojax {unojax.__version__}"
    told = dict(line.split(maxsplit=1) for line in lines if line.startswith("  "))
    assert told["Python"].startswith(platform.python_version())
    assert told["jax"] == jax.__version__ and told["jaxlib"] == jaxlib.version.__version__
    assert told["numpy"] == np.__version__ and "pytest" not in told
    # Each library that the package needs, and those of its extras that are here.
    needed = {line.split(">")[0] for line in metadata.requires("unojax") or [] if "extra ==" not in line}
    assert needed <= set(told)
    assert ("pyarrow" in told) == (find_spec("pyarrow") is not None)


def test_version_comes_at_once_and_imports_no_jax():
    code = "import sys; from unojax.cli import main; main(['--version']); print({'jax', 'tyro', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_options_are_read_without_typeguard():
    """Of an option `str | None`, unlike `Optional[str]`, tyro has typeguard check the default: 0.1 s for each command."""
    code = (
        "import sys; from unojax.cli.parsing import parse\n"
        "for words in ('rules', 'play', 'review x.json', 'advise --hand R1 --opponent 7'): parse(words.split())\n"
        "print('typeguard' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_version_names_the_build_and_the_platform_that_was_asked_for(monkeypatch):
    versions = {"jax-cuda13-plugin": "0.10.2", "jax": "0.10.2"}

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    def no_metadata(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(metadata, "requires", no_metadata)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    said = describe()
    assert "jax-cuda13-plugin 0.10.2, JAX_PLATFORMS=cuda" in said and "optional" not in said


@pytest.mark.parametrize("args", [[], ["--help"]])
def test_help_names_the_commands(capsys, args: list[str]):
    assert main(args) == 0
    out = capsys.readouterr().out
    for command in "play table advise rules replay review belief simulate arena evaluate agents solve exploit".split():
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
        ("simulate --policies uniform best", "simulate: error: no policy is called 'best'; choose one of uniform, greedy"),
        ("simulate --policies uniform", "simulate: error: --policies: a value is missing after it (unojax simulate --help"),
        ("simulate --games many", "--games: must be a whole number such as 100000 or 1e5, got 'many' (unojax simulate --help"),
        ("simulate --games 0", "--games: must be in [1, 2147483648], got 0"),
        ("simulate --max-steps 0", "--max-steps: must be in [1, 2147483648], got 0"),
        ("simulate --batch-size x", "--batch-size: must be a whole number"),
        ("simulate --seed -1", "--seed: must be a whole number in [0, 4294967295], got '-1'"),
        ("simulate --start-card wild", "--start-card: must be one of any, non_wild, not_draw_four, got 'wild'"),
        ("simulate --step-penalty lots", "--step-penalty: must be a number, got 'lots'"),
        ("arena linear uniform --to 500", "rounds have no points under these rules: choose --rules 'official', or --points True"),
        ("advise --hand XX --top R0 --opponent 7", "advise: error: --hand: unknown card 'XX'"),
        ("table --hand XX --top R0", "table: error: --hand: unknown card 'XX'"),
        ("solve huge", "solve: error: GAME: must be one of medium, rules, small, tiny, got 'huge'"),
        ("simulate --step-penalty inf", "simulate: error: --step-penalty must be a finite number"),
        ("simulate --hand-size 60", "simulate: error: --hand-size must be an integer in [1, 49]"),
        ("simulate --deck half", "simulate: error: --deck 'half': 'half' is not understood; use full, numbers,"),
        ("simulate --polices uniform uniform", "perhaps you meant --policies"),
        ("rules --hand-size", "--hand-size: a value is missing after it"),
        ("replay", "missing: FILE.json"),
        ("simulate --seeds 3", "simulate: error: unknown option --seeds; perhaps you meant --seed ("),
        ("replay game.json again", "unknown argument again ("),
        ("belief --turn 1e9", "--turn: must be a whole number, got '1e9'"),
        ("play --web --port 80x", "--port: must be a whole number, got '80x'"),
        ("agents --hand", "agents: error: unknown option --hand ("),
        ("belief --turn -1", "belief: error: --turn must be at least 0, the start, got -1"),
        ("rules --deck colors=1,ranks=0,copies=1,wilds=0", "deck: 1 coloured cards are too few"),
        (
            "shuffle",
            (
                "unojax: error: there is no command 'shuffle'; the commands: play, table, advise, rules, replay, review, belief, "
                "simulate, arena, evaluate, agents, solve, exploit"
            ),
        ),
        ("simualte", "there is no command 'simualte'; perhaps you meant simulate; the commands: "),
    ],
)
def test_errors_are_one_line(complaint, command: str, says: str):
    said = complaint(command.split())
    assert says in said and said.count("error") == 1


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("simulate --deck d.json --json d.json", "simulate: error: --json: 'd.json' is read by --deck; give another name"),
        ("simulate --deck d.json --out ./d.json", "--out: './d.json' is read by --deck"),
        ("play --deck d.json --save d.json", "--save: 'd.json' is read by --deck"),
        ("advise --deck d.json --hand R1 --top R2 --opponent 7 --json d.json", "--json: 'd.json' is read by --deck"),
        ("arena linear uniform --results k.jsonl --json k.jsonl", "--json: 'k.jsonl' is written by --results too"),
        ("arena linear uniform --plot s.svg --json s.svg", "--json: 's.svg' is written by --plot too"),
        ("arena linear uniform --results s.svg --plot s.svg", "--plot: 's.svg' is written by --results too"),
        ("arena my.py:clever uniform --results my.py", "--results: 'my.py' is read by my.py:clever"),
        ("arena linear value:network=n.npz --json n.npz", "--json: 'n.npz' is read by value:network=n.npz"),
        ("evaluate my.py:Clever:depth=2 --json my.py", "--json: 'my.py' is read by my.py:Clever:depth=2"),
        ("exploit linear --exact-belief my.py:clever --json my.py", "--json: 'my.py' is read by my.py:clever"),
        ("simulate --policies linear my.py:clever --out my.py", "--out: 'my.py' is read by my.py:clever"),
        ("solve tiny --state s.npz --json s.npz", "--json: 's.npz' is written by --state too"),
        ("belief --game g.json --json g.json", "--json: 'g.json' is the saved game itself"),
        ("review g.json --html g.html --json g.html", "--json: 'g.html' is written by --html too"),
    ],
)
def test_no_file_that_is_read_or_written_is_overwritten(complaint, monkeypatch, tmp_path, command: str, says: str):
    monkeypatch.chdir(tmp_path)
    assert says in complaint(command.split())


@pytest.mark.parametrize(
    "options",
    [
        Arena(("process:python my.py", "value"), json="python"),
        Solve("tiny", json="tiny"),
        Simulate(out="/dev/null", json="/dev/null"),
        PlayGame(resume="g.json", save="g.json"),
        Advise(opponent=7, json="-", rules=RuleOptions(deck="-")),
    ],
)
def test_what_is_no_file_of_the_command_may_be_written(options: object):
    check_apart(options)


def test_a_program_is_a_file_that_is_read():
    with pytest.raises(ValueError, match=r"--json: 'my.py' is read by process:python my.py; give another name"):
        check_apart(Arena(("process:python my.py", "value"), json="my.py"))


@pytest.mark.parametrize("command", ["./player --fast", "python 'player'", "seconds=3,python run.py --weights=player"])
def test_a_program_and_its_files_need_no_suffix(monkeypatch, tmp_path, command: str):
    monkeypatch.chdir(tmp_path)
    check_apart(Arena((f"process:{command}", "value"), json="player"))
    (tmp_path / "player").touch()
    with pytest.raises(ValueError, match=r"--json: 'player' is read by process:.*player.*; give another name"):
        check_apart(Arena((f"process:{command}", "value"), json="player"))


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
commands = "--help", "simulate --help", "simulate --policies x y", "simulate --hand-size 99", "rules", "evaluate linear --games 2"
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


@pytest.mark.parametrize("command", [["rules"], ["--help"], ["--version"], ["simulate", "--help"]])
def test_output_that_can_not_be_written(command: list[str]):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "unojax", *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert "can't write the output: No space left on device" in done.stderr


def test_no_output_at_all(capsys, monkeypatch):
    """As in a process that was started with its standard output closed."""
    monkeypatch.setattr("sys.stdout", None)
    assert main(["rules"]) == 1
    monkeypatch.undo()
    assert capsys.readouterr().err == "unojax: error: there is no standard output to write to\n"


def test_a_platform_without_a_device_is_one_line():
    commands = ["solve", "simulate", "belief"]
    code = "import jax; jax.devices = lambda: exec('assert None'); from unojax.cli import main; print([main([c]) for c in {}])"
    done = run_process("-c", code.format(commands))
    assert done.stdout.splitlines()[-1] == "[1, 1, 1]" and "Traceback" not in done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("unojax")]
    assert len(told) == 3
    for command, line in zip(commands, told, strict=True):
        assert line.startswith(f"unojax {command}: error: JAX found no device for JAX_PLATFORMS='no_such_platform'")


# Stopped soon after its program is compiled; by Ctrl-C as in a terminal, also where the tests run in the background without it.
_STOPPED = """
import signal
import jax
from unojax.cli import run_process
signal.signal(signal.SIGINT, signal.default_int_handler)
def stop(event, seconds, **about):
    if "backend_compile" in event and "advance_slots" in about["fun_name"]:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
jax.monitoring.register_event_duration_secs_listener(stop)
run_process()
"""


@pytest.mark.slow
def test_ctrl_c_while_programs_run_is_an_ordinary_end():
    """Threads of the compiler are at work when the process ends."""
    command = [sys.executable, "-c", _STOPPED, "simulate", "--batch-size", "4096", "--games", "1e9", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 130 and done.stderr.startswith("unojax simulate: stopped") and done.stderr.count("\n") == 1


_WITH_A_THREAD = """
import threading
import time
from unojax.cli import run_process
threading.Thread(target=time.sleep, args=(60,)).start()
run_process()
"""


def test_a_thread_that_works_on_holds_nothing_up():
    command = [sys.executable, "-c", _WITH_A_THREAD, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "unojax")


@pytest.mark.parametrize("width", [0, 1, 30, 40, 60])
def test_no_column_of_a_table_is_lost_on_a_narrow_terminal(capsys, monkeypatch, width: int):
    monkeypatch.setenv("COLUMNS", str(width))
    table = tables.grid("title")
    table.add_column("agent", overflow="fold")
    for heading in ("rating", "score", "games"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("scarcest-color", "+123 ± 45", "63.2 ± 0.4", "1,000,000")
    tables.show(table, Text("words under it"))
    shown = capsys.readouterr().out
    assert "words under it" in " ".join(shown.split())
    for entry in ("scarcest-color", "+123 ± 45", "63.2 ± 0.4", "1,000,000", "rating", "score", "games"):
        assert entry in shown


def test_module_and_reader_that_goes_away():
    process = subprocess.Popen(
        [sys.executable, "-m", "unojax", "rules"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=300) != 0

"""The command line as a whole: help, version, and one line for each error."""

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
from tests.helpers import refusals
from unojax import POLICIES
from unojax.cli import commands, main
from unojax.cli.advise import Advise
from unojax.cli.arena import Arena
from unojax.cli.options import RuleOptions
from unojax.cli.play import PlayGame
from unojax.cli.simulate import Simulate
from unojax.cli.solve import Solve
from unojax.cli.targets import check_apart
from unojax.cli.version import describe
from unojax.terminal import tables


def run_process(*args: str, **others) -> subprocess.CompletedProcess[str]:
    """Run Python to its end."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 300} | others
    return subprocess.run([sys.executable, *args], check=False, **options)


def test_version_names_all_libraries(capsys, monkeypatch):
    assert main(["--version"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"unojax {unojax.__version__}"
    versions = dict(line.split(maxsplit=1) for line in lines if line.startswith("  "))
    assert versions["Python"].startswith(platform.python_version())
    assert versions["jax"] == jax.__version__ and versions["jaxlib"] == jaxlib.version.__version__
    assert versions["numpy"] == np.__version__ and "pytest" not in versions
    # Each library that the package needs, and those of its extras that are installed.
    needed = {line.split(">")[0] for line in metadata.requires("unojax") or [] if "extra ==" not in line}
    assert needed <= set(versions)
    assert ("pyarrow" in versions) == (find_spec("pyarrow") is not None)

    # A build for GPUs, the requested platform, and no metadata of the package.
    installed = {"jax-cuda13-plugin": "0.10.2", "jax": "0.10.2"}

    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(metadata, "requires", version)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    assert "jax-cuda13-plugin 0.10.2, JAX_PLATFORMS=cuda" in describe() and "optional" not in describe()


# tyro lets typeguard check the default of an option `str | None`, unlike `Optional[str]`: 0.1 s for each command.
IMPORTS = """
import sys
from unojax.cli import main
main(["--version"])
assert not {"jax", "tyro", "rich"} & set(sys.modules)
from unojax.cli.parsing import parse
for words in ("rules", "play", "review x.json", "advise --hand R1 --opponent 7"):
    parse(words.split())
assert "typeguard" not in sys.modules
main(["arena", "--help"])
from unojax.device.blame import blamed_on
try:
    with blamed_on("mine"):
        1 / 0
except ValueError as error:
    assert str(error) == "mine failed: ZeroDivisionError: division by zero"
assert "jax" not in sys.modules
import unojax.games.advising, unojax.simulation, unojax.analysis.turns, unojax.analysis.reviewing
assert not {"flax", "optax", "chex", "unojax.arena", "unojax.value"} & set(sys.modules)
"""


def test_each_command_imports_no_more_than_it_needs():
    """Version, help and parsing import no JAX; advice, simulations and beliefs neither networks nor the arena."""
    done = run_process("-c", IMPORTS)
    assert done.returncode == 0, done.stderr


def test_help_names_commands_options_and_choices(capsys, monkeypatch):
    for args, columns in ((["--help"], 60), ([], 80)):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(args) == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= columns
        assert len(commands()) == 13 and all(re.search(rf"^  {command} ", out, re.MULTILINE) for command in commands())
    shared = ("--json", "--hand-size", "--no-skip-forfeits", "scarcest-color")
    for command, words in (
        ("simulate", (*POLICIES, *shared, "--deck", "as-given")),
        ("rules", ("colors=2,ranks=0-5+S,copies=1,wilds=1", "--stacking{true,false}", "(default:as--rulessays)")),
        ("arena", ("AGENT", *shared, "--results", "--plot", "--workers")),
    ):
        assert main([command, "--help"]) == 0
        out = capsys.readouterr().out
        assert all(word in re.sub(r"[\s│|]+", "", out) for word in words)
        assert all(len(line) <= 80 for line in out.splitlines())
        # The rules are described at length by their own command alone.
        assert len(out.splitlines()) < 115


def test_bad_command_lines_are_refused(refused):
    """Contract: at the host boundary (command line) bad input is an error naming what came, what is allowed and the fix."""
    whole = "must be a whole number"
    refused(
        {
            "simulate --policies uniform best": "simulate: error: no policy is called 'best'",
            "simulate --policies uniform": "--policies: a value is missing after it (unojax simulate --help",
            "simulate --games many": "--games: must be a whole number such as 100000 or 1e5, got 'many'",
            "simulate --games 0": "--games: must be in [1, 2147483648]",
            "simulate --max-steps 0": "--max-steps",
            "simulate --batch-size x": "--batch-size",
            "simulate --seed -1": f"--seed: {whole}",
            "simulate --start-card wild": "--start-card: must be one of any, non_wild, not_draw_four",
            "simulate --step-penalty lots": "--step-penalty: must be a number",
            "simulate --step-penalty inf": "--step-penalty",
            "simulate --hand-size 60": "--hand-size must be an integer in [1, 49]",
            "simulate --deck half": "--deck 'half'",
            "simulate --polices uniform uniform": "perhaps you meant --policies",
            "simulate --seeds 3": "unknown option --seeds; perhaps you meant --seed (",
            "advise --hand XX --top R0 --opponent 7": "advise: error: --hand: unknown card 'XX'",
            "rules --hand-size": "--hand-size: a value is missing after it",
            "rules --deck colors=1,ranks=0,copies=1,wilds=0": "deck",
            "replay": "missing: FILE.json",
            "replay game.json again": "unknown argument again (",
            "replay /no/such/game.json": "'/no/such/game.json'",
            "belief --turn 1e9": f"--turn: {whole}",
            "play --web --port 80x": f"--port: {whole}",
            "agents --hand": "agents: error: unknown option --hand (",
            "shuffle": f"unojax: error: there is no command 'shuffle'; the commands: {', '.join(commands())}",
            "solve --game tiny": "unknown option --game (",
            "simualte": "perhaps you meant simulate",
        }
    )


def test_no_file_that_is_read_or_written_is_overwritten(refused, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    refused(
        {
            "simulate --deck d.json --json d.json": "--json: 'd.json' is read by --deck",
            "simulate --deck d.json --out ./d.json": "--out: './d.json' is read by --deck",
            "simulate --policies linear my.py:clever --out my.py": "--out: 'my.py' is read by my.py:clever",
            "simulate --out g.npz --json g.npz": "--json: 'g.npz' is written by --out too",
            "play --deck d.json --save d.json": "--save: 'd.json' is read by --deck",
            "advise --deck d.json --hand R1 --top R2 --opponent 7 --json d.json": "--json: 'd.json' is read by --deck",
            "arena linear uniform --results k.jsonl --json k.jsonl": "--json: 'k.jsonl' is written by --results too",
            "arena linear uniform --results s.svg --plot s.svg": "--plot: 's.svg' is written by --results too",
            "arena my.py:clever uniform --results my.py": "--results: 'my.py' is read by my.py:clever",
            "arena linear value:network=n.npz --json n.npz": "--json: 'n.npz' is read by value:network=n.npz",
            "evaluate my.py:Clever:depth=2 --json my.py": "--json: 'my.py' is read by my.py:Clever:depth=2",
            "exploit linear --exact-belief my.py:clever --json my.py": "--json: 'my.py' is read by my.py:clever",
            "solve tiny --state s.npz --json s.npz": "--json: 's.npz' is written by --state too",
            "belief --game g.json --json g.json": "--json: 'g.json' is the saved game itself",
            "review g.json --html g.html --json g.html": "--json: 'g.html' is written by --html too",
        }
    )
    for options in (
        Arena(("process:python my.py", "value"), json="python"),
        Solve("tiny", json="tiny"),
        Simulate(out="/dev/null", json="/dev/null"),
        PlayGame(resume="g.json", save="g.json"),
        Advise(opponent=7, json="-", rules=RuleOptions(deck="-")),
    ):
        check_apart(options)

    # A program and its files need no suffix, if they exist.
    programs = ("./player --fast", "python 'player'", "seconds=3,python run.py --weights=player")
    writing = [Arena((f"process:{program}", "value"), json="player") for program in programs]
    for options in writing:
        check_apart(options)
    (tmp_path / "player").touch()
    refusals({f"--json: 'player' is read by process: ({i})": lambda o=o: check_apart(o) for i, o in enumerate(writing)})
    refusals({"--json: 'my.py' is read by": lambda: check_apart(Arena(("process:python my.py", "value"), json="my.py"))})


def test_failures_of_the_machine_are_one_line(capsys, monkeypatch):
    no_memory = "RESOURCE_EXHAUSTED: out of memory (the device has too little memory; lower the batch size"
    for error, status, words in (
        (MemoryError("Unable to allocate 17 GiB"), 1, "not enough memory: Unable to allocate 17 GiB"),
        (RuntimeError("RESOURCE_EXHAUSTED: out of memory\nreport\nof many lines"), 1, no_memory),
        (KeyboardInterrupt(), 130, "unojax rules: stopped\n"),
    ):

        def fail(_: object, error: BaseException = error) -> int:
            raise error

        monkeypatch.setattr("unojax.cli.rules.ShowRules.run", fail)
        assert main(["rules"]) == status
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1 and words in said


# Whether a JAX backend is started shows in a process in which none can be; then in one whose platform has no device.
WITHOUT_DEVICE = """
from unojax.cli import main
commands = "--help", "simulate --help", "simulate --policies x y", "simulate --hand-size 99", "rules", "evaluate linear --games 2"
print([main(command.split()) for command in commands])
import jax
jax.devices = lambda: exec("assert None")
statuses = [main([command]) for command in ("solve", "simulate")]
# As with python -O.
jax.devices = lambda: exec("None.devices")
print([*statuses, main(["belief"])])
"""


def test_only_games_need_a_device():
    environment = os.environ | {"JAX_PLATFORMS": "no_such_platform", "NO_COLOR": "1"}
    done = run_process("-c", WITHOUT_DEVICE, env=environment)
    assert done.stdout.splitlines()[-1] == "[1, 1, 1]" and "[0, 0, 2, 2, 0, 1]" in done.stdout.splitlines()
    assert "Traceback" not in done.stderr
    *_, of_backend, solve, simulate, belief = (line for line in done.stderr.splitlines() if line.startswith("unojax"))
    assert of_backend.startswith("unojax evaluate: ") and "no_such_platform" in of_backend
    for command, line in (("solve", solve), ("simulate", simulate), ("belief", belief)):
        assert line.startswith(f"unojax {command}: error: JAX found no device for JAX_PLATFORMS='no_such_platform'")


def test_output_that_can_not_be_written_is_one_line(capsys, monkeypatch):
    for command in ("rules", "--help", "--version", "simulate --help"):
        with open("/dev/full", "w") as full, monkeypatch.context() as patch:
            patch.setattr("sys.stdout", full)
            assert main(command.split()) == 1
        said = capsys.readouterr().err
        assert "can't write the output: No space left on device" in said and said.count("\n") == 1, command
    # As in a process that was started with its standard output closed.
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", None)
        assert main(["rules"]) == 1
    assert capsys.readouterr().err == "unojax: error: there is no standard output to write to\n"


WITH_A_THREAD = """
import threading
import time
from unojax.cli import run_process
threading.Thread(target=time.sleep, args=(60,)).start()
run_process()
"""


def test_a_process_ends_at_once():
    """While a thread works and the output can't be written, and if the reader of the output exits."""
    with open("/dev/full", "w") as full:
        done = run_process("-c", WITH_A_THREAD, "rules", stdout=full, timeout=30)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No space left on device" in done.stderr
    command = [sys.executable, "-m", "unojax", "rules"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == "" and process.wait(timeout=300) != 0


# Stopped soon after its program is compiled; by Ctrl-C as in a terminal, also if the tests run in the background without it.
STOPPED = """
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
    """Compiler threads are running when the process ends."""
    done = run_process("-c", STOPPED, "simulate", "--batch-size", "4096", "--games", "1e9", "--quiet")
    assert done.returncode == 130 and done.stderr.startswith("unojax simulate: stopped") and done.stderr.count("\n") == 1


def test_no_column_of_a_table_is_lost_on_a_narrow_terminal(capsys, monkeypatch):
    entries = ("scarcest-color", "+123 ± 45", "63.2 ± 0.4", "1,000,000")
    for width in (0, 1, 30, 40, 60):
        monkeypatch.setenv("COLUMNS", str(width))
        table = tables.grid("title")
        table.add_column("agent", overflow="fold")
        for heading in ("rating", "score", "games"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_row(*entries)
        tables.show(table, Text("words under it"))
        shown = capsys.readouterr().out
        assert "words under it" in " ".join(shown.split())
        assert all(entry in shown for entry in (*entries, "rating", "score", "games")), width

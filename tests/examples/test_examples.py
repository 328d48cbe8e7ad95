"""Every example runs, at small size, and is short."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType
from typing import Final

import jax
import pytest

from tests.helpers import ROOT
from unojax import paired_score, play_match

PROGRAMS: Final = 600  # the slow part runs every example
EXAMPLES = ROOT / "examples"
# Warnings of other libraries are no business of the examples.
pytestmark = pytest.mark.filterwarnings("default")


def load(name: str, *libraries: str) -> ModuleType:
    """Return the example as a module; skip the test if a library is missing."""
    for library in libraries:
        pytest.importorskip(library, reason=f"{library} is not installed")
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_are_short_and_on_their_page():
    """A whole experiment is one file, and that file one page."""
    files, page = sorted(EXAMPLES.glob("*.py")), (EXAMPLES / "README.md").read_text()
    for file in files:
        assert len(file.read_text().splitlines()) <= (151 if file.name == "ppo.py" else 82), file
        assert f"`{file.name}`" in page
    assert len(files) == 7


NEEDS = {
    "ppo": "optax",
    "ppo_gymnasium": "gymnasium",
    "search": "mctx",
    "equilibrium": "pyspiel",
    "table": "pettingzoo",
    "dqn": "rlcard",
}
MISSING = """
import runpy, sys, traceback
for name, library in {needs!r}.items():
    sys.modules[library] = None
    try:
        runpy.run_path(f"{folder}/{{name}}.py", run_name="__main__")
    except SystemExit as left:
        print(name, left, sep=": ")
    sys.modules.pop(library, None)
"""


def test_a_missing_library_is_named():
    """Each example exits with one line before slow imports."""
    code = MISSING.format(needs=NEEDS, folder=EXAMPLES)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and ran.stderr == ""
    lines = dict(line.split(": ", 1) for line in ran.stdout.splitlines())
    for name, library in NEEDS.items():
        assert f"needs {library}: pip install 'unojax[examples]'" in lines.pop(name)
    assert not lines


@pytest.mark.slow
def test_an_outside_player_wins_more_than_half_against_random_play():
    """The known rule wins two thirds; the whole interval is above one half."""
    spec = f"process:start_seconds=60,{sys.executable} {EXAMPLES / 'outside_player.py'}"
    score = paired_score(play_match(jax.random.key(0), (spec, "uniform"), 100, workers=1).points)
    assert score.interval[0] > 0.5


def test_table():
    assert sum(load("table", "pettingzoo").main(num_games=4).values()) == 4


SMALL = {
    "equilibrium": (("pyspiel",), {"num_iterations": 3, "max_steps": 2}, (-0.01, 0.5)),
    "search": (("pgx", "mctx"), {"num_games": 4, "num_simulations": 4, "hand_size": 2, "num_steps": 20}, (0, 1)),
    "ppo_gymnasium": (("gymnasium", "sb3_contrib"), {"num_envs": 64, "num_steps": 4096, "rollout": 32}, (0.01, 0.99)),
    "dqn": (("rlcard", "torch"), {"num_games": 12, "num_pairs": 4}, (0, 1)),
}
"""Examples with their libraries, arguments of a short run, and the range of their result."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_example_runs(name: str):
    libraries, arguments, (low, high) = SMALL[name]
    assert low <= load(name, *libraries).main(**arguments) <= high


@pytest.mark.slow
@pytest.mark.optimized
def test_ppo_learns():
    """Better than uniform play after a few iterations, by six standard errors of 4,096 games."""
    ppo = load("ppo", "flax", "optax")
    policy, params = ppo.train(iterations=30, width=64)
    assert ppo.win_rate(policy, params) > 0.5 + 6 * 0.5 / 64


def test_ppo_shows_its_help_without_training():
    shown = subprocess.run([sys.executable, EXAMPLES / "ppo.py", "--help"], capture_output=True, text=True, check=True).stdout
    assert "--minutes" in shown and "% of the games won" not in shown

"""Every example runs, at small size, and is short."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import jax
import pytest

from unojax import paired_score, play_match

EXAMPLES = Path(__file__).parents[2] / "examples"
# Libraries' own warnings are no business of theirs.
pytestmark = pytest.mark.filterwarnings("default")


def load(name: str, *libraries: str) -> ModuleType:
    """The example as a module; skipped if a library is not there."""
    for library in libraries:
        pytest.importorskip(library, reason=f"{library} is not installed")
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_are_short_and_named():
    files = sorted(EXAMPLES.glob("*.py"))
    page = (EXAMPLES / "README.md").read_text()
    for file in files:
        # One page, and a whole experiment in one file.
        assert len(file.read_text().splitlines()) <= (151 if file.name == "ppo.py" else 82), file
        assert f"`{file.name}`" in page
    assert len(files) == 7


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("ppo", "optax"),
        ("ppo_gymnasium", "gymnasium"),
        ("search", "mctx"),
        ("equilibrium", "pyspiel"),
        ("table", "pettingzoo"),
        ("dqn", "rlcard"),
    ],
)
def test_a_missing_library_is_named(name: str, library: str):
    code = f"import runpy, sys; sys.modules[{library!r}] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    ran = subprocess.run([sys.executable, "-c", code, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.strip().count("\n") == 0
    assert f"needs {library}: pip install 'unojax[examples]'" in ran.stderr


@pytest.mark.slow
def test_outside_player():
    """Above random play, with all of the interval: the known rule wins two games of three."""
    spec = f"process:start_seconds=60,{sys.executable} {EXAMPLES / 'outside_player.py'}"
    score = paired_score(play_match(jax.random.key(0), (spec, "uniform"), 100, workers=1).points)
    assert score.interval[0] > 0.5


def test_table():
    wins = load("table", "pettingzoo").main(num_games=4)
    assert sum(wins.values()) == 4


@pytest.mark.slow
def test_equilibrium():
    assert load("equilibrium", "pyspiel").main(num_iterations=3, max_steps=2) < 0.5


@pytest.mark.slow
def test_search():
    assert 0 <= load("search", "pgx", "mctx").main(num_games=4, num_simulations=4, hand_size=2, num_steps=20) <= 1


@pytest.mark.slow
@pytest.mark.optimized
def test_ppo_learns():
    """Better than uniform play after a few iterations: six standard errors of 4,096 games."""
    ppo = load("ppo", "flax", "optax")
    policy, params = ppo.train(iterations=30, width=64)
    assert ppo.win_rate(policy, params) > 0.5 + 6 * 0.5 / 64


def test_ppo_says_what_it_does_without_training():
    shown = subprocess.run([sys.executable, EXAMPLES / "ppo.py", "--help"], capture_output=True, text=True, check=True).stdout
    assert "--minutes" in shown and "% of the games won" not in shown


@pytest.mark.slow
def test_ppo_gymnasium():
    assert 0 < load("ppo_gymnasium", "gymnasium", "sb3_contrib").main(num_envs=64, num_steps=4096, rollout=32) < 1


@pytest.mark.slow
def test_dqn():
    assert 0 <= load("dqn", "rlcard", "torch").main(num_games=12, num_pairs=4) <= 1

"""Whole runs of `training.train_value`: killed and resumed, on many devices, in two processes; better players."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from safetensors.numpy import load_file

from tests.helpers import ERROR_PROBABILITY, assert_trees_equal, free_address, refusals
from tests.training.runs import interrupted, trained
from tests.value.positions import random_network
from training import loop, train_value
from training.checkpoints import Checkpoints
from training.config import parse, to_dict
from training.evaluation import Standing, evaluate
from training.updates import Optimizer, make_mesh
from training.value import trainer
from training.value.config import ValueConfig
from training.value.learning import Loss, Sums
from training.value.selfplay import SelfPlay
from training.value.trainer import Metrics, TrainState, check_mesh, make_iteration, start
from unojax.arena.ratings import paired_score
from unojax.device.process import EXIT_ERROR, EXIT_INTERRUPTED
from unojax.value import Network, NetworkConfig, load_network, save_network

PROGRAMS = 90  # runs begin and are restored outside `jit`
ROOT = Path(__file__).parents[2]
ITERATIONS = 4
# One shape for all runs, so that they share compiled programs. The noise of the temperature breaks ties between plays, which
# rounding would break differently on another number of devices.
TINY = """
iterations = 4
games = 32
updates = 2
checkpoint_every = 2
[network]
width = 8
[play]
opponents = ["self", "uniform"]
belief = "unseen"
search = 0
temperature = 0.1
max_steps = 40
[loss]
trace = 0.9
advantage_weight = 0.0
[evaluation]
every = 2
games = 8
final_games = 8
opponents = ["uniform"]
"""
# A run that is killed as iteration 2 is reported, with the line half written.
KILLED = """
import os, signal, sys
from training import metrics, train_value

write = metrics.MetricsLog.write

def stop(log, iteration, values):
    if iteration == 2:
        log._file.write('{"iteration": 2, "loss/w')
        log._file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    write(log, iteration, values)

metrics.MetricsLog.write = stop
sys.exit(train_value.main(sys.argv[1:]))
"""
TIMEOUT = 900
"""Seconds, far more than any of the runs takes."""


class Runs:
    """Runs with the tiny configuration, each in a separate folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "tiny.toml").write_text(TINY)

    def arguments(self, name: str, *args: str) -> list[str]:
        return ["--config", str(self.folder / "tiny.toml"), "--run", str(self.folder / name), "--quiet", *args]

    def begin(self, name: str, *args: str, program: tuple[str, str] = ("-m", "training.train_value")) -> subprocess.Popen:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, *program, *self.arguments(name, *args)]
        return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)

    def config(self, name: str) -> ValueConfig:
        return parse(self.arguments(name), ValueConfig())[0]

    def metrics(self, name: str) -> list[dict]:
        return [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]


def finish(process: subprocess.Popen, status: int = 0) -> str:
    """Wait for the end of a run and return the terminal's text."""
    try:
        _, errors = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == status, errors
    return errors


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module", autouse=True)
def compiled_once() -> Iterator[None]:
    """Let runs in this process with the same plan share their program, without evaluations."""
    with pytest.MonkeyPatch.context() as patch:
        standings = [Standing("uniform", paired_score(np.full((4, 2), 0.5)))]
        patch.setattr(loop, "prepare_evaluation", lambda *_: lambda *_: standings)
        patch.setattr(trainer, "make_iteration", cache(make_iteration))
        yield


@pytest.fixture(scope="module")
def whole(runs: Runs) -> str:
    """Return the output of a whole run in this process, named "whole"."""
    status, output = trained(runs.config("whole"))
    assert status == 0
    return output


def test_a_run_writes_its_results(runs: Runs, whole: str):
    """The network is the running average. A copy of a finished run resumes to the same end."""
    folder = runs.folder / "whole"
    assert "1 device (" in whole and "iteration 0 of 4" in whole
    assert "uniform" in whole and "8" in whole and "win rate" in whole, "a table at the end"
    rows = runs.metrics("whole")
    assert [row["iteration"] for row in rows] == list(range(ITERATIONS))
    assert [("win rate/uniform" in row) for row in rows] == [False, True, False, False], (
        "the last network is evaluated separately"
    )
    # An untrained network gives even odds, so the first loss is about ln 2, and all of them are losses.
    assert abs(rows[0]["loss/win"] - np.log(2)) < 0.05 and all(0.1 < row["loss/win"] < 1.5 for row in rows)
    assert all(row["games cut off"] < 32 and row["states per second"] > 0 and row["gradient norm"] > 0 for row in rows)
    assert json.loads((folder / "config.json").read_text()) == to_dict(runs.config("whole"))
    result = json.loads((folder / "result.json").read_text())
    assert [score["opponent"] for score in result["scores"]] == ["uniform"] and result["scores"][0]["games"] == 8
    assert list((folder / "tensorboard").glob("events.*"))
    last, best = (load_network(folder / f"{name}.safetensors") for name in ("last", "best"))
    assert last.config == best.config == NetworkConfig(width=8, matches=True, types=True)
    state, score, num_devices, *_ = Checkpoints(folder).load(runs.config("whole"))
    assert int(state.iteration) == ITERATIONS and 0 <= score <= 1 and num_devices == 1
    assert_trees_equal(last.params, state.average)
    assert any((np.asarray(a) != b).any() for a, b in zip(*map(jax.tree.leaves, (state.params, state.average)), strict=True))
    shutil.copytree(folder, runs.folder / "moved")
    assert trained(runs.config("moved"), resume=True)[0] == 0
    assert_trees_equal(load_network(runs.folder / "moved" / "last.safetensors"), last)
    assert runs.metrics("moved") == rows


def assert_same_end(runs: Runs, name: str, other: str) -> None:
    """Check that everything except the times is bit-identical."""
    for file in ("last.safetensors", "best.safetensors"):
        one, two = (load_file(runs.folder / run / file) for run in (name, other))
        assert one.keys() == two.keys()
        for key in one:
            np.testing.assert_array_equal(one[key].view(np.uint32), two[key].view(np.uint32), err_msg=key)
    (one, best, *_), (two, best_of_other, *_) = (Checkpoints(runs.folder / run).load(runs.config(run)) for run in (name, other))
    assert_trees_equal(jax.random.key_data(one.key), jax.random.key_data(two.key))
    assert_trees_equal(one._replace(key=None), two._replace(key=None))
    assert best == best_of_other
    timed = {"seconds", "states per second", "games per second"}
    found = [[{k: v for k, v in row.items() if k not in timed} for row in runs.metrics(run)] for run in (name, other)]
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_run_interrupted_ends_as_one_that_was_not(runs: Runs, whole: str, monkeypatch: pytest.MonkeyPatch):
    assert "Stopped" not in whole
    config = runs.config("parts")
    status, output = interrupted(config, 2, monkeypatch)
    assert status == EXIT_INTERRUPTED
    assert "Stopped after iteration 3; everything is saved. Go on with --resume." in output
    status, output = trained(config, resume=True)
    assert status == 0 and "iteration 3 of 4" in output
    assert_same_end(runs, "whole", "parts")


def assert_same_training(runs: Runs, name: str, other: str) -> None:
    """Check that the games are equal, and losses and parameters up to rounding."""
    rows = zip(runs.metrics(name), runs.metrics(other), strict=True)
    for one, two in rows:
        for key in ("states", "steps per game", "games cut off"):
            assert one[key] == two[key], (key, one["iteration"])
        for key in ("loss/win", "loss/win, hand hidden"):
            assert one[key] == pytest.approx(two[key], rel=1e-4), (key, one["iteration"])
    one, two = (load_file(runs.folder / run / "last.safetensors") for run in (name, other))
    # Adam divides by the size of the gradient, which for some parameters is of the size of its rounding error.
    difference = np.concatenate([np.abs(one[key] - two[key]).reshape(-1) for key in one])
    assert np.quantile(difference, 0.95) < 1e-4 and difference.max() < 2e-2


@pytest.mark.slow
def test_eight_devices_train_as_one_does(runs: Runs, whole: str):
    """The run is killed once: another key, or a lost optimizer state, would be visible."""
    assert "1 device (" in whole
    finish(runs.begin("eight", "--devices", "8", program=("-c", KILLED)), status=-9)
    assert len((runs.folder / "eight" / "metrics.jsonl").read_text().splitlines()) == 3, "the last one is half a line"
    output = finish(runs.begin("eight", "--devices", "8", "--resume"))
    assert "8 devices (" in output and "iteration 2 of 4" in output
    assert_same_training(runs, "eight", "whole")


@pytest.mark.slow
@pytest.mark.long
def test_two_processes_train_as_one_does(runs: Runs, whole: str):
    assert "1 device (" in whole
    address = free_address()
    both = [runs.begin("two", "--devices", "1", "--distributed", f"{address},2,{number}") for number in range(2)]
    try:
        output = [finish(process) for process in both]
    finally:
        for process in both:
            process.kill()
    assert "2 devices (" in output[0] and "devices" not in output[1], "the first one reports"
    assert_same_training(runs, "two", "whole")


def test_refusals(runs: Runs, whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Contract: exact resume. A rejected run changes no file and leaves no folder."""
    assert "1 device (" in whole
    config = runs.config("whole")

    def times() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (runs.folder / "whole").rglob("*") if path.is_file()}

    files, new = times(), dataclasses.replace(config, run=tmp_path / "new")
    other = dataclasses.replace(config, seed=1, play=dataclasses.replace(config.play, explore=0.5))
    wider = dataclasses.replace(new, init=str(runs.folder / "whole" / "last.safetensors"), network=NetworkConfig())
    unknown = dataclasses.replace(new.evaluation, opponents=("nobody",))

    def under_other_rules() -> object:
        with monkeypatch.context() as patch:
            patch.setattr("training.checkpoints.RULES_VERSION", 99)
            return trained(config, resume=True)

    class Mesh:
        size = 3

    calls: dict[str, Callable[[], object]] = {
        "--resume": lambda: trained(config),
        "seed was 0, now 1": lambda: trained(other, resume=True),
        "explore": lambda: trained(other, resume=True),
        "version 1 of the rules": under_other_rules,
        "no checkpoint": lambda: trained(new, resume=True),
        "--network.width 8 --network.matches": lambda: trained(wider),
        "no such file": lambda: trained(dataclasses.replace(new, init="nowhere")),
        "'nobody'": lambda: trained(dataclasses.replace(new, evaluation=unknown)),
        "multiple of 4": lambda: trained(dataclasses.replace(new, games=6, updates=2)),
        "multiple of 6": lambda: check_mesh(config.plan(), Mesh()),
    }
    for folder in (runs.folder / "tiny.toml", Path("/dev/null/new")):
        elsewhere = dataclasses.replace(new, run=folder)
        calls[f"{folder}: Not a directory; name another with --run"] = lambda elsewhere=elsewhere: trained(elsewhere)
    refusals(calls)
    assert files == times() and not new.run.exists()


@pytest.mark.parametrize("better", ["the kept one", "the last one"])
def test_a_changed_evaluation_compares_the_networks_again(runs: Runs, whole: str, monkeypatch: pytest.MonkeyPatch, better: str):
    assert "1 device (" in whole
    folder = Path(shutil.copytree(runs.folder / "whole", runs.folder / better.replace(" ", "-")))
    (folder / "best.safetensors").unlink()
    kept = random_network(config=NetworkConfig(width=8, matches=True, types=True), seed=5)
    save_network(folder / "best.safetensors", kept)
    before = (folder / "best.safetensors").read_bytes()

    def judge(network: Network, *_: object) -> list[Standing]:
        is_kept = all((a == b).all() for a, b in zip(*map(jax.tree.leaves, (network.params, kept.params)), strict=True))
        points = 0.75 if is_kept == (better == "the kept one") else 0.25
        return [Standing("linear", paired_score(np.full((4, 2), points)))]

    monkeypatch.setattr(loop, "prepare_evaluation", lambda *_: judge)
    config = runs.config(folder.name)
    other = dataclasses.replace(config, evaluation=dataclasses.replace(config.evaluation, opponents=("linear",)))
    assert trained(other, resume=True)[0] == 0
    assert ((folder / "best.safetensors").read_bytes() == before) == (better == "the kept one")


def in_iteration(number: int, metric: float, parameter: float) -> Callable:
    """Return a `trainer.make_iteration` that trains nothing, with this loss and average in one iteration."""

    def iterate(state: TrainState) -> tuple[TrainState, Metrics]:
        done, loss = int(state.iteration) + 1, np.float32(1.0)
        if done == number:
            loss, state = np.float32(metric), state._replace(average=jax.tree.map(lambda x: x + parameter, state.average))
        metrics = Metrics(Sums(*[np.float32(1.0)] * len(Sums._fields))._replace(win=loss), loss, np.int32(40), np.int32(0))
        return state._replace(iteration=jnp.int32(done)), metrics

    return lambda *_: iterate


def test_a_run_that_diverges_stops(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its last iteration is dropped, previous ones stay."""
    for metric, parameter, message in (
        (np.nan, 0.0, "loss/win is nan, gradient norm is nan"),
        (np.inf, 0.0, "loss/win is inf"),
        (1.0, np.nan, "parameters are not"),
    ):
        run = tmp_path / str(metric)
        monkeypatch.setattr(trainer, "make_iteration", in_iteration(ITERATIONS, metric, parameter))
        config = dataclasses.replace(runs.config("any"), run=run)
        with pytest.raises(FloatingPointError, match=f"diverged in iteration 4: {message}.*--optimizer.learning-rate"):
            trained(config)
        rows = [json.loads(line, parse_constant=pytest.fail) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert [row["iteration"] for row in rows] == [0, 1, 2]
        assert int(Checkpoints(run).load(config).state.iteration) == 2
        assert (run / "best.safetensors").exists()
        assert not (run / "last.safetensors").exists() and not (run / "result.json").exists()


def test_the_command_reports_errors_in_a_line(runs: Runs, whole: str, monkeypatch: pytest.MonkeyPatch, capsys):
    assert "1 device (" in whole
    # The devices of this process exist already.
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    assert train_value.main(runs.arguments("whole")) == 2
    error = capsys.readouterr().err
    assert "there is a run in" in error and "Traceback" not in error
    for raised, message in (
        (FloatingPointError("loss/win is nan"), "loss/win is nan"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device. .* go on with --resume"),
    ):
        monkeypatch.setattr(loop, "train", raising(raised))
        assert loop.run_command([], ValueConfig()) == EXIT_ERROR
        assert re.fullmatch(f"train_value: .*{message}\n", capsys.readouterr().err)


def raising(error: Exception) -> Callable[..., int]:
    def train(*_: object) -> int:
        raise error

    return train


LEARNING = ValueConfig(
    iterations=24,
    games=256,
    updates=8,
    network=NetworkConfig(width=32),
    play=SelfPlay(opponents=("self", "uniform"), belief="unseen", search=0, explore=0.05),
    loss=Loss(shown=0.0),
    optimizer=Optimizer(learning_rate=5e-3, average=0.95),
    evaluation=dataclasses.replace(ValueConfig().evaluation, opponents=("uniform",)),
)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.optimized
def test_training_makes_a_better_player():
    """The loss falls, and the win rate against uniform play rises above the untrained network's; error probability 1e-6."""
    config, games = LEARNING, 2000
    plan = config.plan()
    mesh = make_mesh()
    iterate, state = make_iteration(plan, mesh), loop.on_mesh(start(0, plan), mesh)
    untrained = Network(state.average, plan.network)
    losses = []
    for _ in range(config.iterations):
        state, metrics = iterate(state)
        losses.append(float(metrics.sums.win / metrics.sums.states))
    trained = Network(state.average, plan.network)
    assert losses[0] == pytest.approx(np.log(2), abs=0.03)
    assert np.mean(losses[-4:]) < losses[0] - 0.03 and np.mean(losses[-4:]) < np.mean(losses[:4])
    (before,), (after,) = (evaluate(network, config, games) for network in (untrained, trained))
    error = np.hypot(before.score.standard_error, after.score.standard_error)
    assert scipy.stats.norm.sf((after.score.value - before.score.value) / error) < ERROR_PROBABILITY, (before, after)

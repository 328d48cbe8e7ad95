"""Reports of a run: metrics, in a file that a resumed run continues, and scores."""

from __future__ import annotations

import dataclasses
import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from rich.console import Console

from tests.conftest import programs_built
from tests.helpers import refusals
from training import evaluation
from training.evaluation import evaluate, mean_score, prepare_evaluation, table_of
from training.metrics import MetricsLog
from training.value.config import ValueConfig
from training.value.learning import Loss
from unojax.arena.ratings import paired_score
from unojax.rules import Rules
from unojax.value import load_network


def test_metrics_of_repeated_iterations_are_replaced(tmp_path: Path):
    """Numbers that are not finite raise, because JSON lacks them."""
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(tmp_path, 0) as log:
        refusals({"JSON": lambda: log.write(0, {"loss": np.nan})})
        assert path.read_text() == ""
        for iteration in range(3):
            log.write(iteration, {"loss": 1.0})
    # Lines with a byte order mark, damaged ones, and the last one of a killed run.
    damaged = b'3\nnull\n\xff\xfe\n{"iteration": 3, "lo'
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + damaged)
    with MetricsLog(tmp_path, 2) as log:
        log.write(2, {"loss": 2.0})
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [{"iteration": i, "loss": loss} for i, loss in ((0, 1.0), (1, 1.0), (2, 2.0))]


def test_scores_and_their_intervals(monkeypatch: pytest.MonkeyPatch):
    """Four pairs: both won, one each, a drawn game and a lost one, both lost."""
    points = np.array([[1, 1], [1, 0], [0.5, 0], [0, 0]])
    matches = []

    def play_match(key: jax.Array, agents: tuple, num_pairs: int, *, rules: Rules, batch_size: int) -> SimpleNamespace:
        assert rules == Rules() and batch_size > 8, "the final evaluation has more games, and the same programs"
        matches.append((agents[1].name, num_pairs))
        return SimpleNamespace(points=points)

    monkeypatch.setattr(evaluation, "play_match", play_match)
    config = ValueConfig(evaluation=dataclasses.replace(ValueConfig().evaluation, opponents=("uniform", "linear")))
    first, second = evaluate(load_network("pretrained"), config, 8)
    assert matches == [("uniform", 4), ("linear", 4)]
    assert (first.opponent, second.opponent) == ("uniform", "linear") and first.score == paired_score(points)
    assert first.score.value == mean_score([first, second]) == 3.5 / 8
    low, high = first.score.interval
    assert first.to_dict() == {"opponent": "uniform", "mean": 3.5 / 8, "interval_95": [low, high], "games": 8}
    file = io.StringIO()
    Console(file=file, width=100).print(table_of([first], "after 3 iterations", "greedy, no search"))
    shown = file.getvalue()
    assert "43.8 %" in shown and f"{100 * low:.1f} .. {100 * high:.1f} %" in shown and "uniform" in shown


def test_programs_of_evaluations_are_compiled_ahead(monkeypatch: pytest.MonkeyPatch):
    """In another thread, whose errors the first evaluation raises; a run of more games compiles nothing again."""
    threads = []

    def compile_match(agents: tuple, *, rules: Rules, batch_size: int) -> None:
        threads.append(threading.current_thread())
        if agents[1].name == "linear":
            raise ValueError("can't be compiled")

    monkeypatch.setattr(evaluation, "compile_match", compile_match)
    config = ValueConfig(evaluation=dataclasses.replace(ValueConfig().evaluation, opponents=("uniform", "linear")))
    evaluate = prepare_evaluation(load_network("pretrained"), config)
    with pytest.raises(ValueError, match="can't be compiled"):
        evaluate(load_network("pretrained"), 8)
    assert len(threads) == 2 and threading.main_thread() not in threads
    monkeypatch.undo()
    network = load_network("heuristic")
    unseen = dataclasses.replace(ValueConfig().play, belief="unseen")
    few = dataclasses.replace(config.evaluation, opponents=("uniform",), games=8, final_games=32)
    evaluate = prepare_evaluation(network, dataclasses.replace(config, play=unseen, loss=Loss(), evaluation=few))
    evaluate(network, few.games)
    built = programs_built()
    evaluate(network, few.final_games)
    assert programs_built() == built

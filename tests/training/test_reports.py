"""What a run reports: its metrics, in a file that an interrupted run goes on with, and its scores."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from rich.console import Console

from training import evaluation
from training.evaluation import evaluate, mean_score, table_of
from training.metrics import MetricsLog
from training.value.config import ValueConfig
from unojax.arena.ratings import paired_score
from unojax.rules import Rules
from unojax.value import load_network


def test_metrics_that_are_no_numbers_are_not_written(tmp_path: Path):
    with MetricsLog(tmp_path, 0) as log, pytest.raises(ValueError, match="JSON"):
        log.write(0, {"loss": np.nan})
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_metrics_of_iterations_that_are_computed_again_are_replaced(tmp_path: Path):
    with MetricsLog(tmp_path, 0) as log:
        for iteration in range(3):
            log.write(iteration, {"loss": 1.0})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 3, "lo')
    with MetricsLog(tmp_path, 2) as log:
        log.write(2, {"loss": 2.0})
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == [{"iteration": i, "loss": loss} for i, loss in ((0, 1.0), (1, 1.0), (2, 2.0))]


def test_scores_and_their_intervals(monkeypatch: pytest.MonkeyPatch):
    """Four pairs: both won, one each, a drawn game and a lost one, both lost."""
    points = np.array([[1, 1], [1, 0], [0.5, 0], [0, 0]])
    asked = []

    def play_match(key: jax.Array, agents: tuple, num_pairs: int, *, rules: Rules) -> SimpleNamespace:
        assert rules == Rules()
        asked.append((agents[0].name, agents[1].name, num_pairs))
        return SimpleNamespace(points=points)

    monkeypatch.setattr(evaluation, "play_match", play_match)
    config = ValueConfig(evaluation=dataclasses.replace(ValueConfig().evaluation, opponents=("uniform", "linear")))
    first, second = evaluate(load_network("pretrained"), config, 8)
    assert [row[1:] for row in asked] == [("uniform", 4), ("linear", 4)]
    assert (first.opponent, second.opponent) == ("uniform", "linear") and first.score == paired_score(points)
    assert first.score.value == mean_score([first, second]) == 3.5 / 8
    low, high = first.score.interval
    assert first.to_dict() == {"opponent": "uniform", "mean": 3.5 / 8, "interval_95": [low, high], "games": 8}
    console = Console(file=io.StringIO(), width=100)
    console.print(table_of([first], "after 3 iterations", "greedy, no search"))
    shown = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "43.8 %" in shown and f"{100 * low:.1f} .. {100 * high:.1f} %" in shown and "uniform" in shown

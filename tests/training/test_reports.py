"""Reports of a run: metrics, in a file that a resumed run continues, and scores."""

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

from tests.helpers import refusals
from training import evaluation
from training.evaluation import evaluate, mean_score, table_of
from training.metrics import MetricsLog
from training.value.config import ValueConfig
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
    with path.open("a") as file:
        file.write('{"iteration": 3, "lo')
    with MetricsLog(tmp_path, 2) as log:
        log.write(2, {"loss": 2.0})
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [{"iteration": i, "loss": loss} for i, loss in ((0, 1.0), (1, 1.0), (2, 2.0))]


def test_scores_and_their_intervals(monkeypatch: pytest.MonkeyPatch):
    """Four pairs: both won, one each, a drawn game and a lost one, both lost."""
    points = np.array([[1, 1], [1, 0], [0.5, 0], [0, 0]])
    matches = []

    def play_match(key: jax.Array, agents: tuple, num_pairs: int, *, rules: Rules) -> SimpleNamespace:
        assert rules == Rules()
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

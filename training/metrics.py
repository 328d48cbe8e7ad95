"""Metrics of a run while it goes on: a line of JSON for each iteration, and TensorBoard's files."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from tensorboardX import SummaryWriter

from training.trainer import Metrics
from unojax.files import write_whole


class MetricsLog:
    """Both forms side by side, in a run's folder."""

    def __init__(self, run: Path, first_iteration: int):
        self._path = run / "metrics.jsonl"
        # What a killed run wrote after its last checkpoint will be written again.
        rows = self._path.read_text().splitlines() if self._path.exists() else []
        kept = [row for row in rows if _iteration(row) < first_iteration]
        write_whole(self._path, "".join(f"{row}\n" for row in kept))
        self._file = self._path.open("a")
        self._board = SummaryWriter(str(run / "tensorboard"), purge_step=first_iteration)

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()
        self._board.close()

    def write(self, iteration: int, values: dict[str, Any]) -> None:
        """Add the values of an iteration."""
        self._file.write(json.dumps({"iteration": iteration, **values}) + "\n")
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, iteration)


def summarize(metrics: Metrics, num_games: int, epochs: int, seconds: float) -> dict[str, float]:
    """Sum up an iteration: losses in nats per information state or choice, rates per second.

    Each information state counts once in the number of states, however often it was learned from.
    """
    sums = metrics.sums
    states, choices, hidden = (max(float(n), 1.0) for n in (sums.states, sums.choices, sums.hidden))
    return {
        "loss/win": float(sums.win) / states,
        "loss/win, hand hidden": float(sums.hidden_win) / hidden,
        "loss/policy": float(sums.policy) / choices,
        "loss/advantage": float(sums.advantage) / max(float(sums.decisions), 1.0),
        "loss/belief": float(sums.belief) / hidden,
        "gradient norm": float(metrics.gradient_norm),
        "steps per game": float(metrics.steps) / num_games,
        "games cut off": int(metrics.cut_off),
        "states": round(states / epochs),
        "states per second": states / epochs / seconds,
        "games per second": num_games / seconds,
        "seconds": seconds,
    }


def _iteration(row: str) -> float:
    try:
        return json.loads(row)["iteration"]
    except (ValueError, KeyError):
        # The last line of a run that was killed while it wrote.
        return float("inf")

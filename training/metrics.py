"""Metrics during a run: a line of JSON per iteration, and TensorBoard's files."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from tensorboardX import SummaryWriter

from unojax.files import decode, write_whole


class MetricsLog:
    """Both formats together, in a run's folder."""

    def __init__(self, run: Path, first_iteration: int):
        self._path = run / "metrics.jsonl"
        # Lines after a killed run's last checkpoint will be written again.
        rows = decode(self._path.read_bytes(), errors="replace").splitlines() if self._path.exists() else []
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
        """Add the values of an iteration.

        Raises:
            ValueError: If a value is not finite, which JSON can't represent; nothing is written.
        """
        self._file.write(json.dumps({"iteration": iteration, **values}, allow_nan=False) + "\n")
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, iteration)


def _iteration(row: str) -> float:
    try:
        return json.loads(row)["iteration"]
    except (ValueError, KeyError, TypeError):
        # The last line of a run that was killed during a write, or a damaged line.
        return float("inf")

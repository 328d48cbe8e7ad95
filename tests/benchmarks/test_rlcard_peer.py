"""The RLCard half of the benchmark, where rlcard is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import rlcard_peer


def test_failure_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="--no-peer"):
        rlcard_peer.measure(python=_python_without_rlcard(tmp_path), games=1, repeats=1, cache=tmp_path)


def _python_without_rlcard(folder: Path) -> str:
    script = folder / "python"
    script.write_text("#!/bin/sh\necho no rlcard here >&2\nexit 1\n")
    script.chmod(0o755)
    return str(script)


def test_levels_and_forced_draws(tmp_path: Path) -> None:
    pytest.importorskip("rlcard")
    measured = rlcard_peer.measure(python=sys.executable, games=3, repeats=2, cache=tmp_path)
    assert set(measured["levels"]) == set(rlcard_peer.LEVELS)
    for numbers in measured["levels"].values():
        assert numbers["games_finished"] + numbers["games_failed"] == 6
        assert numbers["steps_per_second"]["median"] >= numbers["calls_per_second"]["median"]
    assert 1 < measured["steps_per_call"] < 2

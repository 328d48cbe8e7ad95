"""Shared measuring helpers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import timing


def test_rates_come_from_the_median_and_the_extremes() -> None:
    assert timing.Timing((4.0, 1.0, 2.0)).rate(8) == {"median": 4.0, "min": 2.0, "max": 8.0}


def test_digest_tells_values_shapes_and_types_apart() -> None:
    zeros = np.zeros((2, 3), np.int8)
    others = [np.zeros((3, 2), np.int8), np.zeros((2, 3), np.uint8), np.eye(2, 3, dtype=np.int8)]
    assert timing.digest([zeros]) == timing.digest([zeros.copy(order="F")])
    assert len({timing.digest([a]) for a in (zeros, *others)}) == 4


def test_json_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    timing.write_json(path, {"a": 1})
    # NaN is no JSON: the attempt fails and leaves the old file and nothing else.
    with pytest.raises(ValueError, match="JSON"):
        timing.write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(path.parent.iterdir()) == [path]


def test_a_run_goes_on_with_a_file_of_its_own_settings_only(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    fresh = {"benchmark": "this", "environment": "now", "seed": 1, "games": 20, "rows": []}
    assert timing.resume(None, fresh, ("seed", "games")) == fresh == timing.resume(path, fresh, ("seed", "games"))
    timing.write_json(path, fresh | {"environment": "then", "rows": [3]})
    # The rows that are there were made in another one.
    assert timing.resume(path, fresh, ("seed", "games")) == fresh | {"rows": [3], "earlier_environments": ["then"]}
    # One that is new is kept from now on.
    assert timing.resume(path, fresh | {"new": []}, ("seed", "games", "new"))["new"] == []
    with pytest.raises(SystemExit, match="differs from this run in new"):
        timing.resume(path, fresh | {"new": ["some"]}, ("seed", "games", "new"))
    for other, told in ({"benchmark": "that"}, "benchmark"), ({"seed": 2, "games": 10}, "seed, games"):
        with pytest.raises(SystemExit, match=f"results.json differs from this run in {told}: choose another file"):
            timing.resume(path, fresh | other, ("seed", "games"))


@pytest.mark.parametrize(("text", "sizes"), [("64,256", (64, 256)), ("2^3..2^5", (8, 16, 32)), ("2^10", (1024,))])
def test_batch_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert timing.parse_batch_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "abc", "0", "-4", "1..2..3"])
def test_bad_batch_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="batch sizes must look like"):
        timing.parse_batch_sizes(text)

"""Files of results hold complete lines only."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import numpy as np
import pytest

from unojax.arena import Pairs
from unojax.arena.results import ResultsFile
from unojax.rules import Rules

PAIRS = Pairs(
    index=np.arange(2),
    winner=np.array([[0, 1], [-1, 0]], np.int8),
    num_steps=np.full((2, 2), 30, np.int32),
    num_choices=np.full((2, 2, 2), 7, np.int32),
    seconds=np.array([0.5, 0.25]),
)


def test_a_partly_written_batch_is_removed(tmp_path: Path):
    """As on a disk that becomes full: the file is as before, and accepts batches when there is room."""
    path, agents = tmp_path / "results.jsonl", {"uniform": "1", "linear": "2"}
    file = ResultsFile(str(path), seed=1, rules=Rules(), agents=agents)
    file.append("uniform", "linear", PAIRS)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, limits[1]))
    try:
        with pytest.raises(ValueError, match=r"can't write .*: File too large"):
            file.append("uniform", "linear", PAIRS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    file.append("uniform", "linear", PAIRS)
    assert path.read_bytes() == before * 2
    wrong = json.loads(before) | {"winner": [[300, 0]] * len(PAIRS)}
    path.write_text(json.dumps(wrong) + "\n")
    with pytest.raises(ValueError, match="is not a line of arena results"):
        ResultsFile(str(path), seed=1, rules=Rules(), agents=agents)

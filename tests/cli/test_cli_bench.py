"""`unojax bench`: its arithmetic on made-up games, and one real run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unojax.cli import main


def test_figures_from_made_up_games(capsys, monkeypatch):
    # Every look at the clock is a second later than the one before; every call hands out 4 games of 10, 20, ... steps.
    clock = itertools.count()
    monkeypatch.setattr("unojax.cli.bench.time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    sizes = []

    def stream(key: Any, num_games: int, policies: Any, *, rules: Any, batch_size: int) -> Iterator[Any]:
        del key, num_games, policies, rules
        sizes.append(batch_size)
        for call in itertools.count(1):
            yield SimpleNamespace(index=np.arange(4), games=SimpleNamespace(num_steps=np.full(4, 10 * call)))

    monkeypatch.setattr(import_module("unojax.simulation"), "Stream", stream)
    args = ["bench", "--batch-sizes", "8", "2", "--repeats", "3", "--seconds", "2", "--json", "-"]
    assert main(args) == 0
    eight, two = json.loads(capsys.readouterr().out)["results"]
    assert sizes == [8, 2]
    # Looked at after 0 calls (1 s), 1 call (2 s): a measurement is one call in two seconds. The first one of 2 games at a time
    # follows one call to compile; with 8 at a time 16 games must have passed, which are four calls.
    assert eight["compile_seconds"] == two["compile_seconds"] == 1
    assert eight["steps_per_second"] == [4 * 50 / 2, 4 * 60 / 2, 4 * 70 / 2]
    assert eight["median_steps_per_second"] == 120
    assert two["steps_per_second"] == [4 * 20 / 2, 4 * 30 / 2, 4 * 40 / 2]
    assert two["median_games_per_second"] == 2


def test_real_run(capsys):
    args = ["bench", "--batch-sizes", "64", "--repeats", "2", "--seconds", "0.01", "--deck", "numbers", "--hand-size", "2"]
    assert main(args) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for words in ("median of 2", "64", "uniform against uniform", "deck of 76 cards", "cpu"):
        assert words in captured.out
    assert "\x1b" not in captured.out
    assert all(len(line) <= 80 for line in captured.out.splitlines())


@pytest.mark.parametrize("seconds", ["0", "-1", "inf", "nan"])
def test_seconds_must_be_positive(capsys, seconds: str):
    assert main(["bench", "--seconds", seconds]) == 2
    assert "--seconds must be a positive number" in capsys.readouterr().err

"""The benchmarks run, and count what they say they count. Nothing here looks at how long anything took."""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np
import pytest

import unojax
from benchmarks import engine, engine_parts


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict:
    path = tmp_path_factory.mktemp("engine") / "results.json"
    arguments = "--packed 8 --onehot 16 --repeats 2 --games-per-lane 3 --calls 3 --no-peer".split()
    config: Any = jax.config
    cache = config.jax_enable_compilation_cache
    try:
        returned = engine.main([*arguments, "--json", str(path)])
    finally:
        config.update("jax_enable_compilation_cache", cache)
    written = json.loads(path.read_text())
    assert written == json.loads(json.dumps(returned))
    return written


@pytest.mark.slow
def test_packed_steps_are_those_of_the_games(results: dict) -> None:
    (row,) = results["packed"]
    games = unojax.simulate(jax.random.key(0), 24, batch_size=8)
    assert row["num_games"] == len(games) == 24
    assert row["num_steps"] == games.num_steps.sum()
    assert row["steps_per_second"]["median"] * np.median(row["seconds"]) == pytest.approx(games.num_steps.sum())
    assert row["decisions_per_second"]["median"] * np.median(row["seconds"]) == pytest.approx(games.num_choices.sum())


@pytest.mark.slow
def test_device_steps_are_plausible(results: dict) -> None:
    (row,) = results["packed"]
    # Each step is at least one node; the 15 nodes of the deal and the further cards of a draw are not steps.
    assert 0 < row["device_steps"] < row["device_nodes"]


@pytest.mark.slow
def test_onehot_counts_unfinished_games_only(results: dict) -> None:
    (row,) = results["onehot"]
    assert 0 < row["num_steps"] <= 16 * 3 * engine._STEPS_PER_CALL
    states = engine.deal(jax.random.key(3), 4)
    for key in jax.random.split(jax.random.key(4), 20):
        before = states.step_count
        # From new games: nothing was counted before.
        over = states.is_over
        assert not over.any()
        states, tally = engine.play_onehot(jax.tree.map(lambda leaf: leaf.copy(), states), key, counts_choices=True)
        if tally.num_games == 0:
            assert tally.num_steps == (states.step_count - before).sum() == 4 * engine._STEPS_PER_CALL
        else:
            assert tally.num_steps < 4 * engine._STEPS_PER_CALL
        assert tally.num_choices <= tally.num_steps


@pytest.mark.slow
def test_environment_is_stated(results: dict) -> None:
    environment = results["environment"]
    assert environment["rules_version"] == unojax.RULES_VERSION
    assert environment["versions"]["jax"] == jax.__version__
    assert results["ratios"] is None and results["peer"] is None


@pytest.mark.slow
def test_parts() -> None:
    parts = engine_parts.measure_parts(8, repeats=1)
    assert set(parts["nanoseconds_per_node"]) == {*engine_parts.PARTS, "advance", "whole", "harvest"}
    counts = parts["counts_per_node"]
    assert counts["decide"]["operations_as_written"] > counts["choose"]["operations_as_written"] > 0
    assert max(parts["while_body_fusions"].values()) > 0
    assert 0 < parts["steps_per_node"] < 1


def test_ratios_use_the_best_batch_size() -> None:
    sweep = [{"steps_per_second": {"median": rate}} for rate in (10.0, 40.0, 20.0)]
    peer = {"levels": {"game": {"steps_per_second": {"median": 2.0}}}}
    assert engine.ratios(sweep, sweep[:1], peer) == {"game": {"packed": 20.0, "onehot": 5.0}}


def test_while_body_fusions_follows_branches() -> None:
    hlo = """HloModule m
%branch (p: u32[]) -> u32[] {
  ROOT %f = u32[] fusion(%p), kind=kLoop, calls=%x
}

%body (p: u32[]) -> u32[] {
  %a = u32[] fusion(%p), kind=kLoop, calls=%x
  ROOT %c = u32[] conditional(%t, %p, %p), true_computation=%branch, false_computation=%other
}

ENTRY %main (p: u32[]) -> u32[] {
  %g = u32[] fusion(%p), kind=kLoop, calls=%x
  ROOT %w = u32[] while(%g), condition=%cond, body=%body
}
"""
    assert engine_parts.while_body_fusions(hlo) == {"body": 2}

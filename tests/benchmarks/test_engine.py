"""The engine's benchmarks run, and their counts are right; times are not checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import pytest

import unojax
from benchmarks import adapters, engine, harness, rlcard_peer, rollout
from benchmarks.harness import Config


@pytest.mark.slow
def test_steps_are_those_of_the_games(tmp_path: Path):
    sizes = "--batch-sizes 8 --onehot-sizes 16 --repeats 2 --calls 3 --no-peer --cached".split()
    packed, onehot = harness.main("engine", [*sizes, "--json", str(tmp_path / "rows.json")])
    games = unojax.simulate(jax.random.key(0), 128, batch_size=8)
    assert packed.figures["num_games"] == len(games) == 128
    assert packed.figures["num_steps"] == games.num_steps.sum() and packed.figures["agree"]
    rates = [packed.figures[f"{unit}_per_second"]["median"] for unit in ("steps", "decisions")]
    assert rates[0] / rates[1] == pytest.approx(games.num_steps.sum() / games.num_choices.sum())
    assert 0 < onehot.figures["num_steps"] <= 16 * 3 * engine._STEPS
    assert packed.environment["rules_version"] == unojax.RULES_VERSION


@pytest.mark.slow
def test_unfinished_games_alone_are_counted():
    states = engine.deal(jax.random.key(3), 4)
    for key in jax.random.split(jax.random.key(4), 20):
        before = states.step_count
        assert not states.is_over.any(), "finished games are dealt again"
        states, rows = engine.step_by_hand(jax.tree.map(lambda leaf: leaf.copy(), states), key)
        went_on = rows.valid.all(0)
        assert (states.step_count - before)[went_on].sum() == engine._STEPS * went_on.sum()
        assert rows.is_choice.sum() <= rows.valid.sum() <= 4 * engine._STEPS


@pytest.mark.slow
def test_all_programs_of_rollouts_are_timed_and_compared(monkeypatch: pytest.MonkeyPatch):
    for name in ("SLOTS", "ONEHOT_SLOTS"):
        monkeypatch.setattr(rollout, name, {"cpu": 64})
    found = rollout.measure(2, 300, "cpu")
    programs = {"count_games", "counts", "delivered", "by hand", "by hand, delivered"}
    assert set(found["steps_per_second"]) == set(found["steps_per_cpu_second"]) == programs
    assert all(rates["min"] > 0 for rates in found["steps_per_second"].values())
    assert all(0 < ratio["min"] <= ratio["median"] <= ratio["max"] for ratio in found["ratios"].values())


@pytest.mark.slow
def test_adapters_that_are_installed_are_measured(monkeypatch: pytest.MonkeyPatch):
    rates: dict[str, Any] = {"levels": {"env": {"steps_per_second": {"median": 1000.0, "min": 900.0, "max": 1100.0}}}}
    monkeypatch.setattr(rlcard_peer, "measure", lambda config: rates)
    monkeypatch.setattr(adapters, "_HOST_STEPS", 20)
    listed = {library for library, *_ in adapters.programs(32, 3)}
    assert listed == {"gymnasium", "pgx", "jaxmarl", "pettingzoo", "pyspiel", "rlcard"}
    rows = harness.main("adapters", "--batch-sizes 32 --calls 3 --repeats 2 --cached".split())
    assert {row.settings["library"] for row in rows} == {name for name in listed if adapters.find_spec(name)}
    assert all(row.figures["steps_per_second"]["min"] > 0 for row in rows)


def test_steps_on_the_host_are_counted():
    dealt: list[int] = []

    def start() -> int:
        dealt.append(0)
        return 1

    # Each game is over after three actions.
    game = adapters.HostGame(start, lambda now: [now], lambda now, action: None if now == 3 else now + action // now)
    run = adapters.host_loop(game, 7)()
    assert (run.steps, run.calls, len(dealt)) == (7, 7, 3) and run.seconds > 0


def test_a_failure_of_rlcard_names_the_way_out(tmp_path: Path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho no rlcard here >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(ValueError, match="--no-peer"):
        rlcard_peer.measure(Config(peer_python=str(script), games=1), tmp_path)


@pytest.mark.slow
def test_levels_and_forced_draws_of_rlcard(tmp_path: Path):
    pytest.importorskip("rlcard")
    measured = rlcard_peer.measure(Config(peer_python=sys.executable, games=3, repeats=2), tmp_path)
    assert set(measured["levels"]) == set(rlcard_peer.LEVELS) and 1 < measured["steps_per_call"] < 2
    for numbers in measured["levels"].values():
        assert numbers["steps_per_second"]["median"] >= numbers["calls_per_second"]["median"]

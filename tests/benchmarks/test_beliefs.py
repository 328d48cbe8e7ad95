"""The belief benchmarks: their statistics on synthetic data, short runs, and the bootstrap filter against the exact one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import belief_agreement, belief_speed, beliefs, harness, plain_filter
from benchmarks.belief_agreement import SETTINGS, Errors
from benchmarks.harness import Program
from tests.helpers import ROOT
from unojax import cards, play_game
from unojax.analysis import Recorded, Tracks
from unojax.belief import Info
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.updaters import BootstrapFilter, ClosedFormFilter
from unojax.decks import small_deck
from unojax.observation import observe
from unojax.rules import Rules

RULES = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=4)


def tracks_of(rows: list[list[float]]) -> Tracks:
    """Tracks of games whose log scores after each update are the rows; the start scores something too."""
    log_score = np.pad(np.array(rows), ((0, 0), (1, 0)), constant_values=-9.0)
    none = np.zeros((*log_score.shape, 54))
    return Tracks(none, none.copy(), none.copy(), none > 0, log_score, log_score + 1, log_score > 0)


def test_margin_is_paired_by_game():
    """Games differ widely, the beliefs by exactly one nat per update, so the margin has no error."""
    num_updates = np.array([2, 1, 2])
    ours, other = tracks_of([[-1.0, -1.0], [-50.0, 7.0], [-7.0, -9.0]]), tracks_of([[-2.0, -2.0], [-51.0, 0.0]])
    assert beliefs.margin(ours, other, num_updates) == pytest.approx({"mean": 1.0, "standard_error": 0.0})


def test_summary_counts_updates_alone():
    """Neither the start nor what follows the last update: bin 3 has eight predictions, two of them right, and bin 9 two."""
    tracks = tracks_of([[-1.0, -3.0, 5.0], [-2.0, 5.0, 5.0]])
    tracks.is_unseen[:, :, :5] = True
    tracks.prob_holds[:, :, :5] = 0.35
    tracks.prob_holds[0, 1:3, 4] = 1.0
    tracks.prob_holds[1, 1, :3] = 0.35
    tracks.is_unseen[1, 1, 3:] = False
    tracks.is_unseen[0, 2, 1:4] = False
    tracks.truth[0, 1, 0] = tracks.truth[1, 1, 0] = 1
    tracks.truth[0, 1:3, 4] = 2
    games = Recorded(None, np.zeros((2, 3)), np.array([2, 1]))  # pyright: ignore[reportArgumentType]
    summary = beliefs.summarise(tracks, games)
    assert (summary["games"], summary["updates"], summary["log_score"]["mean"]) == (2, 3, -2)
    third, ninth = summary["calibration"]["bins"]
    found = [third[name] for name in ("number", "predicted", "observed", "surplus")]
    assert found == pytest.approx([8, 0.35, 0.25, 0.1])
    assert (ninth["number"], ninth["surplus"]) == (2, 0)
    assert summary["calibration"]["mean_absolute_error"] == pytest.approx(0.8 * 0.1)
    assert summary["ess_share"]["0.5"] == -1


def test_the_filters_to_compare():
    filters = beliefs.filters_for("scarcest-color", 64, [16])
    names = ("particles 64", "particles 64, consistency only", "particles 64, knows the policy", "particles 16")
    assert list(filters) == [*names, "bootstrap 64", "closed form", "uniform"]
    assert filters["bootstrap 64"] == BootstrapFilter(64) and filters["closed form"] == ClosedFormFilter()
    assert "particles 64, knows the policy" not in beliefs.filters_for("uniform", 64, [])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("peers", ["--peer", "--no-peer"])
def test_beliefs_are_compared(peers: str):
    sizes = "--games 6 --decks small --opponents uniform --particles 64 --max-steps 30 --cached".split()
    (row,) = harness.main("beliefs", [peers, *sizes])
    methods = row.figures["methods"]
    others = {"particles 64, consistency only", "bootstrap 64", "closed form", "uniform"}
    assert set(methods) == {"particles 64"} | (others if peers == "--peer" else set())
    for name, method in methods.items():
        assert method["updates"] == row.figures["updates"] > 20 and method["log_score"]["mean"] < 0
        assert sum(one["number"] for one in method["calibration"]["bins"]) > 100
        assert name.startswith("bootstrap") or method["depleted_games"]["mean"] == 0
    assert peers == "--no-peer" or row.figures["margins"]["particles 64 over uniform"]["mean"] > 0


def test_speed_is_reported(monkeypatch: pytest.MonkeyPatch):
    """Calls take no time and compile nothing."""
    info = Info(np.full(4, 8.0), np.zeros(4), np.zeros(4, bool))
    after = SimpleNamespace(log_weights=np.zeros((4, 16)))
    call = belief_speed.Call(Program(lambda _: (after, info)), {"compile_seconds": 2.0, "program_bytes": 2**30})
    monkeypatch.setattr(belief_speed, "prepare", lambda *_, **__: (None, {"share_own_plays": 1.0}))
    monkeypatch.setattr(belief_speed, "compile_call", lambda *_, **__: call)
    monkeypatch.setattr(belief_speed, "plain_program", lambda _: Program(lambda _: []))
    monkeypatch.setattr(belief_speed, "measure_single", lambda *_: {})
    monkeypatch.setattr(belief_speed.jax.config, "update", lambda *_: None)
    speed, models, _ = harness.main("belief_speed", "--games 4 --particles 16 --repeats 3 --models linear uniform|linear".split())
    documented = speed.figures[belief_speed.DOCUMENTED]
    assert documented["updates_per_second"]["median"] == pytest.approx(4 / np.median(documented["seconds"]))
    assert (documented["mean_ess_share"], documented["depleted"], documented["program_bytes"]) == (0.5, 0, 2**30)
    assert {belief_speed.DOCUMENTED, belief_speed.TEXTBOOK} <= speed.figures["ratios"].keys() <= speed.figures.keys()
    assert set(models.figures["linear"]["ratio"].values()) == {1.0}


@pytest.mark.slow
@pytest.mark.long  # five programs
def test_speed_runs(tmp_path: Path):
    """In a process of its own, because the benchmark sets the number of devices before any computation."""
    target = tmp_path / "rows.json"
    sizes = "--games 4 --particles 16 --single 2 --repeats 1 --max-steps 30 --cached --json".split()
    command = [sys.executable, "-m", "benchmarks", "belief_speed", *sizes, str(target)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    speed, single = harness.read_rows(target)
    same = [speed.figures[name]["digest"] for name in (belief_speed.DOCUMENTED, belief_speed.DONATED)]
    assert same[0] == same[1] and speed.figures[belief_speed.PLAIN]["updates_per_second"]["median"] > 0
    assert single.figures["milliseconds"]["median"] > 0
    shares = [value for name, value in speed.figures["positions"].items() if name.startswith("share")]
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.slow
def test_the_plain_filter_agrees_with_the_exact_one():
    """Expected copies over games of a small deck, within the Monte Carlo error."""
    num_particles, errors, kinds = 40_000, [], set()
    played: Any = jax.jit(jax.vmap(lambda key: play_game(key, num_steps=30, rules=RULES)))(jax.random.split(jax.random.key(3), 6))
    seen = jax.device_get(jax.jit(jax.vmap(jax.vmap(lambda state: observe(state, 0))))(played.states))
    for g in range(6):
        rng = np.random.default_rng(g)
        view = belief_speed.view_of(jax.tree.map(lambda x, g=g: x[g], seen), 0)
        hands, log_weights = plain_filter.deal(view, num_particles, rng)
        exact = exact_init(jax.tree.map(lambda x, g=g: x[g, 0], seen), prior="uniform")
        for t, action in enumerate(np.asarray(played.actions[g])):
            before, after = (jax.tree.map(lambda x, g=g, at=at: x[g, at], seen) for at in (t, t + 1))
            if action < 0 or after.terminated:
                break
            views = [belief_speed.view_of(jax.tree.map(lambda x, g=g: x[g], seen), at) for at in (t, t + 1)]
            hands, log_weights, is_depleted = plain_filter.update(hands, log_weights, views[0], int(action), views[1], rng)
            exact, _ = exact_update(exact, before, int(action), after)
            kinds.add((views[0].mine, action == cards.DRAW, views[0].penalty > 0))
            live = hands[np.isfinite(log_weights)]
            assert not is_depleted and (live.sum(1) == views[1].opponent_count).all() and (live <= views[1].unseen).all()
            errors.append(np.abs(np.exp(log_weights) @ hands - exact.count_probs @ np.arange(5)).max())
    assert len(errors) > 60 and len(kinds) == 6
    assert np.median(errors) < 0.01 and max(errors) < 0.1


def test_the_plain_filter_deals_again_where_no_particle_is_left():
    view = plain_filter.View(np.array([2, 2, 2] + [0] * 51), np.zeros(54, int), 2, False, 0, 1, 0)
    hands = np.zeros((10, 54), np.int8)
    hands[:, 0] = 2
    after = view._replace(unseen=np.array([2, 2, 1] + [0] * 51), opponent_count=1)
    # It plays what no particle holds.
    hands, _, is_depleted = plain_filter.update(hands, np.full(10, -np.log(10)), view, 2, after, np.random.default_rng(0))
    assert is_depleted and (hands.sum(1) == 1).all() and (hands <= after.unseen).all()


@pytest.mark.slow
@pytest.mark.long
def test_errors_fall_and_nothing_impossible_is_held():
    decks = ["11 cards, hands of 4", "11 cards, hands of 3, passing"]
    (row,) = harness.main("belief_agreement", ["--games", "12", "--particles", "64,1024", "--decks", *decks, "--cached"])
    assert list(row.figures) == ["all decks", *decks]
    few, many, slope = row.figures["all decks"].values()
    for one in (few, many):
        assert one["games_and_seats"] == 24 and one["updates"] > 60
        assert one["impossible"] == one["depleted"] == one["restarted"] == 0 and one["inflation"] < 4
        assert abs(one["evidence"]["mean"] - 1) < 6 * one["evidence"]["standard_error"]
    # 16 times the particles should make a quarter of the error.
    assert many["mean_error"] < few["mean_error"] / 2 and -0.8 < slope < -0.25


def game_of(error: float, log_ratio: float, n: int = 4) -> Errors:
    flat = np.full(n, error)
    return Errors(flat, flat**2, flat**2 / 2, np.append(log_ratio, np.zeros(n - 1)), 0, False, False)


def test_slope_and_summary_of_agreement():
    numbers = (100, 400, 1600)
    by_number = [[game_of(scale / np.sqrt(n), 0.0) for scale in (1.0, 2.0, 3.0)] for n in numbers]
    assert belief_agreement.summarize_all(numbers, by_number)["slope"] == pytest.approx(-0.5)
    assert belief_agreement.summarize_all(numbers[:1], by_number[:1])["slope"] is None
    summary = belief_agreement.summarize([game_of(0.1, np.log(0.5)), game_of(0.3, np.log(1.5))])
    assert summary["mean_error"] == pytest.approx(0.2) and summary["inflation"] == pytest.approx(2.0)
    assert summary["evidence"]["mean"] == pytest.approx(1.0)


def test_every_kind_of_card_in_small_decks():
    for rules in SETTINGS.values():
        assert rules.num_cards <= 24
        ranks = {t % 13 if t < 52 else t for t in np.flatnonzero(rules.deck).tolist()}
        assert {10, 11, 12, 52, 53} <= ranks
        assert min(ranks) < 10

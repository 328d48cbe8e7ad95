"""The belief benchmarks: their statistics on made-up data, and short runs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import belief, belief_scores, belief_speed, timing
from benchmarks.belief_scores import NUM_BINS, Scores
from benchmarks.belief_speed import Call
from unojax.analysis import Recorded, record, track
from unojax.belief.updaters import BootstrapFilter, ClosedFormFilter, ExactFilter, UniformFilter, Updater, plain_info
from unojax.decks import small_deck
from unojax.rules import Rules

RULES = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=4)


def scores_of(rows: list[list[float]]) -> Scores:
    log_score = np.array(rows)
    zeros = np.zeros_like(log_score)
    return Scores(log_score, zeros, zeros, zeros > 0, zeros > 0, np.zeros((len(rows), NUM_BINS, 3)))


def test_margin_is_paired_by_game() -> None:
    """Games differ widely, the beliefs by exactly one nat per update: the error of the margin is zero."""
    games = Recorded(None, np.zeros((3, 2)), np.array([2, 1, 2]))  # type: ignore[arg-type]  # states are not looked at
    ours, other = scores_of([[-1.0, -1.0], [-50.0, 0.0], [-7.0, -9.0]]), scores_of([[-2.0, -2.0], [-51.0, 0.0]])
    assert belief.margin(ours, other, games) == pytest.approx({"mean": 1.0, "standard_error": 0.0})


def test_calibration() -> None:
    """Bin 3 of two games: predictions 0.35 for 8 cards of which 2 were held; bin 9: all held as predicted."""
    bins = np.zeros((2, NUM_BINS, 3))
    bins[0, 3], bins[1, 3] = (4, 1.4, 1), (4, 1.4, 1)
    bins[0, 9] = 2, 2.0, 2
    got = belief.calibration(bins)
    third, ninth = got["bins"]
    assert (third["bin"], third["n"], ninth["bin"], ninth["n"]) == (3, 8, 9, 2)
    assert third["predicted"] == pytest.approx(0.35)
    assert third["observed"] == pytest.approx(0.25)
    assert third["error"] == pytest.approx(0.1)
    assert ninth["error"] == 0
    assert got["mean_absolute_error"] == pytest.approx(0.8 * 0.1)


def test_bins_count_what_they_should() -> None:
    predicted = jnp.array([0.0, 0.05, 0.1, 0.95, 1.0, 0.5])
    happened = jnp.array([False, True, True, True, True, True])
    counted = jnp.array([True, True, True, True, True, False])
    bins = np.asarray(belief_scores._bin(predicted, happened, counted))
    np.testing.assert_allclose(bins[0], [2, 0.05, 1], atol=1e-6)
    np.testing.assert_allclose(bins[1], [1, 0.1, 1], atol=1e-6)
    np.testing.assert_allclose(bins[9], [2, 1.95, 2], atol=1e-6)
    assert bins.sum(0)[0] == 5


def test_log_score() -> None:
    probs = np.full((54, 5), 0.2)
    probs[3] = [0.0, 0.5, 0.5, 0.0, 0.0]
    truth = np.zeros(54, np.int8)
    truth[3] = 1
    assert belief_scores._log_score(jnp.asarray(probs), jnp.asarray(truth)) == pytest.approx(
        53 * np.log(0.2) + np.log(0.5), rel=1e-5
    )


@pytest.fixture(autouse=True)
def compilation_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks turn the cache off to time compiling; here it may stay."""
    monkeypatch.setattr(timing, "without_compilation_cache", lambda: None)


@pytest.fixture(scope="module")
def games() -> Recorded:
    """Six games of a small deck."""
    return record(jax.random.key(0), 6, max_steps=30, rules=RULES)


@pytest.mark.parametrize("filter", [UniformFilter(), ExactFilter()], ids=lambda filter: filter.name)
@pytest.mark.slow
def test_scores_are_those_of_the_analysis(games: Recorded, filter: Updater) -> None:
    """The same games followed by `unojax.analysis.track`, which keeps all that the bins are made of."""
    if isinstance(filter, ExactFilter):
        scores, cost = belief_scores.score_exact(filter, games, seat=1)
    else:
        scores, cost = belief_scores.score(filter, games, seat=1, seed=0)
    followed = track(jax.random.key(0), games, filter, player=1)
    done = np.arange(1, 31) <= games.num_updates[:, None]
    np.testing.assert_allclose(scores.log_score, np.where(done, followed.log_score[:, 1:], 0), rtol=1e-4, atol=1e-5)
    assert (scores.ess_before[done] == 1).all() and (scores.ess_after[done] == 1).all()
    assert not scores.depleted.any() and not scores.restarted.any() and cost.microseconds_per_update > 0
    for g in range(6):
        counted = followed.is_unseen[g, 1:] & done[g, :, None]
        predicted, held = followed.prob_holds[g, 1:][counted], followed.truth[g, 1:][counted] > 0
        totals = len(predicted), predicted.sum(), held.sum()
        np.testing.assert_allclose(scores.bins[g].sum(0), totals, rtol=1e-4)


def test_the_filters_to_compare() -> None:
    filters = belief.filters_for("scarcest-color", 64, [16])
    assert list(filters) == [
        "particles 64",
        "particles 64, consistency only",
        "particles 64, knows the policy",
        "particles 16",
        "bootstrap 64",
        "closed form",
        "uniform",
    ]
    assert filters["bootstrap 64"] == BootstrapFilter(64) and filters["closed form"] == ClosedFormFilter()
    assert "particles 64, knows the policy" not in belief.filters_for("uniform", 64, [])


@pytest.mark.slow
@pytest.mark.long
def test_one_belief_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "belief.json"
    arguments = "--games 2 --small-games 6 --decks small --opponents uniform --particles 16 --max-steps 30 --particles-only"
    returned = belief.main([*arguments.split(), "--json", str(path)])
    assert json.loads(path.read_text()) == json.loads(json.dumps(returned))
    (comparison,) = returned["comparisons"]
    (method,) = comparison["methods"].values()
    assert method["updates"] == comparison["updates"] > 20 and method["games"] == 6
    assert method["log_score"]["mean"] < 0 and method["compile_seconds"] > 0
    assert 0 < method["ess_share_before_resampling"]["0.5"] <= method["ess_share_after_resampling"]["0.5"] <= 1.001
    assert sum(row["n"] for row in method["calibration"]["bins"]) > 100
    assert "log score" in capsys.readouterr().out


@pytest.mark.slow  # a program for each belief
@pytest.mark.long
def test_comparison_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "belief.json"
    arguments = "--games 4 --small-games 6 --decks small --opponents uniform --particles 64 --other-sizes --max-steps 30"
    belief.main([*arguments.split(), "--json", str(path)])
    results = json.loads(path.read_text())
    (comparison,) = results["comparisons"]
    methods = comparison["methods"]
    assert set(methods) == {
        "particles 64",
        "particles 64, consistency only",
        "bootstrap 64",
        "closed form",
        "uniform",
        "exact",
    }
    assert comparison["games"] == 6
    for name, method in methods.items():
        assert method["updates"] == comparison["updates"] > 20
        assert method["log_score"]["mean"] < 0
        assert method["microseconds_per_update"] > 0
        assert sum(row["n"] for row in method["calibration"]["bins"]) > 100
        assert name.startswith("bootstrap") or method["depleted_games"]["mean"] == 0
    # Exact beliefs beat the uniform one by far, and the particle filter is close to them.
    gain = comparison["margins"]
    ours_over_uniform = gain["particles 64 over uniform"]["mean"]
    assert ours_over_uniform > 0
    assert abs(gain["particles 64 over exact"]["mean"]) < ours_over_uniform
    assert "log score" in capsys.readouterr().out


def test_speed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without compiling anything: calls that take no time."""
    beliefs = SimpleNamespace(log_weights=np.zeros((4, 16)))
    info = plain_info(ess=8)._replace(ess=np.full(4, 8.0), log_evidence=np.zeros(4), depleted=np.zeros(4, bool))
    copies = []
    call = Call(run=lambda beliefs: (beliefs, info), copy=lambda: copies.append(1), compile_seconds=2.0, program_bytes=2**30)
    monkeypatch.setattr(belief_speed, "prepare", lambda **_: (SimpleNamespace(beliefs=beliefs), {"share_own_plays": 1.0}))
    monkeypatch.setattr(belief_speed, "compile_call", lambda *_, **__: call)
    single = {"games": 2, "milliseconds": {"median": 0.5, "p95": 0.7}, "updates_per_second": 2000.0}
    monkeypatch.setattr(belief_speed, "measure_single", lambda *_, **__: single)
    path = tmp_path / "speed.json"
    belief_speed.main(["--games", "4", "--repeats", "3", "--models", "linear", "uniform|linear", "--json", str(path)])
    results = json.loads(path.read_text())
    batch = results["batch"]
    assert len(copies) == 3 * 4 and len(batch["seconds"]) == 3, "the first run is not timed"
    first, second = (results["models"][name] for name in ("linear", "uniform|linear"))
    assert set(first["ratio"].values()) == {1.0}
    assert second["ratio"]["median"] == pytest.approx(np.median(np.array(second["seconds"]) / first["seconds"]))
    rates = batch["particle_updates_per_second"]["median"], batch["updates_per_second"]["median"]
    assert rates[0] == pytest.approx(16 * rates[1]) and rates[1] == pytest.approx(4 / np.median(batch["seconds"]))
    assert (batch["mean_ess_share"], batch["depleted"], batch["program_bytes"]) == (0.5, 0, 2**30)
    assert results["single"] == single and results["positions"] == {"share_own_plays": 1.0}
    shown = capsys.readouterr().out
    assert "1.00 GiB, compiled in 2.0 s" in shown and "one game: 0.50 ms" in shown


@pytest.mark.slow
@pytest.mark.long  # three programs
def test_speed_runs(tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    arguments = "--games 4 --particles 16 --single-games 2 --repeats 1 --max-steps 30"
    belief_speed.main([*arguments.split(), "--json", str(path)])
    results = json.loads(path.read_text())
    batch = results["batch"]
    assert batch["particle_updates_per_second"]["median"] == pytest.approx(16 * batch["updates_per_second"]["median"])
    assert batch["depleted"] == 0
    assert batch["program_bytes"] > 0
    assert results["single"]["games"] == 2 and results["single"]["updates_per_second"] > 0
    shares = [value for name, value in results["positions"].items() if name.startswith("share")]
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize("arguments", [["--games", "0"], ["--decks", "huge"], ["--seat", "2"]])
def test_bad_arguments(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        belief.main(arguments)

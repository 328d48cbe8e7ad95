"""The benchmark of the particle filter against the exact one runs, and its figures mean what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import belief_agreement
from benchmarks.belief_agreement import SETTINGS, SITUATIONS, Errors


def run(path: Path, *arguments: str) -> dict:
    returned = belief_agreement.main([*arguments, "--json", str(path)])
    assert json.loads(path.read_text()) == json.loads(json.dumps(returned))
    return returned


def check_games(results: dict, num_games: int) -> None:
    assert results["games"] == num_games
    for row in results["all"]["rows"]:
        assert row["games_and_seats"] == 2 * num_games
        situations = [row["situations"][name]["updates"] for name in SITUATIONS]
        assert sum(situations[:5]) == row["updates"] > 5 * num_games
        assert row["impossible"] == row["depleted"] == row["restarted"] == 0
        empty, cannot_play = row["situations"]["deck empty"], row["situations"]["opponent cannot play"]
        assert empty["updates"] > 0 and empty["largest_error"] < 1e-4
        assert cannot_play["mean_error"] > 0


@pytest.mark.slow
@pytest.mark.long
def test_all_games_are_followed_from_both_seats(tmp_path: Path) -> None:
    results = run(
        tmp_path / "results.json", "--games", "4", "--num-particles", "64", "--settings", "11 cards, hands of 3, passing"
    )
    check_games(results, 4)
    (row,) = results["all"]["rows"]
    # Some ten times less than not knowing anything, and as good as so many independent draws, nearly.
    assert 0 < row["mean_error"] < 0.1 and row["inflation"] < 4
    assert abs(row["evidence"]["update_log_ratio"]["mean"]) < 0.1


@pytest.mark.slow
@pytest.mark.long
def test_errors_fall_and_nothing_impossible_is_held(tmp_path: Path) -> None:
    settings = ["11 cards, hands of 4", "11 cards, hands of 3, passing"]
    results = run(tmp_path / "results.json", "--games", "12", "--num-particles", "64,1024", "--settings", *settings)
    check_games(results, 12)
    few, many = results["all"]["rows"]
    # 16 times the particles should make a quarter of the error.
    assert many["mean_error"] < few["mean_error"] / 2
    assert min(few["situations"][name]["updates"] for name in SITUATIONS) > 0


def game_of(error: float, log_ratio: float, n: int = 4) -> Errors:
    flat = np.full(n, error)
    situations = np.zeros((n, len(SITUATIONS)), bool)
    situations[:, 0] = True
    return Errors(situations, flat, flat, flat**2, flat**2 / 2, np.append(log_ratio, np.zeros(n - 1)), 0, 1, False, False)


def test_slopes_and_summary() -> None:
    numbers = (100, 400, 1600)
    by_number = [[game_of(scale / np.sqrt(n), 0.0) for scale in (1.0, 2.0, 3.0)] for n in numbers]
    fitted = belief_agreement.error_slope(numbers, by_number)
    assert fitted["slope"] == pytest.approx(-0.5)
    np.testing.assert_allclose(fitted["interval_95"], -0.5)
    assert belief_agreement.slope((100,), (1.0,)) is None

    summary = belief_agreement.summarize([game_of(0.1, np.log(0.5)), game_of(0.3, np.log(1.5))])
    assert summary["mean_error"] == pytest.approx(0.2)
    assert summary["largest_error"] == pytest.approx(0.3)
    assert summary["inflation"] == pytest.approx(2.0)
    assert summary["evidence"]["game_ratio"]["mean"] == pytest.approx(1.0)
    assert summary["evidence"]["game_jensen"]["mean"] == pytest.approx(np.log(0.75) / 2)
    assert summary["situations"][SITUATIONS[0]]["updates"] == 8
    assert summary["situations"][SITUATIONS[1]]["mean_error"] is None


def test_every_kind_of_card_in_small_decks() -> None:
    for rules in SETTINGS.values():
        assert rules.num_cards <= 24
        ranks = {t % 13 if t < 52 else t for t in np.flatnonzero(rules.deck).tolist()}
        assert {10, 11, 12, 52, 53} <= ranks
        assert min(ranks) < 10


@pytest.mark.parametrize("arguments", [["--games", "0"], ["--workers", "0"], ["--num-particles", "x"]])
def test_bad_arguments(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        belief_agreement.main(arguments)

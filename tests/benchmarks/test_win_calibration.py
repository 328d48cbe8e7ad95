"""The benchmark of win probabilities: its figures on made-up ones, and a short run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import win_calibration
from benchmarks.win_calibration import Config, Said
from unojax.rules import Rules


def made_up(config: Config, rules: Rules) -> Said:
    """Games whose probability of a win is ten points lower than what is said from 0.4 to 0.6, and right elsewhere."""
    rng = np.random.default_rng(config.seed)
    predicted = np.repeat(rng.uniform(0.05, 0.95, config.games)[:, None], 5, axis=1)
    truth = predicted - 0.1 * ((predicted > 0.4) & (predicted < 0.6))
    won = (rng.random(config.games) < truth[:, 0]).astype(float)
    counted = np.arange(5) < rng.integers(1, 6, (config.games, 1))
    return Said(counted, predicted, np.repeat(won[:, None], 5, axis=1))


def test_what_is_said_is_compared_with_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(win_calibration, "play", made_up)
    path = tmp_path / "calibration.json"
    monkeypatch.setattr(sys, "argv", ["win_calibration", "--rules", "house", "official", "--games", "20000", "--json", str(path)])
    assert win_calibration.main() == 0
    results = json.loads(path.read_text())
    assert (results["games"], results["players"]) == (20_000, ["linear", "linear"])
    first, second = results["judged"]
    assert (first["rules"], second["rules"]) == ("house", "official")
    for row in first["bins"]:
        is_off = 0.4 < row["predicted"] < 0.6
        # Positions of a game share its result, which the standard error takes into account.
        assert row["surplus"] == pytest.approx(0.1 * is_off, abs=4 * row["standard_error"]), row
        assert row["standard_error"] == pytest.approx(np.sqrt(0.25 / 2000), rel=0.6)
        assert row["surplus"] == pytest.approx(row["predicted"] - row["observed"], abs=1e-9)
    assert 0.01 < first["surplus"] < 0.04
    assert "house: linear against linear" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"games": 1}, "games must be at least 2, got 1"),
        ({"every": 0}, "every must be at least 1, got 0"),
        ({"rollouts": 1}, "rollouts must be at least 2, got 1"),
        ({"rules": ("house", "mine")}, "rules must be among default, official, house, rlcard, got 'mine'"),
    ],
)
def test_options_out_of_range(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**options)


def test_an_adviser_must_be_a_search() -> None:
    with pytest.raises(ValueError, match="agent 'linear' has no estimates; choose a search, mc or tree"):
        win_calibration.play(Config(adviser="linear"), Rules())


@pytest.mark.slow  # games with beliefs and rollouts
@pytest.mark.long
def test_games_with_an_adviser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(win_calibration, "_BATCH", 32)
    config = Config(games=30, every=6, max_steps=60, adviser="mc:particles=32", rollouts=32)
    said = win_calibration.play(config, Rules.official())
    assert said.counted.shape == said.predicted.shape == said.result.shape == (30, 9)
    assert said.counted[:, 0].mean() > 0.8 and said.counted.sum() > 60
    # A position that is reached follows others that were.
    assert (said.counted[:, :-1] >= said.counted[:, 1:]).all()
    assert set(np.unique(said.result)) <= {0.0, 0.5, 1.0} and (said.result == said.result[:, :1]).all()
    known = said.predicted[said.counted]
    assert ((known >= 0) & (known <= 1)).all() and np.ptp(known) > 0.3

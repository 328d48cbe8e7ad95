"""The benchmark of the value network's forecasts: its figures on made-up ones, and a short run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import value_quality
from benchmarks.value_quality import Config, Forecasts
from unojax.analysis import sigmoid
from unojax.value import load_pretrained


def made_up(seed: int, rollouts: int) -> Forecasts:
    """A thousand games of some ten decisions; the network knows the probability, the other forecasts less and less."""
    rng = np.random.default_rng(seed)
    shape = (1000, 12)
    sizes = rng.integers(1, 8, (*shape, 2))
    logit = 0.5 * (sizes[..., 1] - sizes[..., 0]) + rng.normal(0, 1, shape)
    result = rng.random(shape) < sigmoid(logit)
    unsure, few = sigmoid(0.5 * logit), rng.binomial(max(rollouts, 1), sigmoid(logit)) / max(rollouts, 1)
    return Forecasts(rng.random(shape) < 0.8, sizes, result.astype(float), sigmoid(logit), unsure, few)


def test_forecasts_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seeds = []

    def play(config: Config, network: object, unaware: object, seed: int, rollouts: int) -> Forecasts:
        seeds.append((seed, rollouts))
        return made_up(seed, rollouts)

    monkeypatch.setattr(value_quality, "play", play)
    path = tmp_path / "quality.json"
    monkeypatch.setattr(sys, "argv", ["value_quality", "--rollouts", "20", "--seed", "3", "--json", str(path)])
    assert value_quality.main() == 0
    assert seeds == [(6, 0), (7, 20)], "the regression is fitted on other games"
    results = json.loads(path.read_text())
    assert (results["games"], results["seed"]) == (1024, 3)
    network, unaware, sizes, rollouts = results["rows"]
    assert network["more_than_network"] == 0 and network["calibration_error"] < 0.02
    # An unsure one is off, and rollouts are noisy; hand sizes alone are honest and know less.
    assert unaware["calibration_error"] > 0.05 > sizes["calibration_error"]
    for row in (unaware, sizes, rollouts):
        assert row["more_than_network"] > 2 * row["more_than_network_error"] > 0
        assert row["log_loss"] == pytest.approx(network["log_loss"] + row["more_than_network"])
    assert "flat Monte Carlo, 20 rollouts" in capsys.readouterr().out


def test_options_out_of_range() -> None:
    with pytest.raises(ValueError, match="rollouts must be at least 1, got 0"):
        Config(rollouts=0)


@pytest.mark.slow  # games with beliefs and searches
@pytest.mark.long
def test_forecasts_of_games(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_quality, "_BATCH", 16)
    network = load_pretrained()
    found = value_quality.play(Config(games=16, particles=16), network, network, 5, 8)
    assert found.counted.shape[0] == 16 and found.counted.sum() > 100
    at = found.counted
    assert set(np.unique(found.result[at])) <= {0.0, 0.5, 1.0} and (found.sizes[at] >= 1).all()
    for forecast in (found.network, found.unaware, found.rollouts):
        assert ((forecast[at] >= 0) & (forecast[at] <= 1)).all()
        assert np.corrcoef(forecast[at], found.result[at])[0, 1] > 0.1
    assert np.abs(found.network - found.unaware)[at].max() > 0.01

"""The benchmark of win probabilities: its figures on synthetic ones, and a short run."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import harness, win_calibration
from benchmarks.harness import Config
from benchmarks.win_calibration import Said
from unojax.rules import Rules


def made_up(config: Config, rules: Rules, adviser: str) -> Said:
    """Games whose forecasts from 0.4 to 0.6 are ten points too high, and right elsewhere."""
    assert adviser == "mc:particles=256,model=peer"
    rng = np.random.default_rng(config.seed)
    predicted = np.repeat(rng.uniform(0.05, 0.95, config.games)[:, None], 5, axis=1)
    truth = predicted - 0.1 * ((predicted > 0.4) & (predicted < 0.6))
    won = (rng.random(config.games) < truth[:, 0]).astype(float)
    counted = np.arange(5) < rng.integers(1, 6, (config.games, 1))
    return Said(counted, predicted, np.repeat(won[:, None], 5, axis=1))


def test_forecasts_are_compared_with_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(win_calibration, "play", made_up)
    rows = harness.main("win_calibration", ["--decks", "house", "official", "--games", "20000"])
    assert [row.settings["rules"] for row in rows] == ["house", "official"]
    assert rows[0].settings["agents"] == ["linear", "linear"]
    figures = rows[0].figures
    for row in figures["bins"]:
        is_off = 0.4 < row["predicted"] < 0.6
        # Positions of a game share its result, which the standard error takes into account.
        assert row["surplus"] == pytest.approx(0.1 * is_off, abs=4 * row["standard_error"]), row
        assert row["standard_error"] == pytest.approx(np.sqrt(0.25 / 2000), rel=0.6)
        assert row["surplus"] == pytest.approx(row["predicted"] - row["observed"], abs=1e-9)
    assert 0.01 < figures["surplus"]["mean"] < 0.04


@pytest.mark.slow  # games with beliefs and rollouts
@pytest.mark.long
@pytest.mark.parametrize("second", ["linear", "mc:rollouts=4,belief=unseen,particles=8"])
def test_games_with_an_adviser(second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two policies are judged by rollouts from the true states, and others by the results of their games."""
    monkeypatch.setattr(win_calibration, "_BATCH", 16)
    config = Config(agents=("linear", second), games=30, max_steps=60, rollouts=32)
    said = win_calibration.play(config, Rules.official(), "mc:particles=32")
    assert said.counted.shape == said.predicted.shape == said.result.shape == (15, 14)
    counted, result = said.counted.reshape(30, 7), said.result.reshape(30, 7)
    assert counted[:, 0].mean() > 0.8 and counted.sum() > 50
    # A position that is reached follows others that were.
    assert (counted[:, :-1] >= counted[:, 1:]).all()
    known, won = said.predicted[said.counted], said.result[said.counted]
    assert ((known >= 0) & (known <= 1)).all() and np.ptp(known) > 0.3
    if second == "linear":
        # A prediction without any knowledge of the hidden hand would be off by some 0.3.
        assert ((won >= 0) & (won <= 1)).all() and np.abs(known - won).mean() < 0.2 and len(np.unique(won)) > 10
    else:
        assert set(np.unique(won)) <= {0.0, 0.5, 1.0} and (result == result[:, :1]).all()

"""The benchmark of what steps of policy improvement come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.improvement_steps import Config, main
from unojax import solve


def test_steps_lead_to_the_best_response(tmp_path: Path, capsys: pytest.CaptureFixture):
    main(Config(games=("tiny",), opponents=("uniform", "guard"), steps=2, json=tmp_path / "steps.json"))
    rows = json.loads((tmp_path / "steps.json").read_text())["games"]["tiny"]
    tree = solve.enumerate_game(solve.DECKS["tiny"])
    for row in rows:
        other = solve.of_policy(tree, row["opponent"])
        # From the other seat: the game that is left to the opponent once the best response is played.
        best = [solve.best_response(tree, player, other[1 - player]) for player in (0, 1)]
        left = [solve.value(tree, (best[0][1], other[1])), -solve.value(tree, (other[0], best[1][1]))]
        assert row["best_response"] == pytest.approx(sum(left) / 2)
        assert row["earned"][0] < row["earned"][1] <= row["earned"][2] + 1e-12
        # A tree this small leaves nothing after two steps; a mistake in one of them would.
        assert row["share"][0] == 0 and row["share"][-1] == pytest.approx(1)
    assert "best response" in capsys.readouterr().out

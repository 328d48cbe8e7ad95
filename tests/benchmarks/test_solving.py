"""The benchmarks of small decks: distance to the equilibrium, and steps of policy improvement."""

from __future__ import annotations

import pytest

from benchmarks import harness, solving
from unojax import solve


@pytest.mark.slow
def test_steps_lead_to_the_best_response():
    rows = harness.main("improvement_steps", "--decks tiny --opponents uniform guard --steps 2 --cached".split())
    tree = solve.enumerate_game(solve.DECKS["tiny"])
    for row in rows:
        other = solve.of_policy(tree, row.settings["opponent"])
        # From the other seat: the game that is left to the opponent once the best response is played.
        best = [solve.best_response(tree, player, other[1 - player]) for player in (0, 1)]
        left = [solve.value(tree, (best[0][1], other[1])), -solve.value(tree, (other[0], best[1][1]))]
        earned, share = (list(row.figures[name].values()) for name in ("earned", "share"))
        assert row.figures["best_response"] == pytest.approx(sum(left) / 2)
        assert earned[0] < earned[1] <= earned[2] + 1e-12
        # A tree this small leaves nothing after two steps; a mistake in one of them would.
        assert share[0] == 0 and share[-1] == pytest.approx(1)


@pytest.mark.slow
def test_agents_are_judged_by_the_equilibrium():
    tree, optimum = solving.solved("tiny")
    best = solving.judge_agent("tiny", "equilibrium", 0)
    assert best["exploitability"] == pytest.approx(optimum.exploitability)
    assert best["against_equilibrium"] == pytest.approx(0, abs=1e-6)
    rows = {row: solving.judge_agent("tiny", row, 0) for row in ("linear", "limit", "actions-last")}
    for name, row in rows.items():
        exploitability = solve.exploitability(tree, solve.of_policy(tree, name)) if name != "limit" else row["exploitability"]
        assert row["exploitability"] == pytest.approx(exploitability) and row["against_equilibrium"] <= 1e-6
        assert row["lost_to_mistakes"] >= 0 and all(mistake["cost"] > 0 for mistake in row["mistakes"])
    assert rows["limit"]["against_linear"] >= rows["linear"]["against_linear"] - 1e-9
    assert solving.describe_game("tiny")["num_infosets"] == list(tree.num_infosets)

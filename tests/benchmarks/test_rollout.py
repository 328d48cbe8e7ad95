"""The speed of rollouts, at a small size."""

from __future__ import annotations

import pytest

from benchmarks import rollout


@pytest.mark.slow
def test_all_programs_are_timed_and_compared(monkeypatch: pytest.MonkeyPatch):
    for name in ("SLOTS", "ONEHOT_SLOTS"):
        monkeypatch.setattr(rollout, name, {"cpu": 64})
    found = rollout.measure(2, 300, "cpu")
    programs = {"count_games", "counts", "delivered", "by hand", "by hand, delivered"}
    assert set(found["steps_per_second"]) == set(found["steps_per_cpu_second"]) == programs
    assert all(len(rates) == 2 and min(rates) > 0 for rates in found["steps_per_second"].values())
    for ratio in found["ratios"].values():
        assert 0 < ratio["min"] <= ratio["median"] <= ratio["max"]

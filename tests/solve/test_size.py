"""Estimated sizes, and games that the solver rejects."""

from __future__ import annotations

import pytest

from tests.helpers import deck_of, refusals
from unojax import Rules, solve

RULES = Rules(deck=deck_of("R1 R1 R2 R2 Y1 Y1 Y2 Y2 YS W"), hand_size=2)
TINY = solve.DECKS["tiny"]


def test_estimate():
    """Eight standard errors: an error probability below 1e-4 (t with 7 degrees of freedom)."""
    size, exact = solve.estimate_size(RULES, 7, samples=400), solve.enumerate_game(RULES, 7).num_histories
    error = (size.high - size.low) / 2 / 2.365
    assert 0 < error < 0.1 * exact
    assert abs(size.num_histories - exact) < 8 * error


@pytest.mark.slow
def test_small_games_are_counted_exactly():
    size = solve.estimate_size(TINY, samples=2000)
    assert size.low == size.high == size.num_histories == solve.enumerate_game(TINY).num_histories
    assert str(size) == "3,147 histories"


def test_decks():
    assert list(solve.DECKS) == ["tiny", "small", "medium"]
    assert all(rules.max_steps for rules in solve.DECKS.values())
    assert sum(solve.enumerate_game(TINY).num_infosets) == 1032


def test_refusals(monkeypatch):
    others = Rules.house(), Rules.rlcard(), Rules(may_draw=True), Rules(start_card="not_draw_four")
    refusals(
        {
            "max_steps (missing)": lambda: solve.enumerate_game(RULES),
            "max_steps (missing in an estimate)": lambda: solve.estimate_size(Rules()),
            "max_steps (zero)": lambda: solve.enumerate_game(RULES, 0),
            "step_penalty": lambda: solve.enumerate_game(Rules(step_penalty=0.01), 5),
            "'tiny'": lambda: solve.enumerate_game("tiny"),
            "points": lambda: solve.enumerate_game(Rules(points=True), 5),
            "limit": lambda: solve.enumerate_game(RULES, 5, limit=0),
            "samples": lambda: solve.estimate_size(RULES, 5, samples=0),
            "limit=100,000,000": lambda: solve.enumerate_game(Rules(), 100),
            "limit=1,000": lambda: solve.enumerate_game(TINY, limit=1000),
        }
        | {f"rules ({rules})": lambda rules=rules: solve.estimate_size(rules, 5) for rules in others}
    )
    # A game that is larger than its estimate is refused while it is enumerated.
    monkeypatch.setattr("unojax.solve.enumeration.check_size", lambda *_: None)
    refusals({"more than limit=1,000": lambda: solve.enumerate_game(TINY, limit=1000)})

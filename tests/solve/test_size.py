"""Estimated sizes, and games that are too large."""

from __future__ import annotations

import pytest

from tests.helpers import deck_of
from unojax import Rules, solve

RULES = Rules(deck=deck_of("R1 R1 R2 R2 Y1 Y1 Y2 Y2 YS W"), hand_size=2)


@pytest.mark.slow
def test_small_games_are_counted():
    size = solve.estimate_size(solve.DECKS["tiny"], samples=2000)
    assert size.low == size.high == size.num_histories == solve.enumerate_game(solve.DECKS["tiny"]).num_histories
    assert str(size) == "3,147 histories"


def test_estimate():
    """Eight standard errors: a right program fails with a probability below 1e-4 (t with 7 degrees of freedom)."""
    size, exact = solve.estimate_size(RULES, 7, samples=400), solve.enumerate_game(RULES, 7).num_histories
    error = (size.high - size.low) / 2 / 2.365
    assert 0 < error < 0.1 * exact
    assert abs(size.num_histories - exact) < 8 * error


def test_too_large():
    with pytest.raises(
        ValueError, match=r"too large .* about .* histories .* of 100 steps, with limit=100,000,000; lower max_steps"
    ):
        solve.enumerate_game(Rules(), 100)
    with pytest.raises(ValueError, match=r"too large .* limit=1,000"):
        solve.enumerate_game(solve.DECKS["tiny"], limit=1000)


def test_larger_than_estimated(monkeypatch):
    monkeypatch.setattr("unojax.solve.enumeration.check_size", lambda *_: None)
    with pytest.raises(ValueError, match=r"more than limit=1,000 histories within \d+ steps; lower max_steps=16"):
        solve.enumerate_game(solve.DECKS["tiny"], limit=1000)


def test_games_that_are_not_solved():
    with pytest.raises(ValueError, match="max_steps must be given"):
        solve.enumerate_game(RULES)
    with pytest.raises(ValueError, match="max_steps must be given"):
        solve.estimate_size(Rules())
    with pytest.raises(ValueError, match="max_steps must be None or"):
        solve.enumerate_game(RULES, 0)
    with pytest.raises(ValueError, match="step_penalty must be 0"):
        solve.enumerate_game(Rules(step_penalty=0.01), 5)
    with pytest.raises(ValueError, match="one of default, official, house, rlcard, got 'tiny'"):
        solve.enumerate_game("tiny")  # pyright: ignore[reportArgumentType]  # that it is refused is the test
    with pytest.raises(ValueError, match="points must be False"):
        solve.enumerate_game(Rules(points=True), 5)
    for rules in (Rules.house(), Rules.rlcard(), Rules(may_draw=True), Rules(start_card="not_draw_four")):
        with pytest.raises(ValueError, match="the solver can't follow rules with"):
            solve.estimate_size(rules, 5)
    with pytest.raises(ValueError, match="limit must be"):
        solve.enumerate_game(RULES, 5, limit=0)
    with pytest.raises(ValueError, match="samples must be"):
        solve.estimate_size(RULES, 5, samples=0)


def test_decks():
    assert list(solve.DECKS) == ["tiny", "small", "medium"]
    assert all(rules.max_steps for rules in solve.DECKS.values())
    tree = solve.enumerate_game(solve.DECKS["tiny"])
    assert sum(tree.num_infosets) == 1032

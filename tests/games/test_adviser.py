"""Advice for a person: only from what the person saw, and never computed twice."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.games.test_session import AGENT, RULES, session_from
from tests.helpers import assert_trees_equal
from unojax.games import adviser as adviser_module
from unojax.games.adviser import Adviser
from unojax.games.session import Session
from unojax.search.agents import monte_carlo
from unojax.text import parse_action, parse_position

# Without the particle filter and the linear policy, which take long to compile.
SEARCH = monte_carlo(rollouts=32, particles=64, belief="unseen", policy="uniform", rules=RULES)
# The filter is that of the tests of the command line.
FILTER = monte_carlo(rollouts=64, particles=256, policy="uniform", model="uniform", rules=RULES)


def test_advice_of_a_particle_filter():
    """The opponent could not play on Y3, so two of its cards are among R2, RS, R+2; the third is any of the seven others.

    Tolerances are six standard deviations (at most 0.5 / 16) of a mean over 256 hands.
    """
    session = session_from("R0,R1,R3,Y3/R2,RS/-/* Y0 0 0 0 - *")
    adviser, start = Adviser(FILTER, seed=0), session.view
    for action in ("Y3", "draw", "R3"):
        session.play(parse_action(action))
    told = adviser.advise(start, session.seen)
    assert told.thought is None
    holds = np.asarray(told.prob_holds)
    assert holds[13:26].sum() == pytest.approx(4 / 7, abs=0.2)
    assert holds[52:].sum() == pytest.approx(2 / 7, abs=0.2)
    assert holds[:13].sum() == pytest.approx(2 + 1 / 7, abs=0.2)


def test_nothing_is_computed_twice(monkeypatch):
    """Asked again, after a step back, or for the outlook at a position that advice was asked for."""
    monkeypatch.setattr(adviser_module, "_think", lambda *args, search: None)
    monkeypatch.setattr(adviser_module, "_play_out", lambda *args: (np.float32(0.5), np.float32(0.1)))
    session = session_from("R0,R1,R3,Y3/R2,RS/-/* Y0 0 0 0 - *")
    adviser, start = Adviser(FILTER, seed=0), session.view
    for action in ("Y3", "draw", "R3"):
        session.play(parse_action(action))
    told = {number: adviser.advise(start, session.seen[:number]) for number in (3, 1, 0, 2)}
    stats = adviser._beliefs.stats
    assert (stats.updates, stats.misses, stats.hits) == (3, 1, 3)
    outlook = adviser.outlook(start, session.seen, num_games=64)
    np.testing.assert_array_equal(outlook.prob_holds, told[3].prob_holds)
    assert adviser._beliefs.stats.updates == 3
    monkeypatch.setattr(adviser_module, "digest", None)
    for number, first in told.items():
        assert adviser.advise(start, session.seen[:number]) is first
    # In whatever order it is asked.
    monkeypatch.undo()
    later = Adviser(FILTER, seed=0).advise(start, session.seen)
    assert_trees_equal(later, told[3])


def test_a_search_that_knows_the_truth_is_no_adviser():
    with pytest.raises(ValueError, match=r"an adviser knows what the person knows: .* got 'mc:belief=truth"):
        Adviser(monte_carlo(belief="truth", rules=RULES), seed=0)


def test_an_outlook_follows_the_game():
    """The deck is empty, so the opponent's cards are known."""
    session = session_from("R0,Y0/R1,R2/Y1,Y2,Y3,YS,Y+2,RS,R+2,W,W+4/0 R3 0 0 0 - *")
    adviser, start = Adviser(SEARCH, seed=0), session.view
    told = adviser.outlook(start, session.seen, num_games=64)
    held = [parse_action(name) for name in ("R1", "R2")]
    assert np.flatnonzero(told.prob_holds > 1e-6).tolist() == held
    assert told.prob_holds[held] == pytest.approx(1, abs=1e-5)
    session.play(parse_action("R0"))
    assert 0 <= adviser.outlook(start, session.seen, num_games=64).win_probability <= 1
    session.play(parse_action("R1"))
    # Y0 can't be played on R1, and after the draw R2 is.
    later = adviser.outlook(start, session.seen, num_games=64)
    assert (later.win_probability, later.win_error) == (0, 0)


def test_an_adviser_knows_how_long_the_game_has_gone_on():
    """With one step left nobody can win, whatever is played."""
    rules = dataclasses.replace(RULES, max_steps=20)
    search = monte_carlo(rollouts=32, particles=64, belief="unseen", policy="uniform", rules=rules)
    start = parse_position("R0,Y0/R1,R2/Y1,Y2,Y3,YS,Y+2,RS,R+2,W,W+4/0 R3 0 0 0 - *", rules=rules)
    session = Session(AGENT, seat=0, seed=0, rules=rules, start=start)
    won = [
        adviser.outlook(session.view, session.seen, num_games=64).win_probability
        for adviser in (Adviser(search, seed=0, steps_before=number) for number in (0, 19))
    ]
    assert won[0] != 0.5 and won[1] == 0.5


@pytest.mark.parametrize("search", [SEARCH, FILTER])
def test_getting_an_adviser_ready_changes_nothing(search, monkeypatch):
    monkeypatch.setattr(adviser_module, "_think", lambda *args, search: None)
    session = session_from("R0,R2,Y1,W,W+4/Y0,Y2/-/* R3 0 0 0 - *")
    one, other = Adviser(search, seed=0), Adviser(search, seed=0)
    one.warm(session.view)
    assert_trees_equal(one.advise(session.view, session.seen), other.advise(session.view, session.seen))

"""Advice for a person: only from what the person saw, and never computed twice."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from tests.games.test_session import AGENT, RULES, session_from
from tests.helpers import assert_trees_equal
from unojax.belief.updaters import ExactFilter
from unojax.games import advisor as advisor_module
from unojax.games.advisor import Advisor, UnexplainedError
from unojax.games.session import Session
from unojax.observation import Observation
from unojax.search.agents import monte_carlo
from unojax.text import parse_action, parse_position

# Without the particle filter and the linear policy, which take long to compile.
SEARCH = monte_carlo(rollouts=32, particles=64, belief="unseen", policy="uniform", rules=RULES)
# The filter is that of the tests of the command line.
FILTER = monte_carlo(rollouts=64, particles=256, policy="uniform", model="uniform", rules=RULES)


KEY = jax.random.key(0)


def views(start: Observation, session: Session) -> list[Observation]:
    """All that the person saw."""
    return [start, *(seen.after for seen in session.seen)]


def test_advice_of_a_particle_filter():
    """The opponent could not play on Y3, so two of its cards are among R2, RS, R+2; the third is any of the seven others.

    Tolerances are six standard deviations (at most 0.5 / 16) of a mean over 256 hands.
    """
    session = session_from("R0,R1,R3,Y3/R2,RS/-/* Y0 0 0 0 - *")
    advisor, start = Advisor(FILTER, KEY), session.view
    for action in ("Y3", "draw", "R3"):
        session.play(parse_action(action))
    told = advisor.advise(views(start, session))
    assert told.thought is None
    holds = np.asarray(told.belief.prob_holds)
    assert holds[13:26].sum() == pytest.approx(4 / 7, abs=0.2)
    assert holds[52:].sum() == pytest.approx(2 / 7, abs=0.2)
    assert holds[:13].sum() == pytest.approx(2 + 1 / 7, abs=0.2)


def test_nothing_is_computed_twice(monkeypatch):
    """Asked again, after a step back, or for the win estimate at a position that advice was asked for."""
    monkeypatch.setattr(advisor_module, "_play_out", lambda *args: (np.float32(0.5), np.float32(0.1)))
    session = session_from("R0,R1,R3,Y3/R2,RS/-/* Y0 0 0 0 - *")
    advisor, start = Advisor(FILTER, KEY), session.view
    for action in ("Y3", "draw", "R3"):
        session.play(parse_action(action))
    told = {number: advisor.advise(views(start, session)[: number + 1]) for number in (3, 1, 0, 2)}
    stats = advisor._beliefs[0].stats
    assert (stats.updates, stats.misses) == (3, 1)
    estimate = advisor.win_estimate(views(start, session), num_games=64)
    np.testing.assert_array_equal(estimate.belief.prob_holds, told[3].belief.prob_holds)
    assert advisor._beliefs[0].stats.updates == 3
    monkeypatch.setattr(advisor_module, "look", None)
    for number, first in told.items():
        again = advisor.advise(views(start, session)[: number + 1])
        assert again.belief is first.belief and again.thought is first.thought
    # In whatever order it is asked.
    monkeypatch.undo()
    later = Advisor(FILTER, KEY).advise(views(start, session))
    assert_trees_equal(later, told[3])


def test_a_search_that_knows_the_truth_is_no_advisor():
    with pytest.raises(ValueError, match=r"an advisor knows what the person knows: .* got 'mc:belief=truth"):
        Advisor(monte_carlo(belief="truth", rules=RULES), KEY)


def test_a_win_estimate_follows_the_game():
    """The deck is empty, so the opponent's cards are known."""
    session = session_from("R0,Y0/R1,R2/Y1,Y2,Y3,YS,Y+2,RS,R+2,W,W+4/0 R3 0 0 0 - *")
    advisor, start = Advisor(SEARCH, KEY), session.view
    told = advisor.win_estimate(views(start, session), num_games=64)
    held = [parse_action(name) for name in ("R1", "R2")]
    assert np.flatnonzero(told.belief.prob_holds > 1e-6).tolist() == held
    assert told.belief.prob_holds[held] == pytest.approx(1, abs=1e-5)
    session.play(parse_action("R0"))
    assert 0 <= advisor.win_estimate(views(start, session), num_games=64).win_probability <= 1
    session.play(parse_action("R1"))
    # Y0 can't be played on R1, and after the draw R2 is.
    later = advisor.win_estimate(views(start, session), num_games=64)
    assert (later.win_probability, later.win_error) == (0, 0)


def test_an_advisor_knows_how_long_the_game_has_gone_on():
    """With one step left nobody can win, whatever is played."""
    rules = dataclasses.replace(RULES, max_steps=20)
    search = monte_carlo(rollouts=32, particles=64, belief="unseen", policy="uniform", rules=rules)
    start = parse_position("R0,Y0/R1,R2/Y1,Y2,Y3,YS,Y+2,RS,R+2,W,W+4/0 R3 0 0 0 - *", rules=rules)
    session = Session(AGENT, seat=0, seed=0, rules=rules, start=start)
    won = [
        advisor.win_estimate([session.view], num_games=64).win_probability
        for advisor in (Advisor(search, KEY, steps_before=number) for number in (0, 19))
    ]
    assert won[0] != 0.5 and won[1] == 0.5


@pytest.mark.parametrize("search", [SEARCH, FILTER])
def test_getting_an_advisor_ready_changes_nothing(search):
    session = session_from("R0,R2,Y1,W,W+4/Y0,Y2/-/* R3 0 0 0 - *")
    one, other = Advisor(search, KEY), Advisor(search, KEY)
    one.warm(session.view)
    assert_trees_equal(one.look([session.view]), other.look([session.view]))


def test_answers_are_kept_within_a_limit(monkeypatch):
    """Of many positions that were asked about, those asked about last are kept, as their beliefs are."""
    monkeypatch.setattr(advisor_module, "_MAX_KEPT", 4)
    session = session_from("R0,R1,R3,Y3/R2,RS/-/* Y0 0 0 0 - *")
    advisor, start = Advisor(SEARCH, KEY), session.view
    for action in ("Y3", "draw", "R3"):
        session.play(parse_action(action))
    for number in (1, 2, 3, 4):
        advisor.advise(views(start, session)[:number])
    assert len(advisor._answers) == 4


def test_several_beliefs_are_averaged():
    session = session_from("R0,R1,R3,Y3/R2,RS/-/* Y0 0 0 0 - *")
    start = session.view
    session.play(parse_action("Y3"))
    session.play(parse_action("draw"))
    seen = views(start, session)
    advisor = Advisor(FILTER, KEY, num_beliefs=4)
    looked, each = advisor.look(seen), [Advisor(FILTER, KEY, num_beliefs=1).look(seen)]
    assert np.abs(looked.count_probs - each[0].count_probs).max() > 0
    np.testing.assert_allclose(looked.count_probs.sum(-1), 1, rtol=1e-4)
    estimate = advisor.win_estimate(seen, num_games=64)
    assert 0 <= estimate.win_probability <= 1 and estimate.win_error > 0
    assert len(list(advisor.replicates(seen, 5))) == 5


def test_an_advisor_of_the_exact_belief():
    """An updater of the host: the search is given its hands."""
    session = session_from("R0,R1,R3,Y3/R2,RS/-/* Y0 0 0 0 - *")
    start = session.view
    advisor = Advisor(dataclasses.replace(SEARCH, updater=ExactFilter()), KEY)
    advisor.warm(start)
    told = advisor.advise([start])
    assert told.thought is not None and told.thought.tried[int(told.thought.advised)]
    session.play(parse_action("Y3"))
    session.play(parse_action("draw"))
    exact = np.asarray(advisor.look(views(start, session)).count_probs)
    close = Advisor(FILTER, KEY).look(views(start, session)).count_probs
    np.testing.assert_allclose(exact, close, atol=0.15)


def test_what_no_hand_explains_is_told(monkeypatch):
    session = session_from("R0,R1,R3,Y3/R2,RS/-/* Y0 0 0 0 - *")
    start = session.view
    session.play(parse_action("Y3"))
    advisor = Advisor(SEARCH, KEY)
    advisor.check_explained(views(start, session))
    entry = advisor._beliefs[0].track(views(start, session))
    depleted = entry._replace(info=entry.info._replace(depleted=np.bool_(True)))
    monkeypatch.setattr(advisor._beliefs[0], "track", lambda seen: depleted)
    with pytest.raises(UnexplainedError, match="turn 1: no hand of player 1 explains it"):
        advisor.check_explained(views(start, session))

"""Advice for a person: only from the person's views, and never computed twice."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from tests.games.playing import AGENT, session_from
from tests.games.playing import SESSION_RULES as RULES
from tests.helpers import assert_trees_equal, refusals
from unojax.belief.updaters import ExactFilter
from unojax.games import advisor as advisor_module
from unojax.games.advisor import Advisor, UnexplainedError
from unojax.games.session import Session
from unojax.observation import Observation
from unojax.search.agents import monte_carlo
from unojax.text import parse_action, parse_position

PROGRAMS = 90  # Particle filters, searches and win estimates.

# Without the particle filter and the linear policy, which take long to compile.
SEARCH = monte_carlo(rollouts=32, particles=64, belief="unseen", policy="uniform", rules=RULES)
# The filter is that of the tests of the command line.
FILTER = monte_carlo(rollouts=64, particles=256, policy="uniform", model="uniform", rules=RULES)
KEY = jax.random.key(0)


def views(start: str, *played: str) -> list[Observation]:
    """Return the person's observations of a game from a position."""
    session = session_from(start)
    first = session.view
    for action in played:
        session.play(parse_action(action))
    return [first, *(seen.after for seen in session.seen)]


COULD_NOT_PLAY = "R0,R1,R3,Y3/R2,RS/-/* Y0 0 0 0 - *", "Y3", "draw", "R3"
"""The opponent could not play on Y3, so two of its cards are among R2, RS, R+2; the third is any of the seven others."""
KNOWN = "R0,Y0/R1,R2/Y1,Y2,Y3,YS,Y+2,RS,R+2,W,W+4/0 R3 0 0 0 - *"
"""The deck is empty, so the opponent's cards are known."""


def test_advice_of_a_particle_filter_is_never_computed_twice(monkeypatch: pytest.MonkeyPatch):
    """When repeated, after a step back, or for the win estimate at an advised position; in any order.

    Tolerances of the belief are six standard deviations (at most 0.5 / 16) of a mean over 256 hands.
    """
    seen = views(*COULD_NOT_PLAY)

    def ask(advisor: Advisor, number: int):
        return advisor.look(seen[: number + 1]), advisor.advise(seen[: number + 1])

    in_order, thought = ask(Advisor(FILTER, KEY), 3)
    assert thought is None
    holds = np.asarray(in_order.belief.prob_holds)
    assert holds[13:26].sum() == pytest.approx(4 / 7, abs=0.2)
    assert holds[52:].sum() == pytest.approx(2 / 7, abs=0.2)
    assert holds[:13].sum() == pytest.approx(2 + 1 / 7, abs=0.2)

    advisor = Advisor(FILTER, KEY)
    monkeypatch.setattr(advisor_module, "_play_out", lambda *args: (np.float32(0.5), np.float32(0.1)))
    advice = {number: ask(advisor, number) for number in (3, 1, 0, 2)}
    assert_trees_equal(advice[3][0], in_order)
    stats = advisor._beliefs[0].stats
    assert (stats.updates, stats.misses) == (3, 1)
    estimate = advisor.win_estimate(seen, num_games=64)
    np.testing.assert_array_equal(estimate.belief.prob_holds, advice[3][0].belief.prob_holds)
    assert advisor._beliefs[0].stats.updates == 3
    monkeypatch.setattr(advisor_module, "look", None)
    for number, (looked, thought) in advice.items():
        again = ask(advisor, number)
        assert again[0] is looked and again[1] is thought


def test_a_search_that_knows_the_truth_is_no_advisor():
    refusals({"'mc:belief=truth": lambda: Advisor(monte_carlo(belief="truth", rules=RULES), KEY)})


def test_a_win_estimate_follows_the_game():
    """Y0 can't be played on R1; after the draw R2 can."""
    advisor = Advisor(SEARCH, KEY)
    seen = views(KNOWN, "R0", "R1")
    first, second, last = (advisor.win_estimate(seen[:number], num_games=64) for number in (1, 2, 3))
    held = [parse_action(name) for name in ("R1", "R2")]
    assert np.flatnonzero(first.belief.prob_holds > 1e-6).tolist() == held
    assert first.belief.prob_holds[held] == pytest.approx(1, abs=1e-5)
    assert 0 <= second.win_probability <= 1
    assert (last.win_probability, last.win_error) == (0, 0)


def test_an_advisor_knows_how_many_steps_are_left():
    """With one step left nobody can win."""
    rules = dataclasses.replace(RULES, max_steps=20)
    search = monte_carlo(rollouts=32, particles=64, belief="unseen", policy="uniform", rules=rules)
    session = Session(AGENT, seat=0, seed=0, rules=rules, start=parse_position(KNOWN, rules=rules))
    won = [
        advisor.win_estimate([session.view], num_games=64).win_probability
        for advisor in (Advisor(search, KEY, steps_before=number) for number in (0, 19))
    ]
    assert won[0] != 0.5 and won[1] == 0.5


@pytest.mark.parametrize("search", [SEARCH, FILTER], ids=["unseen", "particles"])
def test_getting_an_advisor_ready_changes_nothing(search):
    (view,) = views("R0,R2,Y1,W,W+4/Y0,Y2/-/* R3 0 0 0 - *")
    one, other = Advisor(search, KEY), Advisor(search, KEY)
    one.warm(view)
    assert_trees_equal(one.look([view]), other.look([view]))


def test_answers_are_kept_within_a_limit(monkeypatch: pytest.MonkeyPatch):
    """The latest ones stay, with their beliefs."""
    monkeypatch.setattr(advisor_module, "_MAX_KEPT", 4)
    advisor, seen = Advisor(SEARCH, KEY), views(*COULD_NOT_PLAY)
    for number in (1, 2, 3, 4):
        advisor.look(seen[:number])
        advisor.advise(seen[:number])
    assert len(advisor._answers) == 4


def test_several_beliefs_are_averaged():
    seen = views(*COULD_NOT_PLAY[:3])
    advisor = Advisor(FILTER, KEY, num_beliefs=4)
    looked, alone = advisor.look(seen), Advisor(FILTER, KEY, num_beliefs=1).look(seen)
    assert np.abs(looked.count_probs - alone.count_probs).max() > 0
    np.testing.assert_allclose(looked.count_probs.sum(-1), 1, rtol=1e-4)
    estimate = advisor.win_estimate(seen, num_games=64)
    assert 0 <= estimate.win_probability <= 1 and estimate.win_error > 0
    assert len(list(advisor.replicates(seen, 5))) == 5


def test_an_advisor_of_the_exact_belief():
    """The search receives the hands of a host updater."""
    seen = views(*COULD_NOT_PLAY[:3])
    advisor = Advisor(dataclasses.replace(SEARCH, updater=ExactFilter()), KEY)
    advisor.warm(seen[0])
    thought = advisor.advise(seen[:1])
    assert thought is not None and thought.tried[int(thought.advised)]
    exact = np.asarray(advisor.look(seen).count_probs)
    np.testing.assert_allclose(exact, Advisor(FILTER, KEY).look(seen).count_probs, atol=0.15)


def test_an_action_that_no_hand_explains_is_reported(monkeypatch: pytest.MonkeyPatch):
    seen, advisor = views(*COULD_NOT_PLAY[:2]), Advisor(SEARCH, KEY)
    advisor.check_explained(seen)
    entry = advisor._beliefs[0].track(seen)
    depleted = entry._replace(info=entry.info._replace(depleted=np.bool_(True)))
    monkeypatch.setattr(advisor._beliefs[0], "track", lambda seen: depleted)
    with pytest.raises(UnexplainedError, match="turn 1: no hand of player 1 explains it"):
        advisor.check_explained(seen)

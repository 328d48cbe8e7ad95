"""A game between a person and an agent: what the agent hears, what the person may know, and advice."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from unojax import Rules, parse_position
from unojax.agents import parse_agent
from unojax.cli.options import parse_deck
from unojax.games.session import Adviser, Match, draw_seat
from unojax.search.agents import MonteCarloAgent
from unojax.text import parse_action

RULES = Rules(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=1"), hand_size=3)
AGENT = parse_agent("uniform", rules=RULES)
# Without the particle filter and the linear policy, which take long to compile.
SEARCH = MonteCarloAgent(rollouts=32, particles=64, belief="unseen", policy="uniform", rules=RULES)


def match_from(position: str, *, seat: int = 0) -> Match:
    return Match(AGENT, seat=seat, seed=0, rules=RULES, start=parse_position(position, rules=RULES))


def finish(match: Match) -> None:
    """Play to the end; the person takes the last play that is legal."""
    while not match.is_over:
        match.play(int(np.flatnonzero(match.legal)[-1]) if match.is_my_turn else match.reply())


def test_compiling_beforehand_changes_nothing():
    first, again = (Match(AGENT, seat=0, seed=2, rules=RULES) for _ in range(2))
    again.warm()
    for match in (first, again):
        finish(match)
    assert len(first.steps) > 4
    assert [step.action for step in first.steps] == [step.action for step in again.steps]
    assert_trees_equal(again.replay().end, first.replay().end)


def test_the_seat_is_drawn_from_the_seed():
    seats = [draw_seat(seed) for seed in range(64)]
    # Either seat alone: 2 in 2^64 choices of the seeds.
    assert set(seats) == {0, 1}
    assert seats == [draw_seat(seed) for seed in range(64)]


def test_an_opponent_with_an_illegal_answer_is_named(monkeypatch):
    match = match_from("R0,R2,Y1,W,W+4/R1,RS/-/* R3 1 0 1 - *")
    monkeypatch.setattr("unojax.games.session._choose", lambda *args: np.int32(5))
    with pytest.raises(RuntimeError, match="the opponent chose action 5, which is not legal; it may only: R1, RS"):
        match.reply()


@dataclass(frozen=True)
class Watcher:
    """Plays what is legal and comes first, and remembers what it was told: steps, and how often by an observation not its own."""

    player: int
    name: str = "watcher"

    def init(self, key, observation):
        return jnp.zeros(2, jnp.int32).at[1].set(observation.player != self.player)

    def update(self, key, memory, before, action, after):
        alien = (before.player != self.player) | (after.player != self.player) | (after.last_action != action)
        return memory + jnp.stack([jnp.int32(1), alien.astype(jnp.int32)])

    def act(self, key, memory, observation, legal_mask):
        return jnp.where(observation.player == self.player, jnp.argmax(legal_mask), -1)


@pytest.mark.parametrize("seat", [0, 1])
def test_an_agent_hears_of_every_step_from_its_own_seat(seat: int):
    match = Match(Watcher(1 - seat), seat=seat, seed=1, rules=RULES)
    finish(match)
    assert np.asarray(match._memory).tolist() == [len(match.steps), 0]
    assert len(match.steps) > 4


@pytest.mark.slow
def test_advice_of_a_particle_filter():
    """The opponent could not play on Y3, so two of its cards are among R2, RS, R+2; the third is any of the seven others.

    Tolerances are six standard deviations (at most 0.5 / 16) of a mean over 256 hands.
    """
    match = match_from("R0,R1,R3,Y3/R2,RS/-/* Y0 0 0 0 - *")
    adviser = Adviser(MonteCarloAgent(rollouts=16, particles=256, rules=RULES), seed=0)
    start = match.view
    assert adviser.advise(start, match.seen).thought is not None
    for action in ("Y3", "draw", "R3"):
        match.play(parse_action(action))
    told = adviser.advise(start, match.seen)
    holds = np.asarray(told.prob_holds)
    assert holds[13:26].sum() == pytest.approx(4 / 7, abs=0.2)
    assert holds[52:].sum() == pytest.approx(2 / 7, abs=0.2)
    assert holds[:13].sum() == pytest.approx(2 + 1 / 7, abs=0.2)


def test_an_outlook_follows_the_game():
    """The deck is empty, so the opponent's cards are known."""
    match = match_from("R0,Y0/R1,R2/Y1,Y2,Y3,YS,Y+2,RS,R+2,W,W+4/0 R3 0 0 0 - *")
    adviser, start = Adviser(SEARCH, seed=0), match.view
    told = adviser.outlook(start, match.seen, num_games=64)
    held = [parse_action(name) for name in ("R1", "R2")]
    assert np.flatnonzero(told.prob_holds > 1e-6).tolist() == held
    assert told.prob_holds[held] == pytest.approx(1, abs=1e-5)
    match.play(parse_action("R0"))
    assert 0 <= adviser.outlook(start, match.seen, num_games=64).win_probability <= 1
    match.play(parse_action("R1"))
    # Y0 can't be played on R1, and after the draw R2 is.
    later = adviser.outlook(start, match.seen, num_games=64)
    assert (later.win_probability, later.win_error) == (0, 0)


def test_getting_an_adviser_ready_changes_nothing():
    match = match_from("R0,R2,Y1,W,W+4/Y0,Y2/-/* R3 0 0 0 - *")
    one, other = Adviser(SEARCH, seed=0), Adviser(SEARCH, seed=0)
    one.warm(match.view)
    assert_trees_equal(one.advise(match.view, match.seen), other.advise(match.view, match.seen))

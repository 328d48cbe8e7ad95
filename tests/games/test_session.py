"""A game between a person and an agent: memory, views, steps back, and the score over rematches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import pytest

from tests.cli.by_script import lines, talk
from tests.games.playing import AGENT, session_from
from tests.games.playing import SESSION_RULES as RULES
from tests.helpers import assert_trees_equal
from unojax import Rules, cards, parse_agent, parse_position
from unojax.agents import RESIGN
from unojax.games import session as sessions
from unojax.games.session import Session, draw_seat
from unojax.games.tally import Tally
from unojax.rules import MATCH_POINTS
from unojax.text import parse_action


def finish(session: Session) -> None:
    """Play to the end; the person takes the last legal play."""
    while not session.is_over:
        session.play(int(np.flatnonzero(session.legal)[-1]) if session.is_my_turn else session.reply())


def test_compiling_beforehand_changes_nothing():
    first, again = (Session(AGENT, seat=0, seed=2, rules=RULES) for _ in range(2))
    again.warm()
    for session in (first, again):
        finish(session)
    assert len(first.steps) > 4
    assert [step.action for step in first.steps] == [step.action for step in again.steps]
    assert_trees_equal(again.replay().end, first.replay().end)


def test_decisions_without_a_loop_are_compiled_quickly():
    """A network's or a policy's decisions; a search plays games."""
    for spec, is_quick in (("value", True), ("linear", True), ("mc:rollouts=8", False)):
        chosen = Session(parse_agent(spec), seat=0, seed=2, rules=Rules())._answer_choice
        assert chosen is (sessions._quick_answer if is_quick else sessions._answer), spec


def test_taking_back_leads_to_the_last_choice_and_the_same_moves_to_the_same_game():
    session = Session(AGENT, seat=0, seed=2, rules=RULES)
    assert session.take_back() == 0, "nothing has happened yet"
    finish(session)
    actions, positions = [step.action for step in session.steps], session.replay().states
    while session.take_back():
        assert session.is_my_turn and not session.is_over
        assert session.legal.sum() > 1 or not any(seen.is_mine for seen in session.seen)
        assert len(session.seen) == len(session.steps)
        assert_trees_equal(session.replay().end, positions[len(session.steps)])
    assert not any(seen.is_mine for seen in session.seen)
    finish(session)
    assert [step.action for step in session.steps] == actions
    assert_trees_equal(session.replay().end, positions[-1])


def test_the_seat_is_drawn_from_the_seed():
    seats = [draw_seat(seed) for seed in range(64)]
    # Either seat alone: 2 in 2^64 choices of the seeds.
    assert set(seats) == {0, 1}
    assert seats == [draw_seat(seed) for seed in range(64)]


def test_an_opponent_with_an_illegal_answer_is_named(monkeypatch: pytest.MonkeyPatch):
    session = session_from("R0,R2,Y1,W,W+4/R1,RS/-/* R3 1 0 1 - *")
    monkeypatch.setattr("unojax.games.session._choose", lambda *args: np.int32(5))
    with pytest.raises(RuntimeError, match="the opponent chose action 5, which is not legal; it may only: R1, RS"):
        session.reply()


def test_an_opponent_may_give_up(monkeypatch: pytest.MonkeyPatch):
    """The person wins, the record ends there, and the last choice can be taken back."""
    session = session_from("R0,R2/R1,RS/Y1/* R3 0 0 1 - *")
    session.play(parse_action("R0"))
    monkeypatch.setattr("unojax.games.session._choose", lambda *args: np.int32(RESIGN))
    assert session.play(session.reply()) is None
    assert session.is_over and session.has_given_up and session.winner == 0 and not session.was_cut_off
    assert len(session.steps) == len(session.seen) == 1 and not session.replay().end.is_over and session.faults == []
    assert session.take_back() == 1
    assert not session.is_over and session.winner == -1
    first = session_from("R0,R2/R1,RS/Y1/* R3 1 0 1 - *")
    first.play(first.reply())
    assert first.take_back() == 0 and first.is_over, "only the same question could come next"


@dataclass(frozen=True)
class Watcher:
    """Takes the first legal action, and counts its updates, and those from another player's observations."""

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
def test_an_agent_is_updated_at_every_step_from_its_own_seat(seat: int):
    """Steps taken back leave no trace in its memory."""
    session = Session(Watcher(1 - seat), seat=seat, seed=1, rules=RULES)
    finish(session)
    assert np.asarray(session._remember()).tolist() == [len(session.steps), 0]
    assert len(session.steps) > 4
    assert session.take_back() > 0
    assert np.asarray(session._remember()).tolist() == [len(session.steps), 0]


@dataclass(frozen=True)
class Peeker:
    """Is shown the other hand; plays the first legal action if that holds Y0, else the last."""

    name: str = "peeker"

    def init(self, key, observation):
        return jnp.bool_(False)

    def update(self, key, memory, before, action, after):
        return memory

    def reveal(self, memory, state, player):
        return state.hands[1 - player, cards.SLOTS_OF_TYPE[cards.TYPE_NAMES.index("Y0"), 0]]

    def act(self, key, memory, observation, legal_mask):
        last = cards.NUM_ACTIONS - 1 - jnp.argmax(legal_mask[::-1])
        return jnp.where(memory, jnp.argmax(legal_mask), last)


def test_an_agent_that_plays_with_open_cards_is_shown_them():
    for hand, reply in (("Y0,Y2", "R0"), ("Y1,YS", "R2")):
        start = parse_position(f"{hand}/R0,R2/-/* R3 1 0 1 - *", rules=RULES)
        assert Session(Peeker(), seat=0, seed=0, rules=RULES, start=start).reply() == parse_action(reply)


# The standing over rematches

POINTS = replace(RULES, points=True)


def test_points_are_those_of_the_cards_that_the_loser_holds():
    """2 for the Y2, 20 for the Skip, 50 for the Wild, for the winner in either seat."""
    won_by_0 = "-/Y2,YS,W/R3/* R0 0 0 4 R0 0"
    mine, theirs = (session_from(won_by_0, seat=seat, rules=POINTS) for seat in (0, 1))
    assert mine.card_points == theirs.card_points == 72
    assert Tally().after(mine) == Tally(games=(1, 0), points=(72, 0))
    assert Tally().after(mine).after(theirs) == Tally(games=(1, 1), points=(72, 72))
    # Without points in the rules games count alone.
    assert Tally().after(session_from(won_by_0)) == Tally(games=(1, 0))
    # A match ends at its points, and the next one starts at zero.
    before = Tally(games=(7, 6), points=(MATCH_POINTS - 72, 300))
    assert before.after(mine) == Tally(games=(8, 6), points=(MATCH_POINTS, 300), matches=(1, 0))
    assert before.after(mine).after(mine) == Tally(games=(9, 6), points=(72, 0), matches=(1, 0))
    drawn = session_from("Y0/Y2/R3/* R0 1 0 4 R0 T", rules=replace(POINTS, max_steps=4))
    assert drawn.card_points == 0 and Tally(games=(1, 2)).after(drawn) == Tally(games=(1, 2))


def test_the_conversation_shows_the_standing():
    session = session_from("R0/Y0,Y2/-/* R3 0 0 0 - *", rules=POINTS)
    _, text = talk(session, lines("1"), tally=Tally(games=(1, 3), points=(20, MATCH_POINTS - 1)))
    assert "count 2 points" in text and f"You 22, uniform {MATCH_POINTS - 1}" in text and "You 2, uniform 3" in text
    assert "Games won" not in talk(session_from("R0,R2/Y0,Y2/-/* R3 0 0 0 - *"), lines("q"), tally=Tally())[1]

"""A game between a person and an agent: what the agent hears, and what the person may know."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from unojax import Rules, cards, parse_position
from unojax.agents import RESIGN
from unojax.decks import parse_deck
from unojax.games.session import Session, draw_seat
from unojax.specs import parse_agent
from unojax.text import parse_action

RULES = Rules(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=1"), hand_size=3)
AGENT = parse_agent("uniform", rules=RULES)


def session_from(position: str, *, seat: int = 0) -> Session:
    return Session(AGENT, seat=seat, seed=0, rules=RULES, start=parse_position(position, rules=RULES))


def finish(session: Session) -> None:
    """Play to the end; the person takes the last play that is legal."""
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


def test_the_agent_remembers_nothing_of_what_was_taken_back():
    session = Session(Watcher(1), seat=0, seed=1, rules=RULES)
    finish(session)
    session._remember()
    taken = session.take_back()
    assert taken > 0
    assert np.asarray(session._remember()).tolist() == [len(session.steps), 0]


def test_the_seat_is_drawn_from_the_seed():
    seats = [draw_seat(seed) for seed in range(64)]
    # Either seat alone: 2 in 2^64 choices of the seeds.
    assert set(seats) == {0, 1}
    assert seats == [draw_seat(seed) for seed in range(64)]


def test_an_opponent_with_an_illegal_answer_is_named(monkeypatch):
    session = session_from("R0,R2,Y1,W,W+4/R1,RS/-/* R3 1 0 1 - *")
    monkeypatch.setattr("unojax.games.session._choose", lambda *args: np.int32(5))
    with pytest.raises(RuntimeError, match="the opponent chose action 5, which is not legal; it may only: R1, RS"):
        session.reply()


def test_an_opponent_may_give_up(monkeypatch):
    """The game is won then, and its record is of what was played; the person may take the last choice back."""
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
    assert first.take_back() == 0 and first.is_over, "nothing but the same question could come next"


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
    session = Session(Watcher(1 - seat), seat=seat, seed=1, rules=RULES)
    finish(session)
    assert np.asarray(session._remember()).tolist() == [len(session.steps), 0]
    assert len(session.steps) > 4


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


@pytest.mark.parametrize(("hand", "reply"), [("Y0,Y2", "R0"), ("Y1,YS", "R2")])
def test_an_agent_that_plays_with_open_cards_is_shown_them(hand: str, reply: str):
    start = parse_position(f"{hand}/R0,R2/-/* R3 1 0 1 - *", rules=RULES)
    session = Session(Peeker(), seat=0, seed=0, rules=RULES, start=start)
    assert session.reply() == parse_action(reply)

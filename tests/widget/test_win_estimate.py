"""Win probability, belief and hints of a board. No message depends on the hidden hand."""

from __future__ import annotations

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from tests.telltale import TellTale
from tests.viz.games import with_other_hand
from tests.widget.pages import ADVISER, MY_TURN, QUIET, RULES, board_at, make
from unojax import Rules, make_state, parse_position
from unojax.text import format_cards
from unojax.widget import Board


@pytest.fixture
def telltale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the advisor by a stub whose numbers depend on all of its input."""
    monkeypatch.setattr("unojax.board.game.Advisor", TellTale)


@pytest.mark.parametrize("advisor", [TellTale, pytest.param(None, marks=pytest.mark.slow)])
def test_no_message_depends_on_the_hidden_hand(advisor, monkeypatch: pytest.MonkeyPatch):
    """Contract: what that player may know, and nothing else. Games that look the same to the person send the same messages."""
    if advisor is not None:
        monkeypatch.setattr("unojax.board.game.Advisor", advisor)
    start = jax.device_get(make_state("R0 R2 Y1 W", "Y0 Y2 Y3", "R3", rules=RULES))
    other = with_other_hand(start, 1)
    assert format_cards(start.hands[1]) != format_cards(other.hands[1])
    messages = []
    for state in (start, other):
        board, comm = make(lambda state=state: Board("uniform", rules=RULES, adviser=ADVISER, seed=5, start=state))
        comm.click(kind="shown")
        comm.click(kind="hint")
        comm.click(kind="play", card="R0")
        assert comm.states[-1]["turn"] >= 2 and len(board.record.actions) >= 2
        opened = comm.sent[0]["state"] | {"layout": None}
        states = [state for state in comm.states if state["turn"] <= 1]
        assert {state["turn"] for state in states} == {0, 1}
        assert states[-1]["belief"] and states[-1]["win"] and any(state["hint"] for state in states)
        messages.append(json.dumps([opened, *states], sort_keys=True))
        # The seed would reveal every card.
        assert '"seed"' not in messages[-1]
    assert messages[0] == messages[1]


def test_belief_and_win_probability(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("unojax.board.game._GAMES", 64)
    start = make_state("R0 R2", "Y0 Y2", "R3", rules=RULES)
    board, comm = make(lambda: Board("uniform", rules=RULES, adviser=ADVISER, seed=1, start=start))
    assert board.win_estimate is None and comm.states[-1]["belief"] is None and comm.states[-1]["win"] is None
    comm.click(kind="shown")
    state = comm.states[-1]
    assert 0.5 < state["win"]["now"] < 1 and 0 < state["win"]["error"] < 0.07
    assert state["wins"] == [[0, state["win"]["now"]]]
    assert set(state["belief"]) == {"light", "dark"} and all("<svg" in svg for svg in state["belief"].values())
    assert board.win_estimate.belief.prob_holds.shape == (54,)
    sent = len(comm.sent)
    comm.click(kind="shown")
    assert len(comm.sent) == sent, "a second page needs no second look"
    comm.click(kind="hint")
    hint = comm.states[-1]["hint"]
    assert set(hint["wins"]) == {"R0", "R2"} and hint["card"] in hint["wins"] and all(0 < p < 1 for p in hint["wins"].values())
    while not board.is_over:
        board.play(int(np.flatnonzero(board.legal_mask)[0]))
    end = comm.states[-1]
    assert end["win"] == {"now": float(end["won"]), "error": 0.0} and end["wins"][-1] == [end["turn"], float(end["won"])]
    assert [turn for turn, _ in end["wins"]] == list(range(end["turn"] + 1))
    held = set(end["opponent"]["hand"])
    assert all(f'data-card="{name}"' in end["belief"]["light"] for name in held)
    assert end["belief"]["light"].count("data-held") == len(held)


def test_either_can_be_left_out(telltale):
    for belief, win in ((True, False), (False, True), (False, False)):
        board, comm = board_at(MY_TURN, show_belief=belief, show_win_probability=win)
        comm.click(kind="shown")
        state = comm.states[-1]
        assert (state["belief"] is not None, state["win"] is not None, bool(state["wins"])) == (belief, win, win)
        assert (state["showsBelief"], state["showsWin"]) == (belief, win)
        assert (board.win_estimate is not None) == (belief or win) and (board.look() is None) == (not (belief or win))


def test_values_that_are_no_probabilities_are_not_shown(telltale, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("unojax.games.session.Session.warm", lambda self: None)
    for discount, penalty, shown in ((1, 0.0, {"R0", "R2"}), (0.9, 0.0, {"R0", "R2"}), (1, 0.01, set())):
        rules = replace(RULES, step_penalty=penalty)
        start = make_state("R0 R2", "Y0 Y2", "R3", rules=rules)
        adviser = f"mc:discount={discount}"
        board, comm = make(
            lambda rules=rules, start=start, adviser=adviser: Board("uniform", rules=rules, start=start, adviser=adviser)
        )
        board.show_hint()
        hint = comm.states[-1]["hint"]
        assert hint["card"] in ("R0", "R2") and set(hint["wins"]) == shown


def test_hints(telltale):
    board, comm = board_at("R0,R2,W,Y1/Y0,Y2,YS/-/* R3 0 0 0 - *")
    comm.click(kind="hint")
    hint = comm.states[-1]["hint"]
    assert set(hint["wins"]) == {"R0", "R2", "W"} and all(0 < win < 1 for win in hint["wins"].values())
    assert hint["card"] in hint["wins"] and (hint["color"] is None) == (hint["card"] != "W")
    # The page waits for an answer, and Jupyter sends only changes.
    before = comm.states
    comm.click(kind="hint")
    assert len(comm.states) == len(before) + 1 and comm.states[-1]["hint"] == hint and comm.states[-1] != before[-1]
    board.play("R0")
    assert all(state["hint"] == {} for state in comm.states if state["turn"] > 0)
    for hand, hint in (("R0,Y1", {"card": "R0", "color": None, "wins": {}}), ("Y1", {})):
        board, comm = board_at(f"{hand}/Y0,Y2,YS/-/* R3 0 0 0 - *")
        board.show_hint()
        assert comm.states[-1]["hint"] == hint
    # A draw at will is a choice with a probability of its own, and may be the one advised.
    advised, official = set(), Rules.official(deck=RULES.deck, hand_size=3)
    for seed in range(6):
        start = parse_position("R0,R2,Y1/Y0,Y2,YS/-/* R3 0 0 0 - *", rules=official)
        board, comm = make(lambda seed=seed, start=start: Board(**(QUIET | {"rules": None}), seed=seed, start=start))
        board.show_hint()
        hint = comm.states[-1]["hint"]
        assert set(hint["wins"]) == {"R0", "R2", "draw"} and hint["color"] is None
        advised.add(hint["card"])
    assert "draw" in advised and len(advised) > 1

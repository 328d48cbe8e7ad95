"""The board without a browser: a page gets the person's view only, and clicks play."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.helpers import assert_trees_equal, refusals
from tests.telltale import TellTale
from tests.widget.pages import MY_TURN, QUIET, RULES, Comm, board_at, make
from unojax import Rules, cards, make_state, parse_position
from unojax.agents import RESIGN
from unojax.board import page
from unojax.decks import parse_deck
from unojax.games.choices import legal_actions
from unojax.games.gamefile import parse_game, read_game
from unojax.games.session import Session
from unojax.specs import parse_agent
from unojax.text import format_action, format_cards
from unojax.viz.words import card_words
from unojax.widget import Board

SEEDS = range(6)
# The longest first: Wild is in Wild+4.
CARD_WORDS = "|".join(sorted((re.escape(card_words(t)) for t in range(cards.NUM_TYPES)), key=len, reverse=True))


def clicks_of(state: dict) -> list[dict]:
    """Return every click that the page offers."""
    plays = [
        {"kind": "play", "card": held["card"], "color": color}
        for held in state["hand"]
        if held["playable"]
        for color in (cards.COLOR_NAMES if held["wild"] else [None])
    ]
    return plays + [{"kind": "draw"}] * state["canDraw"] + [{"kind": other["kind"]} for other in state["others"]]


def play_by_clicks(seed: int, rules: Rules = RULES) -> tuple[Board, Comm]:
    """Play a game by random clicks, in seat 0 and 1 by turns."""
    board, comm = make(lambda: Board(**(QUIET | {"rules": rules}), seat=seed % 2, seed=seed))
    random = np.random.default_rng(seed)
    while not board.is_over:
        clicks, state = clicks_of(comm.states[-1]), comm.states[-1]
        # The page offers what is legal, and nothing else.
        assert sorted({page.read_click(click) for click in clicks}) == np.flatnonzero(board.legal_mask).tolist()
        assert state["isForced"] == (board.legal_mask.sum() == 1)
        assert state["canDraw"] == (board.legal_mask[cards.DRAW] and not board.observation.has_drawn)
        click = clicks[random.integers(len(clicks))]
        comm.click(**click)
        assert board.record.actions[state["turn"]].partition("(")[0] == format_action(page.read_click(click))
    return board, comm


@pytest.fixture(autouse=True)
def quick_advisor(monkeypatch) -> None:
    """Replace the advisor, which would compile."""
    monkeypatch.setattr("unojax.board.game.Advisor", TellTale)


@pytest.fixture(scope="module")
def games() -> list[tuple[Board, Comm]]:
    return [play_by_clicks(seed) for seed in SEEDS]


def test_games_by_clicks_are_recorded_and_nothing_is_revealed_before_their_end(games, tmp_path):
    won = set()
    for seed, (board, comm) in zip(SEEDS, games, strict=True):
        (*before, last), end = comm.states, board.record.replay().end
        assert not comm.notices and [state["turn"] for state in comm.states if state["turn"]][-1] == len(board.record.actions)
        winner = int(end.winner)
        won.add(last["won"])
        assert last["won"] == (None if winner < 0 else winner == seed % 2) and last["toMove"] is None
        assert ("drawn" if winner < 0 else "You win" if last["won"] else "The opponent wins") in last["says"]
        assert len(last["moves"]) == len(board.record.actions) + 1
        players = ("person", "uniform") if seed % 2 == 0 else ("uniform", "person")
        assert (board.record.players, board.record.seed) == (players, seed)
        board.save(tmp_path / "game.json")
        assert read_game(tmp_path / "game.json") == board.record == parse_game(last["record"])
        assert " ".join(last["opponent"]["hand"]) == format_cards(end.hands[1 - seed % 2])
        assert last["opened"] == [card_words(cards.TYPE_NAMES.index(name)) for name in last["opponent"]["hand"]]
        for state in before:
            assert state["opponent"]["hand"] is state["opened"] is state["record"] is None and state["toMove"]
    assert won >= {True, False}, "the games of these seeds are meant to be won by either side"


def test_states_show_the_positions_of_the_record_as_the_person_sees_them(games):
    """The person's drawn cards are marked as new and named in the moves; the opponent's are not."""
    kinds, num_new = Counter(), 0
    for seed, (board, comm) in zip(SEEDS, games, strict=True):
        me, replay = seed % 2, board.record.replay()
        seen, by_turn = replay.observations(me), {state["turn"]: state for state in comm.states}
        assert sorted(by_turn) == list(range(len(seen)))
        for turn, view in enumerate(seen):
            state = by_turn[turn]
            assert " ".join(held["card"] for held in state["hand"]) == format_cards(view.hand)
            assert state["top"]["card"] == cards.TYPE_NAMES[cards.card_type(int(view.color), int(view.top_rank))]
            assert state["color"] == cards.COLOR_NAMES[int(view.color)]
            counts = state["deck"], state["pile"], state["opponent"]["count"], state["penalty"]
            assert counts == (int(view.deck_count), int(view.pile.sum()), int(view.opponent_count), int(view.penalty))
            is_over, is_mine = turn == len(seen) - 1, int(view.current_player) == me
            assert state["toMove"] == (None if is_over else "you" if is_mine else "opponent")
            legal = {format_action(a).partition(":")[0] for a in np.flatnonzero(legal_actions(view))} if is_mine else set()
            legal = set() if is_over else legal
            assert {held["card"] for held in state["hand"] if held["playable"]} == legal - {"draw"}
            assert state["canDraw"] == ("draw" in legal)
            kinds[state["toMove"], state["canDraw"]] += 1
        moves = comm.states[-1]["moves"][1:]
        for turn, (step, move) in enumerate(zip(replay.steps, moves, strict=True), start=1):
            drawn = step.drawn.split() if step.is_draw and step.mover == me else []
            new = [held["card"] for held in by_turn[turn]["hand"] if held["isNew"]]
            assert set(new) == set(drawn)
            num_new += len(new)
            if step.is_draw:
                named = {card_words(cards.TYPE_NAMES.index(name)) for name in drawn}
                assert set(re.findall(CARD_WORDS, move["words"])) == named and "draw" in move["words"]
    assert min(kinds[key] for key in [("you", True), ("you", False), ("opponent", False), (None, False)]) > 3 and num_new > 5


@pytest.mark.slow
def test_every_choice_of_other_rules_can_be_clicked():
    """Draws at will, passes and challenges."""
    rules = Rules.official(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=2,wilds=2"), hand_size=4, stacking=True)
    said = set()
    for seed in range(6):
        _, comm = play_by_clicks(seed, rules)
        said |= {state["says"] for state in comm.states}
        assert not comm.notices
        for state in comm.states:
            assert [other["words"] for other in state["others"]] in ([], ["pass"], ["challenge"])
    assert said >= {
        "Your turn: play a card, or draw one.",
        "Play the card that you drew, or pass.",
        "You can't play: click the deck to draw.",
        "Draw 4 and lose the turn: click the deck, or challenge.",
        "Draw 2 and lose the turn: click the deck, or play a card on it.",
        "You must draw 2 and lose the turn: click the deck.",
    }


def test_clicks_that_are_no_play_are_explained_and_late_or_odd_ones_ignored():
    penalty = "R0,R2/Y0,Y2/Y1/* R+2 0 2 1 R+2 *"
    for position, click, words in [
        (MY_TURN, ("play", "Y1"), "Yellow 1 does not match red 3."),
        (MY_TURN, ("play", "Y3"), "You don't hold yellow 3."),
        (MY_TURN, ("play", "W"), "color must be one of red, yellow, blue, green for a wild card, got None"),
        (MY_TURN, ("play", "W", "pink"), "color must be one of red, yellow, blue, green for a wild card, got 'pink'"),
        (MY_TURN, ("play", "<b>"), "card must be the name of a card, got '<b>'"),
        (MY_TURN, ("play", None), "card must be the name of a card, got None"),
        (MY_TURN, ("draw",), "You can play, so you must."),
        (MY_TURN, ("challenge",), "There is no Wild+4 to challenge."),
        (penalty, ("play", "R0"), "You must draw 2 cards: click the deck."),
        ("Y0,Y2/R0,R2/Y1/* R+2 0 0 1 R+2 *", ("play", "Y0"), "Yellow 0 does not match red +2. Click the deck to draw."),
    ]:
        board, comm = board_at(position)
        comm.click(**dict(zip(("kind", "card", "color"), click, strict=False)))
        assert comm.notices == [words] and len(comm.states) == 1 and not board.record.actions
    board, comm = board_at(MY_TURN)
    sent = len(comm.sent)
    for content in ({"kind": "play", "card": "R0", "turn": 1}, {"kind": "draw", "game": 0}, {"kind": "hint", "turn": None}, {}):
        comm.click(**content)
    for content in (None, "play", [], {"kind": ["play"]}, {"card": "R0"}):
        comm.receive({"method": "custom", "content": content})
    assert len(comm.sent) == sent and not board.record.actions
    comm.click(kind="play", card="R0")
    number = len(board.record.actions)
    comm.click(kind="play", card="R2", turn=0)
    assert number >= 1 and len(board.record.actions) == number


def test_the_page_says_what_the_rules_of_the_game_allow():
    """A penalty that must be answered is not drawn, and after an unplayable draw the next draw is no pass."""
    house = Rules.house(deck=RULES.deck, hand_size=3)
    start = parse_position("R1,Y+2/Y0,Y2/-/* R+2 0 2 1 R+2 *", rules=house)
    passing = [{"kind": "draw", "words": "pass"}]
    no_penalty = start.replace(penalty=np.int8(0))
    for position, others, can_draw, says, refused in (
        (start, [], False, "You must play a card on the penalty of 2.", "Only another +2 can be played on the penalty."),
        (
            no_penalty.replace(color=np.int8(2), top_rank=np.int8(7), drawn=np.int8(1)),
            [],
            True,
            "You can't play: click the deck to draw.",
            "You continue drawing until a card can be played. Click the deck to draw.",
        ),
        (
            no_penalty.replace(drawn=np.int8(cards.TYPE_NAMES.index("Y+2"))),
            passing,
            False,
            "Play the card that you drew, or pass.",
            "Only yellow +2, just drawn, can be played.",
        ),
    ):
        session = Session(parse_agent("uniform", rules=RULES), seat=0, seed=0, rules=house, start=position)
        state = page.board_state(session)
        assert (state["others"], state["canDraw"], state["says"]) == (others, can_draw, says)
        assert page.refusal(session, 1) == refused


def test_an_opponent_that_resigns_has_lost_and_an_error_is_reported(monkeypatch):
    board, comm = board_at(MY_TURN)
    monkeypatch.setattr(Session, "reply", lambda session: RESIGN)
    monkeypatch.setattr(Session, "faults", ["died: 1"])
    comm.click(kind="play", card="R0")
    state = comm.states[-1]
    assert board.is_over and state["won"] and state["says"] == "The opponent gives up after 1 turn: you win."
    assert state["moves"][-1]["words"] == "The opponent gives up: died: 1." and not comm.notices
    assert board.record.result == "*" and board.record.actions == ("R0",)
    comm.click(kind="back")
    assert not board.is_over and comm.states[-1]["toMove"] == "you"
    monkeypatch.setattr(Board, "show_hint", lambda self: 1 / 0)
    comm.click(kind="hint")
    assert comm.notices == ["This went wrong in Python: division by zero"]


def test_play_in_python():
    board, comm = board_at(MY_TURN)
    start = board.record.start
    refusals({"seed must be in": lambda: board.new_game(-1)})
    assert board.record.start == start and board.record.seed == 0
    board.play("W:Y")
    assert board.record.actions[0] == "W:Y" and comm.states[1]["color"] == "yellow"
    refusals({f"action ({bad})": lambda bad=bad: board.play(bad) for bad in (61, -1, True)})
    refusals({"ed 3": lambda: board.play("R3"), "five": lambda: board.play("five")})
    while not board.is_over:
        board.play(int(np.flatnonzero(board.legal_mask)[0]))
    assert not board.legal_mask.any()
    refusals({"The game is over": lambda: board.play("draw"), "The game is over (a hint)": board.show_hint})


def test_new_games_and_their_seeds(games):
    board, comm = board_at(MY_TURN)
    comm.click(kind="new")
    assert board.record.start.split()[4] == "0" and comm.states[-1]["game"] == 2 and comm.states[-1]["turn"] in (0, 1)
    starts = []
    for seed in (7, 7, 8):
        board.new_game(seed)
        starts.append(board.record.start)
        assert board.record.seed == seed
    assert starts[0] == starts[1] != starts[2]
    first, second = (make(lambda: Board(**QUIET))[0].record.seed for _ in range(2))
    assert first != second, "fails with a probability of 2^-32"
    # The same seed and clicks give the same game.
    board, comm = play_by_clicks(1)
    assert board.record == games[1][0].record and comm.states == games[1][1].states
    assert_trees_equal(board.observation, games[1][0].observation)


def test_rules_come_from_the_start_or_by_name():
    board, _ = make(lambda: Board("uniform", start=parse_position(MY_TURN, rules=RULES), show_belief=False))
    assert board.record.rules == RULES
    board.new_game(0)
    assert board.record.rules == RULES and board.observation.hand.sum() == 3
    assert Board("uniform", rules="official", show_belief=False).record.rules == Rules.official()


def test_faces_clicks_and_a_picture_without_widgets():
    drawn = page.faces()
    assert set(drawn) == {*cards.TYPE_NAMES, *cards.COLOR_NAMES, "back"} and len(set(drawn.values())) == 59
    # They are shown as image files.
    assert {ElementTree.fromstring(svg).tag for svg in drawn.values()} == {"{http://www.w3.org/2000/svg}svg"}
    for action in range(cards.DRAW):
        card, color = page.card_and_color(action)
        assert page.read_click({"kind": "play", "card": card, "color": color}) == action
    assert [page.read_click({"kind": kind}) for kind in ("draw", "challenge")] == [cards.DRAW, cards.CHALLENGE]
    board, comm = board_at(MY_TURN)
    assert comm.sent[0]["state"]["faces"] == drawn
    data, _ = board._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    picture = data["image/svg+xml"]
    assert all(f'data-card="{name}"' in picture for name in "R0 R2 Y1 W W+4 R3".split())
    assert not any(f'data-card="{name}"' in picture for name in "Y0 Y2".split())


def test_refusals(monkeypatch):
    # The advisor itself refuses the truth.
    monkeypatch.undo()
    other = make_state("R0", "Y0", "R3", rules=replace(RULES, hand_size=2))
    bad = [("seat", 2), ("seat", True), ("seed", -1), ("seed", 1.5), ("theme", "blue"), ("pace", -0.1)]
    bad += [("adviser", "linear"), ("adviser", "tree")]
    refusals({f"{name} ({value})": lambda name=name, value=value: Board(**(QUIET | {name: value})) for name, value in bad})
    refusals(
        {
            "hand_size=3": lambda: Board(**QUIET, start=other),
            "'nobody'": lambda: Board(**(QUIET | {"opponent": "nobody"})),
            "what the person knows": lambda: Board(**QUIET, adviser="mc:belief=truth"),
        }
    )
    for name in [name for name in sys.modules if name.startswith("unojax.widget")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'unojax\[notebook\]'"):
        import unojax.widget  # noqa: F401 the import is the test

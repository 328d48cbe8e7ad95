"""The board without a browser: a page is told what the person may know, and clicks play."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.helpers import assert_trees_equal
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

AGENT = parse_agent("uniform", rules=RULES)
SEEDS = range(6)

PENALTY = "R0,R2/Y0,Y2/Y1/* R+2 0 2 1 R+2 *"


def click_somewhere(comm: Comm, random: np.random.Generator) -> None:
    state = comm.states[-1]
    playable = [held for held in state["hand"] if held["playable"]]
    if not playable:
        comm.click(kind="draw")
        return
    held = playable[random.integers(len(playable))]
    color = cards.COLOR_NAMES[random.integers(2)] if held["wild"] else None
    comm.click(kind="play", card=held["card"], color=color)


@pytest.fixture(scope="module")
def games() -> list[tuple[Board, Comm]]:
    """Whole games by clicks; the person sits at seat 0 and 1 by turns."""
    played = []
    for seed in SEEDS:
        board, comm = make(lambda seed=seed: Board(**QUIET, seat=seed % 2, seed=seed))
        random = np.random.default_rng(seed)
        for _ in range(500):
            if not board.is_over:
                click_somewhere(comm, random)
        played.append((board, comm))
    return played


def test_games_by_clicks_come_to_their_end(games):
    won = set()
    for seed, (board, comm) in zip(SEEDS, games, strict=True):
        assert board.is_over and not comm.notices
        last, end = comm.states[-1], board.record.replay().end
        won.add(last["won"])
        winner = int(end.winner)
        assert last["won"] == (None if winner < 0 else winner == seed % 2) and last["toMove"] is None
        words = "drawn" if winner < 0 else "You win" if last["won"] else "The opponent wins"
        assert words in last["says"]
        assert [state["turn"] for state in comm.states if state["turn"]][-1] == len(board.record.actions)
        assert len(last["moves"]) == len(board.record.actions) + 1
    assert won >= {True, False}, "the games of these seeds are meant to be won by either side"


def test_states_say_what_the_person_sees(games):
    """Every position of every game, against the positions of its record."""
    kinds = Counter()
    for seed, (board, comm) in zip(SEEDS, games, strict=True):
        me, replay = seed % 2, board.record.replay()
        seen = replay.observations(me)
        by_turn = {state["turn"]: state for state in comm.states}
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
    assert min(kinds[key] for key in [("you", True), ("you", False), ("opponent", False), (None, False)]) > 3


@pytest.mark.slow
def test_every_choice_of_other_rules_can_be_clicked():
    """Draws at will, passes and challenges: what the page offers is what is legal, and is played."""
    kinds = Counter()
    deck = parse_deck("colors=2,ranks=0-3+S++2,copies=2,wilds=2")
    rules = Rules.official(deck=deck, hand_size=4, stacking=True)
    for seed in range(6):
        random = np.random.default_rng(seed)
        board, comm = make(lambda seed=seed: Board(**(QUIET | {"rules": rules}), seat=seed % 2, seed=seed))
        for _ in range(300):
            if board.is_over:
                break
            state, view = comm.states[-1], board.observation
            legal = np.flatnonzero(board.legal_mask).tolist()
            clicks = [
                {"kind": "play", "card": held["card"], "color": color if held["wild"] else None}
                for held in state["hand"]
                if held["playable"]
                for color in (cards.COLOR_NAMES if held["wild"] else [None])
            ]
            clicks += [{"kind": "draw"}] * state["canDraw"] + [{"kind": other["kind"]} for other in state["others"]]
            assert sorted({page.read_click(click) for click in clicks}) == legal
            assert state["isForced"] == (len(legal) == 1)
            assert state["canDraw"] == (cards.DRAW in legal and not view.has_drawn)
            others = [other["words"] for other in state["others"]]
            assert others == ["pass"] * bool(view.has_drawn) + ["challenge"] * (cards.CHALLENGE in legal)
            click = clicks[random.integers(len(clicks))]
            comm.click(**click)
            assert board.record.actions[state["turn"]].partition("(")[0] == format_action(page.read_click(click))
            kinds[state["says"]] += 1
        assert not comm.notices
    said = {
        "Your turn: play a card, or draw one.",
        "Play the card that you drew, or pass.",
        "You can't play: click the deck to draw.",
        "Draw 4 and lose the turn: click the deck, or challenge.",
        "Draw 2 and lose the turn: click the deck, or play a card on it.",
        "You must draw 2 and lose the turn: click the deck.",
    }
    assert said <= kinds.keys()


def test_drawn_cards_are_new_in_the_hand(games):
    number = 0
    for seed, (board, comm) in zip(SEEDS, games, strict=True):
        by_turn = {state["turn"]: state for state in comm.states}
        for turn, step in enumerate(board.record.replay().steps, start=1):
            new = {held["card"] for held in by_turn[turn]["hand"] if held["isNew"]}
            assert new == (set(step.drawn.split()) if step.is_draw and step.mover == seed % 2 else set())
            number += len(new)
    assert number > 5


def test_the_record_replays_and_is_saved(games, tmp_path):
    for seed, (board, comm) in zip(SEEDS, games, strict=True):
        players = ("person", "uniform") if seed % 2 == 0 else ("uniform", "person")
        assert (board.record.players, board.record.seed) == (players, seed)
        board.save(tmp_path / "game.json")
        saved = read_game(tmp_path / "game.json")
        assert saved == board.record == parse_game(comm.states[-1]["record"])
        hand = saved.replay().end.hands[1 - seed % 2]
        assert " ".join(comm.states[-1]["opponent"]["hand"]) == format_cards(hand)


def test_nothing_is_laid_open_before_the_end(games):
    for _, comm in games:
        before, last = comm.states[:-1], comm.states[-1]
        assert last["opponent"]["hand"] is not None and last["record"]
        assert last["opened"] == [card_words(cards.TYPE_NAMES.index(name)) for name in last["opponent"]["hand"]]
        for state in before:
            assert state["opponent"]["hand"] is None and state["opened"] is None and state["record"] is None
            assert state["toMove"] is not None


def test_clicks_that_can_be_no_play_are_answered():
    board, comm = board_at(MY_TURN)
    before = len(comm.states)
    for content, words in {
        ("play", "Y1", None): "Yellow 1 does not go on red 3.",
        ("play", "Y3", None): "You don't hold yellow 3.",
        ("play", "W", None): "color must be one of red, yellow, blue, green for a wild card, got None",
        ("play", "W", "pink"): "color must be one of red, yellow, blue, green for a wild card, got 'pink'",
        ("play", "<b>", None): "card must be the name of a card, got '<b>'",
        ("play", None, None): "card must be the name of a card, got None",
        ("draw", None, None): "You can play, so you must.",
        ("challenge", None, None): "There is no Wild+4 to challenge.",
    }.items():
        kind, card, color = content
        comm.click(kind=kind, card=card, color=color)
        assert comm.notices[-1] == words
    assert len(comm.states) == before and not board.record.actions
    board, comm = board_at(PENALTY)
    comm.click(kind="play", card="R0")
    assert comm.notices == ["You must draw 2 cards: click the deck."]
    board, comm = board_at("Y0,Y2/R0,R2/Y1/* R+2 0 0 1 R+2 *")
    comm.click(kind="play", card="Y0")
    assert comm.notices == ["Yellow 0 does not go on red +2. Click the deck to draw."]


def test_what_is_said_is_true_under_the_rules_of_the_game():
    """A penalty that must be answered is not drawn, and after a draw that fits nothing the next draw is no pass."""
    house = Rules.house(deck=RULES.deck, hand_size=3)
    start = parse_position("R1,Y+2/Y0,Y2/-/* R+2 0 2 1 R+2 *", rules=house)
    for changes, others, can_draw, says, refused in (
        ({}, [], False, "You must play a card on the penalty of 2.", "Only another +2 can be played on the penalty."),
        (
            {"penalty": np.int8(0), "color": np.int8(2), "top_rank": np.int8(7), "drawn": np.int8(1)},
            [],
            True,
            "You can't play: click the deck to draw.",
            "You go on drawing until a card can be played. Click the deck to draw.",
        ),
        (
            {"penalty": np.int8(0), "drawn": np.int8(cards.TYPE_NAMES.index("Y+2"))},
            [{"kind": "draw", "words": "pass"}],
            False,
            "Play the card that you drew, or pass.",
            "Only yellow +2, just drawn, can be played.",
        ),
    ):
        session = Session(AGENT, seat=0, seed=0, rules=house, start=start.replace(**changes))
        state = page.board_state(session, "uniform")
        assert (state["others"], state["canDraw"], state["says"]) == (others, can_draw, says)
        assert page.refusal(session, 1) == refused


def test_an_opponent_that_gives_up_has_lost(monkeypatch):
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


def test_late_clicks_and_nonsense_do_nothing():
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


def test_what_goes_wrong_is_told_and_raised(monkeypatch):
    board, comm = board_at(MY_TURN)
    start = board.record.start
    with pytest.raises(ValueError, match="seed must be in"):
        board.new_game(-1)
    assert board.record.start == start and board.record.seed == 0
    monkeypatch.setattr(Board, "show_hint", lambda self: 1 / 0)
    comm.click(kind="hint")
    assert comm.notices == ["This went wrong in Python: division by zero"]


def test_play_in_python():
    board, comm = board_at(MY_TURN)
    board.play("W:Y")
    assert board.record.actions[0] == "W:Y" and comm.states[1]["color"] == "yellow"
    for action, words in {
        "R3": "R3|red 3",
        61: r"action must be in \[0, 60\] or its text, got 61",
        -1: r"action must be in \[0, 60\]",
        True: r"action must be in \[0, 60\]",
        "five": "five",
    }.items():
        with pytest.raises(ValueError, match=words):
            board.play(action)
    while not board.is_over:
        board.play(int(np.flatnonzero(board.legal_mask)[0]))
    assert not board.legal_mask.any()
    with pytest.raises(ValueError, match="The game is over"):
        board.play("draw")
    with pytest.raises(ValueError, match="The game is over"):
        board.show_hint()


def test_new_games():
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


def test_the_same_seed_gives_the_same_game(games):
    board, comm = make(lambda: Board(**QUIET, seat=1, seed=1))
    random = np.random.default_rng(1)
    while not board.is_over:
        click_somewhere(comm, random)
    assert board.record == games[1][0].record and comm.states == games[1][1].states
    assert_trees_equal(board.observation, games[1][0].observation)


def test_a_position_brings_its_rules():
    board, _ = make(lambda: Board("uniform", start=parse_position(MY_TURN, rules=RULES), show_belief=False))
    assert board.record.rules == RULES
    board.new_game(0)
    assert board.record.rules == RULES and board.observation.hand.sum() == 3


def test_rules_have_names():
    assert Board("uniform", rules="official", show_belief=False).record.rules == Rules.official()


def test_every_card_has_a_face():
    drawn = page.faces()
    assert set(drawn) == {*cards.TYPE_NAMES, *cards.COLOR_NAMES, "back"} and len(set(drawn.values())) == 59
    # They are shown as image files.
    assert {ElementTree.fromstring(svg).tag for svg in drawn.values()} == {"{http://www.w3.org/2000/svg}svg"}
    _, comm = board_at(MY_TURN)
    assert comm.sent[0]["state"]["faces"] == drawn


def test_clicks_name_every_action():
    for action in range(cards.DRAW):
        card, color = page.card_and_color(action)
        assert page.read_click({"kind": "play", "card": card, "color": color}) == action
    assert page.read_click({"kind": "draw"}) == cards.DRAW
    assert page.read_click({"kind": "challenge"}) == cards.CHALLENGE


def test_documents_that_can_show_no_widget_show_a_picture():
    board, _ = board_at(MY_TURN)
    data, _ = board._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    picture = data["image/svg+xml"]
    assert all(f'data-card="{name}"' in picture for name in "R0 R2 Y1 W W+4 R3".split())
    assert not any(f'data-card="{name}"' in picture for name in "Y0 Y2".split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seat": 2}, "seat must be 0 or 1, got 2"),
        ({"seat": True}, "seat must be 0 or 1, got True"),
        ({"seed": -1}, r"seed must be in \[0, 4294967295\] or None, got -1"),
        ({"seed": 1.5}, "seed must be in"),
        ({"start": make_state("R0", "Y0", "R3", rules=replace(RULES, hand_size=2))}, "hand_size=3 instead of 2"),
        ({"opponent": "nobody"}, "no agent is called 'nobody'"),
        ({"adviser": "linear"}, "adviser must be a flat Monte Carlo search, mc, got 'linear'"),
        ({"adviser": "tree"}, "adviser must be a flat Monte Carlo search, mc, got 'tree'"),
        ({"adviser": "mc:belief=truth"}, "what the person knows"),
        ({"theme": "blue"}, "theme must be 'auto', 'light' or 'dark', got 'blue'"),
        ({"pace": -0.1}, r"pace must be in \[0, 10\] seconds, got -0.1"),
    ],
)
def test_bad_arguments(options, words):
    with pytest.raises(ValueError, match=words):
        Board(**(QUIET | options))


def test_without_anywidget_it_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("unojax.widget")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'unojax\[notebook\]'"):
        import unojax.widget  # noqa: F401 the import is the test


def test_cards_of_a_hand_are_not_among_the_hidden(games):
    """The words of the moves name the cards that the person drew, and none that the opponent drew."""
    # The longest first: Wild is in Wild+4.
    names = sorted((re.escape(card_words(t)) for t in range(cards.NUM_TYPES)), key=len, reverse=True)
    for seed, (board, comm) in zip(SEEDS, games, strict=True):
        for step, move in zip(board.record.replay().steps, comm.states[-1]["moves"][1:], strict=True):
            if step.is_draw:
                named = re.findall("|".join(names), move["words"])
                drawn = {card_words(cards.TYPE_NAMES.index(name)) for name in step.drawn.split()}
                assert set(named) == (drawn if step.mover == seed % 2 else set()) and "draw" in move["words"]

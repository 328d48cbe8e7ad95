"""The conversation of `unojax play`: whole games with a scripted person, what is shown, what is saved."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from tests.cli.by_script import (
    AGENT,
    KNOWN_HAND,
    MY_TURN,
    RULES,
    SEARCH,
    SEEDS,
    end_of_input,
    interrupt,
    lines,
    session_from,
    someone,
    talk,
)
from tests.helpers import assert_trees_equal
from unojax import Rules, cards, parse_position
from unojax.agents import RESIGN
from unojax.games.advisor import Advice, Advisor, Thought
from unojax.games.gamefile import read_game
from unojax.games.session import OpponentError, Session
from unojax.search.agents import monte_carlo
from unojax.search.monte_carlo import Estimate
from unojax.specs import as_agent
from unojax.terminal import conversation as play_loop
from unojax.terminal import game as play_view
from unojax.terminal.answers import Options
from unojax.terminal.conversation import Conversation, Record
from unojax.text import format_action, format_cards, parse_action

KEY = jax.random.key(0)


def test_games_come_to_their_end(games):
    winners = set()
    for session, text, _ in games:
        assert session.is_over
        winner = session.winner
        winners.add(winner == session.seat if winner >= 0 else None)
        said = "The game is drawn" if winner < 0 else "You win" if winner == session.seat else "uniform wins"
        assert f"{said} after {len(session.steps)} turn" in text
        num_replies = sum(step.mover != session.seat for step in session.steps)
        assert len(re.findall("^uniform (plays|draws|can't draw)", text, re.MULTILINE)) == num_replies
    assert winners >= {True, False}, "the games of these seeds are meant to be won by either side"


def test_transcripts_fit_a_terminal(games):
    for _, text, path in games:
        rows = text.splitlines()
        assert all(len(row) <= 80 or str(path) in row for row in rows)
        assert all(row == row.rstrip() for row in rows)


def test_records_replay_to_the_same_end(games):
    for session, _, path in games:
        saved = read_game(path)
        assert saved.rules == RULES
        again = saved.replay()
        assert [step.action for step in again.steps] == [step.action for step in session.steps]
        for mine, theirs in zip(session.replay().states, again.states, strict=True):
            assert_trees_equal(jax.device_get(mine), jax.device_get(theirs))


def test_all_that_happens_is_said(games):
    """Plays of both by name; the cards that the person drew by name, and of the others how many."""
    draws = {True: 0, False: 0}
    for session, text, _ in games:
        said = [row for row in text.splitlines() if re.match(r"(You|uniform) (play|draw|can't draw)", row)]
        assert len(said) == len(session.steps)
        for words, step in zip(said, session.steps, strict=True):
            mine = step.mover == session.seat
            assert words.startswith("You" if mine else "uniform")
            if not step.is_draw:
                card = cards.TYPE_NAMES[int(cards.type_of(*divmod(step.action, cards.NUM_RANKS)))]
                assert re.match(rf"(You play|uniform plays) {re.escape(card)}\b|{re.escape(card)}[ .,]", words)
            elif step.drawn:
                draws[mine] += 1
                number = len(step.drawn.split())
                assert (step.drawn.replace(" ", ", ") if mine else "a card" if number == 1 else f"{number} cards") in words
    assert min(draws.values()) > 5


def test_the_same_seed_and_moves_give_the_same_game(games):
    _, text, path = games[0]
    again = Session(AGENT, seat=0, seed=SEEDS[0], rules=RULES)
    assert talk(again, someone(SEEDS[0]), record=Record(path, ("person", "uniform"), SEEDS[0])) == (0, text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # The opponent draws two for the +2, from another deck and with another hand; then it is the person's turn.
        ("R0,R2/Y0,Y2,Y3/-/* R+2 1 2 1 R+2 *", "R0,R2/Y1,YS,W/-/* R+2 1 2 1 R+2 *"),
        # The opponent can't play, and draws one.
        ("R0,R2/Y0,Y2/-/* R3 1 0 1 R3 *", "R0,R2/Y1,YS/-/* R3 1 0 1 R3 *"),
        (MY_TURN, MY_TURN.replace("Y0,Y2", "RS,Y3")),
    ],
)
def test_what_is_hidden_changes_nothing_that_is_shown(one: str, other: str):
    """The same words to the letter, advice included, whatever the opponent holds and draws."""
    shown = []
    for position in (one, other):
        session = session_from(position)
        shown.append(talk(session, lines("?", "p", "h"), advisor=Advisor(SEARCH, KEY))[1])
        hidden = format_cards(session.replay().end.hands[1])
    assert shown[0] == shown[1]
    assert "Advice: " in shown[0] or "nothing to choose" in shown[0]
    assert hidden


def test_numbers_stand_under_their_cards_on_a_narrow_terminal():
    session = session_from(MY_TURN)
    options = Options.of(session.view, session.legal)
    for width, per_row in ((80, 5), (30, 3), (10, 1)):
        rows = [row.plain for row in play_view.hand_rows(session.view, options, width=width)]
        assert all(len(row) <= max(width, 20) for row in rows)
        under = {}
        for above, below in pairwise(rows):
            if re.fullmatch(r"[ \d]+", below):
                under |= {number.group(): above[number.start() - 1 :].split()[0] for number in re.finditer(r"\d+", below)}
        assert [under[str(number)] for number in range(1, 5)] == ["R0", "R2", "W", "W+4"]
        assert max(len(re.findall(r"\S+", row.removeprefix("your hand"))) for row in rows) == per_row


# NotImplementedError is what an agent that is not finished yet raises, here for the one that is played against.
@pytest.mark.parametrize("kind", [AttributeError, NotImplementedError, RuntimeError])
def test_an_opponent_that_fails_is_named_and_the_game_is_saved(tmp_path: Path, kind: type[Exception]):
    def careless(key, observation, legal_mask):
        raise kind("no such field")

    path, start = tmp_path / "game.json", parse_position(KNOWN_HAND.replace("R3 0", "R3 1"), rules=RULES)
    session = Session(as_agent(careless, rules=RULES), seat=0, seed=0, rules=RULES, start=start)
    with pytest.raises(OpponentError, match=f"careless failed: {kind.__name__}: no such field"):
        talk(session, lines(), record=Record(path, ("person", "careless"), 0))
    assert read_game(path).result == "*"


def test_advice_knows_what_can_be_known(monkeypatch):
    session = session_from(KNOWN_HAND)
    advisor = Advisor(SEARCH, KEY)
    start = session.view
    told = advisor.advise([start])
    legal = [parse_action("R0"), parse_action("R2")]
    assert told.thought is not None
    assert np.flatnonzero(told.thought.tried).tolist() == legal
    assert int(told.thought.advised) in legal
    held = np.flatnonzero(np.asarray(told.belief.prob_holds) > 1e-6)
    assert [cards.TYPE_NAMES[t] for t in held] == ["R1", "W"]
    text = play_view.advice(told, session.view).plain
    assert re.search(r"R1 +█+ +100", text)
    assert "No card to play on this top: 0." in text
    assert "red 0, yellow 100" in text
    win = {name: float(share) for name, share in re.findall(r"[* ](R[02]) +[█▏▎▍▌▋▊▉]* +([\d.]+) \(", text)}
    for name, share in win.items():
        assert share == pytest.approx(50 * (1 + float(told.thought.estimate.value[parse_action(name)])), abs=0.06)
    assert len(win) == 2
    assert f"Advice: {format_action(int(told.thought.advised))}. " in text
    assert f"\n*{format_action(int(told.thought.advised))} " in text
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert play_view.advice(told, session.view).plain.isascii()
    # It goes on from where it was.
    session.play(legal[0])
    later = advisor.advise([start, session.view])
    assert later.thought is None
    assert np.flatnonzero(np.asarray(later.belief.prob_holds) > 1e-6).tolist() == held.tolist()


def test_draws_and_challenges_are_advised_as_plays_are():
    """They have no card, and so no colour; after a draw the draw is a pass."""
    view = session_from(KNOWN_HAND).view
    actions = [parse_action("R0"), cards.DRAW, cards.CHALLENGE]
    tried = np.isin(np.arange(cards.CHALLENGE + 1), actions)
    values, zeros = np.linspace(0, 0.61, len(tried)), np.zeros(len(tried))
    estimate = jax.tree.map(
        jnp.asarray, Estimate(values, zeros, zeros, zeros, np.full(len(tried), 8), np.int32(0), (1 + values) / 2, zeros)
    )
    thought = Thought(estimate, jnp.asarray(tried), jnp.int32(cards.DRAW))
    belief: Any = SimpleNamespace(prob_holds=np.zeros(54), prob_color=np.zeros(4), prob_no_playable=np.float32(0))
    told = Advice(belief, thought)
    for has_drawn, name in ((False, "draw"), (True, "pass")):
        rows = play_view.advice(told, replace(view, has_drawn=np.bool_(has_drawn))).plain.splitlines()
        assert rows[0].startswith(f"Advice: {name}. ") and rows[1].startswith(f"*{name} ")
        assert "challenge " in rows[2] and len(rows[2]) <= 80


def test_returns_under_a_step_penalty_are_no_win_probabilities():
    session = session_from(KNOWN_HAND)
    told = Advisor(SEARCH, KEY).advise([session.view])
    assert told.thought is not None
    penalized = replace(session.view, rules=replace(RULES, step_penalty=0.125))
    text = play_view.advice(told, penalized).plain
    assert ". Mean return (standard error), 32 games of each play:" in text
    for action in (parse_action("R0"), parse_action("R2")):
        value, error = told.thought.estimate.value[action], told.thought.estimate.value_error[action]
        assert f" {value:+.3f} ({error:.3f})" in text


def test_the_help_says_when_a_rule_of_thumb_gives_way():
    assert monte_carlo(rules=RULES).keep == 0.25
    assert "a quarter of a standard error" in " ".join(play_view.help_text(RULES).plain.split())


def test_the_help_is_about_the_rules_of_the_game():
    """What can be typed there, and what is played."""
    for rules, keys, words in (
        (Rules(), set(), "must play one. A player who holds none draws one card, and the turn passes"),
        (Rules.official(), {"d", "p", "c"}, "may play one, or draw if there is a card to draw"),
        (Rules.house(), {"p"}, "continues drawing until a card comes that is playable"),
        (Rules(skip_forfeits=False), set(), "Skip or Reverse has no effect"),
    ):
        text = play_view.help_text(rules).plain
        assert set(re.findall("^([dpc])  ", text, re.MULTILINE)) == keys
        assert words in " ".join(text.split())
        assert all(len(row) <= 80 for row in text.splitlines())


def test_bad_input_is_answered_in_one_line_and_asked_again():
    session = session_from(MY_TURN)
    _, text = talk(session, lines("nonsense", "Y1", "W", "purple", "", "3", "h", "b"))
    assert [step.action for step in session.steps][:1] == [parse_action("W:B")]
    for says in ("'nonsense' is not clear", "Y1 does not go on R3", "'purple' is no colour", "W:B      play a wild card"):
        assert text.count(says) == 1
    assert "You play W and declare blue." in text


@pytest.mark.parametrize(("read", "status"), [(end_of_input, 0), (lines("q"), 0), (interrupt, 130)])
def test_leaving_saves_the_game(tmp_path: Path, read: Callable[[str], str], status: int):
    typed = iter(["R0", None])

    def read_once_before(prompt: str) -> str:
        return next(typed) or "" if "play" in prompt and not session.steps else read(prompt)

    session, path = session_from(MY_TURN), tmp_path / "game.json"
    found, text = talk(session, read_once_before, record=Record(path, ("person", "uniform"), 0), auto_draw=False)
    assert found == status
    assert len(session.steps) > 0
    assert f"Stopped: the game is unfinished after {len(session.steps)} turns." in text
    assert f"Saved in {path}: unojax play --resume goes on with it.\n" in text
    saved = read_game(path)
    assert (saved.result, len(saved.actions)) == ("*", len(session.steps))
    assert_trees_equal(jax.device_get(saved.replay().end), jax.device_get(session.replay().end))


def test_a_choice_is_taken_back_in_the_game_and_in_its_file(tmp_path: Path):
    session, path = session_from(MY_TURN), tmp_path / "game.json"
    _, text = talk(session, lines("u", "R0", "", "", "undo", "q"), record=Record(path, ("person", "uniform"), 0))
    assert "There is nothing to take back." in text
    taken = re.search(r"^(\d+) actions? taken back\.$", text, re.MULTILINE)
    assert taken is not None and int(taken[1]) >= 1
    assert len(read_game(path).actions) == len(session.steps)


def test_after_the_end_a_choice_is_taken_back_or_another_game_played():
    start = parse_position("R0/Y0,Y2/-/* R3 0 0 0 - *", rules=RULES)
    session = Session(AGENT, seat=0, seed=0, rules=RULES, start=start)
    conversation = Conversation(
        session,
        "uniform",
        read=lines("1", "what", "u", "1", "r"),
        console=Console(file=(out := io.StringIO()), width=80),
        offers_rematch=True,
    )
    assert conversation.run() == 0
    assert conversation.wants_rematch
    text = out.getvalue()
    assert text.count("You win after 1 turn.") == 2
    assert "'what' is not clear" in text and "1 action taken back." in text


def test_an_opponent_that_gives_up_has_lost(monkeypatch, tmp_path: Path):
    session, path = session_from(MY_TURN), tmp_path / "game.json"
    monkeypatch.setattr(session, "reply", lambda: RESIGN)
    monkeypatch.setattr(Session, "faults", ["died: 1"])
    status, text = talk(session, lines("R0", "u", "R2"), record=Record(path, ("person", "uniform"), 0), offers_rematch=True)
    assert status == 0 and session.is_over and session.winner == session.seat
    assert text.count("uniform gives up after 1 turn: you win.\nIts fault: died: 1\n") == 2
    assert text.count("1 action taken back.") == 1
    # The file has what was played.
    assert f"Saved in {path}: unojax play --resume goes on with it.\n" in text
    assert (read_game(path).actions, read_game(path).result) == (("R2",), "*")


def test_interrupted_while_the_opponent_thinks(monkeypatch, tmp_path: Path):
    session = session_from(MY_TURN)
    monkeypatch.setattr(session, "reply", lambda: interrupt(""))
    status, _ = talk(session, lines("R0"), record=Record(tmp_path / "game.json", ("person", "uniform"), 0))
    assert status == 130
    assert read_game(tmp_path / "game.json").actions == ("R0",)


def test_a_full_disk_does_not_end_the_game(monkeypatch, tmp_path: Path):
    def fail(path: object, game: object) -> None:
        raise OSError(28, "No space left on device")

    def read(prompt: str) -> str:
        monkeypatch.setattr(play_loop, "write_game", fail)
        return someone(0)(prompt) if not session.steps else end_of_input(prompt)

    session = session_from(MY_TURN)
    status, text = talk(session, read, record=Record(tmp_path / "game.json", ("person", "uniform"), 0))
    assert status == 0
    assert session.steps
    assert text.endswith(f"could not be saved in {tmp_path / 'game.json'}: No space left on device.\n")


def test_forced_draws_need_no_enter_if_so_wished():
    prompts = []

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return end_of_input(prompt)

    for auto_draw in (False, True):
        session = session_from("Y0,Y2/R0,R2/-/* R+2 0 2 1 R+2 *")
        _, text = talk(session, read, auto_draw=auto_draw)
        assert "You must draw 2 cards and lose the turn." in text
        assert bool(session.steps) == auto_draw
    assert prompts[0] == "Enter draws> "


def test_a_long_hand_is_wrapped():
    view = session_from("R0,R1,R2,RS,R+2,Y0,Y1,Y2,YS,Y+2,W,W+4/Y3/-/0 R3 0 0 0 - *").view
    rows = [row.plain for row in play_view.hand_rows(view)]
    assert len(rows) == 2
    assert all(len(row) <= 80 for row in rows)
    assert " ".join(rows).split()[2:] == format_cards(view.hand).split()


def test_colors_are_beside_the_letters(games):
    session = session_from(MY_TURN)
    shown = {}
    for no_color in (False, True):
        console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", no_color=no_color, width=80)
        with console.capture() as capture:
            console.print(play_view.position(session.view, "uniform", 1, Options.of(session.view, session.legal)))
        shown[no_color] = capture.get()
    plain = [re.sub(r"\x1b\[[\d;]*m", "", text) for text in shown.values()]
    assert plain[0] == plain[1]
    color = re.compile(r"\x1b\[(?:\d+;)*[34][0-7]\b")
    assert color.search(shown[False])
    assert not color.search(shown[True])
    assert re.search(r"your hand +R0 +R2 +Y1 +W +W\+4 *\n +1 +2 +3 +4$", plain[0].strip())

"""The conversation of `unojax play`: whole games with a scripted person, their text and files."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from itertools import pairwise
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
from unojax.games.advisor import Advisor, Thought
from unojax.games.gamefile import read_game
from unojax.games.session import OpponentError, Session
from unojax.search.agents import monte_carlo
from unojax.search.monte_carlo import Estimate
from unojax.specs import as_agent
from unojax.terminal import conversation as play_loop
from unojax.terminal import game as play_view
from unojax.terminal.answers import Options
from unojax.text import format_action, format_cards, parse_action

KEY = jax.random.key(0)


def test_games_are_described_to_their_end_and_replay(games):
    """All plays and the person's draws are named; of the opponent's draws the number is shown."""
    winners, draws = set(), {True: 0, False: 0}
    for session, text, path in games:
        rows = text.splitlines()
        assert all((len(row) <= 80 or str(path) in row) and row == row.rstrip() for row in rows)
        winner = session.winner
        winners.add(winner == session.seat if winner >= 0 else None)
        result = "The game is drawn" if winner < 0 else "You win" if winner == session.seat else "uniform wins"
        assert session.is_over and f"{result} after {len(session.steps)} turn" in text
        said = [row for row in rows if re.match(r"(You|uniform) (play|draw|can't draw)", row)]
        assert len(said) == len(session.steps)
        for words, step in zip(said, session.steps, strict=True):
            mine = step.mover == session.seat
            assert words.startswith("You" if mine else "uniform")
            if not step.is_draw:
                card = re.escape(cards.TYPE_NAMES[int(cards.type_of(*divmod(step.action, cards.NUM_RANKS)))])
                assert re.match(rf"(You play|uniform plays) {card}\b|{card}[ .,]", words)
            elif step.drawn:
                draws[mine] += 1
                number = len(step.drawn.split())
                assert (step.drawn.replace(" ", ", ") if mine else "a card" if number == 1 else f"{number} cards") in words
        saved = read_game(path)
        assert saved.rules == RULES
        for mine, theirs in zip(session.replay().states, saved.replay().states, strict=True):
            assert_trees_equal(jax.device_get(mine), jax.device_get(theirs))
    assert winners >= {True, False} and min(draws.values()) > 5, "the games of these seeds are meant to show all this"
    _, text, path = games[0]
    again = Session(AGENT, seat=0, seed=SEEDS[0], rules=RULES)
    assert talk(again, someone(SEEDS[0]), path=path) == (0, text)


def test_hidden_cards_change_nothing_that_is_shown():
    """The words, advice included, do not depend on the opponent's cards."""
    for one, other in (
        # The opponent draws two for the +2, from another deck and with another hand; then it is the person's turn.
        ("R0,R2/Y0,Y2,Y3/-/* R+2 1 2 1 R+2 *", "R0,R2/Y1,YS,W/-/* R+2 1 2 1 R+2 *"),
        # The opponent can't play, and draws one.
        ("R0,R2/Y0,Y2/-/* R3 1 0 1 R3 *", "R0,R2/Y1,YS/-/* R3 1 0 1 R3 *"),
        (MY_TURN, MY_TURN.replace("Y0,Y2", "RS,Y3")),
    ):
        shown = [talk(session_from(start), lines("?", "p", "h"), advisor=Advisor(SEARCH, KEY))[1] for start in (one, other)]
        assert shown[0] == shown[1]
        assert "Advice: " in shown[0] or "nothing to choose" in shown[0]


def test_advice_shows_the_belief_and_the_search(monkeypatch):
    session, advisor = session_from(KNOWN_HAND), Advisor(SEARCH, KEY)
    start = session.view
    looked, thought = advisor.look([start]), advisor.advise([start])
    legal = [parse_action("R0"), parse_action("R2")]
    assert thought is not None and np.flatnonzero(thought.tried).tolist() == legal and int(thought.advised) in legal
    held = np.flatnonzero(np.asarray(looked.belief.prob_holds) > 1e-6)
    assert [cards.TYPE_NAMES[t] for t in held] == ["R1", "W"]
    text, best = play_view.advice(looked, thought, start).plain, format_action(int(thought.advised))
    assert re.search(r"R1 +█+ +100", text) and "No card to play on this top: 0." in text and "red 0, yellow 100" in text
    win = {name: float(share) for name, share in re.findall(r"[* ](R[02]) +[█▏▎▍▌▋▊▉]* +([\d.]+) \(", text)}
    values, errors = np.asarray(thought.estimate.value), np.asarray(thought.estimate.value_error)
    assert win == {name: pytest.approx(50 * (1 + float(values[parse_action(name)])), abs=0.06) for name in ("R0", "R2")}
    assert f"Advice: {best}. " in text and f"\n*{best} " in text
    narrow = play_view.advice(looked, thought, start, width=60).plain
    assert max(len(row) for row in narrow.splitlines() if "█" in row) <= 60 and sorted(narrow.split()) == sorted(text.split())
    # Returns under a step penalty are no win probabilities.
    penalized = play_view.advice(looked, thought, replace(start, rules=replace(RULES, step_penalty=0.125))).plain
    assert ". Mean return (standard error), 32 games of each play:" in penalized
    assert all(f" {values[action]:+.3f} ({errors[action]:.3f})" in penalized for action in legal)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
        assert play_view.advice(looked, thought, start).plain.isascii()
    # The belief continues from there.
    session.play(legal[0])
    views = [start, session.view]
    assert advisor.advise(views) is None
    assert np.flatnonzero(np.asarray(advisor.look(views).belief.prob_holds) > 1e-6).tolist() == held.tolist()


def test_draws_and_challenges_are_advised_as_plays_are():
    """They have no card, hence no colour; after a draw, draw means pass."""
    view = session_from(KNOWN_HAND).view
    tried = np.isin(np.arange(cards.CHALLENGE + 1), [parse_action("R0"), cards.DRAW, cards.CHALLENGE])
    values, zeros = np.linspace(0, 0.61, len(tried)), np.zeros(len(tried))
    estimate = Estimate(values, zeros, zeros, zeros, np.full(len(tried), 8), np.int32(0), (1 + values) / 2, zeros)
    thought = Thought(jax.tree.map(jnp.asarray, estimate), jnp.asarray(tried), jnp.int32(cards.DRAW))
    belief = SimpleNamespace(prob_holds=np.zeros(54), prob_color=np.zeros(4), prob_no_playable=np.float32(0))
    looked: Any = SimpleNamespace(belief=belief, types={})
    for has_drawn, name in ((False, "draw"), (True, "pass")):
        drawn = replace(view, has_drawn=np.bool_(has_drawn))
        rows = play_view.advice(looked, thought, drawn).plain.splitlines()
        assert rows[0].startswith(f"Advice: {name}. ") and rows[1].startswith(f"*{name} ")
        assert "challenge " in rows[2] and len(rows[2]) <= 80


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
    view = session_from("R0,R1,R2,RS,R+2,Y0,Y1,Y2,YS,Y+2,W,W+4/Y3/-/0 R3 0 0 0 - *").view
    rows = [row.plain for row in play_view.hand_rows(view)]
    assert len(rows) == 2 and all(len(row) <= 80 for row in rows)
    assert " ".join(rows).split()[2:] == format_cards(view.hand).split()


def test_colors_only_repeat_the_letters():
    session, shown = session_from(MY_TURN), {}
    for no_color in (False, True):
        console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", no_color=no_color, width=80)
        with console.capture() as capture:
            console.print(play_view.position(session.view, "uniform", 1, Options.of(session.view, session.legal)))
        shown[no_color] = capture.get()
    plain = [re.sub(r"\x1b\[[\d;]*m", "", text) for text in shown.values()]
    color = re.compile(r"\x1b\[(?:\d+;)*[34][0-7]\b")
    assert plain[0] == plain[1] and color.search(shown[False]) and not color.search(shown[True])
    assert re.search(r"your hand +R0 +R2 +Y1 +W +W\+4 *\n +1 +2 +3 +4$", plain[0].strip())


def test_the_help_is_about_the_rules_of_the_game():
    for rules, keys, words in (
        (Rules(), set(), "must play one. A player who holds none draws one card, and the turn passes"),
        (Rules.official(), {"d", "p", "c"}, "may play one, or draw if there is a card to draw"),
        (Rules.house(), {"p"}, "continues drawing until a card comes that is playable"),
        (Rules(skip_forfeits=False), set(), "Skip or Reverse has no effect"),
    ):
        text = play_view.help_text(rules).plain
        assert set(re.findall("^([dpc])  ", text, re.MULTILINE)) == keys
        assert words in " ".join(text.split()) and all(len(row) <= 80 for row in text.splitlines())
        narrow = play_view.help_text(rules, width=60).plain
        assert narrow.split() == text.split() and max(map(len, narrow.splitlines())) <= 60
    assert monte_carlo(rules=RULES).keep == 0.25
    assert "a quarter of a standard error" in " ".join(play_view.help_text(RULES).plain.split())


def test_bad_input_is_answered_in_one_line_and_asked_again():
    session = session_from(MY_TURN)
    _, text = talk(session, lines("nonsense", "Y1", "W", "purple", "", "3", "h", "b"))
    assert [step.action for step in session.steps][:1] == [parse_action("W:B")]
    for says in ("'nonsense' is not clear", "Y1 does not match R3", "'purple' is no colour", "play a wild card and make blue"):
        assert text.count(says) == 1
    assert "You play W and declare blue." in text


def test_leaving_saves_the_game(tmp_path):
    """By the end of the input, by a word, and by Ctrl-C."""
    for read, status in ((end_of_input, 0), (lines("q"), 0), (interrupt, 130)):
        typed = iter(["R0", None])
        session, path = session_from(MY_TURN), tmp_path / "game.json"

        def read_once_before(prompt: str, read=read, typed=typed, session=session) -> str:
            return next(typed) or "" if "play" in prompt and not session.steps else read(prompt)

        found, text = talk(session, read_once_before, path=path, auto_draw=False)
        assert found == status and len(session.steps) > 0
        assert f"Stopped: the game is unfinished after {len(session.steps)} turns." in text
        assert f"Saved in {path}: unojax play --resume continues it.\n" in text
        saved = read_game(path)
        assert (saved.result, len(saved.actions)) == ("*", len(session.steps))
        assert_trees_equal(jax.device_get(saved.replay().end), jax.device_get(session.replay().end))


def test_a_choice_is_taken_back_in_the_game_and_in_its_file(tmp_path):
    session, path = session_from(MY_TURN), tmp_path / "game.json"
    _, text = talk(session, lines("u", "R0", "", "", "undo", "q"), path=path)
    taken = re.search(r"^(\d+) actions? taken back\.$", text, re.MULTILINE)
    assert "There is nothing to take back." in text and taken is not None and int(taken[1]) >= 1
    assert len(read_game(path).actions) == len(session.steps)


def test_after_the_end_a_choice_is_taken_back_or_another_game_played():
    session = session_from("R0/Y0,Y2/-/* R3 0 0 0 - *")
    console = Console(file=(out := io.StringIO()), width=80)
    read = lines("1", "what", "u", "1", "r")
    conversation = play_loop.Conversation(session, read=read, console=console, offers_rematch=True)
    assert conversation.run() == 0 and conversation.wants_rematch
    text = out.getvalue()
    assert text.count("You win after 1 turn.") == 2 and "'what' is not clear" in text and "1 action taken back." in text


def test_opponents_that_give_up_fail_or_are_interrupted(monkeypatch, tmp_path):
    session, path = session_from(MY_TURN), tmp_path / "game.json"
    with monkeypatch.context() as patch:
        patch.setattr(session, "reply", lambda: RESIGN)
        patch.setattr(Session, "faults", ["died: 1"])
        status, text = talk(session, lines("R0", "u", "R2"), path=path, offers_rematch=True)
    assert status == 0 and session.is_over and session.winner == session.seat
    assert text.count("uniform gives up after 1 turn: you win.\nIts fault: died: 1\n") == 2
    assert text.count("1 action taken back.") == 1
    # The file has what was played.
    assert f"Saved in {path}: unojax play --resume continues it.\n" in text
    assert (read_game(path).actions, read_game(path).result) == (("R2",), "*")

    session = session_from(MY_TURN)
    with monkeypatch.context() as patch:
        patch.setattr(session, "reply", lambda: interrupt(""))
        assert talk(session, lines("R0"), path=path)[0] == 130
    assert read_game(path).actions == ("R0",)

    # NotImplementedError comes from an opponent that is not finished yet.
    start = parse_position(KNOWN_HAND.replace("R3 0", "R3 1"), rules=RULES)
    for kind in (AttributeError, NotImplementedError, RuntimeError):

        def careless(key, observation, legal_mask, kind=kind):
            raise kind("no such field")

        path = tmp_path / f"{kind.__name__}.json"
        session = Session(as_agent(careless, rules=RULES), seat=0, seed=0, rules=RULES, start=start)
        with pytest.raises(OpponentError, match=f"careless failed: {kind.__name__}: no such field"):
            talk(session, lines(), path=path)
        assert read_game(path).result == "*"


def test_a_full_disk_does_not_end_the_game(monkeypatch, tmp_path):
    def fail(path: object, game: object) -> None:
        raise OSError(28, "No space left on device")

    def read(prompt: str) -> str:
        monkeypatch.setattr(play_loop, "write_game", fail)
        return someone(0)(prompt) if not session.steps else end_of_input(prompt)

    session = session_from(MY_TURN)
    status, text = talk(session, read, path=tmp_path / "game.json")
    assert status == 0 and session.steps
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

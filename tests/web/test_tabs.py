"""Games of browser tabs: the effects of a page's messages, and saved games."""

from __future__ import annotations

import errno
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import refusals
from tests.web.serving import DEFAULTS, SMALL, Tab
from unojax.games.gamefile import GameFile, parse_game
from unojax.games.session import Session
from unojax.rules import Rules
from unojax.specs import parse_agent
from unojax.web.games import read_rules


@pytest.fixture
def tab(tmp_path: Path) -> Tab:
    """Return a tab with a game in which the person has moved."""
    tab = Tab(tmp_path, DEFAULTS)
    tab.send(kind="hello")
    tab.play_first()
    assert tab.state["toMove"] == "you" and len(tab.state["hand"]) < 8
    return tab


def fail(*_: Any) -> None:
    raise RuntimeError("RESOURCE_EXHAUSTED: out of memory\nreport")


def waiting_game() -> str:
    """Return the file of a game in which the opponent begins."""
    replay = Session(parse_agent("uniform"), seat=1, seed=5, rules=Rules()).replay()
    return GameFile.of(replay, players=("uniform", "person"), seed=5).to_json()


def test_another_server_continues_the_game_of_the_tab_and_no_other(tab: Tab):
    again = Tab(tab.path.parent, replace(DEFAULTS, seed=99), tab.name)
    again.send(kind="hello")
    assert again.state["moves"] == tab.state["moves"] and again.record == tab.record == tab.path.read_text()
    saved = parse_game(again.record)
    assert len(saved.actions) > 0 and saved.seed == 3
    other = Tab(tab.path.parent, replace(DEFAULTS, seed=99))
    other.send(kind="hello")
    assert other.state["turn"] == 0 and parse_game(other.record).seed == 99


def test_a_move_is_taken_back_and_a_saved_game_loaded(tmp_path: Path):
    tab = Tab(tmp_path, DEFAULTS)
    tab.send(kind="hello")
    tab.click("back")
    assert "nothing to take back" in tab.notices[-1]
    tab.play_first()
    played, saved = tab.state, tab.record
    tab.click("back")
    assert (tab.state["turn"], tab.state["canTakeBack"]) == (0, False)
    tab.send(kind="load", text=saved)
    assert tab.state["moves"] == played["moves"] and tab.state["game"] == played["game"] + 1


def test_a_game_that_can_not_continue_is_set_aside_and_replaces_no_other_file(tmp_path: Path):
    """The notice comes last, because a page shows it until the next position."""
    name = str(uuid.uuid4())
    for text, aside in (("{}", f"{name}.kept.json"), ("3", f"{name}.kept2.json")):
        tab = Tab(tmp_path, DEFAULTS, name)
        tab.path.write_text(text)
        tab.send(kind="hello")
        assert [message["kind"] for message in tab.sent[-2:]] == ["state", "custom"]
        assert tab.notices[-1].startswith("The last game can't continue, so this is another one: ")
        assert tab.notices[-1].endswith(f"Its file is now {str(tmp_path / aside)!r}.") and (tmp_path / aside).read_text() == text
    assert (tmp_path / f"{name}.kept.json").read_text() == "{}" and parse_game(tab.path.read_text()).seed == 3


def test_a_kept_game_whose_opponent_fails_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tab, kept = Tab(tmp_path, DEFAULTS), waiting_game()
    tab.path.write_text(kept)
    monkeypatch.setattr(Session, "reply", fail)
    tab.send(kind="hello")
    assert tab.notices[-1].startswith(
        "The last game can't continue, so this is another one: RESOURCE_EXHAUSTED: out of memory. Its"
    )
    assert (tmp_path / f"{tab.name}.kept.json").read_text() == kept and tab.state["toMove"] == "you"


def test_an_opponent_that_fails_at_once_costs_no_game(tab: Tab, monkeypatch: pytest.MonkeyPatch):
    """File and page return to the last game, and a click continues it."""
    for message in ({"kind": "deal", "choices": SMALL | {"seat": "1"}}, {"kind": "load", "text": waiting_game()}):
        kept, before, sent = tab.path.read_text(), tab.state, len(tab.states)
        with monkeypatch.context() as patch:
            patch.setattr(Session, "reply", fail)
            with pytest.raises(RuntimeError):
                tab.send(**message)
        assert {state["game"] for state in tab.states[sent:]} == {before["game"], before["game"] + 1}
        assert tab.path.read_text() == kept and tab.state == before
    tab.click("back")
    assert tab.state["turn"] == 0
    tab.send(**message)
    assert tab.state["game"] == before["game"] + 1 and parse_game(tab.path.read_text()).players == ("uniform", "person")


def test_an_unfinished_game_is_set_aside_for_another(tab: Tab):
    """A game in which the person has not moved is replaced."""
    folder, played = tab.path.parent, tab.path.read_text()
    aside = folder / f"{tab.name}.kept.json"
    for deal in (lambda: tab.click("new"), lambda: tab.send(kind="deal", choices=SMALL)):
        deal()
        assert aside.read_text() == played and parse_game(played).actions and not parse_game(tab.path.read_text()).actions
        assert tab.sent[-1]["content"]["text"] == f"The game before is unfinished: loading {str(aside)!r} continues it."
        tab.send(kind="load", text=aside.read_text())
        assert tab.state["turn"] == len(parse_game(played).actions) and tab.path.read_text() == played
        assert sorted(folder.iterdir()) == sorted([tab.path, aside])
        aside.unlink()


def test_a_move_to_which_the_opponent_fails_can_be_taken_back(tab: Tab, monkeypatch: pytest.MonkeyPatch):
    tab.click("back")
    assert (tab.state["turn"], tab.state["isStuck"]) == (0, False)
    with monkeypatch.context() as patch:
        patch.setattr(Session, "reply", fail)
        with pytest.raises(RuntimeError):
            tab.play_first()
    state = tab.state
    assert (state["turn"], state["toMove"], state["canTakeBack"], state["isStuck"]) == (1, "opponent", True, True)
    tab.click("back")
    assert (tab.state["turn"], tab.state["toMove"], tab.state["isStuck"]) == (0, "you", False)


def test_a_game_stays_if_no_other_can_be_dealt_or_it_can_not_be_set_aside(tab: Tab, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    played = tab.path.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "memory", property(fail))
        with pytest.raises(RuntimeError):
            tab.click("new")
    assert [(path.name, path.read_text()) for path in tab.path.parent.iterdir()] == [(tab.path.name, played)]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        refusals({"can't be put aside (Permission denied)": lambda: tab.send(kind="deal", choices=SMALL)})
    assert tab.path.read_text() == played


def test_a_full_disk_is_reported_after_the_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("unojax.web.tabs.write_game", full)
    tab = Tab(tmp_path, DEFAULTS)
    tab.send(kind="hello")
    assert [message["kind"] for message in tab.sent[:2]] == ["state", "custom"]
    assert tab.notices[0] == "The game can't be kept: No space left on device."


def test_rules_of_the_form():
    """Fields that the form lacks have their defaults, unless the person set the game's rules."""
    form = {"preset": "fields", "hand_size": "5", "deck": "full"}
    few = replace(Rules(), hand_size=5)
    assert read_rules(form, Rules()) == read_rules(form, Rules.official()) == few
    assert read_rules(form, replace(few, may_draw=True)) == replace(few, may_draw=True)
    assert read_rules({"preset": "official"}, few) == Rules.official()


def test_rules_that_the_default_opponent_does_not_know_are_dealt_with_another(tab: Tab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("unojax.web.games.choose_opponent", lambda _, rules: "uniform" if rules.hand_size == 3 else "value")
    tab.send(kind="deal", choices=SMALL | {"opponent": "value"})
    choices = [message["choices"] for message in tab.sent if message["kind"] == "choices"]
    assert choices[-1]["opponent"] == "uniform" and choices[-1]["hand_size"] == 3
    assert tab.notices[-1] == "value does not know these rules, so uniform plays against you."


def test_refused_messages_change_nothing(tab: Tab):
    before, sent = tab.state, len(tab.sent)

    def deal(**choices: Any):
        return lambda: tab.send(kind="deal", choices=SMALL | choices)

    def load(text: Any):
        return lambda: tab.send(kind="load", text=text)

    refusals(
        {
            "'best'": deal(opponent="best"),
            "called ''": deal(opponent=""),
            "on the command line": deal(opponent="/tmp/my.py:clever"),
            "unojax play --web --opponent 'process:touch ran'": deal(opponent="process:touch ran"),
            "hand_size": deal(hand_size="60"),
            "the number of cards": deal(hand_size="x"),
            "the number of cards (None)": deal(hand_size=None),
            "the deck": deal(deck="half"),
            "the deck (a list)": deal(deck=["full"]),
            "rules": deal(preset="mine"),
            "the rules": deal(preset=3),
            "skip_forfeits": deal(skip_forfeits="yes"),
            "start_card": deal(start_card=1),
            "the seed": deal(seed="-1"),
            "the seed (too large)": deal(seed="9" * 30),
            "the seat": deal(seat="2"),
            "choices": lambda: tab.send(kind="deal", choices=3),
            "no saved game": load("{}"),
            "no saved game (no JSON)": load("x" * 10_000),
            "no saved game (None)": load(None),
            "UUID": lambda: tab.games.hear("../x", {"kind": "hello"}),
        }
    )
    assert len(tab.sent) == sent
    tab.send(kind="hello")
    assert tab.state == before

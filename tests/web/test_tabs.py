"""Games of browser tabs: what the messages of a page do, and what is kept of a game."""

from __future__ import annotations

import errno
import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.web.serving import DEFAULTS, Page, ask, serve, with_cookie
from unojax.games.gamefile import GameFile, parse_game
from unojax.games.session import Session
from unojax.rules import Rules
from unojax.specs import parse_agent
from unojax.web.games import Games, read_rules
from unojax.web.server import Server

SMALL = {"deck": "numbers", "hand_size": "3", "seed": "5", "opponent": "uniform", "seat": "0"}


def test_two_tabs_are_two_games_and_a_tab_finds_its_own_again(server: Server):
    with Page(server) as one, Page(server) as other:
        for page in (one, other):
            page.say(kind="hello")
            page.hear("state")
        one.say(kind="deal", choices=SMALL)
        state = one.hear("state", game=2)["state"]
        assert len(state["hand"]) == 3 and state["turn"] == 0
        other.say(kind="save")
        assert len(parse_game(other.hear("record")["text"]).start.split("/")[0].split(",")) == 7
    with Page(server, one.name) as again:
        again.say(kind="hello")
        assert again.hear("state")["state"] == state


def play_once(page: Page, state: dict[str, Any]) -> None:
    content: dict[str, Any] = {"kind": "draw"}
    if playable := [held for held in state["hand"] if held["playable"]]:
        content = {"kind": "play", "card": playable[0]["card"], "color": "red"}
    page.say(kind="board", content=content | {"game": state["game"], "turn": state["turn"]})


def test_a_stopped_server_goes_on_where_it_was(tmp_path: Path):
    with serve(tmp_path) as server, Page(server) as page:
        page.say(kind="hello")
        page.hear("state")
        page.say(kind="deal", choices=SMALL)
        state = page.hear("state", game=2)["state"]
        play_once(page, state)
        before = page.hear("state", game=2, toMove="you")["state"]
        while before["turn"] == 0:
            before = page.hear("state", game=2)["state"]
        page.say(kind="save")
        saved = parse_game(page.hear("record")["text"])
    with serve(tmp_path, seed=99) as server, Page(server, page.name) as page:
        page.say(kind="hello")
        page.hear("state")
        page.say(kind="save")
        again = parse_game(page.hear("record")["text"])
        assert again == saved and len(again.actions) > 0 and again.seed == 5


def test_a_server_stopped_while_it_works_complains_of_nothing(tmp_path: Path, capfd, caplog):
    held = threading.Event()
    with serve(tmp_path) as server, Page(server) as page:
        server.worker.submit(held.wait)
        page.say(kind="hello")
        while not server.worker._work_queue.qsize():
            time.sleep(0.01)
        # What the page asked for is dropped by then.
        threading.Timer(1, held.set).start()
    assert capfd.readouterr().err == "" and not caplog.records


def test_a_game_that_can_not_go_on_is_put_aside(tmp_path: Path):
    """And over no other one. It is told last, for a page shows a notice until the next position."""
    name = str(uuid.uuid4())
    games = tmp_path / "games"
    with serve(tmp_path) as server, Page(server, name) as page:
        for text, aside in (("{}", f"{name}.kept.json"), ("3", f"{name}.kept2.json")):
            server.games._loaded.clear()
            (games / f"{name}.json").write_text(text)
            page.say(kind="hello")
            *before, last = page.answers()
            assert before[-1]["kind"] == "state" and last["kind"] == "custom"
            assert last["content"]["text"].startswith("The last game can't go on, so this is another one: ")
            assert last["content"]["text"].endswith(f"Its file is now {str(games / aside)!r}.")
            assert (games / aside).read_text() == text
        assert (games / f"{name}.kept.json").read_text() == "{}"
        assert parse_game((games / f"{name}.json").read_text()).seed == 3


def fail(*_: Any) -> None:
    raise RuntimeError("RESOURCE_EXHAUSTED: out of memory\nreport")


@pytest.fixture
def tab(tmp_path: Path) -> tuple[Games, str, list[dict[str, Any]]]:
    """Games without a server, a tab with one in which the person has moved, and what its page gets."""
    sent: list[dict[str, Any]] = []
    games, name = Games(tmp_path, DEFAULTS, lambda _, message: sent.append(message)), str(uuid.uuid4())
    games.hear(name, {"kind": "hello"})
    state = sent[-1]["state"]
    playable = next(held["card"] for held in state["hand"] if held["playable"])
    games.hear(name, {"kind": "board", "content": {"kind": "play", "card": playable, "game": 1, "turn": state["turn"]}})
    assert sent[-1]["state"]["toMove"] == "you"
    return games, name, sent


@pytest.mark.parametrize("kind", ["deal", "load"])
def test_an_opponent_that_fails_at_once_costs_no_game(tab, tmp_path: Path, monkeypatch, kind: str):
    """The file and the page have the last game again, and a click goes on with it."""
    games, name, sent = tab
    path = tmp_path / f"{name}.json"
    kept, before = path.read_text(), sent[-1]["state"]
    message: dict[str, Any] = {"kind": "deal", "choices": SMALL | {"seat": "1"}}
    if kind == "load":
        other = Session(parse_agent("uniform"), seat=1, seed=5, rules=Rules()).replay()
        message = {"kind": "load", "text": GameFile.of(other, players=("uniform", "person"), seed=5).to_json()}
    with monkeypatch.context() as patch:
        patch.setattr(Session, "reply", fail)
        with pytest.raises(RuntimeError):
            games.hear(name, message)
    assert {sent_one["state"]["game"] for sent_one in sent if sent_one["kind"] == "state"} == {1, 2}
    assert path.read_text() == kept and sent[-1]["state"] == before
    games.hear(name, {"kind": "board", "content": {"kind": "back", "game": 1, "turn": before["turn"]}})
    assert sent[-1]["state"]["turn"] == 0
    games.hear(name, message)
    assert sent[-2]["state"]["game"] == 2 and parse_game(path.read_text()).players == ("uniform", "person")


@pytest.mark.parametrize("message", [{"kind": "board", "content": {"kind": "new"}}, {"kind": "deal", "choices": SMALL}])
def test_an_unfinished_game_is_put_aside_for_another(tab, tmp_path: Path, message: dict[str, Any]):
    """And told of last; one in which the person has not moved is no loss."""
    games, name, sent = tab
    path = tmp_path / f"{name}.json"
    played = path.read_text()
    games.hear(name, message)
    aside = tmp_path / f"{name}.kept.json"
    assert aside.read_text() == played and parse_game(played).actions and not parse_game(path.read_text()).actions
    assert sent[-1]["content"]["text"] == f"The game before is unfinished: loading {str(aside)!r} goes on with it."
    games.hear(name, {"kind": "load", "text": aside.read_text()})
    assert sent[-2]["state"]["turn"] == len(parse_game(played).actions) and path.read_text() == played
    assert sorted(tmp_path.iterdir()) == sorted([path, aside])


def test_a_move_to_which_the_opponent_fails_can_be_taken_back(tab, monkeypatch):
    games, name, sent = tab
    games.hear(name, {"kind": "board", "content": {"kind": "back", "game": 1, "turn": sent[-1]["state"]["turn"]}})
    state = sent[-1]["state"]
    assert (state["turn"], state["isStuck"]) == (0, False)
    playable = next(held["card"] for held in state["hand"] if held["playable"])
    with monkeypatch.context() as patch:
        patch.setattr(Session, "reply", fail)
        with pytest.raises(RuntimeError):
            games.hear(name, {"kind": "board", "content": {"kind": "play", "card": playable, "game": 1, "turn": 0}})
    state = next(message["state"] for message in reversed(sent) if message["kind"] == "state")
    assert (state["turn"], state["toMove"], state["canTakeBack"], state["isStuck"]) == (1, "opponent", True, True)
    games.hear(name, {"kind": "board", "content": {"kind": "back", "game": 1, "turn": 1}})
    assert (sent[-1]["state"]["turn"], sent[-1]["state"]["toMove"], sent[-1]["state"]["isStuck"]) == (0, "you", False)


def test_a_kept_game_whose_opponent_fails_is_put_aside(tmp_path: Path, monkeypatch):
    name, sent = str(uuid.uuid4()), []
    path = tmp_path / f"{name}.json"
    waiting = Session(parse_agent("uniform"), seat=1, seed=5, rules=Rules()).replay()
    path.write_text(GameFile.of(waiting, players=("uniform", "person"), seed=5).to_json())
    kept = path.read_text()
    monkeypatch.setattr(Session, "reply", fail)
    Games(tmp_path, DEFAULTS, lambda _, message: sent.append(message)).hear(name, {"kind": "hello"})
    told = sent[-1]["content"]["text"]
    assert told.startswith("The last game can't go on, so this is another one: RESOURCE_EXHAUSTED: out of memory. Its file")
    assert (tmp_path / f"{name}.kept.json").read_text() == kept and sent[-2]["state"]["toMove"] == "you"


def test_a_game_stays_where_no_other_can_be_dealt(tab, tmp_path: Path, monkeypatch):
    games, name, _ = tab
    played = (tmp_path / f"{name}.json").read_text()
    monkeypatch.setattr(Session, "memory", property(fail))
    with pytest.raises(RuntimeError):
        games.hear(name, {"kind": "board", "content": {"kind": "new"}})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(f"{name}.json", played)]


def test_a_game_stays_where_it_can_not_be_put_aside(tab, tmp_path: Path, monkeypatch):
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    games, name, _ = tab
    played = (tmp_path / f"{name}.json").read_text()
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ValueError, match=r"the game before can't be put aside \(Permission denied\), and is not replaced"):
        games.hear(name, {"kind": "deal", "choices": SMALL})
    assert (tmp_path / f"{name}.json").read_text() == played


def test_rules_as_below_are_those_of_the_fields():
    """What the form does not have is as by default, unless the game's rules are some of one's own."""
    form = {"preset": "fields", "hand_size": "5", "deck": "full"}
    few = replace(Rules(), hand_size=5)
    assert read_rules(form, Rules()) == read_rules(form, Rules.official()) == few
    assert read_rules(form, replace(few, may_draw=True)) == replace(few, may_draw=True)
    assert read_rules({"preset": "official"}, few) == Rules.official()


def test_that_a_game_can_not_be_kept_is_told_after_its_position(tmp_path: Path, monkeypatch):
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("unojax.web.games.write_game", full)
    with serve(tmp_path) as server, Page(server) as page:
        page.say(kind="hello")
        state, told, *_ = page.answers()
        assert state["kind"] == "state"
        assert told["content"]["text"] == "The game can't be kept: No space left on device."


def wait_for(done: Callable[[], object]) -> None:
    for _ in range(1000):
        if done():
            return
        time.sleep(0.01)
    raise AssertionError("never true")


def test_pages_are_heard_while_python_thinks(tmp_path: Path, monkeypatch):
    """Those that answer pings stay, and those that leave are let go."""
    monkeypatch.setattr("unojax.web.server._PING_SECONDS", 0.1)
    held = threading.Event()
    with serve(tmp_path) as server, Page(server) as page:
        try:
            server.worker.submit(held.wait)
            page.say(kind="hello")
            with Page(server) as other:
                other.say(kind="hello")
                wait_for(lambda: other.name in server.pages)
            wait_for(lambda: other.name not in server.pages)
            # Several pings.
            time.sleep(0.5)
        finally:
            held.set()
        assert page.hear("state")["state"]["turn"] == 0


def test_the_largest_file_is_answered_and_pages_know_its_size(server: Server):
    largest = json.loads(ask(server, "/settings.json", **with_cookie(server))[1])["maxFile"]
    assert largest == 1_000_000
    with Page(server) as page:
        page.say(kind="hello")
        page.hear("state")
        # Nothing grows more in JSON.
        assert "This is no saved game" in page.told(kind="load", text="\0" * largest)


def test_rules_that_the_usual_opponent_does_not_know_are_dealt_with_another(server: Server, monkeypatch):
    """As in the terminal; a person who has asked for another opponent keeps it."""
    monkeypatch.setattr("unojax.web.games.choose_opponent", lambda _, rules: "uniform" if rules.draw_is_option else "value")
    with Page(server) as page:
        page.say(kind="hello")
        page.hear("state")
        page.say(kind="deal", choices={"preset": "official", "seed": "5", "seat": "0", "opponent": "value"})
        chosen = page.hear("choices")["choices"]
        while chosen["preset"] != "official":
            chosen = page.hear("choices")["choices"]
        assert chosen["opponent"] == "uniform"
        words = "value does not know these rules, so uniform plays against you."
        while page.hear("custom")["content"].get("text") != words:
            pass


def test_saved_games_are_loaded_and_choices_taken_back(server: Server):
    with Page(server) as page:
        page.say(kind="hello")
        page.hear("state")
        page.say(kind="deal", choices=SMALL)
        state = page.hear("state", game=2)["state"]
        assert "nothing to take back" in page.told(kind="board", content={"kind": "back", "game": 2, "turn": 0})
        play_once(page, state)
        while (state := page.hear("state", game=2)["state"])["toMove"] == "opponent" or state["turn"] == 0:
            pass
        page.say(kind="save")
        saved = page.hear("record")["text"]
        page.say(kind="board", content={"kind": "back", "game": 2, "turn": state["turn"]})
        assert page.hear("state", game=2, turn=0)["state"]["canTakeBack"] is False
        page.say(kind="load", text=saved)
        assert page.hear("state", game=3)["state"]["moves"] == state["moves"]


def test_the_record_hides_what_the_person_does_not_know(server: Server):
    with Page(server) as page:
        page.say(kind="hello")
        page.hear("state")
    status, text, headers = ask(server, f"/record?game={page.name}&theme=dark", **with_cookie(server))
    assert status == 200 and "person against uniform" in text
    assert "script-src 'sha256-" in headers["Content-Security-Policy"]
    game = server.games.find(page.name)
    assert all(view.player == 0 for view in game.views) and not game.is_over
    assert ask(server, f"/record?game={uuid.uuid4()}", **with_cookie(server))[0] == 404


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"kind": "deal", "choices": SMALL | {"opponent": "best"}}, "No agent is called 'best'"),
        ({"kind": "deal", "choices": SMALL | {"opponent": ""}}, "No agent is called ''"),
        (
            {"kind": "deal", "choices": SMALL | {"opponent": "/tmp/my.py:clever"}},
            "Start with an agent of your own on the command line",
        ),
        (
            {"kind": "deal", "choices": SMALL | {"opponent": "process:touch ran"}},
            "Start with an agent of your own on the command line: unojax play --web --opponent 'process:touch ran'",
        ),
        ({"kind": "deal", "choices": SMALL | {"hand_size": "60"}}, "Hand_size must be an integer"),
        ({"kind": "deal", "choices": SMALL | {"hand_size": "x"}}, "The number of cards dealt must be a whole number"),
        ({"kind": "deal", "choices": SMALL | {"hand_size": None}}, "The number of cards dealt must be a whole number"),
        ({"kind": "deal", "choices": SMALL | {"deck": "half"}}, "The deck must be one of"),
        ({"kind": "deal", "choices": SMALL | {"preset": "mine"}}, "Rules must be a unojax.Rules or one of default"),
        ({"kind": "deal", "choices": SMALL | {"preset": 3}}, "The rules must be one of default, official"),
        ({"kind": "deal", "choices": SMALL | {"deck": ["full"]}}, "The deck must be one of"),
        ({"kind": "deal", "choices": SMALL | {"skip_forfeits": "yes"}}, "Skip_forfeits must be True or False"),
        ({"kind": "deal", "choices": SMALL | {"start_card": 1}}, "Start_card must be one of"),
        ({"kind": "deal", "choices": SMALL | {"seed": "-1"}}, "The seed must be a whole number"),
        ({"kind": "deal", "choices": SMALL | {"seed": "9" * 30}}, "The seed must be a whole number"),
        ({"kind": "deal", "choices": SMALL | {"seat": "2"}}, "The seat must be 0 or 1"),
        ({"kind": "deal", "choices": 3}, "Choices must be an object"),
        ({"kind": "load", "text": "{}"}, "This is no saved game"),
        ({"kind": "load", "text": "x" * 10_000}, "This is no saved game"),
        ({"kind": "load", "text": None}, "This is no saved game"),
    ],
)
def test_what_can_not_be_is_said_and_changes_nothing(server: Server, message: dict[str, Any], says: str):
    with Page(server, "11111111-2222-3333-4444-555555555555") as page:
        page.say(kind="hello")
        state = page.hear("state")["state"]
        assert says in page.told(**message)
        page.say(kind="hello")
        assert page.hear("state")["state"] == state


NO_MESSAGES = ["", "x", "[]", "3", "null", "[" * 5000, json.dumps({"game": 3}), json.dumps({"game": "../x", "kind": "hello"})]


@pytest.mark.parametrize("text", NO_MESSAGES)
def test_nonsense_is_answered(server: Server, text: str):
    with Page(server) as page:
        page.send(text)
        assert "no message of this page" in (said := page.hear("custom")["content"]["text"]) or "must be a UUID" in said
        page.say(kind="hello")
        assert page.hear("state")["state"]["turn"] >= 0

"""Tables in the browser, without one: what a tab clicks, what it is shown, and that nothing is lost."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.games.test_at_table import AGENT
from tests.games.test_seen import VARIANTS
from unojax.games.gamefile import read_game
from unojax.web.tables import TableDefaults

RULES = VARIANTS["official"]


class Tab:
    """A tab of a browser: it sends clicks about what it was shown last, and keeps what it is told."""

    def __init__(self, folder: Path):
        self.name, self.notices = str(uuid.uuid4()), list[str]()
        self.records = list[str]()
        self.state: dict[str, Any] = {}
        self._tables = TableDefaults(RULES, AGENT["agent"], AGENT["seed"]).games(folder, self._take)
        self.path = folder / f"{self.name}.json"

    def _take(self, name: str, message: dict[str, Any]) -> None:
        assert name == self.name
        # Everything must be JSON.
        json.dumps(message, allow_nan=False)
        if message["kind"] == "state":
            self.state = message["state"]
        elif message["kind"] == "record":
            self.records.append(message["text"])
        else:
            self.notices.append(message["content"]["text"])

    def send(self, **message: Any) -> None:
        self._tables.hear(self.name, message)

    def click(self, kind: str, **content: Any) -> None:
        place = {name: self.state.get(name) for name in ("game", "turn")}
        self.send(kind="board", content={"kind": kind, **place, **content})

    def pick(self, *cards: str, color: str | None = None) -> None:
        for card in cards:
            self.click("play", card=card, color=color)

    def open_cards(self) -> set[str]:
        return {held["card"] for held in self.state["picker"] or [] if held["playable"]}

    @property
    def events(self) -> list[str]:
        return [str(event) for event in read_game(self.path).seen().events]


@pytest.fixture
def tab(tmp_path: Path) -> Tab:
    found = Tab(tmp_path)
    found.send(kind="hello")
    return found


def dealt(tab: Tab, begins: str = "you") -> Tab:
    tab.pick("R1", "RS", "W", "R0")
    tab.click("begins", line=begins)
    return tab


def test_a_deal_by_clicks(tab: Tab):
    assert tab.state["says"] == "Which cards were you dealt? 0 of 3." and "R1" in tab.open_cards()
    tab.pick("R1", "Y1")
    assert "R1" not in tab.open_cards(), "there is one in the deck"
    tab.click("back")
    tab.pick("RS", "W")
    assert tab.state["says"] == "Which card was turned up?"
    tab.pick("R0")
    assert [other["words"] for other in tab.state["others"]] == ["you begin", "they begin"]
    tab.click("begins", line="they")
    assert [held["card"] for held in tab.state["hand"]] == ["R1", "RS", "W"]
    assert tab.state["toMove"] == "opponent" and tab.state["says"].startswith("They are to move. They can play on this with ")
    assert {"R2", "Y0", "W"} <= tab.open_cards() and not {"Y1", "R1"} & tab.open_cards()


def test_a_game_by_clicks(tab: Tab):
    """Plays of both, draws of both, a pass; the advice is marked on one's own turn, and a killed server resumes the game."""
    dealt(tab).pick("R1")
    tab.click("draw")
    assert tab.state["hint"]["card"] in ("RS", "W", "draw") and set(tab.state["hint"]["wins"]) == {"RS", "W", "draw"}
    assert tab.state["belief"]["light"].startswith("<svg") and 0 < tab.state["win"]["now"] < 1
    tab.click("draw")
    assert tab.state["says"] == "Which card did you draw? 0 of 1."
    tab.pick("R3")
    assert [other["words"] for other in tab.state["others"]] == ["pass", "I lost track …"]
    tab.click("enter", line="pass")
    tab.pick("W", color="yellow")
    assert tab.events == ["R1", "draw", "draw(R3)", "pass", "W:Y"]
    assert tab.state["color"] == "yellow" and tab.state["moves"][-1]["words"] == "They play Wild and declare yellow."

    shown = tab.state
    again = Tab(tab.path.parent)
    again.name, again.path = tab.name, tab.path
    again.send(kind="hello")
    assert again.state["moves"] == shown["moves"] and again.state["win"] == shown["win"]
    again.send(kind="save")
    assert again.records[0] == tab.path.read_text()


def test_an_earlier_move_is_corrected(tab: Tab):
    dealt(tab).pick("R1")
    tab.click("draw")
    tab.click("fix", number=2)
    assert tab.state["says"] == "What happened in move 2?" and "R2" in tab.open_cards()
    tab.click("fix", number=2)
    assert tab.state["fixes"] is None
    tab.click("fix", number=2)
    tab.pick("R2")
    assert tab.events == ["R1", "R2"]
    tab.click("enter", line="=5")
    assert tab.state["opponent"]["count"] == 5
    tab.click("back")
    assert tab.events == ["R1", "R2"]


@pytest.mark.parametrize(
    ("click", "says"),
    [
        ({"kind": "play", "card": "R2"}, "You can't play R2: legal here: R1, RS"),
        ({"kind": "play", "card": "X9"}, "Card must be the name of a card, got 'X9'."),
        ({"kind": "play", "card": "W"}, "Action 'W' must declare one of the four colours"),
        ({"kind": "enter", "line": "=999"}, "They can't hold 999 cards"),
        ({"kind": "enter", "line": "=x"}, "Unknown event '=x'"),
        ({"kind": "enter", "line": ""}, ""),
        ({"kind": "fix", "number": 7}, "There is no event 7."),
        ({"kind": "challenge"}, "You can't challenge"),
        ({"kind": "back"}, "There are 0 events to take back, not 1."),
    ],
)
def test_clicks_that_can_not_be(tab: Tab, click: dict[str, Any], says: str):
    before = dealt(tab).state
    tab.click(**click)
    assert "".join(tab.notices).startswith(says)
    assert tab.state["moves"] == before["moves"] and tab.events == []


def test_a_late_click_is_left_alone(tab: Tab):
    state = dealt(tab).state
    tab.pick("R1")
    tab.state = state
    tab.pick("R1")
    assert tab.events == ["R1"] and tab.notices == []


def test_another_deal_and_a_loaded_game(tab: Tab):
    dealt(tab).pick("R1")
    text = tab.path.read_text()
    tab.send(kind="deal")
    assert tab.state["says"].startswith("Which cards were you dealt?")
    tab.send(kind="load", text=text)
    assert tab.events == ["R1"]
    with pytest.raises(ValueError, match="this is no saved game"):
        tab.send(kind="load", text="{")

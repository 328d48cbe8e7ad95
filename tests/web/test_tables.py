"""Tables in the browser: a deal and events by clicks, corrections, saved games."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.belief.games import VARIANTS
from tests.helpers import refusals
from tests.web.serving import TABLES, Tab
from unojax.games.at_table import Table as AtTable
from unojax.games.gamefile import read_game


class Table(Tab):
    """A tab with a table."""

    def pick(self, *cards: str, color: str | None = None) -> None:
        for card in cards:
            self.click("play", card=card, color=color)

    def open_cards(self) -> set[str]:
        return {held["card"] for held in self.state["picker"] or [] if held["playable"]}

    @property
    def events(self) -> list[str]:
        return [str(event) for event in read_game(self.path).seen().events]

    @property
    def others(self) -> list[str]:
        return [other["words"] for other in self.state["others"]]


@pytest.fixture
def tab(tmp_path: Path) -> Table:
    tab = Table(tmp_path, TABLES)
    tab.send(kind="hello")
    return tab


@pytest.fixture
def dealt(tab: Table) -> Table:
    tab.pick("R1", "RS", "W", "R0")
    tab.click("begins", line="you")
    return tab


def test_a_deal_by_clicks(tab: Table):
    assert tab.state["says"] == "Which cards were you dealt? 0 of 3." and "R1" in tab.open_cards()
    tab.pick("R1", "Y1")
    assert "R1" not in tab.open_cards(), "there is one in the deck"
    tab.click("back")
    tab.pick("RS", "W")
    assert tab.state["says"] == "Which card was turned up?"
    tab.pick("R0")
    assert tab.others == ["you begin", "they begin"]
    tab.click("begins", line="they")
    assert [held["card"] for held in tab.state["hand"]] == ["R1", "RS", "W"]
    assert tab.state["toMove"] == "opponent" and tab.state["says"].startswith("They are to move. They can play on this with ")
    assert {"R2", "Y0", "W"} <= tab.open_cards() and not {"Y1", "R1"} & tab.open_cards()


def test_the_cards_that_a_start_card_adds_are_part_of_the_deal(tmp_path: Path):
    """Under RLCard's rules the player who begins on a +2 draws two cards and keeps the turn."""
    tab = Table(tmp_path, replace(TABLES, rules=VARIANTS["rlcard"]))
    tab.send(kind="hello")
    tab.pick("R1", "RS", "W", "Y+2")
    assert tab.others == ["you begin", "they begin"]
    tab.click("begins", line="you")
    assert tab.state["says"] == "Which cards did you draw because of it? 0 of 2." and "Y+2" not in tab.open_cards()
    tab.pick("B3")
    tab.click("back")
    tab.click("back")
    assert tab.state["says"] == "Who moves first, after what that card did?"
    tab.click("begins", line="you")
    tab.pick("B3", "Y1")
    assert [held["card"] for held in tab.state["hand"]] == ["R1", "RS", "Y1", "B3", "W"]
    assert tab.state["toMove"] == "you" and tab.state["opponent"]["count"] == 3


def test_a_game_by_clicks(dealt: Table):
    """Plays and draws of both, a pass, advice; another server continues, another deal replaces the game."""
    tab = dealt
    tab.pick("R1")
    tab.click("draw")
    assert tab.state["hint"]["card"] in ("RS", "W", "draw") and set(tab.state["hint"]["wins"]) == {"RS", "W", "draw"}
    assert tab.state["belief"]["light"].startswith("<svg") and 0 < tab.state["win"]["now"] < 1
    tab.click("draw")
    assert tab.state["says"] == "Which card did you draw? 0 of 1."
    tab.pick("R3")
    assert tab.others == ["pass", "I lost track …"]
    tab.click("enter", line="pass")
    tab.pick("W", color="yellow")
    assert tab.events == ["R1", "draw", "draw(R3)", "pass", "W:Y"]
    assert tab.state["color"] == "yellow" and tab.state["moves"][-1]["words"] == "They play Wild and declare yellow."

    again = Table(tab.path.parent, TABLES, tab.name)
    again.send(kind="hello")
    assert again.state["moves"] == tab.state["moves"] and again.state["win"] == tab.state["win"]
    text = again.record
    assert text == tab.path.read_text()
    again.send(kind="deal")
    assert again.state["says"].startswith("Which cards were you dealt?")
    again.send(kind="load", text=text)
    assert again.events == tab.events
    refusals({"no saved game": lambda: again.send(kind="load", text="{")})


def test_an_earlier_move_is_corrected_and_a_late_click_ignored(dealt: Table):
    tab, early = dealt, {name: dealt.state[name] for name in ("game", "turn")}
    tab.pick("R1")
    tab.click("play", card="R1", **early)
    assert tab.events == ["R1"] and tab.notices == []
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


def test_refused_clicks_are_explained_and_change_nothing(dealt: Table):
    for click, says in [
        ({"kind": "play", "card": "R2"}, "You can't play R2: legal here: R1, RS"),
        ({"kind": "play", "card": "X9"}, "Card must be the name of a card, got 'X9'."),
        ({"kind": "play", "card": "W"}, "Action 'W' must declare one of the four colours"),
        ({"kind": "enter", "line": "=999"}, "They can't hold 999 cards"),
        ({"kind": "enter", "line": "=x"}, "Unknown event '=x'"),
        ({"kind": "enter", "line": ""}, ""),
        ({"kind": "fix", "number": 7}, "There is no event 7."),
        ({"kind": "challenge"}, "You can't challenge"),
        ({"kind": "back"}, "There are 0 events to take back, not 1."),
    ]:
        before, number = dealt.state, len(dealt.notices)
        dealt.click(**click)
        assert "".join(dealt.notices[number:]).startswith(says), click
        assert dealt.state["moves"] == before["moves"] and dealt.events == []


def test_a_table_that_can_not_continue_is_set_aside(tmp_path: Path):
    tab = Table(tmp_path, TABLES)
    tab.path.write_text("{}")
    tab.send(kind="hello")
    assert [message["kind"] for message in tab.sent[-2:]] == ["state", "custom"]
    assert tab.notices[-1].startswith("The last game can't continue, so this is another one: ")
    assert (tmp_path / f"{tab.name}.kept.json").read_text() == "{}" and tab.state["says"].startswith(
        "Which cards were you dealt?"
    )


def test_each_tab_plays_on_in_a_table_of_its_own(tmp_path: Path):
    begun = AtTable("R1 RS W", "R0", rules=TABLES.rules, agent=TABLES.agent)
    first, second = (Table(tmp_path, replace(TABLES, table=begun)) for _ in range(2))
    for tab in (first, second):
        tab.send(kind="hello")
    first.pick("R1")
    assert first.events == ["R1"] and second.events == [] and begun.events == ()

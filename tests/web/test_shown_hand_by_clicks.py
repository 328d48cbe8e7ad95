"""A hand shown at a challenge, entered by clicks, without a browser."""

from __future__ import annotations

from typing import Any

import pytest

from unojax import Rules
from unojax.board.at_table import TableBoard
from unojax.games.at_table import Table

SEARCH = "mc:rollouts=16,particles=64,policy=uniform,model=uniform|scarcest-color"


class Page(TableBoard):
    """A board with the page's state and messages."""

    def __init__(self, line: str):
        table = Table("R1 R5 Y2 YS B7 G+2 W", "R0", opponent=3, rules="official", agent=SEARCH)
        table.play(line)
        super().__init__(Rules.official(), SEARCH, table=table)
        self.state: dict[str, Any] = {}
        self.notices = list[str]()
        self.show()

    def publish(self, state: dict[str, Any]) -> None:
        self.state = state

    def send_words(self, content: dict[str, Any]) -> None:
        self.notices.append(content["text"])

    def click(self, kind: str, **content: Any) -> None:
        self.hear({"kind": kind, "game": self.state["game"], "turn": self.state["turn"], **content})

    def press(self, words: str) -> None:
        other = next(other for other in self.state["others"] if other["words"] == words)
        self.click(other["kind"], line=other["line"])

    def pick(self, *names: str) -> None:
        for name in names:
            self.click("play", card=name)

    @property
    def open_cards(self) -> set[str]:
        return {held["card"] for held in self.state["picker"] or [] if held["playable"]}

    @property
    def events(self) -> list[str]:
        assert self.table is not None
        return [str(event) for event in self.table.events]


@pytest.fixture
def page() -> Page:
    return Page("r5 w4b")


def test_a_hand_by_clicks(page: Page) -> None:
    """The page requests the right number of cards, takes one back, and offers unseen cards only."""
    page.press("I challenge, and see their hand …")
    assert page.state["says"] == "Which cards did they show? 0 of 2."
    assert {"R2", "W"} <= page.open_cards and not {"R0"} & page.open_cards
    page.pick("G0")
    assert page.state["says"] == "Which cards did they show? 1 of 2." and "G0" not in page.open_cards
    page.click("back")
    page.pick("R2", "W")
    assert page.events[-1] == "challenge(won,R2,W)" and not page.notices
    assert page.state["moves"][-1]["words"].endswith("They showed red 2, Wild.")
    assert page.state["toMove"] == "opponent"
    assert page.table is not None
    assert float(page.table.look().belief.prob_holds[2]) == pytest.approx(1.0, abs=1e-5)
    page.click("back")
    assert page.events == ["R5", "W+4:B"]
    page.press("I challenge, and see their hand …")
    page.click("back")
    assert [other["words"] for other in page.state["others"]][:2] == ["I challenge, and won", "I challenge, and lost"]


def test_a_challenge_is_corrected_by_clicks(page: Page) -> None:
    """The hand is added to an earlier challenge, and the later draw stays."""
    page.press("I challenge, and won")
    page.click("draw")
    assert page.events[2:] == ["challenge(won)", "draw"]
    page.click("fix", number=3)
    page.press("I challenge, and see their hand …")
    page.pick("R2", "G7")
    assert page.events[2:] == ["challenge(won,R2,G7)", "draw"] and not page.notices


def test_a_correction_that_can_not_be_is_refused(page: Page) -> None:
    """The shown hand would make the challenge lost, which contradicts the later draw."""
    page.press("I challenge, and won")
    page.click("draw")
    page.click("fix", number=3)
    page.press("I challenge, and see their hand …")
    page.pick("G2", "G7")
    assert page.notices == ["Name the 6 cards that you drew, as in draw(R5)."]
    assert page.events[2:] == ["challenge(won)", "draw"]

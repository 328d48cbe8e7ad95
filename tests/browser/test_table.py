"""`unojax table --web` at a phone's width: a deal, events, a correction and a hand that was shown, by clicks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.browser.play import SMALLEST, assert_fits
from tests.web.serving import TABLES, serve

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@contextmanager
def phone(open_page: Any, folder: Path) -> Iterator[Any]:
    """Open a new table on a page as wide as a phone."""
    size: dict[str, Any] = {"viewport": {"width": 360, "height": 740}}
    with (
        serve(folder, defaults=TABLES) as server,
        open_page(server.address, home=f"http://127.0.0.1:{server.port}/", **size) as page,
    ):
        yield page


def pick(page: Any, *names: str, part: str = ".picker") -> None:
    """Click cards by their first words."""
    for words in names:
        page.locator(f"{part} button[aria-label^='{words}']:not([disabled])").first.click()


def test_a_game_by_clicks_on_a_phone(open_page, tmp_path: Path):
    with phone(open_page, tmp_path) as page:
        pick(page, "red 1", "red skip", "Wild", "red 0")
        page.click(".others >> text=you begin")
        pick(page, "red 1", part=".hand")
        page.click(".unojax-board[data-turn='1'] .deck")
        page.wait_for_selector(".unojax-board[data-turn='2'] .hand .advised, .unojax-board[data-turn='2'] .deck.due")
        assert page.locator(".says").inner_text().startswith("You are to move. They can play on this with ")
        page.click(".moves >> text=They draw a card.")
        page.wait_for_selector(".says >> text=What happened in move 2?")
        pick(page, "red 2")
        page.wait_for_selector(".moves >> text=They play red 2.")
        assert_fits(page)
        size = page.eval_on_selector_all(".picker button, .hand button", SMALLEST)
        assert size >= 24, "large enough for a finger"


def test_a_hand_that_was_shown_by_clicks_on_a_phone(open_page, tmp_path: Path):
    """They play Wild+4 with a card of the colour in hand; a challenge shows it, and a step back takes the last card out again."""
    with phone(open_page, tmp_path) as page:
        pick(page, "red 1", "yellow skip", "Wild", "red 0")
        page.click(".others >> text=they begin")
        pick(page, "Wild+4")
        page.click(".chooser .yellow")
        page.click(".others >> text=I challenge, and see their hand")
        page.wait_for_selector(".says >> text=Which cards did they show? 0 of 2.")
        pick(page, "red 2")
        page.wait_for_selector(".says >> text=Which cards did they show? 1 of 2.")
        assert_fits(page)
        page.click(".tool.back")
        page.wait_for_selector(".says >> text=Which cards did they show? 0 of 2.")
        pick(page, "red 2", "yellow 3")
        page.wait_for_selector(".moves >> text=They showed red 2, yellow 3.")
        page.wait_for_selector(".unojax-board[data-turn='2'][data-tomove='opponent']")
        assert_fits(page)

"""`unojax table --web` at a phone's width: a deal, a few events and a correction by clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.play import SMALLEST, assert_fits
from tests.web.serving import TABLES, serve

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_game_by_clicks_on_a_phone(open_page, tmp_path: Path):
    def pick(words: str, part: str = ".picker") -> None:
        page.locator(f"{part} button[aria-label^='{words}']:not([disabled])").first.click()

    phone: dict[str, Any] = {"viewport": {"width": 360, "height": 740}}
    with (
        serve(tmp_path, defaults=TABLES) as server,
        open_page(server.address, home=f"http://127.0.0.1:{server.port}/", **phone) as page,
    ):
        for words in ("red 1", "red skip", "Wild", "red 0"):
            pick(words)
        page.click(".others >> text=you begin")
        pick("red 1", ".hand")
        page.click(".unojax-board[data-turn='1'] .deck")
        page.wait_for_selector(".unojax-board[data-turn='2'] .hand .advised, .unojax-board[data-turn='2'] .deck.due")
        assert page.locator(".says").inner_text().startswith("You are to move. They can play on this with ")
        page.click(".moves >> text=They draw a card.")
        page.wait_for_selector(".says >> text=What happened in move 2?")
        pick("red 2")
        page.wait_for_selector(".moves >> text=They play red 2.")
        assert_fits(page)
        size = page.eval_on_selector_all(".picker button, .hand button", SMALLEST)
        assert size >= 24, "large enough for a finger"

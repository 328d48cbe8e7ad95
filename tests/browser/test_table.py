"""`unojax table --web` in a real browser at a phone's width: a deal and a few events by clicks, and a correction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.games.test_at_table import AGENT
from tests.games.test_seen import VARIANTS
from tests.web.serving import running
from unojax.web.server import Server
from unojax.web.tables import TableDefaults

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def pick(page: Any, words: str, part: str = ".picker") -> None:
    """Click a card that may be clicked."""
    page.locator(f"{part} button[aria-label^='{words}']:not([disabled])").first.click()


def test_a_game_by_clicks_on_a_phone(open_page, tmp_path: Path):
    server = Server(TableDefaults(VARIANTS["official"], AGENT["agent"]), folder=tmp_path)
    home, phone = f"http://127.0.0.1:{server.port}/", {"width": 360, "height": 740}
    with running(server), open_page(server.address, home=home, viewport=phone) as page:
        for words in ("red 1", "red skip", "Wild", "red 0"):
            pick(page, words)
        page.click(".others >> text=you begin")
        pick(page, "red 1", ".hand")
        page.click(".unojax-board[data-turn='1'] .deck")
        page.wait_for_selector(".unojax-board[data-turn='2'] .hand .advised, .unojax-board[data-turn='2'] .deck.due")
        assert page.locator(".says").inner_text().startswith("You are to move. They can play on this with ")
        page.click(".moves >> text=They draw a card.")
        page.wait_for_selector(".says >> text=What happened in move 2?")
        pick(page, "red 2")
        page.wait_for_selector(".moves >> text=They play red 2.")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        sizes = page.eval_on_selector_all(
            ".picker button, .hand button", "all => all.map(e => Math.min(e.offsetWidth, e.offsetHeight))"
        )
        assert min(sizes) >= 24, "large enough for a finger"

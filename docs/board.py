"""Draw docs/board-light.png and docs/board-dark.png: the board of `unojax.widget` in a real browser, some moves into a game.

PYTHONPATH=. python docs/board.py      needs the extras notebook and test, and Chromium at /usr/bin/chromium
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.bridge import StreamedComm, serve
from tests.widget.pages import make
from unojax import cards
from unojax.widget import Board

SEED = 0
MOVES, PLAYS = 3, 3
"""The picture shows the first position after so many moves with a choice between so many plays."""
CHROMIUM = "/usr/bin/chromium"
GROUNDS = {"light": "#ffffff", "dark": "#0d1117"}


def main() -> None:
    """Play as the hints say, then ask for one more and take the pictures."""
    board, comm = make(lambda: Board(seed=SEED), StreamedComm)
    board.look()
    for move in count():
        played = advice(board)
        if move >= MOVES and sum(card["playable"] for card in board.state["hand"]) >= PLAYS:
            break
        board.play(played)
    with sync_playwright() as playwright, serve(comm) as address:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        for theme, ground in GROUNDS.items():
            page = browser.new_page(viewport={"width": 1080, "height": 800}, color_scheme=theme, reduced_motion="reduce")
            page.goto(address)
            page.wait_for_selector(".belief svg")
            page.evaluate("ground => { document.body.style.background = ground; }", ground)
            page.locator(".desk").screenshot(path=Path(__file__).with_name(f"board-{theme}.png"))
        browser.close()


def advice(board: Board) -> str:
    """Ask for a hint, and read it as text."""
    board.show_hint()
    hint = board.state["hint"]
    if not hint:
        return "draw"
    return hint["card"] + (f":{cards.COLOR_LETTERS[cards.COLOR_NAMES.index(hint['color'])]}" if hint["color"] else "")


if __name__ == "__main__":
    main()

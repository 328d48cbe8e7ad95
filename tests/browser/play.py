"""Clicks and questions for all boards."""

from __future__ import annotations

import re
from typing import Any

RESULT = re.compile(r"(You win|The opponent wins|drawn).* after \d+ turns")
SMALLEST = "all => Math.min(...all.map(e => Math.min(e.offsetWidth, e.offsetHeight)).filter(size => size))"
"""Script for the smallest side of the elements that are shown."""


def wait_until(page: Any, done: str, *arguments: Any) -> Any:
    """Poll the page until it returns a true value; its policy forbids Playwright's own waiting."""
    for _ in range(1200):
        if found := page.evaluate(done, *arguments):
            return found
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {done}")


def turn_after(page: Any, turn: int) -> int:
    """Return the next turn at which the person moves or the game is over."""
    done = """turn => { const at = document.querySelector('.unojax-board').dataset;
      return +at.turn > turn && at.tomove !== 'opponent' && String(at.turn); }"""
    return int(wait_until(page, done, turn))


def click_last(page: Any) -> str:
    """Play the last playable card, a wild one as green, or draw; return "card", "wild" or "draw"."""
    playable = page.locator(".hand .playable")
    if not playable.count():
        page.click(".deck.due")
        return "draw"
    playable.last.click()
    if page.locator(".chooser").is_visible():
        page.click(".pick.green")
        return "wild"
    return "card"


def play_to_the_end(page: Any, *, check: Any = lambda: None) -> tuple[int, set[str]]:
    """Play a whole game, with `check` after each turn; return its number of turns and the kinds of plays."""
    turn, kinds = 0, set()
    while page.get_attribute(".unojax-board", "data-tomove") == "you":
        kinds.add(click_last(page))
        turn = turn_after(page, turn)
        check()
    assert RESULT.search(page.inner_text(".says"))
    return turn, kinds


def assert_fits(page: Any) -> None:
    """Check that the page is not wider than its window."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

"""Pages in a real browser: a recorded game steps and scrolls; clicks play whole games on the board."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.browser.bridge import StreamedComm, serve
from tests.browser.play import assert_fits, play_to_the_end, turn_after
from tests.viz.games import games
from tests.widget.pages import ADVISER, make
from unojax import cards, make_state
from unojax.games.gamefile import parse_game
from unojax.viz import game_html
from unojax.viz.words import card_words
from unojax.widget import Board

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """Return the address of a game's page with curves and beliefs, and the number of its last step."""
    states, random = games()[3], np.random.default_rng(0)
    path = tmp_path_factory.mktemp("record") / "game.html"
    game_html(states, win_probability=random.random(len(states)), beliefs=random.random((len(states), 54)), path=path)
    return path.as_uri(), len(states) - 1


def shown_steps(page: Any) -> list[int]:
    return page.eval_on_selector_all(".stage > [data-step]", "all => all.filter(e => !e.hidden).map(e => +e.dataset.step)")


def test_a_record_steps(record, open_page):
    address, last = record
    with open_page(address) as page:
        assert shown_steps(page) == [0]
        keys = {"ArrowRight ArrowRight": 2, "ArrowLeft": 1, "End": last, "ArrowRight": last, "Home": 0}
        for pressed, step in keys.items():
            for key in pressed.split():
                page.keyboard.press(key)
            assert shown_steps(page) == [step]
        page.click(".forth")
        assert page.inner_text(".count") == f"1 of {last}" and shown_steps(page) == [1]
        page.click(".moves li:nth-child(6) button")
        assert shown_steps(page) == [5] and page.inner_text(".said") == page.inner_text(".moves [aria-current] span:last-child")
        plot = page.locator(".plot svg")
        plot.click(position={"x": 0.9 * plot.bounding_box()["width"], "y": 60})
        assert 0.8 * last < shown_steps(page)[0] < last
        page.locator(".controls input").fill("3")
        assert shown_steps(page) == [3]
        page.select_option(".speed", label="fast")
        page.click(".play")
        page.wait_for_function("document.querySelector('.count').textContent.startsWith('5 ')")
        page.click(".play")
    with open_page(f"{address}#4") as page:
        assert shown_steps(page) == [4]
        page.evaluate("location.hash = '#2'")
        page.wait_for_function("document.querySelector('.count').textContent.startsWith('2 ')")
        assert shown_steps(page) == [2]


def test_a_record_scrolls(record, open_page):
    address, last = record
    with open_page(address, viewport={"width": 700, "height": 500}) as page:
        height, window = page.evaluate("[document.documentElement.scrollHeight, innerHeight]")
        assert height > window
        page.keyboard.press("End")
        assert page.evaluate("document.querySelector('.moves').scrollTop") > 0
        page.mouse.move(300, 200)
        page.mouse.wheel(0, 300)
        page.wait_for_function("scrollY > 0")
        assert_fits(page)
    with open_page(address, java_script_enabled=False) as page:
        assert page.locator(".stage > [data-step] svg:visible").count() >= last + 1


START = {"seed": 3, "start": make_state("R2 R5 Y1 W", "Y0 G3 B7 B8 B9", "R3")}


@contextlib.contextmanager
def board_page(open_page: Any, browser: dict[str, Any] | None = None, **options: Any) -> Iterator[tuple[Any, Board]]:
    board, comm = make(lambda: Board("uniform", adviser=ADVISER, pace=0.0, **(START | options)), StreamedComm)
    with serve(comm) as address, open_page(address, **(browser or {})) as page:
        page.wait_for_selector(".belief svg")
        yield page, board


def test_cards_are_clicked_and_wild_ones_ask_for_a_colour(open_page):
    def hand() -> list[str]:
        return page.eval_on_selector_all(".hand button", "all => all.map(e => e.dataset.card)")

    with board_page(open_page) as (page, board):
        assert hand() == ["R2", "R5", "Y1", "W"]
        # A card is disabled, and a click still explains why.
        page.click("[data-card=Y1]", force=True)
        page.wait_for_selector(".notice:has-text('Yellow 1 does not match red 3.')")
        assert not board.record.actions and page.locator(".deck").is_disabled()
        for _ in range(2):
            page.click(".hint")
            page.wait_for_selector(".card.advised")
            page.wait_for_selector(".notice:empty", state="attached")
        chooser = page.locator(".chooser")
        page.click("[data-card=W]")
        offered = page.eval_on_selector_all(".pick", "all => all.map(e => e.lastChild.textContent)")
        assert chooser.is_visible() and offered == ["red", "yellow", "blue", "green"]
        page.keyboard.press("Escape")
        assert chooser.is_hidden() and page.evaluate("document.activeElement.dataset.card") == "W"
        page.click("[data-card=R5]")
        turn = turn_after(page, 0)
        assert board.record.actions[0] == "R5" and len(board.record.actions) == turn and "R5" not in hand()
        assert page.locator(".moves li").count() == turn + 1
        assert page.inner_text(".moves li:nth-child(2)").endswith("You play red 5.")
    with board_page(open_page) as (page, board):
        page.click("[data-card=W]")
        page.click(".pick.blue")
        turn_after(page, 0)
        assert board.record.actions[0] == "W:B" and page.locator(".chooser").is_hidden()


def test_the_keyboard_is_enough_and_an_update_keeps_the_chosen_colour(open_page):
    with board_page(open_page) as (page, board):
        names = page.eval_on_selector_all(".hand button", "all => all.map(e => e.getAttribute('aria-label'))")
        assert names == ["red 2", "red 5", "yellow 1, can't be played", "Wild"]
        while page.evaluate("document.activeElement.dataset.card") != "R2":
            page.keyboard.press("Tab")
        for key in ("ArrowLeft", "Enter", "ArrowRight"):
            page.keyboard.press(key)
        page.evaluate("document.querySelector('.hand button').dataset.before = ''")
        board.look()
        page.wait_for_selector(".hand button:not([data-before])")
        page.wait_for_selector("[data-before]", state="detached")
        assert page.get_attribute("[data-card=W]", "class") == "card playable chosen"
        page.keyboard.press("Enter")
        turn_after(page, 0)
        assert board.record.actions[0] == "W:Y"
        # The focus is where the next move can be made.
        assert page.evaluate("document.activeElement.matches('.hand .playable, .deck:enabled')")


def test_a_whole_game_by_clicks(open_page):
    with board_page(open_page, seed=4, start=make_state("R2 Y1 G4 W", "Y0 G3 B7 B8", "B3")) as (page, board):

        def last_move_is_read_aloud() -> None:
            assert page.text_content(".told") == page.text_content(".moves li:last-child").lstrip("0123456789")

        assert page.get_attribute(".fan", "aria-hidden") == "true"
        turn, kinds = play_to_the_end(page, check=last_move_is_read_aloud)
        assert board.is_over and len(board.record.actions) == turn
        assert kinds > {"wild", "draw"}, "the game of this seed is meant to have both"
        counts = cards.count_types(board.record.replay().end.hands[1])
        held = [page.get_attribute(".fan", name) for name in ("role", "aria-label", "aria-hidden")]
        words = ", ".join(card_words(t) for t in np.repeat(np.arange(54), counts))
        assert held == (["img", f"the opponent's cards: {words}", None] if words else [None, None, "true"])
        with page.expect_download() as download:
            page.click(".save")
        saved = parse_game(download.value.path().read_text(encoding="utf-8"))
        assert saved == board.record and len(saved.replay().steps) == turn
        page.click(".new")
        page.wait_for_selector('[data-game="2"][data-turn="0"]')
        assert page.locator(".hand button").count() == 7


def test_light_and_dark(open_page):
    grounds = {}
    for scheme in ("light", "dark"):
        with board_page(open_page, {"color_scheme": scheme}) as (page, _):
            assert page.get_attribute(".unojax-board", "data-theme") == scheme
            grounds[scheme] = page.evaluate("getComputedStyle(document.querySelector('.table')).backgroundColor")
            # The theme of a notebook, if it is known, decides.
            page.evaluate("document.body.dataset.jpThemeLight = 'false'")
            page.wait_for_selector('[data-theme="dark"]')
    assert grounds["light"] != grounds["dark"]

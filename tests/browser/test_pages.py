"""Pages in a real browser: the record of a game steps and scrolls; on the board whole games are played by clicks."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.browser.bridge import StreamedComm, serve
from tests.viz.games import positions, trajectories
from tests.widget.pages import make
from unojax import cards, make_state
from unojax.games.gamefile import parse_game
from unojax.viz import game_html
from unojax.viz.words import card_words
from unojax.widget import Board

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SMALL = {"width": 700, "height": 500}
ADVISER = "mc:rollouts=32,belief=unseen,policy=uniform"
"""Compiles faster than the default."""


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """The page of a game with curves and beliefs: its address, and the number of its last step."""
    game = trajectories()[0]
    states = positions(game)
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("record") / "game.html"
    game_html(game, win_probability=random.random(len(states)), beliefs=random.random((len(states), 54)), path=path)
    return path.as_uri(), len(states) - 1


def shown_steps(page: Any) -> list[int]:
    return page.eval_on_selector_all(".stage > [data-step]", "all => all.filter(e => !e.hidden).map(e => +e.dataset.step)")


def test_a_record_steps(record, open_page):
    address, last = record
    with open_page(address) as page:
        assert shown_steps(page) == [0]
        for key, step in (
            ("ArrowRight", 1),
            ("ArrowRight", 2),
            ("ArrowLeft", 1),
            ("End", last),
            ("ArrowRight", last),
            ("Home", 0),
        ):
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
    with open_page(address, viewport=SMALL) as page:
        height, window = page.evaluate("[document.documentElement.scrollHeight, innerHeight]")
        assert height > window
        page.keyboard.press("End")
        assert page.evaluate("document.querySelector('.moves').scrollTop") > 0
        page.mouse.move(300, 200)
        page.mouse.wheel(0, 300)
        page.wait_for_function("scrollY > 0")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing stands out to the right"
    with open_page(address, java_script_enabled=False) as page:
        assert page.locator(".stage > [data-step] svg:visible").count() >= last + 1


@contextlib.contextmanager
def board_page(open_page: Any, browser: dict[str, Any] | None = None, **options: Any) -> Iterator[tuple[Any, Board]]:
    board, comm = make(lambda: Board(**({"opponent": "uniform", "adviser": ADVISER, "pace": 0.0} | options)), StreamedComm)
    with serve(comm) as address, open_page(address, **(browser or {})) as page:
        page.wait_for_selector(".belief svg")
        yield page, board


def turn_after(page: Any, turn: int) -> int:
    """The first turn after this one at which the person moves or the game is over."""
    done = "([root, turn]) => +root.dataset.turn > turn && root.dataset.tomove !== 'opponent' && +root.dataset.turn"
    return page.wait_for_function(done, arg=[page.query_selector(".unojax-board"), turn]).json_value()


START = {"seed": 3, "start": make_state("R2 R5 Y1 W", "Y0 G3 B7 B8 B9", "R3")}


def hand(page: Any) -> list[str]:
    return page.eval_on_selector_all(".hand button", "all => all.map(e => e.dataset.card)")


def test_a_click_plays_a_card(open_page):
    with board_page(open_page, **START) as (page, board):
        assert hand(page) == ["R2", "R5", "Y1", "W"]
        # It says that it is disabled, and still says why when it is clicked.
        page.click("[data-card=Y1]", force=True)
        page.wait_for_selector(".notice:has-text('Yellow 1 does not go on red 3.')")
        assert not board.record.actions and page.locator(".deck").is_disabled()
        page.click("[data-card=R5]")
        turn = turn_after(page, 0)
        assert board.record.actions[0] == "R5" and len(board.record.actions) == turn
        assert "R5" not in hand(page)
        assert page.locator(".moves li").count() == turn + 1
        assert page.inner_text(".moves li:nth-child(2)").endswith("You play red 5.")


def test_a_wild_card_asks_for_its_colour(open_page):
    with board_page(open_page, **START) as (page, board):
        chooser = page.locator(".chooser")
        page.click("[data-card=W]")
        offered = page.eval_on_selector_all(".pick", "all => all.map(e => e.lastChild.textContent)")
        assert chooser.is_visible() and offered == ["red", "yellow", "blue", "green"]
        page.keyboard.press("Escape")
        assert chooser.is_hidden() and page.evaluate("document.activeElement.dataset.card") == "W"
        page.click("[data-card=W]")
        page.click(".pick.blue")
        turn_after(page, 0)
        assert board.record.actions[0] == "W:B" and chooser.is_hidden()


def test_an_update_leaves_the_chosen_colour_alone(open_page):
    with board_page(open_page, **START) as (page, board):
        page.click("[data-card=W]")
        page.keyboard.press("ArrowRight")
        page.evaluate("document.querySelector('.hand button').dataset.before = ''")
        board.look()
        page.wait_for_selector(".hand button:not([data-before])")
        page.wait_for_selector("[data-before]", state="detached")
        assert page.get_attribute("[data-card=W]", "class") == "card playable chosen"
        page.keyboard.press("Enter")
        turn_after(page, 0)
        assert board.record.actions[0] == "W:Y"


def test_a_hint_once_more(open_page):
    with board_page(open_page, **START) as (page, _):
        for _ in range(2):
            page.click(".hint")
            page.wait_for_selector(".card.advised")
            page.wait_for_selector(".notice:empty", state="attached")


def test_the_keyboard_is_enough(open_page):
    with board_page(open_page, **START) as (page, board):
        names = page.eval_on_selector_all(".hand button", "all => all.map(e => e.getAttribute('aria-label'))")
        assert names == ["red 2", "red 5", "yellow 1, can't be played", "Wild"]
        while page.evaluate("document.activeElement.dataset.card") != "R2":
            page.keyboard.press("Tab")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        turn_after(page, 0)
        assert board.record.actions[0] == "W:Y"
        # The focus is where the next move can be made.
        assert page.evaluate("document.activeElement.matches('.hand .playable, .deck:enabled')")


def test_a_whole_game_by_clicks(open_page):
    with board_page(open_page, seed=4, start=make_state("R2 Y1 G4 W", "Y0 G3 B7 B8", "B3")) as (page, board):
        turn, wilds, draws = 0, 0, 0
        assert page.get_attribute(".fan", "aria-hidden") == "true"
        while page.get_attribute(".unojax-board", "data-tomove") == "you":
            playable = page.locator(".hand .playable")
            if playable.count():
                playable.last.click()
                if page.locator(".chooser").is_visible():
                    page.click(".pick.green")
                    wilds += 1
            else:
                page.click(".deck.due")
                draws += 1
            turn = turn_after(page, turn)
            # Whoever hears the board hears the last move.
            assert page.text_content(".told") == page.text_content(".moves li:last-child").lstrip("0123456789")
        assert board.is_over and len(board.record.actions) == turn
        assert wilds and draws, "the game of this seed is meant to have both"
        assert re.search(r"(You win|The opponent wins|drawn) after \d+ turns", page.inner_text(".says"))
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
        with board_page(open_page, {"color_scheme": scheme}, **START) as (page, _):
            assert page.get_attribute(".unojax-board", "data-theme") == scheme
            grounds[scheme] = page.evaluate("getComputedStyle(document.querySelector('.table')).backgroundColor")
            # A notebook that says what it is has the last word.
            page.evaluate("document.body.dataset.jpThemeLight = 'false'")
            page.wait_for_selector('[data-theme="dark"]')
    assert grounds["light"] != grounds["dark"]

"""`unojax play --web`: whole games by clicks and by keys; reload, two tabs, a stopped server."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.browser.play import RESULT, SMALLEST, assert_fits, click_last, play_to_the_end, turn_after, wait_until
from tests.telltale import TellTale
from tests.web.serving import DEFAULTS, serve
from unojax.games.gamefile import parse_game
from unojax.games.session import Session

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SHORT = {"preset": "fields", "hand_size": "3", "seed": "11", "opponent": "scarcest-color"}
FINISHED = "[...document.querySelectorAll('.win, .belief')].every(part => part.ariaBusy === 'false')"


@pytest.fixture
def telltale(monkeypatch):
    """Replace the advisor by one without compilation; `test_on_a_phone_...` has the real one."""
    monkeypatch.setattr("unojax.board.game.Advisor", TellTale)


@contextmanager
def tab(open_page: Any, server: Any, **options: Any) -> Any:
    """Open a tab, with its first position."""
    with open_page(server.address, home=f"http://127.0.0.1:{server.port}/", **options) as page:
        page.wait_for_selector(".hand button")
        page.set_default_timeout(60_000)
        yield page


def deal(page: Any, **choices: str) -> None:
    number = int(page.get_attribute(".unojax-board", "data-game"))
    page.click("#choose")
    for name, value in choices.items():
        field = page.locator(f"#form [name={name}]")
        field.select_option(value) if field.evaluate("field => field.tagName") == "SELECT" else field.fill(value)
    page.click("#form .main")
    page.wait_for_selector(f'[data-game="{number + 1}"][data-turn="0"], [data-game="{number + 1}"][data-tomove="you"]')


def test_a_whole_game_by_clicks(open_page, telltale, tmp_path: Path):
    with serve(tmp_path) as server, tab(open_page, server) as page:
        assert page.url == f"http://127.0.0.1:{server.port}/", "the token is out of the address"
        deal(page, **SHORT)
        turn, _ = play_to_the_end(page)
        with page.expect_download() as download:
            page.click("#save")
        saved = parse_game(download.value.path().read_text(encoding="utf-8"))
        assert saved.result in "01=" and len(saved.actions) == turn and saved.players == ("person", "scarcest-color")
        assert saved.rules.hand_size == 3 and saved.seed == 11
        # Step back into the game, and look at it move by move.
        page.click(".back")
        wait_until(page, "document.querySelector('.unojax-board').dataset.tomove === 'you'")
        with page.context.expect_page() as opened:
            page.click("#record")
        record = opened.value
        record.wait_for_selector(".moves button")
        record.keyboard.press("End")
        last = int(page.get_attribute(".unojax-board", "data-turn"))
        assert record.inner_text(".count") == f"{last} of {last}" and last < turn


def test_a_whole_game_by_the_keyboard_alone(open_page, telltale, tmp_path: Path):
    """Tab, arrows and Enter."""

    def focused(wanted: str) -> bool:
        return page.evaluate("wanted => document.activeElement.matches(wanted)", wanted)

    def tab_to(wanted: str) -> None:
        for _ in range(60):
            if focused(wanted):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"no focus on {wanted}")

    with serve(tmp_path) as server, tab(open_page, server) as page:
        tab_to("#choose")
        page.keyboard.press("Enter")
        assert focused("#form [name=opponent]")
        # As many cards as in `SHORT`, whose programs are compiled.
        for name, value in {"opponent": "uniform", "preset": "as below", "hand_size": "3", "seed": "4"}.items():
            tab_to(f"#form [name={name}]")
            if name != "preset":
                page.keyboard.press("Control+A")
            page.keyboard.type(value)
        page.keyboard.press("Enter")
        page.wait_for_selector('[data-game="2"]')
        turn = turn_after(page, -1)
        while page.get_attribute(".unojax-board", "data-tomove") == "you":
            # After the first move the focus is where the next one can be made.
            tab_to(".hand .playable, .deck.due")
            page.keyboard.press("Enter")
            if page.locator(".chooser").is_visible():
                page.keyboard.press("ArrowRight")
                page.keyboard.press("Enter")
            turn = turn_after(page, turn)
        assert RESULT.search(page.inner_text(".says")) and focused(".new"), "the next game can be dealt"


def test_draws_at_will_and_passes(open_page, telltale, tmp_path: Path):
    """Under the official rules a player may draw, and then play that card or pass."""
    with serve(tmp_path) as server, tab(open_page, server) as page:
        deal(page, preset="official", seed="3", opponent="uniform")
        turn = turn_after(page, -1)
        while not page.locator(".others .draw").count():
            page.click(".deck")
            turn = turn_after(page, turn)
        assert page.inner_text(".others .draw") == "pass" and page.is_disabled(".deck")
        assert page.inner_text(".says") == "Play the card that you drew, or pass."
        page.click(".others .draw")
        turn_after(page, turn)
        assert re.search(r"^You pass\.$", page.inner_text(".moves"), re.MULTILINE)


def test_a_game_survives_a_reload_another_tab_and_a_stopped_server(open_page, telltale, tmp_path: Path):
    # The browser itself complains about the channel that it can't open.
    with serve(tmp_path) as server:
        manager, port = tab(open_page, server, forgives="ERR_CONNECTION_REFUSED"), server.port
        page = manager.__enter__()
        deal(page, **SHORT)
        click_last(page)
        turn = turn_after(page, 0)
        moves, hand = page.inner_text(".moves"), page.inner_text(".hand")
        page.reload()
        page.wait_for_selector(f'[data-turn="{turn}"]')
        assert page.inner_text(".moves") == moves
        other = page.context.new_page()
        other.goto(f"http://127.0.0.1:{port}/")
        other.wait_for_selector(".hand button")
        assert other.get_attribute(".unojax-board", "data-turn") == "0" and other.locator(".hand button").count() == 7
        assert page.inner_text(".moves") == moves
        other.close()
    page.wait_for_selector("#lost:visible")
    assert "The server has stopped. Start unojax play --web again" in page.inner_text("#lost")
    assert page.evaluate("document.getElementById('cell').inert")
    with serve(tmp_path, port=port):
        page.wait_for_selector("#lost", state="hidden")
        page.wait_for_selector(f'[data-turn="{turn}"]')
        assert page.inner_text(".hand") == hand
        click_last(page)
        assert turn_after(page, turn) > turn
        # The new server computes belief and win probability for this page.
        wait_until(page, FINISHED)
    page.wait_for_selector("#lost:visible")
    for kept in (tmp_path / "games").iterdir():
        kept.write_text("{}")
    with serve(tmp_path, port=port, defaults=replace(DEFAULTS, seed=None)):
        page.wait_for_selector("#lost", state="hidden")
        wait_until(page, "document.querySelectorAll('.hand button').length === 7")
        page.wait_for_selector('.notice:has-text("The last game can\'t go on")')
        # Win probability and belief come later; they are no other position and keep the notice.
        wait_until(page, FINISHED)
        assert ".kept.json" in page.inner_text(".notice")
        manager.__exit__(None, None, None)


def test_if_the_opponent_fails_the_last_game_or_move_comes_back(open_page, telltale, tmp_path: Path, monkeypatch):
    def fail(session: Session) -> int:
        raise RuntimeError("out of memory")

    with serve(tmp_path) as server, tab(open_page, server) as page:
        deal(page, **SHORT)
        with monkeypatch.context() as patch:
            patch.setattr(Session, "reply", fail)
            page.click("#choose")
            page.locator("#form [name=seat]").select_option("1")
            page.click("#form .main")
            page.wait_for_selector('.notice:has-text("This went wrong in Python: out of memory")')
            assert page.get_attribute(".unojax-board", "data-game") == "2" and page.is_disabled(".tool.back")
            click_last(page)
            page.wait_for_selector('[data-turn="1"][data-tomove="opponent"]')
            page.wait_for_selector(".tool.back:enabled")
            assert "stuck" in page.inner_text(".who")
            page.click(".tool.back")
            page.wait_for_selector('[data-turn="0"][data-tomove="you"]')
        click_last(page)
        assert turn_after(page, 0) > 1


def test_a_saved_game_is_loaded_and_nonsense_is_refused_in_words(open_page, telltale, tmp_path: Path):
    with serve(tmp_path / "state") as server, tab(open_page, server) as page:
        with page.expect_download() as download:
            page.click("#save")
        saved, bad, large = (tmp_path / name for name in ("game.json", "bad.json", "large.json"))
        saved.write_bytes(download.value.path().read_bytes())
        bad.write_text("{}")
        large.write_bytes(b" " * 1_000_001)
        deal(page, **SHORT)
        assert page.locator(".hand button").count() == 3
        page.set_input_files("#file", saved)
        page.wait_for_selector('[data-game="3"]')
        assert page.locator(".hand button").count() == 7
        page.set_input_files("#file", bad)
        page.wait_for_selector(".notice:has-text('This is no saved game')")
        page.set_input_files("#file", large)
        page.wait_for_selector(".notice:has-text('large.json is no saved game: it has more than 1 MB.')")
        assert page.is_hidden("#lost")
        page.click("#choose")
        assert page.input_value("#form [name=seed]") == "", "the next game is another one"
        page.fill("#form [name=opponent]", "nobody")
        page.click("#form .main")
        page.wait_for_selector(".notice:has-text(\"No agent is called 'nobody'\")")
        page.click(".hint")
        page.wait_for_selector(".card.advised, .deck.due")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_stands_out_and_everything_is_named(open_page, tmp_path: Path, scheme: str):
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": scheme}
    with serve(tmp_path) as server, tab(open_page, server, **options) as page:
        page.wait_for_selector(".belief svg")
        assert_fits(page)
        page.click("#choose")
        assert_fits(page)
        unnamed = page.eval_on_selector_all(
            "button, input, select, textarea",
            "all => all.filter(e => !(e.labels?.length || e.ariaLabel || e.textContent.trim())).map(e => e.outerHTML)",
        )
        # A person who speaks the text of a card presses it by voice.
        shown = "e => e.innerText.trim() && !e.ariaLabel.includes(e.innerText.trim())"
        misnamed = page.eval_on_selector_all(".hand button", f"all => all.filter({shown}).map(e => [e.innerText, e.ariaLabel])")
        assert unnamed == misnamed == []
        size = page.eval_on_selector_all("header button, dialog button, .hand button", SMALLEST)
        assert size >= 24, "large enough for a finger"

"""Fixtures for pages in one headless Chromium per process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser, started once."""
    api = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install 'unojax[test]'")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no Chromium found (looked for {', '.join(NAMES)}): apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Any:
    """Context manager that opens an address, and fails at the end if the page complained or requested an address outside `home`
    (None: the address). Complaints that contain `forgives` are allowed.
    """

    @contextmanager
    def opened(address: str, *, home: str | None = None, forgives: str = "", **options: Any) -> Iterator[Any]:
        context = chromium.new_context(reduced_motion="reduce", **options)
        page = context.new_page()
        complaints: list[str] = []
        own = (home or address.partition("#")[0], "data:", "blob:")
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(own) else complaints.append(asked.url))
        # Milliseconds: on a busy machine the first position compiles for minutes.
        page.set_default_timeout(240_000)
        page.goto(address)
        yield page
        assert not [said for said in complaints if not (forgives and forgives in said)]
        context.close()

    return opened

"""The built site: no warning, no other host, no dead link, and a search that finds names."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urldefrag, urlparse

import pytest

from tests.helpers import ROOT

WRITERS = ("sphinx", "myst_nb", "furo", "griffe", "tyro", "matplotlib")
pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """Links, loaded files, anchors and picture descriptions of a page."""

    def __init__(self, path: Path):
        super().__init__()
        self.links, self.loaded, self.anchors, self.pictures = list[str](), list[str](), list[str](), list[str]()
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each tag."""
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.append(given["id"])
        if tag == "img":
            self.pictures.append(given.get("alt", ""))
        is_loaded = tag != "a" and (tag != "link" or given.get("rel") in ("stylesheet", "icon"))
        if not is_loaded:
            self.links.append(given.get("href", ""))
        else:
            self.loaded += [given[name] for name in ("src", "href", "srcset", "data") if name in given]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site: that which `UNOJAX_SITE` names, or a new one."""
    if missing := [name for name in WRITERS if importlib.util.find_spec(name) is None]:
        # An extra of its own, which most users of the tests lack. `.ci/run` has it.
        pytest.skip(f"no {', '.join(missing)}: pip install 'unojax[docs]'")
    if built := os.environ.get("UNOJAX_SITE"):
        return Path(built)
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--jobs", "2"]
    folders = ["-d", str(out / "read"), "docs", str(out / "html")]
    run = subprocess.run([*command, *folders], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return out / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_public_name_is_on_one_page(site: Path, pages: dict[Path, Page], reference):
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    written = {name for kind, found in inventory.items() if kind.startswith("py:") for name in found}
    shown = [name.shown for found in reference.shown().values() for name in found]
    assert len(shown) > 400 and not set(shown) - written
    # An anchor of a name is on one page, and once on it.
    own = [page for path, page in pages.items() if path.parent == site / "reference"]
    anchors = Counter(anchor for page in own for anchor in page.anchors if anchor.startswith("unojax."))
    assert {name: anchors[name] for name in shown if anchors[name] != 1} == {}


def test_pages_load_nothing_from_other_hosts_and_links_within_the_site_have_a_target(site: Path, pages: dict[Path, Page]):
    loaded = {(path.name, link) for path, page in pages.items() for link in page.loaded if re.match(r"(https?:)?//", link)}
    styles = [path for path in site.rglob("*.css") if re.search(r"(@import|url\()\s*['\"]?(https?:)?//", path.read_text())]
    dead = []
    for path, page in pages.items():
        for link in {*page.links, *page.loaded}:
            if urlparse(link).scheme or link.startswith("//"):
                continue
            address, anchor = urldefrag(unquote(link))
            target = (path.parent / address.partition("?")[0]).resolve() if address else path
            has_anchor = not anchor or target not in pages or anchor in pages[target].anchors
            if not (target.is_file() and has_anchor):
                dead.append((path.name, link))
    assert not loaded and not styles and not dead


def test_pictures_and_signatures_can_be_read_aloud(site: Path, pages: dict[Path, Page]):
    silent = [(p.name, alt) for p, page in pages.items() for alt in page.pictures if not alt or re.search(r"\.(png|svg)$", alt)]
    assert not silent and sum(len(page.pictures) for page in pages.values()) > 20
    for path, page in pages.items():
        assert 'role="heading">' not in page.text and "<pre><span></span>" not in page.text, path
        assert not re.search(r'<span class="sig-paren">\(</span>\s*<dl>', page.text), path
    assert 'aria-level="2"' in pages[site / "index.html"].text


@pytest.mark.browser
def test_search_finds_a_name_and_pages_fit_the_window(site: Path, open_page):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """No lines in the tests' output."""

    # Search results fetch pages, which browsers refuse to files.
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_address[1]}/"
        with open_page(f"{home}search.html?q=belief_update", home=home) as page:
            first = page.locator("#search-results ul.search li a").first
            first.wait_for()
            assert "belief_update" in first.inner_text() and "reference/beliefs.html" in first.get_attribute("href")
        server.shutdown()
    home = site.as_uri() + "/"
    for name in ("index", "reference/beliefs", "reference/commands", "notebooks/03_beliefs"):
        for width in (360, 1300):
            with open_page(f"{home}{name}.html", home=home, viewport={"width": width, "height": 900}) as page:
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name

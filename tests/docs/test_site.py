"""The built site: no warning, no other host, no dead link, and a search that finds names."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urldefrag, urlparse

import pytest

ROOT = Path(__file__).parents[2]
WRITERS = ("sphinx", "myst_nb", "furo", "griffe", "tyro", "matplotlib")
pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """Links, loaded files, anchors and words for pictures of a page."""

    def __init__(self, path: Path):
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: list[str] = []
        self.pictures: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

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
    if missing := [name for name in WRITERS if importlib.util.find_spec(name) is None]:
        # An extra of its own, which most users of the tests lack. `.ci/run` has it, and `make docs` needs no test to fail.
        pytest.skip(f"no {', '.join(missing)}: pip install 'unojax[docs]'")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--jobs", "2"]
    run = subprocess.run(
        [*command, "-d", str(out / "read"), "docs", str(out / "html")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return out / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_public_name_is_on_one_page(site: Path, reference):
    from sphinx.util.inventory import InventoryFile

    told = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    written = [name for kind, found in told.items() if kind.startswith("py:") for name in found]
    shown = [name.shown for found in reference.shown().values() for name in found]
    assert len(shown) > 400 and not set(shown) - set(written)
    # An anchor of a name is on one page, and once on it.
    anchors = Counter(anchor for page in pages_of(site) for anchor in page.anchors if anchor.startswith("unojax."))
    assert {name: anchors[name] for name in shown if anchors[name] != 1} == {}


def pages_of(site: Path) -> Iterator[Page]:
    """Read the pages of the reference."""
    return map(Page, sorted((site / "reference").glob("*.html")))


def test_pages_load_nothing_from_other_hosts(site: Path, pages: dict[Path, Page]):
    asked = {(path.name, link) for path, page in pages.items() for link in page.loaded if re.match(r"(https?:)?//", link)}
    assert not asked
    styles = [path for path in site.rglob("*.css") if re.search(r"(@import|url\()\s*['\"]?(https?:)?//", path.read_text())]
    assert not styles


def test_pictures_have_words(pages: dict[Path, Page]):
    silent = [
        (path.name, alt) for path, page in pages.items() for alt in page.pictures if not alt or re.search(r"\.(png|svg)$", alt)
    ]
    assert not silent and sum(len(page.pictures) for page in pages.values()) > 20


def test_keyboards_and_screen_readers_get_everywhere(site: Path, pages: dict[Path, Page]):
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert 'role="heading">' not in text and "<pre><span></span>" not in text, path
        assert not re.search(r'<span class="sig-paren">\(</span>\s*<dl>', text), path
    assert 'aria-level="2"' in (site / "index.html").read_text(encoding="utf-8")


def test_links_within_the_site_lead_somewhere(pages: dict[Path, Page]):
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
    assert not dead


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve the site to this machine; gives its address. Search results fetch pages, which browsers refuse to files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """No lines in the tests' output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.mark.browser
def test_search_finds_a_name(site: Path, open_page):
    with served(site) as home, open_page(f"{home}search.html?q=belief_update", home=home) as page:
        first = page.locator("#search-results ul.search li a").first
        first.wait_for()
        assert "belief_update" in first.inner_text() and "reference/beliefs.html" in first.get_attribute("href")


@pytest.mark.browser
@pytest.mark.parametrize("name", ["index", "reference/beliefs", "reference/commands", "notebooks/03_beliefs"])
@pytest.mark.parametrize("width", [360, 1300])
def test_pages_fit_the_window(site: Path, open_page, name: str, width: int):
    home = site.as_uri() + "/"
    with open_page(f"{home}{name}.html", home=home, viewport={"width": width, "height": 900}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width

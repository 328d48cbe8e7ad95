"""The code on the pages of the site runs as it stands, and prints what they say."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.pages import blocks_of, run_page
from unojax.value import load_pretrained, save_network

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    path.relative_to(DOCS).with_suffix("").as_posix(): path
    for folder in ("tutorials", "guides", "explanation", ".")
    for path in sorted((DOCS / folder).glob("*.md"))
}
# Not part of `make setup`: the blocks that show their interfaces run where they are installed.
OTHER_LIBRARIES = frozenset({"gymnasium", "jaxmarl", "pettingzoo", "pgx", "pyspiel", "rlcard"})
SHORTER = {
    "--games 4000": "--games 20",
    "uniform --games 64": "uniform --games 8",
    "mc:rollouts=100 --html": "mc:rollouts=8 --rounds 4 --html",
    "unojax evaluate mine.py:spiteful": "unojax evaluate mine.py:spiteful --opponents uniform --games 4",
}
"""Commands take less time with these parts changed."""
# Their programs run for less time than optimising them takes.
NOT_OPTIMIZED = ("tutorials/belief", "tutorials/gpu")
# What they have the reader do, train and measure, has tests of its own.
LONG = ("tutorials/policy", "tutorials/gpu", "explanation/measuring", "guides/agents")


def has_code(path: Path) -> bool:
    """Tell a page with something to run."""
    return any(block.kind in ("python", "sh") for block in blocks_of(path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                *([] if name in NOT_OPTIMIZED else [pytest.mark.optimized]),
                *([pytest.mark.long] if name in LONG else []),
            ],
        )
        for name, path in PAGES.items()
        if has_code(path)
    ],
)
def test_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    # A program that plays is asked nothing.
    monkeypatch.setattr("sys.stdin", io.StringIO())
    # Pages import the files that they have the reader write.
    monkeypatch.syspath_prepend(tmp_path)
    if name == "tutorials/train":
        # Whole training runs have tests of their own.
        (tmp_path / "runs" / "mine").mkdir(parents=True)
        save_network(tmp_path / "runs" / "mine" / "last.safetensors", load_pretrained())
    before = set(sys.modules)
    try:
        assert run_page(PAGES[name], optional=OTHER_LIBRARIES, commands=SHORTER) >= 1
    finally:
        for module in set(sys.modules) - before:
            if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[module]


def test_shorter_commands_are_on_pages():
    written = "".join(path.read_text(encoding="utf-8") for path in PAGES.values())
    assert [part for part in SHORTER if part not in written] == []

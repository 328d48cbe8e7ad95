"""The code on the pages of the site runs and prints the shown output."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.pages import assert_printed, blocks_of, run_page
from unojax.value import load_pretrained, save_network

PROGRAMS: Final = 4000  # the slow part runs every page as a reader would
DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    path.relative_to(DOCS).with_suffix("").as_posix(): path
    for folder in ("tutorials", "guides", "explanation", ".")
    for path in sorted((DOCS / folder).glob("*.md"))
}
# Not part of `make setup`: the blocks that show their interfaces run where they are installed.
OTHER_LIBRARIES = frozenset({"gymnasium", "jaxmarl", "open_spiel", "pettingzoo", "pgx", "pyspiel", "rlcard"})
SHORTER = {
    # A belief without a filter, except on the pages about filters.
    "last.safetensors uniform scarcest-color --games 4000": "last.safetensors,belief=unseen uniform --games 20",
    "--games 4000": "--games 20",
    "uniform --games 64": "uniform --games 8",
    # The filter that the page itself has compiled.
    "mc:rollouts=100 --html": "mc:rollouts=8,particles=4096,model=uniform --replicates 4 --html",
    "unojax evaluate mine.py:spiteful": "unojax evaluate mine.py:spiteful --opponents uniform --games 4",
    "mc:rollouts=64,belief=unseen": "mc:rollouts=4,belief=unseen,policy=uniform",
    "(search, unojax.uniform), 16": "(search, unojax.uniform), 2",
}
"""Parts of commands and code that are replaced, in this order, to take less time; nothing of their output is on a page."""
# Their programs run for less time than optimising them takes.
NOT_OPTIMIZED = ("tutorials/belief", "tutorials/first-steps", "tutorials/gpu", "tutorials/train")
# Their plays, trainings and measurements have tests of their own.
LONG = ("tutorials/policy", "tutorials/gpu", "explanation/measuring", "guides/agents")


def page_with_code(name: str):
    """Return the parameter of a page with its marks."""
    marks = [pytest.mark.optimized] * (name not in NOT_OPTIMIZED) + [pytest.mark.long] * (name in LONG)
    return pytest.param(name, marks=marks)


RUNNING = [name for name, path in PAGES.items() if any(block.kind in ("python", "sh") for block in blocks_of(path))]


@pytest.mark.slow
@pytest.mark.parametrize("name", [page_with_code(name) for name in RUNNING])
def test_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    # No command may wait for a person.
    monkeypatch.setattr("sys.stdin", io.StringIO())
    # Pages import the files that the reader writes.
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


def test_shortened_parts_are_on_pages():
    written = "".join(path.read_text(encoding="utf-8") for path in PAGES.values())
    assert [part for part in SHORTER if part not in written] == []


def test_counts_are_equal_and_measured_numbers_near():
    shown = "10,000 games, 49 steps, 67% won by 0.5, R5 at -1.25"
    assert_printed("10,000 games,  49 steps,\n66% won by 0.7, R5 at -1.27", shown, "here")
    others = {"49": "50", "000": "001", "67%": "70%", "67% won": "67 won", "0.5": "0.8", "-1.25": "1.25", "R5": "R6"}
    for part, other in others.items():
        with pytest.raises(AssertionError, match="here"):
            assert_printed(shown.replace(part, other), shown, "here")

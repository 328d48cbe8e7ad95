"""The code on the pages of the site runs as it stands, and prints what they say."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.pages import assert_printed, blocks_of, run_page
from unojax.value import load_pretrained, save_network

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    path.relative_to(DOCS).with_suffix("").as_posix(): path
    for folder in ("tutorials", "guides", "explanation", ".")
    for path in sorted((DOCS / folder).glob("*.md"))
}
# Not part of `make setup`: the blocks that show their interfaces run where they are installed.
OTHER_LIBRARIES = frozenset({"gymnasium", "jaxmarl", "open_spiel", "pettingzoo", "pgx", "pyspiel", "rlcard"})
SHORTER = {
    # A belief that takes no filter, which those pages do without that are not about one.
    "last.safetensors uniform scarcest-color --games 4000": "last.safetensors,belief=unseen uniform --games 20",
    "--games 4000": "--games 20",
    "uniform --games 64": "uniform --games 8",
    # The filter that the page itself has compiled.
    "mc:rollouts=100 --html": "mc:rollouts=8,particles=4096,model=uniform --replicates 4 --html",
    "unojax evaluate mine.py:spiteful": "unojax evaluate mine.py:spiteful --opponents uniform --games 4",
    "mc:rollouts=64,belief=unseen": "mc:rollouts=4,belief=unseen,policy=uniform",
    "(search, unojax.uniform), 16": "(search, unojax.uniform), 2",
}
"""Commands and code take less time with these parts changed, of which nothing is printed; in this order."""
# Their programs run for less time than optimising them takes.
NOT_OPTIMIZED = ("tutorials/belief", "tutorials/first-steps", "tutorials/gpu", "tutorials/train")
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


def test_what_is_shortened_is_on_pages():
    written = "".join(path.read_text(encoding="utf-8") for path in PAGES.values())
    assert [part for part in SHORTER if part not in written] == []


def test_counts_are_equal_and_measured_numbers_near():
    shown = "10,000 games, 49 steps, 67% won by 0.5, R5 at -1.25"
    assert_printed("10,000 games,  49 steps,\n66% won by 0.7, R5 at -1.27", shown, "here")
    for part, other in (
        ("49", "50"),
        ("000", "001"),
        ("67%", "70%"),
        ("67%", "67"),
        ("0.5", "0.8"),
        ("-1.25", "1.25"),
        ("R5", "R6"),
    ):
        with pytest.raises(AssertionError, match="here"):
            assert_printed(shown.replace(part, other), shown, "here")

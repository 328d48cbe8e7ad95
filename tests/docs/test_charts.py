"""Charts of the results: each is on its page, and shows the data of its results file."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_every_chart_is_drawn_for_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(DOCS))
    charts = import_module("charts")
    try:
        charts.draw_all(tmp_path)
    finally:
        del sys.modules["charts"]
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    shown = re.findall(r"\{image\} charts/(\S+)", (DOCS / "results.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(drawn) and len(shown) == 2 * len(charts.CHARTS)
    # Letters are text, which a reader's font draws.
    assert all("<text" in picture for picture in drawn.values())
    assert "RLCard, the game alone" in drawn["engine_cpu-light.svg"] and "value" in drawn["arena_cpu-dark.svg"]

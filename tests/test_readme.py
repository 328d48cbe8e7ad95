"""The README's code runs and prints the shown output."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.pages import run_page

PROGRAMS: Final = 400  # the page runs as a reader would run it
README = Path(__file__).parents[1] / "README.md"
SHORTER = {"--games 4000": "--games 20"}


@pytest.mark.slow
def test_code_blocks_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page(README, commands=SHORTER) == 3
    assert (tmp_path / "mine.py").exists()
    assert all(part in README.read_text(encoding="utf-8") for part in SHORTER)

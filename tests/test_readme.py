"""The code in the README runs as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import run_page

README = Path(__file__).parents[1] / "README.md"
# Not part of `make setup`: the blocks that show their interfaces run where they are installed.
OTHER_LIBRARIES = frozenset({"gymnasium"})


@pytest.mark.slow
def test_code_blocks_run_in_order() -> None:
    assert run_page(README, optional=OTHER_LIBRARIES) >= 2

"""Fixture of the tests of the documentation."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
def reference() -> Any:
    """The Sphinx extension that lists the public names; it needs griffe, from the extra `docs`."""
    pytest.importorskip("griffe", reason="griffe is not installed: pip install 'unojax[docs]'")
    sys.path.insert(0, str(DOCS / "_sphinx"))
    try:
        return import_module("reference")
    finally:
        sys.path.pop(0)

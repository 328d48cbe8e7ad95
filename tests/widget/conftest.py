"""Fixtures of the tests of boards."""

from __future__ import annotations

import pytest

from tests.telltale import TellTale


@pytest.fixture
def telltale(monkeypatch):
    monkeypatch.setattr("unojax.board.game.Advisor", TellTale)

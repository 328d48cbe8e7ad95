"""Programs compiled while the person thinks: their order, and the callers that wait for them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from time import sleep
from typing import Any

import pytest

from tests.games.playing import session_from
from unojax.games.ahead import Ahead
from unojax.games.session import OpponentError


class Parts:
    """A session's or an advisor's programs, which note their names when they are compiled."""

    def __init__(self, done: list[str], first: list[Callable[[], object]], names: tuple[str, ...] = (), later: str = ""):
        self.view, self.seen = None, []
        self._first = [*first, *(lambda name=name: done.append(name) for name in names)]
        self._later = [lambda: done.append(later)]

    def programs(self, start: Any = None) -> list[Callable[[], object]]:
        return self._first

    def later_programs(self, start: Any) -> list[Callable[[], object]]:
        return self._later


def test_the_job_that_the_person_waits_for_comes_first():
    """While a program of the moves and one of the advice are compiled."""
    done, go = list[str](), Event()
    ahead = Ahead(Parts(done, [go.wait], ("move",)), Parts(done, [go.wait], ("look",), "later"))  # type: ignore[arg-type]
    assert not ahead.is_ready("moves") and not ahead.is_ready("first advice")
    while len(ahead._waiting) > 3:
        sleep(0.01)
    assert [part.job for part in ahead._waiting] == ["first advice", "moves", "advice"]
    ahead.prefer("advice", "moves")
    assert [part.job for part in ahead._waiting] == ["moves", "advice", "first advice"]
    go.set()
    ahead.wait("first advice", "moves", "advice")
    assert sorted(done) == ["later", "look", "move"] and ahead.is_ready("first advice", "moves", "advice")
    ahead.close()


def test_an_error_is_raised_where_it_is_waited_for():
    def fail() -> None:
        raise OpponentError("the opponent failed")

    ahead = Ahead(Parts([], [fail]), None)  # type: ignore[arg-type]
    with pytest.raises(OpponentError, match="the opponent failed"):
        ahead.wait("moves")
    assert ahead.is_ready("advice"), "no advice, nothing to wait for"
    ahead.close()


def test_an_opponent_without_a_choice_needs_no_program(monkeypatch: pytest.MonkeyPatch):
    session = session_from("R0,R2/Y1,Y2/Y0/* R3 0 0 1 - *")
    session.play(0)
    assert not session.is_my_turn and not session.agent_has_choice
    monkeypatch.setattr(session, "_ask", lambda *args: pytest.fail("asked"))
    assert session.reply() == 60

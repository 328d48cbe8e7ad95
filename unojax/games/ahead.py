"""Compilation of a game's programs while the person thinks."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

from unojax.games.advisor import Advisor
from unojax.games.session import Session

Job = Literal["first advice", "moves", "advice"]


class Ahead:
    """Programs of a game, compiled by a background thread: first advice, then the opponent's moves, then later advice."""

    def __init__(self, session: Session, advisor: Advisor | None):
        self._pool = ThreadPoolExecutor(1, "compiling")
        self._jobs: dict[str, Future[object]] = {}
        view = session.view
        if advisor is not None and not session.seen:
            self._jobs["first advice"] = self._pool.submit(advisor.advise, [view])
        self._jobs["moves"] = self._pool.submit(session.warm)
        if advisor is not None:
            self._jobs["advice"] = self._pool.submit(advisor.warm, view)

    def is_ready(self, what: Job) -> bool:
        return what not in self._jobs or self._jobs[what].done()

    def wait(self, what: Job) -> None:
        """Wait for a job; raise its exception here."""
        if what in self._jobs:
            self._jobs[what].result()

    def close(self) -> None:
        """Start no further job."""
        self._pool.shutdown(wait=False, cancel_futures=True)

"""Compilation of a game's programs while the person thinks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Final, Literal

from unojax.games.advisor import Advisor
from unojax.games.session import Session

Job = Literal["moves", "first advice", "advice"]
_THREADS: Final = 2
"""Programs that are compiled at a time. XLA uses one core for most of a compilation."""


class Ahead:
    """Programs of a game, compiled by background threads while the person thinks.

    Either may be asked for first: one thread begins with the opponent's moves, whose slowest program comes first, and the other
    with the first advice. Later advice comes last, unless the person waits for it.
    """

    def __init__(self, session: Session, advisor: Advisor | None):
        view = session.view
        slowest, *moves = (_Part("moves", part) for part in session.programs())
        first, later = list[_Part](), list[_Part]()
        if advisor is not None:
            first_job: Job = "advice" if session.seen else "first advice"
            first = [_Part(first_job, part) for part in advisor.programs(view)]
            later = [_Part("advice", part) for part in advisor.later_programs(view)]
        self._waiting = [slowest, *first, *moves, *later]
        self._all = tuple(self._waiting)
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(_THREADS, "compiling")
        for _ in self._all:
            self._pool.submit(self._compile_next)

    def is_ready(self, *jobs: Job) -> bool:
        """Return whether jobs are done. A job that the game does not need is."""
        return all(part.done.done() for part in self._all if part.job in jobs)

    def wait(self, *jobs: Job) -> None:
        """Wait for jobs, which take precedence over the others; raise their exceptions here."""
        self.prefer(*jobs)
        for part in self._all:
            if part.job in jobs:
                part.done.result()

    def prefer(self, *jobs: Job) -> None:
        """Let jobs take precedence over the others."""
        with self._lock:
            self._waiting.sort(key=lambda part: part.job not in jobs)

    def close(self) -> None:
        """Start no further job."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _compile_next(self) -> None:
        with self._lock:
            part = self._waiting.pop(0)
        try:
            part.done.set_result(part.compile())
        except BaseException as error:
            part.done.set_exception(error)


class _Part:
    """One program of a job."""

    def __init__(self, job: Job, compile: Callable[[], object]):
        self.job, self.compile, self.done = job, compile, Future[object]()

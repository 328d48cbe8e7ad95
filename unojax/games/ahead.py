"""What a game will need compiled while the person thinks: `Ahead`. Host only."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

from unojax.games.advisor import Advisor
from unojax.games.session import Session

Job = Literal["first advice", "moves", "advice"]


class Ahead:
    """Programs that a game will need, compiled one after the other in a thread of their own while the person thinks.

    The first advice comes first, since it may be wanted at once; then what the opponent's moves need, then later advice.
    """

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
        """Wait for a job; what it raised is raised here."""
        if what in self._jobs:
            self._jobs[what].result()

    def close(self) -> None:
        """Begin no further job."""
        self._pool.shutdown(wait=False, cancel_futures=True)

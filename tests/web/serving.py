"""A server of games in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unojax.web.games import Defaults
from unojax.web.server import Server

DEFAULTS = Defaults(opponent="uniform", seed=3, adviser="mc:rollouts=32,belief=unseen,policy=uniform", pace=0.0)
"""Compile faster than the usual ones."""


@contextmanager
def serve(folder: Path, *, port: int = 0, **changes: Any) -> Iterator[Server]:
    """Serve until the end of the block; by the same folder and port, it is the same server again."""
    server = Server(Defaults(**{**vars(DEFAULTS), **changes}), port=port, folder=folder)
    began, stop, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()

    async def run() -> None:
        loop.call_soon(began.set)
        await server.run(stop)

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert began.wait(60)
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        server.worker.shutdown()
        loop.close()

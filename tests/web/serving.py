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
    began, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        began.set()
        await server.run(stop)

    # As `unojax play --web` does.
    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert began.wait(60)
        yield server
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join()
        server.worker.shutdown()

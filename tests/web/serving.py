"""A server of games in a thread of its own, and what asks it."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from unojax.web.games import Defaults
from unojax.web.server import ADDRESS, Server

DEFAULTS = Defaults(opponent="uniform", seed=3, adviser="mc:rollouts=32,belief=unseen,policy=uniform", pace=0.0)
"""Compile faster than the usual ones."""


@contextmanager
def serve(folder: Path, *, port: int = 0, **changes: Any) -> Iterator[Server]:
    """Serve until the end of the block; by the same folder and port, it is the same server again."""
    with running(Server(Defaults(**{**vars(DEFAULTS), **changes}), port=port, folder=folder)) as server:
        yield server


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Run a server until the end of the block."""
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


def ask(server: Server, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    """An answer as it is: status, text and headers; nothing is followed."""
    connection = HTTPConnection(ADDRESS, server.port, timeout=60)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


def with_cookie(server: Server) -> dict[str, str]:
    return {"Cookie": f"{server.cookie}={server.token}"}


class Page:
    """The channel of a page, without a page. Its loop has a thread of its own: a browser of other tests may hold this one."""

    def __init__(self, server: Server, name: str | None = None, **headers: str):
        self.server, self.name, self.loop = server, name or str(uuid.uuid4()), asyncio.new_event_loop()
        self.headers = with_cookie(server) | {"Origin": f"http://{ADDRESS}:{server.port}"} | headers
        self.thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self) -> Page:
        request = HTTPRequest(f"ws://{ADDRESS}:{self.server.port}/messages", headers=self.headers)

        async def connect() -> Any:
            return await websocket_connect(request)

        self.thread.start()
        try:
            self.socket = self.run(connect())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.socket.close)
        self.run(asyncio.sleep(0.05))
        self.close()

    def run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(doing, self.loop).result(120)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def send(self, text: str) -> None:
        async def write() -> None:
            await self.socket.write_message(text)

        self.run(write())

    def say(self, **message: Any) -> None:
        self.send(json.dumps({"game": self.name} | message))

    def hear(self, kind: str, **wanted: Any) -> dict[str, Any]:
        """The next message of a kind; others before it are passed over."""

        async def read() -> dict[str, Any]:
            while True:
                message = json.loads(await asyncio.wait_for(self.socket.read_message(), 120))
                place = message.get("state", {})
                if message["kind"] == kind and all(place.get(name) == value for name, value in wanted.items()):
                    return message

        return self.run(read())

    def answers(self) -> list[dict[str, Any]]:
        """All messages until now."""
        self.say(kind="save")

        async def read() -> list[dict[str, Any]]:
            messages: list[dict[str, Any]] = []
            while not messages or messages[-1]["kind"] != "record":
                messages.append(json.loads(await asyncio.wait_for(self.socket.read_message(), 120)))
            return messages[:-1]

        return self.run(read())

    def told(self, **message: Any) -> str:
        """What the person is told after a message."""
        self.say(**message)
        return self.hear("custom")["content"]["text"]

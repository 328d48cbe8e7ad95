"""Browser tabs without a browser: `Tab` calls the games of a server directly, `Page` connects to a running server."""

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

from unojax.decks import small_deck
from unojax.rules import Rules
from unojax.web.games import Defaults
from unojax.web.server import ADDRESS, Server
from unojax.web.tables import TableDefaults

# Without the particle filter and the linear policy, which take long to compile.
DEFAULTS = Defaults(opponent="uniform", seed=3, adviser="mc:rollouts=32,belief=unseen,policy=uniform", pace=0.0)
TABLES = TableDefaults(
    Rules.official(deck=small_deck(colors=2, ranks=(0, 1, 2, 3, 10, 12), copies=1, wilds=2), hand_size=3),
    "mc:rollouts=16,belief=unseen,policy=uniform",
    seed=3,
)
SMALL = {"deck": "numbers", "hand_size": "3", "seed": "5", "opponent": "uniform", "seat": "0"}
"""Choices of the form for a short game."""


class Tab:
    """A tab that sends clicks about the last shown position, and keeps all messages. Everything sent is JSON."""

    def __init__(self, folder: Path, defaults: Defaults | TableDefaults, name: str | None = None):
        self.name, self.sent = name or str(uuid.uuid4()), list[dict[str, Any]]()
        self.games: Any = defaults.games(folder, lambda name, message: self.sent.append(json.loads(json.dumps(message))))
        self.path = folder / f"{self.name}.json"

    def send(self, **message: Any) -> None:
        self.games.hear(self.name, message)

    def click(self, kind: str, **content: Any) -> None:
        place = {name: self.state.get(name) for name in ("game", "turn")}
        self.send(kind="board", content={"kind": kind} | place | content)

    def play_first(self) -> None:
        held = next(held for held in self.state["hand"] if held["playable"])
        self.click("play", card=held["card"], color="red")

    @property
    def states(self) -> list[dict[str, Any]]:
        return [message["state"] for message in self.sent if message["kind"] == "state"]

    @property
    def state(self) -> dict[str, Any]:
        return self.states[-1]

    @property
    def notices(self) -> list[str]:
        return [message["content"]["text"] for message in self.sent if message["kind"] == "custom"]

    @property
    def record(self) -> str:
        """Return the game's text, as the page saves it."""
        self.send(kind="save")
        return self.sent.pop()["text"]


@contextmanager
def serve(folder: Path, *, port: int = 0, defaults: Defaults | TableDefaults = DEFAULTS) -> Iterator[Server]:
    """Run a server. The same folder and port continue the same server."""
    server = Server(defaults, port=port, folder=folder)
    began, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        began.set()
        await server.run(stop)

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
    """Return status, text and headers of an answer, without following redirections."""
    connection = HTTPConnection(ADDRESS, server.port, timeout=60)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


def with_cookie(server: Server) -> dict[str, str]:
    return {"Cookie": f"{server.cookie}={server.token}"}


class Page:
    """The channel of a page, in the event loop of the server."""

    def __init__(self, server: Server, name: str | None = None, **headers: str):
        self.server, self.name = server, name or str(uuid.uuid4())
        self.headers = with_cookie(server) | {"Origin": f"http://{ADDRESS}:{server.port}"} | headers

    def __enter__(self) -> Page:
        async def connect() -> Any:
            return await websocket_connect(HTTPRequest(f"ws://{ADDRESS}:{self.server.port}/messages", headers=self.headers))

        self.socket = self.run(connect())
        return self

    def __exit__(self, *_: object) -> None:
        async def close() -> None:
            self.socket.close()
            await asyncio.sleep(0.05)

        self.run(close())

    def run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        assert self.server._loop is not None
        return asyncio.run_coroutine_threadsafe(doing, self.server._loop).result(120)

    def send(self, text: str) -> None:
        async def write() -> None:
            await self.socket.write_message(text)

        self.run(write())

    def say(self, **message: Any) -> None:
        self.send(json.dumps({"game": self.name} | message))

    def hear(self, kind: str) -> dict[str, Any]:
        """Return the next message of a kind; ignore others before it."""

        async def read() -> dict[str, Any]:
            while True:
                message = json.loads(await asyncio.wait_for(self.socket.read_message(), 120))
                if message["kind"] == kind:
                    return message

        return self.run(read())

    def greet(self) -> dict[str, Any]:
        """Return the state of the game after a greeting."""
        self.say(kind="hello")
        return self.hear("state")["state"]

    def notice(self) -> str:
        return self.hear("custom")["content"]["text"]

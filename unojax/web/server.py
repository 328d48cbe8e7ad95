"""Server for one person on this machine: pages and messages, by tornado.

It listens on 127.0.0.1 only. Every page requires the token, which is first in the address that the command prints and then in a
cookie. A request must name this server as its host, because another site could use its own name for this address. It must also
come from the server's own page. The pages may not load anything from elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import signal
import socket
import tempfile
import traceback
import webbrowser
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any, Final

from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from unojax.board import page
from unojax.files import write_whole
from unojax.files.folders import state_folder
from unojax.specs import AGENTS, POLICY_NAMES
from unojax.viz import game_html
from unojax.web.games import Defaults
from unojax.web.tables import TableDefaults

ADDRESS: Final = "127.0.0.1"
_MAX_FILE: Final = 1_000_000
"""Largest size of a file from a page, in bytes; a saved game has some thousands."""
_MAX_MESSAGE: Final = 6 * _MAX_FILE + 1000
"""Largest message in bytes: a byte of a file takes at most six in JSON."""
_PING_SECONDS: Final = 20
_POLICY: Final = "default-src 'none'; connect-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; {scripts}"
_POLICY_REST: Final = "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Server:
    """Pages and games for the tabs of one person.

    Args:
        defaults: Settings of a first game, or of the tables of games that others play.
        port: Port to listen on; 0: a free one.
        folder: Folder for the games and the token. None: the user's folder for program state, or a temporary one if there is
            none that can be written.

    Attributes:
        folder: The folder.

    Raises:
        OSError: If the port is taken, or the folder can't be written.
        ValueError: If there is no temporary folder either.
    """

    def __init__(self, defaults: Defaults | TableDefaults, *, port: int = 0, folder: Path | None = None):
        self.folder = _folder_of_user() if folder is None else folder
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.token = _token(self.folder / "token")
        self._socket = socket.create_server((ADDRESS, port))
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]
        self.pages: defaultdict[str, set[Messages]] = defaultdict(set)
        # One thread for all calls of games, because they would block the event loop.
        self.worker = ThreadPoolExecutor(1, "games")
        kind = "tables" if defaults.command == "table" else "games"
        self.games = defaults.games(self.folder / kind, self._send)
        self._defaults = defaults
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def address(self) -> str:
        """Address to open first."""
        return f"http://{ADDRESS}:{self.port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        return f"{ADDRESS}:{self.port}", f"localhost:{self.port}"

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for all pages."""
        command = f"unojax {self._defaults.command} --web"
        return {"agents": [*AGENTS, *POLICY_NAMES], "pace": self._defaults.pace, "maxFile": _MAX_FILE, "command": command}

    @property
    def cookie(self) -> str:
        """Name of the cookie: browsers share cookies between the ports of a host."""
        return f"unojax-{self.port}"

    def run_until_interrupt(self, *, opens: bool) -> None:
        """Serve until Ctrl-C or SIGTERM; with `opens`, open the page in the browser."""

        async def answer() -> None:
            stop, loop = asyncio.Event(), asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stop.set)
            if opens:
                loop.run_in_executor(None, webbrowser.open, self.address)
            await self.run(stop)

        asyncio.run(answer())

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        self._loop = asyncio.get_running_loop()
        http = HTTPServer(self._application())
        http.add_socket(self._socket)
        try:
            await stop.wait()
        finally:
            http.stop()
            for pages in list(self.pages.values()):
                for one in list(pages):
                    one.close()
            await http.close_all_connections()
            self.worker.shutdown(wait=False, cancel_futures=True)

    def _application(self) -> Application:
        handlers = dict.fromkeys(_PARTS, Part) | {"/messages": Messages, "/record": Record}
        routes: list[Any] = [(path, handler, {"server": self}) for path, handler in handlers.items()]
        settings: dict[str, Any] = {"default_handler_class": Missing, "default_handler_args": {"server": self}}
        # Do not log expected refusals.
        settings |= {"websocket_max_message_size": _MAX_MESSAGE, "log_function": lambda handler: None}
        return Application(routes, websocket_ping_interval=_PING_SECONDS, **settings)

    def _send(self, name: str, message: dict[str, Any]) -> None:
        """Send a message to the pages of a game, from any thread."""
        text = json.dumps(message, allow_nan=False)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._write, name, text)

    def _write(self, name: str, text: str) -> None:
        for one in list(self.pages.get(name, ())):
            one.push(text)


class Guarded(RequestHandler):
    """Answers only this machine, under the server's own name, with the token."""

    def initialize(self, server: Server) -> None:
        self.server = server

    def prepare(self) -> None:
        request = self.request
        if request.remote_ip != ADDRESS or request.host not in self.server.hosts:
            raise HTTPError(403, reason="not this machine")
        origin = request.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self.server.hosts:
            raise HTTPError(403, reason="another site")
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise HTTPError(403, reason="another site")
        if not self._has_token(self.get_cookie(self.server.cookie) or ""):
            given = self.get_query_argument("token", "") if request.method == "GET" and request.path == "/" else ""
            if not self._has_token(given):
                raise HTTPError(403, reason="no token")
            self.set_cookie(self.server.cookie, given, httponly=True, samesite="Strict", path="/")

    def _has_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.server.token.encode())

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", _POLICY.format(scripts="script-src 'self'") + _POLICY_REST)
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")
        self.clear_header("Server")

    def write_error(self, status_code: int, **options: Any) -> None:
        del options
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        hint = "; open the address that unojax play --web printed" if status_code == 403 else ""
        self.finish(f"{status_code}: {self._reason}{hint}\n")

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Do not log expected refusals."""
        if not isinstance(value, HTTPError):
            super().log_exception(typ, value, tb)


class Missing(Guarded):
    """Unknown paths (404)."""

    def get(self) -> None:
        raise HTTPError(404)


class Part(Guarded):
    """Parts of the page: files, and what is made of them."""

    def get(self) -> None:
        if self.request.path == "/" and self.get_query_argument("token", None) is not None:
            # Remove the token from the address and the history.
            self.redirect("/")
            return
        kind, content = _PARTS[self.request.path]
        self.set_header("Content-Type", f"{kind}; charset=utf-8")
        self.finish(content(self.server))


def _read(name: str) -> Callable[[Server], str]:
    return lambda server: resources.files("unojax.web").joinpath(name).read_text(encoding="utf-8")


_PARTS: Final[dict[str, tuple[str, Callable[[Server], str]]]] = {
    "/": ("text/html", _read("page.html")),
    "/web.js": ("text/javascript", _read("web.js")),
    "/web.css": ("text/css", _read("web.css")),
    "/board.js": ("text/javascript", lambda server: page.script()),
    "/board.css": ("text/css", lambda server: page.style()),
    "/faces.json": ("application/json", lambda server: json.dumps(page.faces())),
    "/settings.json": ("application/json", lambda server: json.dumps(server.settings)),
}
"""Kind and content of each part, by its path."""


class Record(Guarded):
    """The game to step through: the person's view, and all cards once it is over."""

    async def get(self) -> None:
        name = self.get_query_argument("game", "")
        try:
            content = await asyncio.wrap_future(self.server.worker.submit(self._draw, name))
        except ValueError as error:
            raise HTTPError(404, reason=str(error)) from None
        scripts = (hashlib.sha256(code.encode()).digest() for code in re.findall(r"<script>(.*?)</script>", content, re.DOTALL))
        allowed = "script-src " + " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in scripts)
        self.set_header("Content-Security-Policy", _POLICY.format(scripts=allowed) + _POLICY_REST)
        self.finish(content)

    def _draw(self, name: str) -> str:
        game = self.server.games.find(name)
        theme = "dark" if self.get_query_argument("theme", "light") == "dark" else "light"
        return game_html(game.positions, title=" against ".join(game.record.players), theme=theme)


class Messages(WebSocketHandler, Guarded):
    """Channel of a page: clicks from it, and updates to it."""

    def check_origin(self, origin: str) -> bool:
        """Accept: `prepare` has checked the origin."""
        return origin.removeprefix("http://") in self.server.hosts

    def open(self, *args: str, **options: str) -> None:
        self.name = ""

    def on_message(self, message: str | bytes) -> None:
        """Pass a message to the games' thread, which answers in order."""
        try:
            data = json.loads(message)
        except (ValueError, RecursionError):
            data = None
        if not (isinstance(data, dict) and isinstance(data.get("game"), str)):
            return self._tell("That was no message of this page.")
        if data["game"] != self.name:
            self._leave()
            self.name = data["game"]
            self.server.pages[self.name].add(self)
        heard = asyncio.wrap_future(self.server.worker.submit(self.server.games.hear, self.name, data))
        heard.add_done_callback(self._tell_trouble)
        return None

    def _tell_trouble(self, heard: asyncio.Future[None]) -> None:
        """Send the page the reason why a message was not answered."""
        # Cancelled: the server stops, and the page reports it.
        error = None if heard.cancelled() else heard.exception()
        if isinstance(error, ValueError):
            self._tell(f"{str(error)[:1].upper()}{str(error)[1:]}.")
        elif error is not None:
            # A bug: the page stays, and the traceback goes to the server's terminal.
            traceback.print_exception(error)
            self._tell(f"This went wrong in Python: {error}")

    def on_close(self) -> None:
        self._leave()

    def push(self, text: str) -> None:
        """Send a text; a closed page misses it."""
        try:
            self.write_message(text)
        except WebSocketClosedError:
            self._leave()

    def _tell(self, words: str) -> None:
        self.push(json.dumps({"kind": "custom", "content": {"kind": "notice", "text": words}}))

    def _leave(self) -> None:
        pages = self.server.pages
        if self.name in pages:
            pages[self.name].discard(self)
            if not pages[self.name]:
                del pages[self.name]


def _folder_of_user() -> Path:
    """Return the folder of the user's pages, or a new temporary one if that can't be written."""
    state = state_folder()
    if state is not None:
        folder = state / "web"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    try:
        return Path(tempfile.mkdtemp(prefix="unojax-"))
    except OSError as error:
        raise ValueError(f"games can't be kept: {error.strerror}; set TMPDIR to a folder that can be written") from None


def _token(path: Path) -> str:
    """Read the token, or create it. A fixed token lets a page find the restarted server."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        token = ""
    if not re.fullmatch(r"[A-Za-z0-9_-]{32,}", token):
        token = secrets.token_urlsafe(32)
        write_whole(path, token + "\n")
        os.chmod(path, 0o600)
    return token

"""Games of browser tabs: in memory, in files, and their messages."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from unojax.board.face import Face
from unojax.games.gamefile import GameFile, parse_game, read_game, write_game

MAX_LOADED: Final = 32
"""Most games in memory; others are read from their files."""
KEPT_SECONDS: Final = 30 * 24 * 3600
"""Seconds for which the file of an inactive game is kept."""
_NAME: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Name of a tab's game and of its file: a UUID."""

Send = Callable[[str, dict[str, Any]], None]
"""`send(name, message)` sends a message to all pages that show the game of that name."""


class Tab(Face):
    """Face of a board in a tab. A position is written to a file before it is shown."""

    def __init__(self, name: str, path: Path, send: Send):
        self._name, self._path, self._send = name, path, send
        self.state: dict[str, Any] = {}
        self._stored: GameFile | None = None

    def send_words(self, content: dict[str, Any]) -> None:
        self._send(self._name, {"kind": "custom", "content": content})

    def publish(self, state: dict[str, Any]) -> None:
        """Store the game if it has changed, and show it."""
        self.state, trouble = state | {"canSave": True}, ""
        # A table without a deal has no record.
        with suppress(ValueError):
            if (record := self.record) != self._stored:
                try:
                    write_game(self._path, record)
                    self._stored = record
                except OSError as error:
                    trouble = f"The game can't be kept: {error.strerror}."
        self._send(self._name, {"kind": "state", "state": self.state})
        if trouble:
            # After the position: a page that draws another position clears the message.
            self.tell(trouble)

    def greet(self) -> None:
        """Send a new page the last position."""
        self._send(self._name, {"kind": "state", "state": self.state})

    def restore(self) -> None:
        """Store and show the game again, after another one has replaced it."""
        self._stored = None
        self.publish(self.state)


_Board = TypeVar("_Board", bound=Tab)


class Tabs(ABC, Generic[_Board]):
    """Games by the names of their tabs, each in a file, the last used ones in memory too. One thread calls at a time.

    The folder is created; the files of games that have been inactive for `KEPT_SECONDS` are removed.
    """

    def __init__(self, folder: Path, send: Send):
        self._folder, self._send = folder, send
        # The last used game is the last entry.
        self._loaded: dict[str, _Board] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in folder.glob("*.json"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                    path.unlink()

    @abstractmethod
    def begin(self, name: str) -> _Board:
        """Begin the first game of a tab."""

    @abstractmethod
    def resume(self, name: str, saved: GameFile) -> _Board:
        """Continue a saved game. Raises ValueError if it can't continue."""

    @abstractmethod
    def deal(self, name: str, choices: Any) -> None:
        """Begin another game in a tab, as chosen in its form. Raises ValueError if the choices are refused."""

    @abstractmethod
    def load(self, name: str, saved: GameFile) -> None:
        """Show a saved game in a tab. Raises ValueError if it can't continue."""

    def hear(self, name: str, message: dict[str, Any]) -> None:
        """Answer a message of a tab.

        Raises:
            ValueError: If the request is refused.
            RuntimeError: If the opponent or the device fails.
        """
        kind = message.get("kind")
        if kind == "hello":
            self._greet(name)
        elif kind == "deal":
            self.deal(name, message.get("choices"))
        elif kind == "load":
            self.load(name, parse_game(str(message.get("text", ""))))
        elif kind == "save":
            self._send(name, {"kind": "record", "text": self.find(name).record.to_json()})
        elif kind == "board":
            self.find(name).hear(message.get("content"))

    def _greet(self, name: str) -> None:
        """Show a tab its game, or begin one; set aside a game that can't continue."""
        notice = ""
        try:
            board = self.find(name)
        except (ValueError, RuntimeError) as error:
            # An opponent may also fail, or need more memory than available.
            if (aside := put_aside(self.path(name))) is not None:
                why = str(error).partition("\n")[0]
                notice = f"The last game can't continue, so this is another one: {why}. Its file is now {str(aside)!r}."
            board = self.keep(name, self.begin(name))
        board.greet()
        if notice:
            board.tell(notice)

    def path(self, name: str) -> Path:
        """Return the file of a game. Raises ValueError if the name is not that of a tab's game."""
        if not _NAME.fullmatch(name):
            raise ValueError("the name of a game must be a UUID")
        return self._folder / f"{name}.json"

    def find(self, name: str) -> _Board:
        """Return the game of a tab, from its file if necessary, or ValueError."""
        path = self.path(name)
        if name not in self._loaded and not path.exists():
            raise ValueError("this game is no longer kept")
        return self.keep(name, self._loaded[name] if name in self._loaded else self.resume(name, read_game(path)))

    def keep(self, name: str, board: _Board) -> _Board:
        """Keep a game in memory as the last used one, and return it."""
        self._loaded.pop(name, None)
        self._loaded[name] = board
        if len(self._loaded) > MAX_LOADED:
            del self._loaded[next(iter(self._loaded))]
        return board


def put_aside(path: Path) -> Path | None:
    """Rename the file of a game, if it exists, so that the next game does not replace it.

    It replaces no other file, and is kept as long as if it had been played now.

    Raises:
        ValueError: If it can't be renamed.
    """
    if not path.exists():
        return None
    others = (path.with_name(f"{path.stem}.kept{number}.json") for number in chain([""], count(2)))
    aside = next(other for other in others if not other.exists())
    try:
        path.rename(aside)
        aside.touch()
    except OSError as error:
        raise ValueError(f"the game before can't be put aside ({error.strerror}), and is not replaced: {str(path)!r}") from None
    return aside

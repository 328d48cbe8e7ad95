"""Games of browser tabs in memory and in files."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Final, Generic, TypeVar

MAX_LOADED: Final = 32
"""Most games in memory; others are read from their files."""
KEPT_SECONDS: Final = 30 * 24 * 3600
"""Seconds for which the file of an inactive game is kept."""
_NAME: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Name of a tab's game and of its file: a UUID."""
_Game = TypeVar("_Game")


class Store(Generic[_Game]):
    """Games by the names of their tabs, each in a file, the last used ones in memory too.

    A new store creates the folder, and removes the files of games that have been inactive for `KEPT_SECONDS`.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        # The last used game is the last entry.
        self._loaded: dict[str, _Game] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in folder.glob("*.json"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                    path.unlink()

    def __len__(self) -> int:
        """Return the number of games in memory."""
        return len(self._loaded)

    def path(self, name: str) -> Path:
        """Return the file of a game. Raises ValueError if the name is not that of a tab's game."""
        if not _NAME.fullmatch(name):
            raise ValueError("the name of a game must be a UUID")
        return self._folder / f"{name}.json"

    def find(self, name: str, load: Callable[[Path], _Game]) -> _Game:
        """Return a game, from memory or by `load` of its file, which may not exist."""
        path = self.path(name)
        return self.keep(name, self._loaded[name] if name in self._loaded else load(path))

    def keep(self, name: str, game: _Game) -> _Game:
        """Keep a game in memory as the last used one, and return it."""
        self._loaded.pop(name, None)
        self._loaded[name] = game
        if len(self._loaded) > MAX_LOADED:
            del self._loaded[next(iter(self._loaded))]
        return game

    def set_aside(self, name: str, error: Exception) -> str:
        """Set aside the file of a game that can't continue; return the message for the person.

        The message is empty without a file.
        """
        if (aside := put_aside(self.path(name))) is None:
            return ""
        why = str(error).partition("\n")[0]
        return f"The last game can't continue, so this is another one: {why}. Its file is now {str(aside)!r}."


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

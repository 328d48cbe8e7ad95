"""Tables of browser tabs, entered by clicks, one for each tab and stored in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unojax.board.at_table import TableBoard
from unojax.games.at_table import Table
from unojax.games.gamefile import parse_game
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.search import TABLE_SEARCH
from unojax.web.games import Send, Tab
from unojax.web.store import Store


@dataclass(frozen=True)
class TableDefaults:
    """Initial settings of a tab."""

    rules: Rules = Rules()
    agent: str = TABLE_SEARCH
    seed: int = 0
    table: Table | None = None
    pace: float = 0.0

    def games(self, folder: Path, send: Send) -> Tables:
        return Tables(folder, self, send)


class TabTable(Tab, TableBoard):
    """Table of a tab."""

    def __init__(self, name: str, path: Path, send: Send, defaults: TableDefaults, table: Table | None):
        Tab.__init__(self, name, path, send)
        rules = defaults.rules if table is None else table.rules
        TableBoard.__init__(self, rules, defaults.agent, seed=defaults.seed, table=table)

    def publish(self, state: dict[str, Any]) -> None:
        """Store the game, and show it."""
        self._send_state(state | {"canSave": True}, None if self.table is None else self.record)

    @property
    def is_over(self) -> bool:
        """Always False: the other hand is never revealed."""
        return False

    @property
    def views(self) -> Sequence[Observation]:
        """Return the person's observations. Raises ValueError before the deal is entered."""
        if self.table is None:
            raise ValueError("there is no game yet")
        return self.table.game.observations


class Tables:
    """Tables of all tabs. One thread calls at a time."""

    def __init__(self, folder: Path, defaults: TableDefaults, send: Send):
        self._store, self._defaults, self._send = Store[TabTable](folder), defaults, send

    def hear(self, name: str, message: dict[str, Any]) -> None:
        """Answer a message of a tab, or ValueError."""
        kind = message.get("kind")
        if kind == "hello":
            return self._greet(name)
        board = self.find(name)
        if kind == "deal":
            board.new_table()
        elif kind == "load":
            saved = parse_game(str(message.get("text", "")))
            table = Table.of(saved.seen(), agent=self._defaults.agent, seed=saved.seed or 0)
            self._store.keep(name, self._new(name, table)).show()
        elif kind == "save":
            self._send(name, {"kind": "record", "text": board.record.to_json()})
        elif kind == "board":
            board.hear(message.get("content"))
        return None

    def _greet(self, name: str) -> None:
        """Show a tab its table; set aside a file that can't continue."""
        notice = ""
        try:
            board = self.find(name)
        except ValueError as error:
            notice = self._store.set_aside(name, error)
            board = self.find(name)
        board.show()
        if notice:
            # After the position: a page that draws another position clears the message.
            board.tell(notice)

    def find(self, name: str) -> TabTable:
        """Return the table of a tab, from its file if necessary."""

        def load(path: Path) -> TabTable:
            if path.exists():
                return self._new(name, Table.resume(path, agent=self._defaults.agent))
            # A tab plays on in a table of its own.
            start = self._defaults.table
            return self._new(name, None if start is None else start.after(""))

        return self._store.find(name, load)

    def _new(self, name: str, table: Table | None) -> TabTable:
        return TabTable(name, self._store.path(name), self._send, self._defaults, table)

"""Tables of browser tabs, entered by clicks, one for each tab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from unojax.board.at_table import TableBoard
from unojax.games.at_table import Table
from unojax.games.gamefile import GameFile
from unojax.rules import Rules
from unojax.search import TABLE_SEARCH
from unojax.web.tabs import Send, Tab, Tabs


@dataclass(frozen=True)
class TableDefaults:
    """Initial settings of a tab."""

    rules: Rules = Rules()
    agent: str = TABLE_SEARCH
    seed: int = 0
    table: Table | None = None
    pace: float = 0.0

    command: ClassVar = "table"

    def games(self, folder: Path, send: Send) -> Tables:
        return Tables(folder, self, send)


class TabTable(TableBoard, Tab):
    """Table of a tab."""

    def __init__(self, name: str, path: Path, send: Send, defaults: TableDefaults, table: Table | None):
        Tab.__init__(self, name, path, send)
        rules = defaults.rules if table is None else table.rules
        TableBoard.__init__(self, rules, defaults.agent, seed=defaults.seed, table=table)


class Tables(Tabs[TabTable]):
    """Tables of all tabs."""

    def __init__(self, folder: Path, defaults: TableDefaults, send: Send):
        super().__init__(folder, send)
        self._defaults = defaults

    def begin(self, name: str) -> TabTable:
        """Begin a table; a tab plays on in a table of its own."""
        start = self._defaults.table
        return self._new(name, None if start is None else start.after(""))

    def resume(self, name: str, saved: GameFile) -> TabTable:
        return self._new(name, Table.of(saved.seen(), agent=self._defaults.agent, seed=saved.seed or 0))

    def deal(self, name: str, choices: Any) -> None:
        """Ask for the cards of another deal."""
        del choices
        self.find(name).new_table()

    def load(self, name: str, saved: GameFile) -> None:
        self.keep(name, self.resume(name, saved))

    def _new(self, name: str, table: Table | None) -> TabTable:
        board = TabTable(name, self.path(name), self._send, self._defaults, table)
        board.show()
        return board

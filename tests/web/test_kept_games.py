"""Games of tabs: bounded in memory, old files removed."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from unojax.games.at_table import Table
from unojax.games.gamefile import GameFile, write_game
from unojax.rules import Rules
from unojax.web.games import Defaults
from unojax.web.tables import TableDefaults
from unojax.web.tabs import KEPT_SECONDS, MAX_LOADED, Tabs, put_aside


def name_of(number: int) -> str:
    return str(uuid.UUID(int=number))


def send_nothing(name: str, message: dict[str, Any]) -> None:
    pass


class Kept(Tabs[Any]):
    """Tabs whose games are the texts of their files."""

    def begin(self, name: str) -> Any:
        return f"a game of {name}"

    def resume(self, name: str, saved: GameFile) -> Any:
        return saved.start

    def deal(self, name: str, choices: Any) -> None:
        self.keep(name, choices)

    def load(self, name: str, saved: GameFile) -> None:
        self.keep(name, saved.start)


def write(folder: Path, number: int) -> None:
    game = GameFile(("a", "b"), None, Rules(), f"game {number}", (), "*")
    write_game(folder / f"{name_of(number)}.json", game)


def test_the_last_used_games_are_in_memory(tmp_path: Path) -> None:
    """A dropped game is loaded from its file again; the game used last is not dropped."""
    tabs = Kept(tmp_path, send_nothing)
    for number in range(MAX_LOADED):
        write(tmp_path, number)
        assert tabs.find(name_of(number)) == f"game {number}"
        tabs.path(name_of(number)).unlink()
    assert tabs.find(name_of(0)) == "game 0"
    tabs.keep(name_of(MAX_LOADED), "another")
    assert tabs.find(name_of(0)) == "game 0"
    with pytest.raises(ValueError, match="no longer kept"):
        tabs.find(name_of(1))
    write(tmp_path, 1)
    assert tabs.find(name_of(1)) == "game 1" and len(tabs._loaded) == MAX_LOADED


def test_a_game_that_can_not_be_loaded_is_not_kept(tmp_path: Path) -> None:
    tabs = Kept(tmp_path, send_nothing)
    tabs.path(name_of(1)).write_text("damaged")
    with pytest.raises(ValueError, match="no saved game"):
        tabs.find(name_of(1))
    assert not tabs._loaded


@pytest.mark.parametrize("name", ["", "game", "../" + name_of(1), name_of(1).upper() + "x"])
def test_names_are_those_of_tabs(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a UUID"):
        Kept(tmp_path, send_nothing).path(name)


@pytest.mark.parametrize("defaults", [Defaults(), TableDefaults()], ids=["games", "tables"])
def test_old_files_are_removed_at_the_start(defaults: Defaults | TableDefaults, tmp_path: Path) -> None:
    old, new, other = tmp_path / f"{name_of(1)}.json", tmp_path / f"{name_of(2)}.json", tmp_path / "notes.txt"
    for file in (old, new, other):
        file.write_text("{}")
    long_ago = time.time() - KEPT_SECONDS - 60
    for file in (old, other):
        os.utime(file, (long_ago, long_ago))
    defaults.games(tmp_path, send_nothing)
    assert sorted(tmp_path.iterdir()) == sorted([new, other])


def test_many_tables_are_bounded(tmp_path: Path) -> None:
    """The first table leaves memory, and its file restores it."""
    table = Table("R1 R5 Y2 YS B7 G+2 W", "R0")
    table.play("r5")
    table.save(tmp_path / f"{name_of(0)}.json")
    tables = TableDefaults().games(tmp_path, send_nothing)
    first = tables.find(name_of(0))
    for number in range(1, MAX_LOADED + 1):
        tables.hear(name_of(number), {"kind": "hello"})
    again = tables.find(name_of(0))
    assert again is not first
    assert again.table is not None and again.table.events == table.events


def test_put_aside_replaces_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / f"{name_of(1)}.json"
    assert put_aside(file) is None
    for content, aside in (("a", f"{name_of(1)}.kept.json"), ("b", f"{name_of(1)}.kept2.json")):
        file.write_text(content)
        assert put_aside(file) == tmp_path / aside and not file.exists()
        assert (tmp_path / aside).read_text() == content

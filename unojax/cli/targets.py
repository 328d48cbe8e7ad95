"""Names of files to be written, looked at before anything slow is done. Imports no JAX."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from unojax.files import check_target, is_special
from unojax.specs import files_of

STDOUT: Final = "-"
SAVED_GAME: Final = {"is_saved_game": True}
"""Metadata of an option's field: it names a saved game, which is read."""
_WRITTEN: Final = ("out", "html", "svg", "results", "plot", "state", "save", "json")
"""Options that name files which are written; some of them are read before."""
_SPECS: Final = ("agent", "agents", "opponent", "opponents", "policies", "exact_belief")
"""Options that name agents or policies."""


def check_apart(options: Any) -> None:
    """Raise ValueError where a file that a command is to write is one that it reads, or another one that it writes.

    Args:
        options: of any command, a dataclass.
    """
    taken = {path.resolve(): what for path, what in _read_files(options)}
    for option in _WRITTEN:
        target = getattr(options, option, None)
        if target is None or target == STDOUT:
            continue
        if (path := Path(target).resolve()) in taken and not is_special(path):
            raise ValueError(f"--{option}: {target!r} is {taken[path]}; give another name")
        taken[path] = f"written by --{option} too"


def _read_files(options: Any) -> Iterator[tuple[Path, str]]:
    """List the files that a command reads, each with what it is."""
    deck = getattr(getattr(options, "rules", None), "deck", "")
    if deck.endswith(".json"):
        yield Path(deck), "read by --deck"
    for field in fields(options):
        value = getattr(options, field.name)
        if value is not None and field.metadata == SAVED_GAME:
            yield Path(value), "the saved game itself"
        if field.name in _SPECS:
            specs = value if isinstance(value, tuple) else (value,)
            # Where a position is told, the opponent is a number of cards.
            for spec in specs:
                if isinstance(spec, str):
                    # A number or a flag is no file; a program may have no suffix.
                    yield from ((path, f"read by {spec}") for path in files_of(spec) if path.suffix or os.path.isfile(path))


def check_json_target(target: str | None) -> None:
    """Raise ValueError, before the work is done, for a file that could not be written after it."""
    if target is not None and target != STDOUT:
        check_target("--json", target, hint="; give a file name, or - for stdout")


def check_column_target(option: str, target: str) -> None:
    """Raise ValueError for a name that says no format of columns, or where no such file can be made."""
    from unojax.files.columns import check_column_file

    try:
        check_column_file(target)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    check_target(option, target)

"""Files that a command names, checked before slow work."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from unojax.cli.options import IS_SAVED_GAME, blaming
from unojax.files import check_target, is_special
from unojax.specs import files_of

STDOUT: Final = "-"
_WRITTEN: Final = ("out", "html", "svg", "results", "plot", "state", "save", "json")
"""Options that name output files; some are also read."""
_SPECS: Final = ("agent", "agents", "opponent", "opponents", "policies", "exact_belief")
"""Options that name agents or policies."""
_PICTURES: Final = (".svg", ".png")


def check_files(options: Any) -> None:
    """Check that a command's files can be written, and those of `check_apart`."""
    check_apart(options)
    for option in _WRITTEN:
        target = getattr(options, option, None)
        if target is None or (option, target) == ("json", STDOUT):
            continue
        if option == "out":
            _check_columns(target)
        if option == "plot":
            _check_picture(target)
        hint = "; give a file name, or - for stdout" if option == "json" else ""
        check_target(f"--{option}", target, hint)


def check_apart(options: Any) -> None:
    """Check that a command does not write a file that it reads, nor one file twice."""
    taken = {path.resolve(): what for path, what in _read_files(options)}
    for option in _WRITTEN:
        target = getattr(options, option, None)
        if target is None or target == STDOUT:
            continue
        if (path := Path(target).resolve()) in taken and not is_special(path):
            raise ValueError(f"--{option}: {target!r} is {taken[path]}; give another name")
        taken[path] = f"written by --{option} too"


def _check_columns(target: str) -> None:
    from unojax.files.columns import check_column_file

    with blaming("--out"):
        check_column_file(target)


def _check_picture(target: str) -> None:
    if Path(target).suffix not in _PICTURES:
        raise ValueError(f"--plot: a file must end in {' or '.join(_PICTURES)}, got {target!r}")
    if find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib: pip install 'unojax[plot]'")


def _read_files(options: Any) -> Iterator[tuple[Path, str]]:
    """Return the files that a command reads, each with its description."""
    deck = getattr(getattr(options, "rules", None), "deck", "")
    if deck.endswith(".json"):
        yield Path(deck), "read by --deck"
    for field in fields(options):
        value = getattr(options, field.name)
        if value is not None and field.metadata.get(IS_SAVED_GAME):
            yield Path(value), "the saved game itself"
        if field.name in _SPECS:
            specs = value if isinstance(value, tuple) else (value,)
            # With a position, the opponent is a number of cards.
            for spec in specs:
                if isinstance(spec, str):
                    # A number or a flag is no file; a program may have no suffix.
                    yield from ((path, f"read by {spec}") for path in files_of(spec) if path.suffix or os.path.isfile(path))


def file_of_game(save: str | None, resume: str | None) -> str | None:
    """Return the file in which a game is saved: that of `--save`, else that of `--resume`, else None.

    Raises:
        ValueError: If another game in the file of `--save` is unfinished, or the file holds something else.
    """
    if save is None or (resume is not None and Path(save).resolve() == Path(resume).resolve()):
        return save or resume
    from unojax.games.gamefile import unfinished_game

    try:
        unfinished = unfinished_game(save)
    except ValueError as error:
        raise ValueError(f"--save: {error}; it is not overwritten: give another name") from None
    if unfinished is not None:
        command = "table" if unfinished.shows_one_hand else "play"
        raise ValueError(
            f"--save: the game in {save!r} is unfinished: unojax {command} --resume {shlex.quote(save)} continues it; "
            "for another game give another name"
        )
    return save

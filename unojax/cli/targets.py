"""Names of files to be written, looked at before anything slow is done. Imports no JAX."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from unojax.files import is_special

STDOUT: Final = "-"


def check_apart(source: str | None, **targets: str | None) -> None:
    """Raise ValueError where a file to be written is the one that is read, or another one to be written."""
    taken = {} if source is None else {Path(source).resolve(): "the saved game itself"}
    for option, target in targets.items():
        if target is None or target == STDOUT:
            continue
        if (path := Path(target).resolve()) in taken and not is_special(path):
            raise ValueError(f"--{option}: {target!r} is {taken[path]}; give another name")
        taken[path] = f"written by --{option} too"


def check_target(option: str, target: str, hint: str = "") -> None:
    """Raise ValueError for no path, one that is a folder, or one beside which no file can be made."""
    if not target:
        raise ValueError(f"{option}: the name of the file is empty{hint}")
    path = Path(target)
    if path.is_dir() or target.endswith(os.sep):
        raise ValueError(f"{option}: {target!r} is a folder{hint}")
    if not is_special(path) and not os.access(path.resolve().parent, os.W_OK | os.X_OK):
        what = "no permission" if path.resolve().parent.is_dir() else "there is no such folder"
        raise ValueError(f"{option}: can't write {target!r}: {what}")


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

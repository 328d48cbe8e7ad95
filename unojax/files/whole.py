"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import BinaryIO


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file beside its place, then move it there: a reader sees the old file or the new one, never a part.

    A link stays one: what it points to is replaced. A device or a pipe (/dev/null, /dev/fd/3) is written to.

    Raises:
        OSError: the file can't be written; the old one is as it was.
    """
    content = content.encode() if isinstance(content, str) else content
    path = Path(path)
    if is_special(path):
        path.write_bytes(content)
        return
    path = path.resolve()
    file = create_beside(path)
    try:
        with file:
            file.write(content)
        os.replace(file.name, path)
    except BaseException:
        os.unlink(file.name)
        raise


def create_beside(path: Path) -> BinaryIO:
    """Create a file in the folder of another, under a name that no file has, and open it for writing.

    It may be read by whom the umask allows, as any new file.

    Raises:
        OSError: there can't be one.
    """
    try:
        return open(path.with_name(f".{path.name}.{secrets.token_urlsafe(6)}.tmp"), "xb")
    except OSError as error:
        # The name that was asked for, and not that beside it.
        raise OSError(error.errno, error.strerror, str(path)) from None


def is_special(path: Path) -> bool:
    """Tell a device or a pipe, which must be written to and not replaced."""
    return path.exists() and not path.is_file()


def check_target(option: str, target: str, hint: str = "") -> None:
    """Check, before slow work, that a file can be written after it.

    Args:
        option: what named the file, for messages.
        target: path of the file.
        hint: ending of the messages about an empty path or a folder.

    Raises:
        ValueError: If the path is empty or a folder, or no file can be made beside it.
    """
    if not target:
        raise ValueError(f"{option}: the name of the file is empty{hint}")
    path = Path(target)
    if path.is_dir() or target.endswith(os.sep):
        raise ValueError(f"{option}: {target!r} is a folder{hint}")
    if not is_special(path) and not os.access(path.resolve().parent, os.W_OK | os.X_OK):
        what = "no permission" if path.resolve().parent.is_dir() else "there is no such folder"
        raise ValueError(f"{option}: can't write {target!r}: {what}")

"""Atomically written files."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import BinaryIO


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a part.

    A link stays a link, to the new file. A device or a pipe (/dev/null, /dev/fd/3) is written to directly.

    Raises:
        OSError: If the file can't be written; the old one is then unchanged.
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
    """Create a file beside another, under an unused name, and open it for writing.

    Its permissions follow the umask.
    """
    try:
        return open(path.with_name(f".{path.name}.{secrets.token_urlsafe(6)}.tmp"), "xb")
    except OSError as error:
        # Report the requested name instead of the temporary one.
        raise OSError(error.errno, error.strerror, str(path)) from None


def is_special(path: Path) -> bool:
    """Return True for a device or a pipe, which must not be replaced."""
    return path.exists() and not path.is_file()


def check_target(option: str, target: str, hint: str = "") -> None:
    """Check, before slow work, that a file can be written after it.

    Args:
        option: Option that named the file, for messages.
        target: Path of the file.
        hint: Ending of the messages about an empty path or a folder.

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

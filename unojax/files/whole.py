"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


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
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            # What a new file would get: a temporary one is the owner's alone. The mask is read by setting it.
            os.umask(mask := os.umask(0))
            os.fchmod(file.fileno(), 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def is_special(path: Path) -> bool:
    """Tell a device or a pipe, which must be written to and not replaced."""
    return path.exists() and not path.is_file()

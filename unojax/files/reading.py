"""Text files as editors and shells write them."""

from __future__ import annotations

import codecs
import os
from pathlib import Path


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file: UTF-8 with or without a byte order mark, or UTF-16 with its mark.

    Raises:
        OSError: If the file can't be read.
        UnicodeDecodeError: If it has another encoding; a ValueError.
    """
    return decode(Path(path).read_bytes())


def decode(content: bytes, *, errors: str = "strict") -> str:
    """Return the text in the bytes of a file or of another program, as `read_text`."""
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8-sig", errors)

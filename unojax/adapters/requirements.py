"""Errors for missing libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def missing(library: str, extra: str) -> ImportError:
    """Return an error with the install command of an adapter."""
    how = f"pip install 'unojax[{extra}]', or in a clone pip install -e '.[{extra}]'"
    return ImportError(f"unojax.adapters.{extra} needs {library}: {how}", name=library)


@contextmanager
def needed_by(program: str, extra: str) -> Iterator[None]:
    """Exit with the install command if the block's imports fail."""
    try:
        yield
    except ImportError as error:
        how = f"pip install 'unojax[{extra}]', or in a clone pip install -e '.[{extra}]'"
        raise SystemExit(f"{program} needs {error.name}: {how}") from error

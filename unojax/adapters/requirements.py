"""Errors for missing libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def missing(library: str, extra: str) -> ImportError:
    """Return an error with the install command of an adapter."""
    return ImportError(f"unojax.adapters.{extra} {_needs(library, extra)}", name=library)


@contextmanager
def needed_by(program: str, extra: str) -> Iterator[None]:
    """Exit with the install command if the block's imports fail."""
    try:
        yield
    except ImportError as error:
        raise SystemExit(f"{program} {_needs(error.name, extra)}") from error


def _needs(library: str | None, extra: str) -> str:
    return f"needs {library}: pip install 'unojax[{extra}]', or in a clone pip install -e '.[{extra}]'"

"""Errors for missing libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def missing(library: str, extra: str) -> ImportError:
    """Return an error with the install command of an adapter: from a registry, or in a clone before the first release."""
    how = f"pip install 'unojax[{extra}]', or in a clone pip install -e '.[{extra}]'"
    return ImportError(f"unojax.adapters.{extra} needs {library}: {how}", name=library)


@contextmanager
def needed_by(program: str, extra: str) -> Iterator[None]:
    """Import a program's libraries in the block; if one is missing, exit with a line that names the package to install."""
    try:
        yield
    except ImportError as error:
        how = f"pip install 'unojax[{extra}]', or in a clone pip install -e '.[{extra}]'"
        raise SystemExit(f"{program} needs {error.name}: {how}") from error

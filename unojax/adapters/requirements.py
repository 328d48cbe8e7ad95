"""Words for a library that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def missing(library: str, extra: str) -> ImportError:
    """Say in one line what to install for an adapter: from a registry, or in a clone, which has it before any registry does."""
    how = f"pip install 'unojax[{extra}]', or in a clone pip install -e '.[{extra}]'"
    return ImportError(f"unojax.adapters.{extra} needs {library}: {how}", name=library)


@contextmanager
def needed_by(program: str, extra: str) -> Iterator[None]:
    """Import the libraries of a program inside; if one is missing, leave the program with a line that says what to install."""
    try:
        yield
    except ImportError as error:
        how = f"pip install 'unojax[{extra}]', or in a clone pip install -e '.[{extra}]'"
        raise SystemExit(f"{program} needs {error.name}: {how}") from error

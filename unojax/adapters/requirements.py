"""Words for a library that is not there."""

from __future__ import annotations


def missing(library: str, extra: str) -> ImportError:
    """Say in one line what to install for an adapter: from a registry, or in a clone, which has it before any registry does."""
    how = f"pip install 'unojax[{extra}]', or in a clone pip install -e '.[{extra}]'"
    return ImportError(f"unojax.adapters.{extra} needs {library}: {how}", name=library)

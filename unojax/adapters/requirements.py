"""Words for a library that is not there."""

from __future__ import annotations


def missing(library: str, extra: str) -> ImportError:
    """Say in one line what to install for an adapter."""
    return ImportError(f"unojax.adapters.{extra} needs {library}: pip install 'unojax[{extra}]'", name=library)

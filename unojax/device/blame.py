"""Whose error it is: somebody's program that fails is named, the machine's own errors stay what they are. Imports no JAX."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_CALLED_BACK: Final = "CpuCallback error"
"""How a device tells that a program on the host, which it had called, raised."""


def is_machines(error: BaseException) -> bool:
    """Tell an error of the machine's: too little memory, or what a device reports of itself."""
    jax = sys.modules.get("jax")
    of_device = jax is not None and isinstance(error, jax.errors.JaxRuntimeError) and _CALLED_BACK not in str(error)
    return of_device or isinstance(error, MemoryError)


@contextmanager
def blamed_on(who: str, kind: type[Exception] = ValueError, *, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise what is raised inside as `kind`, "{who} failed: ..."; errors of the machine's and `passing` stay as they are."""
    try:
        yield
    except Exception as error:
        if isinstance(error, passing) or is_machines(error):
            raise
        raise kind(f"{who} failed: {type(error).__name__}: {error}") from error

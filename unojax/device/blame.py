"""Attribution of errors to user functions; errors of the machine pass. Imports no JAX."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_CALLED_BACK: Final = "CpuCallback error"
"""Marks the device error for a host program that raised in a callback."""


def is_machines(error: BaseException) -> bool:
    """Return whether an error is the machine's: too little memory, or a device's own error."""
    jax = sys.modules.get("jax")
    of_device = jax is not None and isinstance(error, jax.errors.JaxRuntimeError) and _CALLED_BACK not in str(error)
    return of_device or isinstance(error, MemoryError)


@contextmanager
def blamed_on(who: str, kind: type[Exception] = ValueError, *, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise errors as `kind`, "{who} failed: ...", except the machine's and those in `passing`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, passing) or is_machines(error):
            raise
        raise kind(f"{who} failed: {type(error).__name__}: {error}") from error

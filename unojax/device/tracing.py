"""Functions that are traced once, wherever they are called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax

_Function = TypeVar("_Function", bound=Callable)


def traced_once(function: _Function, *, static: tuple[str, ...] = ()) -> _Function:
    """Decorate a function of arrays that many programs share.

    It is traced once for arguments of the same shapes and types, and its operations are copied into each program that calls it
    (as `jax.numpy` does with its own). Called outside `jit` it is one program, and not a kernel for each operation.

    Args:
        function: pure, and of arrays and pytrees of arrays alone but for what is static.
        static: names of its static arguments, given by name. Where one can't be hashed, the function is called as it is.
    """
    traced = jax.jit(function, static_argnames=static, inline=True)
    if not static:
        return cast(_Function, traced)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            hash(tuple(options.get(name) for name in static))
        except TypeError:
            return function(*args, **options)
        return traced(*args, **options)

    return cast(_Function, call)

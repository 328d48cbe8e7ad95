"""Programs that can be compiled in advance: `Program`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Any, Final

import jax
import numpy as np
from jaxlib.version import __version__ as jaxlib_version

from unojax.device.platform import Platform, platform

_ALIVE: Final = 8
"""Compiled programs that a process keeps for each function."""
# Later releases have no other way to build a fusion, and reject the option.
_QUICK: Final[dict[str, str | bool]] = {"xla_cpu_use_fusion_emitters": False} if jaxlib_version.startswith("0.10.") else {}
"""Options of a CPU's compiler: compilation takes 0.6 of the CPU time, loops at most 1.2 times as long; the bits are the same."""
_LIGHT: Final[dict[str, str | bool]] = {**_QUICK, "xla_backend_optimization_level": "0"}
"""Leaves out the optimizations of LLVM too: compilation takes 0.4 of the CPU time, loops some ten times as long."""
_Types = tuple[tuple[tuple[int, ...], Any], ...]
"""Shape and type of each leaf."""


class Program:
    """Function of arrays as a compiled program, to be called on the host.

    As under `jax.jit`, each static argument and each set of shapes and types has its own program. But it can be compiled in
    advance, in another thread too. A caller waits for a program that is being compiled; `jax.jit` would compile it twice.
    Threads compile different programs at the same time.

    Such a program runs a few times, so that a person waits for its compilation above all. On a CPU it is compiled by `_QUICK`.

    Args:
        function: Pure function.
        static: Name of its static argument, hashable and passed by name; None without one.
        is_light: Whether to compile by `_LIGHT` on a CPU, for a program that takes milliseconds.
    """

    def __init__(self, function: Callable[..., Any], *, static: str | None = None, is_light: bool = False):
        self._options = _LIGHT if is_light else _QUICK
        self._jitted = jax.jit(function, static_argnames=static)
        self._compiled = lru_cache(_ALIVE)(self._once)
        self._lock = Lock()

    def __call__(self, *args: Any, **static: Any) -> Any:
        leaves, treedef = _flatten(args)
        return self._get(leaves, treedef, static)(*jax.tree.unflatten(treedef, leaves))

    def compile(self, *args: Any, **static: Any) -> Callable[..., Any]:
        """Compile the program for arguments of these shapes and types: arrays, or `jax.ShapeDtypeStruct`.

        Returns:
            Program for arrays of these shapes and types, the same one in every thread.
        """
        return self._get(*_flatten(args), static)

    def shapes(self, *args: Any, **static: Any) -> Any:
        """Return the results' shapes and types, each a `jax.ShapeDtypeStruct`. Traced, not compiled."""
        return self._jitted.eval_shape(*args, **static)

    def _get(self, leaves: list[Any], treedef: Any, static: dict[str, Any]) -> jax.stages.Compiled:
        types = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        with self._lock:
            once = self._compiled(types, treedef, tuple(static.items()), platform())
        return once.result()

    def _once(self, types: _Types, treedef: Any, static: tuple[tuple[str, Any], ...], made_for: Platform) -> _Once:
        del made_for  # Separates programs made under `tuned_for`.
        shapes = jax.tree.unflatten(treedef, [jax.ShapeDtypeStruct(*one) for one in types])
        options = self._options if jax.default_backend() == "cpu" else None
        return _Once(lambda: self._jitted.lower(*shapes, **dict(static)).compile(options))


class _Once:
    """Compilation at the first request; other threads wait for it. After an error, the next retries."""

    def __init__(self, compile: Callable[[], jax.stages.Compiled]):
        self._compile, self._lock = compile, Lock()
        self._compiled: jax.stages.Compiled | None = None

    def result(self) -> jax.stages.Compiled:
        with self._lock:
            if self._compiled is None:
                self._compiled = self._compile()
            return self._compiled


def _flatten(args: Any) -> tuple[list[Any], Any]:
    """Flatten arguments; numbers get JAX's types."""
    leaves, treedef = jax.tree.flatten(args)
    return [leaf if _has_type_of_jax(leaf) else jax.device_put(leaf) for leaf in leaves], treedef


def _has_type_of_jax(leaf: Any) -> bool:
    """Return whether a program accepts a leaf as it is; it copies all NumPy arrays at once, faster than one by one."""
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype == jax.dtypes.canonicalize_dtype(leaf.dtype)
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)

"""Programs that can be compiled in advance: `Program`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from threading import Lock
from typing import Any, Final

import jax

from unojax.device.platform import Platform, platform

_ALIVE: Final = 8
"""Compiled programs that a process keeps for each function."""
_Types = tuple[tuple[tuple[int, ...], Any], ...]
"""Shape and type of each leaf."""


class Program:
    """Function of arrays as a compiled program, to be called on the host.

    As under `jax.jit`, each static argument and each set of shapes and types has its own program. But it can be compiled in
    advance, in another thread too. A caller waits for a program that is being compiled; `jax.jit` would compile it twice.
    Threads compile different programs at the same time.

    Args:
        function: Pure function.
        static: Name of its static argument, hashable and passed by name.
        is_light: Whether to compile for a CPU without the optimizations of LLVM, for a program that runs a few times: the results
            are the same, compilation takes two thirds of the CPU time, and a loop some ten times as long.
    """

    def __init__(self, function: Callable[..., Any], *, static: str, is_light: bool = False):
        self._function, self._static = function, static
        self._options: dict[str, str | bool] | None = {"xla_backend_optimization_level": "0"} if is_light else None
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
        return jax.eval_shape(partial(self._function, **static), *args)

    def _get(self, leaves: list[Any], treedef: Any, static: dict[str, Any]) -> jax.stages.Compiled:
        types = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        with self._lock:
            once = self._compiled(types, treedef, static[self._static], platform())
        return once.result()

    def _once(self, types: _Types, treedef: Any, static: Any, made_for: Platform) -> _Once:
        del made_for  # Separates programs made under `tuned_for`.
        shapes = jax.tree.unflatten(treedef, [jax.ShapeDtypeStruct(*one) for one in types])
        options = self._options if jax.default_backend() == "cpu" else None
        return _Once(lambda: self._jitted.lower(*shapes, **{self._static: static}).compile(options))


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
    """Flatten arguments; numbers and NumPy arrays get JAX's types."""
    leaves, treedef = jax.tree.flatten(args)
    return [leaf if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) else jax.device_put(leaf) for leaf in leaves], treedef

"""Functions that are traced once, or compiled once in a program; functions whose hidden arguments are made arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
from jax import Array
from jax.core import Tracer
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from unojax.device.platform import platform

_Function = TypeVar("_Function", bound=Callable)


def traced_once(function: _Function, *, static: tuple[str, ...] = ()) -> _Function:
    """Decorate a function of arrays that many programs share.

    It is traced once for arguments of the same shapes and types, and stands once in each program that calls it. XLA copies it to
    the calls. Called outside `jit` it is one program, and not a kernel for each operation.

    Args:
        function: pure, and of arrays and pytrees of arrays alone but for what is static.
        static: names of its static arguments, given by name. Where one can't be hashed, the function is called as it is.
    """
    traced = jax.jit(function, static_argnames=static)
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


def open_closure(function: Callable[..., Any], *args: Any) -> tuple[Callable[..., Any], tuple[Array, ...]]:
    """Make arguments of the arrays that a function closes over and that are being transformed, such as a model's parameters.

    Functions with rules of their own (`custom_vmap`) need it: a rule learns of arguments alone.

    Args:
        function: Pure function of pytrees of arrays. It is traced here, once.
        args: Arguments of the shapes and types that it will be called with.

    Returns:
        `opened(captured, *args)`, which is `function(*args)`, and what it captured.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    is_traced = [isinstance(const, Tracer) for const in closed.consts]
    structure = jax.tree.structure(shapes)

    def opened(captured: tuple[Array, ...], *args: Any) -> Any:
        leaves = jax.tree.leaves(args)
        if not (captured or all(map(_differ_alike, leaves, closed.in_avals))):
            return function(*args)
        # The program that was traced, and not the function once more: that would take as long again.
        rest = iter(captured)
        consts = [next(rest) if traced else const for traced, const in zip(is_traced, closed.consts, strict=True)]
        leaves = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, consts))(*leaves)
        return jax.tree.unflatten(structure, leaves)

    return opened, tuple(const for traced, const in zip(is_traced, closed.consts, strict=True) if traced)


def _differ_alike(argument: Any, traced: Any) -> bool:
    """Tell whether an argument may differ over the same devices of a `shard_map` as the one that was traced."""
    return jax.typeof(argument).manual_axis_type == traced.manual_axis_type


def compiled_apart(function: _Function) -> _Function:
    """Decorate a function of arrays whose results many operations use: a program that calls it computes and compiles it once.

    XLA on a CPU builds a kernel for every array that a program keeps, and each kernel repeats all operations that its array
    depends on, so an expensive intermediate result is compiled, and computed, once for every array after it.
    `lax.optimization_barrier` has no effect there, because XLA removes barriers before it forms kernels. This function is a call
    that XLA does not inline, and its results lie in memory. On other devices repeated operations cost little, and it is inlined.

    Args:
        function: pure, and of arrays and pytrees of arrays alone.
    """

    def inlined(*args: Any) -> Any:
        # Functions that this one calls are not kept apart in turn.
        with set_xla_metadata(inlineable="true"):
            return function(*args)

    traced = jax.jit(inlined)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if platform() != "cpu":
            return function(*args)
        with set_xla_metadata(inlineable="false"):
            return traced(*args)

    return cast(_Function, call)

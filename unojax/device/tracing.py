"""Functions traced once, functions compiled once in a program, and functions whose captured arrays become arguments."""

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

    It is traced once for arguments of the same shapes and types, and appears once in each program that calls it; XLA copies it to
    the calls. Outside `jit` it runs as one program instead of a kernel for each operation.

    Args:
        function: Pure function of arrays and pytrees of arrays, except for static arguments.
        static: Names of its static arguments, passed by name. If one can't be hashed, the function is called directly.
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
    """Turn the arrays that a function closes over and that are being transformed, such as a model's parameters, into arguments.

    Functions with their own rules (`custom_vmap`) need this, because a rule receives only arguments.

    Args:
        function: Pure function of pytrees of arrays. It is traced here, once.
        args: Arguments with the shapes and types of later calls.

    Returns:
        `opened(captured, *args)`, which equals `function(*args)`, and the captured arrays.
    """
    # The rules of `custom_vmap` run with an explicit mesh, and JAX caches traces by it. Set it here too, so that functions which
    # are traced here are not traced again there.
    with jax.sharding.use_abstract_mesh(jax.sharding.get_abstract_mesh()):
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    is_traced = [isinstance(const, Tracer) for const in closed.consts]
    structure = jax.tree.structure(shapes)

    def opened(captured: tuple[Array, ...], *args: Any) -> Any:
        leaves = jax.tree.leaves(args)
        if not (captured or all(map(_differ_alike, leaves, closed.in_avals))):
            return function(*args)
        # Evaluate the traced program: tracing the function again would take as long.
        rest = iter(captured)
        consts = [next(rest) if traced else const for traced, const in zip(is_traced, closed.consts, strict=True)]
        leaves = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, consts))(*leaves)
        return jax.tree.unflatten(structure, leaves)

    return opened, tuple(const for traced, const in zip(is_traced, closed.consts, strict=True) if traced)


def _differ_alike(argument: Any, traced: Any) -> bool:
    """Return whether an argument may differ over the same `shard_map` devices as the traced one."""
    return jax.typeof(argument).manual_axis_type == traced.manual_axis_type


def compiled_apart(function: _Function) -> _Function:
    """Decorate a function of arrays whose results many operations use: a calling program computes and compiles it once.

    XLA on a CPU builds a kernel for every array that a program keeps. Each kernel repeats all operations that its array depends
    on, so an expensive intermediate result is compiled and computed once for every later array. `lax.optimization_barrier` does
    not help, because XLA removes barriers before it forms kernels. XLA does not inline calls of this function, and its results
    lie in memory. On other devices repeated operations cost little, and the function is inlined.

    Args:
        function: Pure function of arrays and pytrees of arrays.
    """

    def inlined(*args: Any) -> Any:
        # Functions called by this one are inlined.
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

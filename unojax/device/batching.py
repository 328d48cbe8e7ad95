"""Work on batches: on a chosen part of one, and on all of it at once from within `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap

_Tree = TypeVar("_Tree")


def for_chosen(chosen: Array, chunk: int, work: Callable[..., _Tree], args: tuple[Any, ...], out: _Tree) -> _Tree:
    """Replace the chosen elements of `out` by the results of `work`, computed for these only.

    Args:
        chosen: bool[B].
        chunk: elements at a time, static. The last chunk is filled up with others, whose results are dropped.
        work: `work(is_real, *args)` of one chunk's rows of `args`; bool[chunk] `is_real` says which are not filling.
        args, out: pytrees with a leading axis B.
    """
    num = len(chosen)
    order = jnp.argsort(~chosen, stable=True)
    # A slice that would reach over the end is moved back, so there must be a whole number of chunks.
    order = jnp.append(order, jnp.zeros(-num % chunk, order.dtype))
    number = chosen.sum()

    def one_chunk(i: Array, out: _Tree) -> _Tree:
        at = lax.dynamic_slice(order, [i * chunk], [chunk])
        is_real = i * chunk + jnp.arange(chunk) < number
        made = work(is_real, *jax.tree.map(lambda a: a[at], args))
        target = jnp.where(is_real, at, num)
        return jax.tree.map(lambda old, new: old.at[target].set(new, mode="drop"), out, made)

    return lax.fori_loop(0, (number + chunk - 1) // chunk, one_chunk, out)


def together(work: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function of a batch into one of a single element, which `vmap` turns back.

    Args:
        work: `work(shared, *args)` with a leading axis on all of `args` and on the result. `shared` is what has none; it must not
            be mapped over.

    Returns:
        `of_one(shared, *args)`.
    """

    @custom_vmap
    def of_one(shared: Any, *args: Any) -> Any:
        return jax.tree.map(lambda x: x[0], work(shared, *jax.tree.map(lambda x: jnp.asarray(x)[None], args)))

    @of_one.def_vmap
    def of_many(axis_size: int, in_batched: Any, shared: Any, *args: Any) -> tuple[Any, Any]:
        def spread(x: Array, is_batched: bool) -> Array:
            return x if is_batched else jnp.broadcast_to(x, (axis_size, *jnp.shape(x)))

        if any(jax.tree.leaves(in_batched[0])):
            raise ValueError("what all elements share can't be mapped over")
        result = work(shared, *jax.tree.map(spread, args, tuple(in_batched[1:])))
        return result, jax.tree.map(lambda _: True, result)

    return of_one

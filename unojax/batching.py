"""Work on a part of a batch: gather what is chosen, a chunk at a time, and put the results back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

_Tree = TypeVar("_Tree")


def for_chosen(chosen: Array, chunk: int, work: Callable[..., _Tree], args: tuple[Any, ...], out: _Tree) -> _Tree:
    """`out` with what `work` makes of each chosen element in its place, computed for the chosen ones only.

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

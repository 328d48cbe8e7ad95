"""Sums over chosen elements, a chunk at a time.

Nothing is computed of those that are not chosen, and what a network's layers hand on stays in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

_Tree = TypeVar("_Tree")


def sum_chunks(of_chunk: Callable[[Array, Array], _Tree], chosen: Array, chunk: int) -> _Tree:
    """Sum what `of_chunk` gives over the chosen elements, bool[...].

    `of_chunk(index, is_real)` gets flat indices, int32[chunk], and bool[chunk], which of them count: the rest fills the chunk up.
    Where there are no more elements than a chunk holds, it is one of all, chosen or not.
    """
    if chosen.size <= chunk:
        return of_chunk(jnp.arange(chosen.size), chosen.reshape(-1))
    # Filled up to whole chunks with one beyond the end.
    (index,) = jnp.nonzero(chosen.reshape(-1), size=-(-chosen.size // chunk) * chunk, fill_value=chosen.size)
    number = chosen.sum()

    def one_chunk(i: Array, total: _Tree) -> _Tree:
        at = lax.dynamic_slice(index, [i * chunk], [chunk])
        return jax.tree.map(jnp.add, total, of_chunk(at, i * chunk + jnp.arange(chunk) < number))

    of_one = jax.eval_shape(of_chunk, index[:chunk], jnp.ones(chunk, bool))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), of_one)
    return lax.fori_loop(0, (number + chunk - 1) // chunk, one_chunk, zero)

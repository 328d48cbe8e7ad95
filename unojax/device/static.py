"""Numbers apart from structure: what `jit` traces, and what it compiles for.

A policy may carry numbers (the weights of a linear policy, the parameters of a network). Compiled in as constants, each new set
of numbers would compile anew; passed as arguments, one program serves them all.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_NUMBERS = (jax.Array, np.ndarray, np.generic, float)


class Skeleton(NamedTuple):
    """A pytree without its numbers; hashable.

    Attributes:
        treedef: the structure.
        types: of its nodes. JAX takes two structures for equal whose nodes differ in class alone.
        leaves: the leaves that are not numbers, None in place of each that is.
    """

    treedef: Any
    types: tuple[Hashable, ...]
    leaves: tuple[Hashable, ...]


def split(tree: Any) -> tuple[list[Array], Skeleton]:
    """Split a pytree into its numbers, as arrays, and all the rest.

    Raises:
        ValueError: a leaf is neither a number nor hashable; the message says how to make it so.
    """
    leaves, treedef = jax.tree.flatten(tree)
    numbers = [leaf for leaf in leaves if isinstance(leaf, _NUMBERS)]
    # A Python number has no precision of its own: the same one in 64-bit mode.
    numbers = [jnp.asarray(number, jnp.float32 if isinstance(number, float) else None) for number in numbers]
    skeleton = Skeleton(treedef, _types(treedef), tuple(None if isinstance(leaf, _NUMBERS) else leaf for leaf in leaves))
    try:
        hash(skeleton)
    except TypeError as error:
        how = "make it @dataclass(frozen=True), or register one that holds arrays with jax.tree_util.register_dataclass"
        raise ValueError(f"agents and policies must be hashable, or pytrees of numbers and what is: {error}; {how}") from error
    return numbers, skeleton


def _types(treedef: Any) -> tuple[Hashable, ...]:
    node = treedef.node_data()
    return (None if node is None else node[0], *map(_types, treedef.children()))


def join(numbers: list[Array], skeleton: Skeleton) -> Any:
    """Put the pytree that `split` took apart together."""
    rest = iter(numbers)
    leaves = [next(rest) if leaf is None else leaf for leaf in skeleton.leaves]
    return jax.tree.unflatten(skeleton.treedef, leaves)

"""Separation of numbers, which `jit` traces, from structure, for which it compiles.

As constants, other weights of a policy or parameters of a network would need a new compilation; as arguments, they share a
program.
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
        treedef: Structure.
        types: Types of its nodes. JAX considers two structures equal if their nodes differ only in class.
        leaves: Leaves that are not numbers; None for each number.
    """

    treedef: Any
    types: tuple[Hashable, ...]
    leaves: tuple[Hashable, ...]


def split(tree: Any) -> tuple[list[Array], Skeleton]:
    """Split a pytree into its numbers, as arrays, and its structure.

    Raises:
        ValueError: If a leaf is neither a number nor hashable. The message explains how to make it hashable.
    """
    leaves, treedef = jax.tree.flatten(tree)
    numbers = [leaf for leaf in leaves if isinstance(leaf, _NUMBERS)]
    # A Python number has no precision: make it the same in 64-bit mode.
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
    """Combine numbers and structure into the pytree that `split` separated."""
    rest = iter(numbers)
    leaves = [next(rest) if leaf is None else leaf for leaf in skeleton.leaves]
    return jax.tree.unflatten(skeleton.treedef, leaves)


@jax.tree_util.register_pytree_node_class
class Argument:
    """An agent, or policies, as an argument of a compiled function: numbers are traced, and structure selects the program."""

    def __init__(self, value: Any):
        self._numbers, self._skeleton = split(value)

    @property
    def value(self) -> Any:
        """The agent, with arrays as numbers."""
        return join(self._numbers, self._skeleton)

    def tree_flatten(self) -> tuple[list[Array], Skeleton]:
        return self._numbers, self._skeleton

    @classmethod
    def tree_unflatten(cls, skeleton: Skeleton, numbers: Any) -> Argument:
        argument = object.__new__(cls)
        argument._numbers, argument._skeleton = list(numbers), skeleton
        return argument

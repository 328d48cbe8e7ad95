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


@jax.tree_util.register_pytree_node_class
class Argument:
    """An agent, or policies, as an argument of a compiled function: numbers are traced, and structure selects the program.

    Raises:
        ValueError: If a leaf of the pytree is neither a number nor hashable. The message explains how to make it hashable.
    """

    def __init__(self, value: Any):
        leaves, treedef = jax.tree.flatten(value)
        # A Python number has no precision: make it the same in 64-bit mode.
        self._numbers = [
            jnp.asarray(leaf, jnp.float32 if isinstance(leaf, float) else None) for leaf in leaves if isinstance(leaf, _NUMBERS)
        ]
        rest = tuple(None if isinstance(leaf, _NUMBERS) else leaf for leaf in leaves)
        self._structure = _Structure(treedef, _types(treedef), rest)
        try:
            hash(self._structure)
        except TypeError as error:
            how = "make it @dataclass(frozen=True), or register one that holds arrays with jax.tree_util.register_dataclass"
            raise ValueError(
                f"agents and policies must be hashable, or pytrees of numbers and what is: {error}; {how}"
            ) from error

    @property
    def value(self) -> Any:
        """The agent, with arrays as numbers."""
        numbers = iter(self._numbers)
        leaves = [next(numbers) if leaf is None else leaf for leaf in self._structure.leaves]
        return jax.tree.unflatten(self._structure.treedef, leaves)

    def tree_flatten(self) -> tuple[list[Array], _Structure]:
        return self._numbers, self._structure

    @classmethod
    def tree_unflatten(cls, structure: _Structure, numbers: Any) -> Argument:
        argument = object.__new__(cls)
        argument._numbers, argument._structure = list(numbers), structure
        return argument


class _Structure(NamedTuple):
    """A pytree without its numbers; hashable.

    Attributes:
        treedef: Structure.
        types: Types of its nodes. JAX considers two structures equal if their nodes differ only in class.
        leaves: Leaves that are not numbers; None for each number.
    """

    treedef: Any
    types: tuple[Hashable, ...]
    leaves: tuple[Hashable, ...]


def _types(treedef: Any) -> tuple[Hashable, ...]:
    node = treedef.node_data()
    return (None if node is None else node[0], *map(_types, treedef.children()))

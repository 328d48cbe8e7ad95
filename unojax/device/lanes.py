"""Lanes: parallel walks, one node after the other; a finished lane begins the next walk.

A *move* encodes the events at a node in one word. Deciding on it is expensive; carrying it out takes a few operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax.device import control
from unojax.device.platform import platform

NO_WALK: Final = np.uint32(0xFFFF_FFFF)
"""Index of a lane without a walk."""

NODES_PER_KERNEL: Final = {"cpu": 1, "gpu": 3}
"""Most nodes in one kernel. Compilation time grows with their square."""

_Lanes = TypeVar("_Lanes")


def walk(
    lanes: _Lanes,
    move: Array,
    decide: Callable[[Array, _Lanes, Array], Array],
    carry_out: Callable[[_Lanes, Array], _Lanes],
    *,
    num_nodes: int,
) -> _Lanes:
    """Advance all lanes by `num_nodes` nodes, on a GPU several nodes in one kernel.

    The loop carries moves that are decided but not carried out, so XLA on CPU decides once. It builds each carried array in a
    separate loop, and repeats in it all operations that the array depends on.

    Args:
        lanes: Any pytree.
        move: uint32[B], decided at the first node.
        decide: `decide(index, lanes, move)` returns the move at node `index` 1, 2, ..., after the previous move.
        carry_out: `carry_out(lanes, move)` returns the lanes one node later.
        num_nodes: Number of nodes, static, at least 1.
    """

    def one_node(index: Array, carry: tuple[_Lanes, Array]) -> tuple[_Lanes, Array]:
        lanes, move = carry
        lanes = carry_out(lanes, move)
        return lanes, decide(index, lanes, move)

    turns, most = num_nodes - 1, NODES_PER_KERNEL[platform()]
    if most == 1 or turns > 2 * most:
        # A divisor, because remaining nodes would be compiled separately.
        together = max(nodes for nodes in range(1, most + 1) if turns % nodes == 0)
        return carry_out(*control.fori_loop(1, num_nodes, one_node, (lanes, move), unroll=together))
    # One or two kernels need no loop, which would copy all lanes.
    half = (turns + 1) // 2 if turns > most else turns
    for index in range(1, num_nodes):
        lanes, move = one_node(jnp.int32(index), (lanes, move))
        if index == half < turns:
            lanes, move = lax.optimization_barrier((lanes, move))
    return carry_out(lanes, move)


def refill(ended: Array, next_index: Array, number: Array) -> tuple[Array, Array]:
    """Assign the next walks to the lanes that have ended.

    Args:
        ended: bool[B].
        next_index: uint32[], first walk not yet assigned.
        number: uint32[], total number of walks.

    Returns:
        uint32[B], index of the next walk of each ended lane, `NO_WALK` if none is left (undefined in other lanes); and the next
        index after them.
    """
    rank = jnp.cumsum(ended, dtype=jnp.uint32)
    # Compare indices before adding them, so that they cannot overflow.
    left = number - jnp.minimum(next_index, number)
    index = jnp.where(rank <= left, next_index + rank - np.uint32(1), NO_WALK)
    return index, next_index + jnp.minimum(rank[-1], left)

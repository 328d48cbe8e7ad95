"""Lanes: walks side by side, one node after the other; a lane whose walk has ended takes the next one.

A *move* says in one word what happens at a node. Deciding on it is the expensive part, carrying it out takes a few operations for
each array of the lanes.
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
"""The index in a lane without a walk."""

NODES_PER_KERNEL: Final = {"cpu": 1, "gpu": 3}
"""Nodes that are taken together, at most. The time that compiling takes grows with their square."""

_Lanes = TypeVar("_Lanes")


def walk(
    lanes: _Lanes,
    move: Array,
    decide: Callable[[Array, _Lanes, Array], Array],
    carry_out: Callable[[_Lanes, Array], _Lanes],
    *,
    num_nodes: int,
) -> _Lanes:
    """Take all lanes `num_nodes` nodes further, on a GPU several at a time in one kernel.

    The loop hands on moves that are decided and not carried out. XLA on CPU builds each array handed on in a loop of its own and
    repeats in it all that the array depends on: so it decides once, and not once for each array of the lanes.

    Args:
        lanes: any pytree.
        move: uint32[B], decided at the first node.
        decide: `decide(index, lanes, move)` gives the move at node `index` 1, 2, ..., after the last one.
        carry_out: `carry_out(lanes, move)` gives the lanes one node further.
        num_nodes: static, at least 1.
    """

    def one_node(index: Array, carry: tuple[_Lanes, Array]) -> tuple[_Lanes, Array]:
        lanes, move = carry
        lanes = carry_out(lanes, move)
        return lanes, decide(index, lanes, move)

    turns, most = num_nodes - 1, NODES_PER_KERNEL[platform()]
    if most == 1 or turns > 2 * most:
        # A divisor, so that no node is left over, which would be compiled once more.
        together = max(nodes for nodes in range(1, most + 1) if turns % nodes == 0)
        return carry_out(*control.fori_loop(1, num_nodes, one_node, (lanes, move), unroll=together))
    # One kernel or two are no loop, in which all lanes would be copied.
    half = (turns + 1) // 2 if turns > most else turns
    for index in range(1, num_nodes):
        lanes, move = one_node(jnp.int32(index), (lanes, move))
        if index == half < turns:
            lanes, move = lax.optimization_barrier((lanes, move))
    return carry_out(lanes, move)


def refill(ended: Array, next_index: Array, number: Array) -> tuple[Array, Array]:
    """Deal out the next walks to the lanes that have ended.

    Args:
        ended: bool[B].
        next_index: uint32[], the first walk not dealt out yet.
        number: uint32[], of walks in all.

    Returns:
        uint32[B], the index of the next walk of each lane that has ended, `NO_WALK` where none is left (and of no meaning in the
        other lanes); and the next index after them.
    """
    rank = jnp.cumsum(ended, dtype=jnp.uint32)
    # Indices are compared before they are added up, so that they cannot wrap around.
    left = number - jnp.minimum(next_index, number)
    index = jnp.where(rank <= left, next_index + rank - np.uint32(1), NO_WALK)
    return index, next_index + jnp.minimum(rank[-1], left)

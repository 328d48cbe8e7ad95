"""One iteration on all devices, of all processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

AXIS: Final = "games"
"""Axis of the devices."""
_S = TypeVar("_S")
_M = TypeVar("_M")


def make_mesh() -> Mesh:
    """Put all devices of all processes in a row."""
    return jax.make_mesh((jax.device_count(),), (AXIS,))


def divide(
    iteration: Callable[[_S, Array], tuple[_S, _M]], num_games: int, updates: int, mesh: Mesh
) -> Callable[[_S], tuple[_S, _M]]:
    """Compile an iteration for all devices: the state is on each of them, the games are divided among them.

    Args:
        iteration: `iteration(state, number)` with the numbers of a device's games, int32[updates, n], as many of each update.
            It may communicate along the axis `AXIS`, and gives the same on all devices.
        num_games: of all devices.
        updates: that each learn from an equal share of the games.
        mesh: the devices.
    """
    of_devices = NamedSharding(mesh, P(None, AXIS))
    mapped = jax.shard_map(iteration, mesh=mesh, in_specs=(P(), of_devices.spec), out_specs=P(), check_vma=False)

    @jax.jit
    def divided(state: _S) -> tuple[_S, _M]:
        number = jnp.arange(num_games, dtype=jnp.int32).reshape(updates, -1)
        return mapped(state, jax.reshard(number, of_devices))

    return divided

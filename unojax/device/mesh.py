"""All local devices of this process, for batches with independent elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from unojax.device.platform import available_cores, platform

AXIS: Final = "games"
"""Axis of the mesh."""


def local_mesh() -> Mesh | None:
    """Return a mesh of all local devices; None for one device, or under `jax.default_device`."""
    devices = jax.local_devices()
    # JAX makes this setting at run time, so type checkers do not know it.
    if len(devices) == 1 or jax.config.jax_default_device is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return None
    return Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))


def mesh_for(size: int) -> Mesh | None:
    """Return a mesh of all local devices, or None if they can't divide `size` elements equally."""
    mesh = local_mesh()
    return None if mesh is None or size % mesh.size else mesh


def size_of(mesh: Mesh | None) -> int:
    """Return the number of devices of a mesh."""
    return 1 if mesh is None else mesh.size


def default_workers() -> int:
    """Return the number of batches in progress at a time, each on all local devices.

    XLA releases Python's lock, and one batch alone leaves part of the cores idle.
    """
    return max(1, available_cores() // size_of(local_mesh())) if platform() == "cpu" else 1


def spread(tree: Any, size: int) -> Any:
    """Divide a batch of `size` elements, the first axis of all leaves, by `mesh_for`."""
    mesh = mesh_for(size)
    if mesh is None or any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree)):
        return tree
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec(AXIS)))


def program_of_batch(whole: int, *, static: tuple[str, ...] = (), donate: tuple[int, ...] = ()) -> Callable[[Callable], Callable]:
    """Decorate a function of a batch: it is compiled, and the devices of `mesh_for` share the batch.

    The first axis of all results and arguments is the batch, except for the first `whole` arguments, which every device receives
    entirely.

    Args:
        whole: Number of arguments that are not batched.
        static: Names of static keywords.
        donate: Positions of arguments whose memory the results may reuse.
    """

    def decorate(function: Callable) -> Callable:
        def call(*args: Any, **options: Any) -> Any:
            of_share = partial(function, **options)
            mesh = mesh_for(len(jax.tree.leaves(args[whole:])[0]))
            if mesh is None:
                return of_share(*args)
            split = PartitionSpec(AXIS)
            specs = (*[PartitionSpec()] * whole, *[split] * (len(args) - whole))
            # The function may come from users, whose loops need not support devices.
            return jax.shard_map(of_share, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)(*args)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return jax.jit(call, static_argnames=static, donate_argnums=donate)

    return decorate

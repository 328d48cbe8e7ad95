"""All devices of this process, for batches whose elements know nothing of each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

AXIS: Final = "games"
"""Axis of the mesh."""


def local_mesh() -> Mesh | None:
    """Put all local devices in a mesh; None if there is one, or if `jax.default_device` names one."""
    devices = jax.local_devices()
    # A setting that JAX makes at run time, so that a type checker does not know it.
    if len(devices) == 1 or jax.config.jax_default_device is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return None
    return Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))


def mesh_for(size: int) -> Mesh | None:
    """Put all local devices in a mesh if they can share a batch of `size` elements equally; None: one device has it all."""
    mesh = local_mesh()
    return None if mesh is None or size % mesh.size else mesh


def size_of(mesh: Mesh | None) -> int:
    """Count the devices of a mesh."""
    return 1 if mesh is None else mesh.size


def spread(tree: Any, size: int) -> Any:
    """Divide a batch of `size` elements, the first axis of all leaves, among the local devices if they can share it equally."""
    mesh = mesh_for(size)
    if mesh is None or any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree)):
        return tree
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec(AXIS)))


def program_of_batch(whole: int, *, static: tuple[str, ...] = (), donate: tuple[int, ...] = ()) -> Callable[[Callable], Callable]:
    """Decorate a function of a batch: it is compiled, and each device of a mesh calls it with a share of the batch.

    The first axis of all arguments and of all results is that of the batch, but for the first arguments, which all devices get
    whole. The function that comes of it has one more keyword, `mesh`; without one, a single device does all.

    Args:
        whole: number of arguments that are no batch.
        static: names of keywords.
        donate: positions of arguments whose memory the results may take.
    """

    def decorate(function: Callable) -> Callable:
        def call(*args: Any, mesh: Mesh | None = None, **options: Any) -> Any:
            of_share = partial(function, **options)
            if mesh is None:
                return of_share(*args)
            split = PartitionSpec(AXIS)
            specs = (*[PartitionSpec()] * whole, *[split] * (len(args) - whole))
            # The function may be anybody's, whose loops need not know of devices.
            return jax.shard_map(of_share, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)(*args)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return jax.jit(call, static_argnames=(*static, "mesh"), donate_argnums=donate)

    return decorate

"""All devices of this process, for batches whose elements know nothing of each other."""

from __future__ import annotations

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


def spread(tree: Any, size: int) -> Any:
    """Divide a batch of `size` elements, the first axis of all leaves, among the local devices if they can share it equally."""
    mesh = local_mesh()
    if mesh is None or size % mesh.size or any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree)):
        return tree
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec(AXIS)))

"""Compile for an NVIDIA H100 on any machine, with or without one.

XLA compiles down to machine code when the device is described by text. It needs the CUDA wheels (`pip install -e '.[all,cuda]'`),
but no driver, and nothing can be run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import jax
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from unojax.device.platform import tuned_for


@dataclass(frozen=True)
class Target:
    """A device, as much of it as counts.

    Attributes:
        name: of the product.
        bandwidth: of its memory, bytes/s.
        integer_rate: 32-bit integer operations/s, all cores together.
        threads_to_fill: threads from which on it computes at that rate; with fewer, proportionally slower.
        link_bandwidth: to the host, bytes/s.
    """

    name: str
    bandwidth: float
    integer_rate: float
    threads_to_fill: int
    link_bandwidth: float


# 132 multiprocessors, 64 integer operations each and cycle at 1.98 GHz. 16 warps on each hide the latency of arithmetic.
H100: Final = Target("NVIDIA H100 80GB HBM3", 3.35e12, 132 * 64 * 1.98e9, 132 * 512, 50e9)

_DESCRIPTION: Final = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84929347584
  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 13 minor: 0 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


@cache
def mesh() -> Mesh:
    """Describe one H100 as a mesh; to be called before JAX looks for devices.

    Raises:
        RuntimeError: the CUDA wheels are missing.
    """
    # Versions can't be compared with those of a driver that is not there, and kernels can't be tried out. Not on import: what
    # is measured on a device is compiled as for users.
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false")
    try:
        topology = topologies.get_topology_desc(platform="cuda", target_config=_DESCRIPTION, topology="1x1x1")
    except Exception as error:
        raise RuntimeError(
            "compiling for an H100 needs JAX's CUDA wheels; install them in an environment of their own: "
            "python3 -m venv .h100 && .h100/bin/pip install -e '.[all,cuda]'"
        ) from error
    return topologies.make_mesh(topology, (1,), ("device",))


def compile_for(jitted: Any, args: Sequence[Any]) -> tuple[Any, float, float]:
    """Compile a jitted function for the shapes of some arguments.

    Also gives the seconds that it took, tracing included, and those of all cores together, which depend less on what else the
    machine does.

    Call it within `tuned_for("gpu")`, and make the function there too.
    """
    sharding = NamedSharding(mesh(), PartitionSpec())
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tuple(args))
    start, cpu_start = time.perf_counter(), sum(os.times()[:4])
    compiled = jitted.lower(*shapes).compile()
    return compiled, time.perf_counter() - start, sum(os.times()[:4]) - cpu_start


__all__ = ["H100", "Target", "compile_for", "mesh", "tuned_for"]

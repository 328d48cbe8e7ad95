"""Counter-based random bits that fuse into the simulation kernel.

`threefry` is the generator behind `jax.random` (Threefry-2x32 with 20 rounds; Salmon, Moraes, Dror, Shaw 2011, "Parallel random
numbers: as easy as 1, 2, 3") as elementwise operations. JAX's primitive is a separate kernel or loop.
"""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax.device.platform import by_platform
from unojax.device.tracing import traced_once

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = np.uint32(0x1BD1_1BDA)
_GOLDEN: Final = np.uint32(0x9E37_79B9)


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return two uint32 of random bits from a key and a counter, elementwise."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x0, x1 = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x1 ^ x0
        x0 = x0 + keys[(block + 1) % 3]
        x1 = x1 + keys[(block + 2) % 3] + np.uint32(block + 1)
    return x0, x1


def threefry_words(key: tuple[Array, Array], number: int) -> tuple[Array, Array]:
    """Return two uint32[number] of random bits: `threefry` of the counters 0 to `number - 1`."""
    counter = jnp.arange(number, dtype=jnp.uint32)
    return threefry(key, (jnp.zeros_like(counter), counter))


@traced_once
def hash_bits(words: Array, stream: ArrayLike) -> Array:
    """Hash words uint32[...] to random bits that differ for every stream, an integer of any shape.

    The hash ("lowbias32", C. Wellons, github.com/skeeto/hash-prospector) takes a tenth of the operations of Threefry.
    """
    x = words + jnp.asarray(stream, jnp.uint32) * _GOLDEN
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB_352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846C_A68B)
    return x ^ (x >> np.uint32(16))


def uniform_of(words: Array) -> Array:
    """Return uniform numbers in [0, 1), multiples of 2^-24, from random words uint32[...]: float32[...]."""
    return (words >> np.uint32(8)).astype(jnp.float32) * np.float32(2.0**-24)


def random_words(key: Array, number: int) -> Array:
    """Return `jax.random.bits(key, (number,), jnp.uint32)`, on a CPU in one kernel."""
    is_threefry = str(jax.random.key_impl(key)) == "threefry2x32"
    # JAX makes this setting at run time, so type checkers do not know it.
    if not (is_threefry and jax.config.jax_threefry_partitionable):  # pyright: ignore[reportAttributeAccessIssue]
        return jax.random.bits(key, (number,), jnp.uint32)

    def in_one_kernel(key: Array) -> Array:
        high, low = threefry_words(key_words(key), number)
        # In a separate buffer: XLA on CPU would recompute the words for each use.
        return lax.optimization_barrier(high ^ low)

    return by_platform(in_one_kernel, lambda key: jax.random.bits(key, (number,), jnp.uint32), key)


def wrap(words: tuple[Array, Array]) -> Array:
    """Return the key with two words."""
    return jax.random.wrap_key_data(jnp.stack(words), impl="threefry2x32")


def check_key(key: Any, name: str) -> None:
    """Check that the argument of the function `name` is a single random key.

    Raises:
        ValueError: If it is a batch of keys, or no key.
    """
    dtype = getattr(key, "dtype", None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not (is_typed or (dtype == jnp.uint32 and key.ndim)):
        raise ValueError(f"{name} takes a random key such as jax.random.key(0), got {key!r}")
    if key.ndim > (not is_typed):
        raise ValueError(f"{name} takes a single key, got shape {key.shape}; map over a batch with jax.vmap({name})")


def key_words(key: Array) -> tuple[Array, Array]:
    """Return the two words of a typed or raw Threefry key.

    Raises:
        ValueError: If the key is of another kind.
    """
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    if data.shape != (2,) or data.dtype != jnp.uint32:
        raise ValueError(
            f"key must be a single threefry2x32 key such as jax.random.key(0), got {key.dtype} with key data of "
            f"shape {data.shape}; make it with jax.random.key(seed, impl='threefry2x32')"
        )
    return data[0], data[1]

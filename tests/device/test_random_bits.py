"""Our Threefry gives the bits of the reference implementation and of JAX."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax.device.random_bits import key_words, random_words, threefry, wrap


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(key: tuple[int, int], counter: tuple[int, int], expected: tuple[int, int]):
    """The test vectors `threefry2x32 20` of the Random123 distribution (file `kat_vectors`)."""
    k0, k1 = (jnp.uint32(word) for word in key)
    c0, c1 = (jnp.uint32(word) for word in counter)
    assert tuple(int(x) for x in threefry((k0, k1), (c0, c1))) == expected


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_equals_the_bits_of_jax_random(seed: int):
    """JAX numbers the words of an array in order and folds both halves of each block together (partitionable Threefry)."""
    key = jax.random.key(seed, impl="threefry2x32")
    index = jnp.arange(1000, dtype=jnp.uint32)
    with jax.threefry_partitionable(True):
        expected = jax.random.bits(key, (1000,))
    high, low = jax.jit(threefry)(key_words(key), (jnp.zeros_like(index), index))
    np.testing.assert_array_equal(high ^ low, expected)


@pytest.mark.parametrize("partitionable", [True, False])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_words_are_the_bits_of_jax_random(impl: str, partitionable: bool):
    """Whatever the key is of, and however JAX numbers the words."""
    key = jax.random.key(3, impl=impl)
    with jax.threefry_partitionable(partitionable):
        expected = jax.random.bits(key, (7,), jnp.uint32)
        np.testing.assert_array_equal(jax.jit(random_words, static_argnums=1)(key, 7), expected)


def test_a_key_is_made_of_its_words():
    key = jax.random.key(3)
    assert wrap(key_words(key)) == key


def test_key_words_of_a_typed_and_a_raw_key_are_the_same():
    typed, raw = jax.random.key(5, impl="threefry2x32"), jax.random.PRNGKey(5, impl="threefry2x32")
    assert [int(word) for word in key_words(typed)] == [int(word) for word in key_words(raw)] == [0, 5]


@pytest.mark.parametrize(
    "make_key",
    [
        lambda: jax.random.key(0, impl="rbg"),
        lambda: jax.random.split(jax.random.key(0), 3),
        lambda: jnp.zeros(2, jnp.int32),
        lambda: jnp.zeros(4, jnp.uint32),
    ],
    ids=["rbg", "batch", "int32", "four words"],
)
def test_other_keys_are_refused(make_key: Callable[[], jax.Array]):
    with pytest.raises(ValueError, match=re.escape("key must be a single threefry2x32 key such as jax.random.key(0), got")):
        key_words(make_key())

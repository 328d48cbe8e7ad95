"""Our Threefry gives the bits of the reference implementation and of JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import refusals
from unojax.device.random_bits import key_words, random_words, threefry, wrap

compiled = jax.jit(threefry)


def test_known_answers():
    """Test vectors `threefry2x32 20` of the Random123 distribution (file `kat_vectors`)."""
    for key, counter, expected in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        words = compiled(tuple(map(np.uint32, key)), tuple(map(np.uint32, counter)))
        assert tuple(int(word) for word in words) == expected


def test_equals_the_bits_of_jax_random():
    """JAX numbers the words of an array in order and folds both halves of each block together (partitionable Threefry)."""
    index = np.arange(1000, dtype=np.uint32)
    for seed in (0, 1, 2**31 - 1):
        key = jax.random.key(seed, impl="threefry2x32")
        with jax.threefry_partitionable(True):
            expected = jax.random.bits(key, (1000,))
        high, low = map(np.asarray, compiled(key_words(key), (np.zeros_like(index), index)))
        np.testing.assert_array_equal(high ^ low, expected)


@pytest.mark.parametrize("partitionable", [True, False])
def test_words_are_the_bits_of_jax_random(partitionable: bool):
    """For each kind of key, in both numberings of words."""
    for impl in ("threefry2x32", "rbg"):
        key = jax.random.key(3, impl=impl)
        with jax.threefry_partitionable(partitionable):
            expected = jax.random.bits(key, (7,), jnp.uint32)
            np.testing.assert_array_equal(jax.jit(random_words, static_argnums=1)(key, 7), expected)


def test_words_of_keys():
    typed, raw = jax.random.key(5, impl="threefry2x32"), jax.random.PRNGKey(5, impl="threefry2x32")
    assert [int(word) for word in key_words(typed)] == [int(word) for word in key_words(raw)] == [0, 5]
    assert wrap(key_words(typed)) == typed
    wrong = {
        "rbg": jax.random.key(0, impl="rbg"),
        "batch": jax.random.split(jax.random.key(0), 3),
        "int32": np.zeros(2, np.int32),
        "four words": np.zeros(4, np.uint32),
    }
    refusals({f"key must be a single threefry2x32 key ({name})": lambda key=key: key_words(key) for name, key in wrong.items()})

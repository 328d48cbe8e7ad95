"""Functions that are traced once, and compiled once in a program."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax.device.tracing import compiled_apart, open_closure, traced_once


class Times:
    """A static argument."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.factor * x


class NoHash(Times):
    __hash__ = None  # type: ignore[assignment]


traced: list[Times] = []


@partial(traced_once, static=("by",))
def apply(x: jax.Array, *, by: Times) -> jax.Array:
    traced.append(by)
    return by(x)


def test_one_trace_for_many_programs():
    twice, x = Times(2), np.arange(3)
    traced.clear()
    for more in (1, 2):
        np.testing.assert_array_equal(jax.jit(lambda x, more=more: apply(x, by=twice) + more)(x), 2 * x + more)
    np.testing.assert_array_equal(apply(x, by=twice), [0, 2, 4])
    assert traced == [twice]
    # A static argument without a hash, and one that holds a tracer.
    np.testing.assert_array_equal(apply(x, by=NoHash(3)), [0, 3, 6])
    np.testing.assert_array_equal(jax.jit(lambda x: apply(x, by=NoHash(4)))(x), [0, 4, 8])
    np.testing.assert_array_equal(jax.jit(lambda x, n: apply(x, by=Times(n)))(x, 5), [0, 5, 10])


def test_captured_arrays_of_a_closure_are_arguments():
    constant, x, key = np.arange(3.0), np.ones(3, np.float32), jax.random.key(0)

    def captured_by(scale: jax.Array) -> tuple[int, jax.Array]:
        opened, captured = open_closure(lambda x: {"sum": scale * x + constant + jax.random.uniform(key)}, x)
        return len(captured), opened(captured, x)["sum"] - opened((jnp.zeros_like(scale), *captured[1:]), x)["sum"]

    assert captured_by(np.float32(2))[0] == 0
    sums = jax.jit(jax.vmap(lambda scale: captured_by(scale)[1]))(np.arange(4.0))
    np.testing.assert_allclose(sums, np.arange(4.0)[:, None] * np.ones(3), rtol=1e-6)


def mixed(x: jax.Array) -> jax.Array:
    """Many operations with many dependent results, and a nested call of jax.numpy."""
    x = jnp.where(x > 7, x, x + 1)
    for i in range(50):
        x = (x ^ (x >> 3)) * jnp.uint32(2654435761 + i)
    return x


def spread(x: jax.Array, mix) -> tuple[jax.Array, ...]:
    made = mix(x)
    return tuple(made ^ jnp.uint32(i) for i in range(12))


@pytest.mark.optimized
def test_a_value_that_many_results_share_is_compiled_once():
    x = np.arange(64, dtype=np.uint32)
    apart, inlined = (jax.jit(partial(spread, mix=mix)).lower(x).compile() for mix in (compiled_apart(mixed), mixed))
    for one, other in zip(apart(x), inlined(x), strict=True):
        np.testing.assert_array_equal(one, other)
    # Fifty multiplications, and not fifty for each result; one call, because nested calls are inlined.
    program = apart.as_text()
    assert program.count(" multiply(") == 50 < inlined.as_text().count(" multiply(")
    assert program.count(" call(") == 1


def test_compiled_apart_it_can_be_mapped_and_differentiated():
    def square(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, x**2, 0.0)

    x, apart = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4), compiled_apart(square)
    np.testing.assert_allclose(jax.jit(jax.vmap(apart))(x), np.where(x > 0, x**2, 0), rtol=1e-6)
    np.testing.assert_array_equal(jax.jit(jax.grad(lambda x: apart(x).sum()))(x), np.where(x > 0, 2 * x, 0))

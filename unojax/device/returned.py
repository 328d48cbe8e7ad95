"""Checks of user functions, policies, models and agents: their arguments and the values that they return.

Shapes and types are static, so the checks cost nothing in the compiled program. Without them, JAX would silently clamp an index
beyond the end of a short array.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def takes(function: Callable[..., Any], number: int) -> bool:
    """Return whether a function can be called with `number` positional arguments; True if its signature is unknown."""
    try:
        signature(function).bind(*[None] * number)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def one_integer(value: Any, who: str) -> Array:
    """Return the result of `who` as an integer array, [].

    Raises:
        ValueError: If it is not one integer.
    """
    number = _as_array(value, who, "one integer")
    if number.shape or not jnp.issubdtype(number.dtype, jnp.integer):
        raise ValueError(f"{who} must return one integer, got {_described(number)}")
    return number


def numbers(value: Any, who: str, shape: tuple[int, ...], meaning: str) -> Array:
    """Return the result of `who` as real numbers of a shape, float32.

    Args:
        value: The result: floating-point numbers, integers or truth values.
        who: Name of the function, for the message.
        shape: Required shape.
        meaning: Phrase for the message, such as "a likelihood for each action".

    Raises:
        ValueError: If the shape differs, or the numbers are not real.
    """
    expected = f"float32{list(shape)}, {meaning}"
    array = _as_array(value, who, expected)
    is_real = jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool
    if array.shape != shape or not is_real:
        raise ValueError(f"{who} must return {expected}, got {_described(array)}")
    return array.astype(jnp.float32)


def like(value: Any, who: str, before: Any, meaning: str) -> Any:
    """Return the result of `who`, a pytree of the same arrays as `before`, with arrays as leaves.

    Raises:
        ValueError: If its structure, a shape or a type differs.
    """
    try:
        value = jax.tree.map(jnp.asarray, value)
    except TypeError as error:
        raise ValueError(f"{who} must return {meaning}, a pytree of arrays: {error}") from error
    if (expected := _of_tree(before)) != (got := _of_tree(value)):
        raise ValueError(f"{who} must return {meaning}, {expected}, but returned {got}")
    return value


def _as_array(value: Any, who: str, expected: str) -> Array:
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError):
        raise ValueError(f"{who} must return {expected}, got {type(value).__name__} {value!r}") from None


def _described(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _of_tree(tree: Any) -> str:
    leaves, treedef = jax.tree.flatten(tree)
    return f"{treedef} of {[_described(jnp.asarray(leaf)) for leaf in leaves]}"

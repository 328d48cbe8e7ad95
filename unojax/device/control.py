"""Loops and branches of `jax.lax` that also work inside `jax.shard_map`.

There an array's type states over which mesh axes its values may differ. JAX rejects a loop that starts with a constant and makes
its values differ, and branches of which one returns a constant. These functions cast the loop's initial value and the branches'
results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

_Carry = TypeVar("_Carry")
_Out = TypeVar("_Out")


def fori_loop(lower: ArrayLike, upper: ArrayLike, body: Callable[[Any, _Carry], _Carry], init: _Carry, **options: Any) -> _Carry:
    """Loop as `jax.lax.fori_loop` does."""
    if _is_shared():
        init = _settle(partial(body, jnp.asarray(lower)), init)
    return lax.fori_loop(lower, upper, body, init, **options)


def while_loop(goes_on: Callable[[_Carry], ArrayLike], body: Callable[[_Carry], _Carry], init: _Carry) -> _Carry:
    """Loop as `jax.lax.while_loop` does."""
    if _is_shared():
        init = _settle(body, init)
    return lax.while_loop(goes_on, body, init)


def scan(
    body: Callable[[_Carry, Any], tuple[_Carry, _Out]], init: _Carry, xs: Any = None, length: int | None = None, **options: Any
) -> tuple[_Carry, _Out]:
    """Loop as `jax.lax.scan` does."""
    if _is_shared():
        first = jax.tree.map(lambda x: jax.eval_shape(lambda: x[0]), xs)
        init = _settle(lambda carry: jax.eval_shape(body, carry, first)[0], init)
    return lax.scan(body, init, xs, length, **options)


def cond(condition: ArrayLike, true: Callable[..., _Out], false: Callable[..., _Out], *operands: Any) -> _Out:
    """Branch as `jax.lax.cond` does."""
    return lax.cond(condition, *_alike((true, false), operands), *operands)


def switch(index: ArrayLike, branches: Sequence[Callable[..., _Out]], *operands: Any) -> _Out:
    """Branch as `jax.lax.switch` does."""
    return lax.switch(index, _alike(branches, operands), *operands)


def vary_with(tree: _Carry, *sources: Array) -> _Carry:
    """Return arrays of the same values that may also differ wherever one of `sources`, scalars, may.

    Callers can then begin their own loops of `jax.lax` with them inside `jax.shard_map`.
    """
    if not _is_shared():
        return tree

    def vary(x: Array) -> Array:
        for source in sources:
            # A cast alone would not do: JAX lacks one for mapped branches.
            zero = jnp.zeros_like(source, x.dtype)
            x = x | zero if x.dtype == bool else x + zero
        return x

    return jax.tree.map(vary, tree)


def _is_shared() -> bool:
    """Return whether this runs inside a `shard_map` that checks types (`check_vma`).

    Without checks there is nothing to cast, and finding that out would trace the body of every loop twice, and of a loop in it
    four times.
    """
    axes = jax.sharding.get_abstract_mesh().manual_axes
    return bool(axes) and bool(_axes_of(jax.eval_shape(partial(lax.axis_index, axes[0]))))


def _settle(body: Callable[[_Carry], _Carry], carry: _Carry) -> _Carry:
    """Cast the initial value of a loop so that an iteration changes no type."""
    while True:
        after = _cast(carry, jax.eval_shape(body, carry))
        # Each iteration that changes a type adds an axis to an array, so this ends.
        if list(map(_axes_of, jax.tree.leaves(after))) == list(map(_axes_of, jax.tree.leaves(carry))):
            return after
        carry = after


def _alike(branches: Sequence[Callable[..., _Out]], operands: tuple[Any, ...]) -> Sequence[Callable[..., _Out]]:
    """Cast the results of branches to one type."""
    if not _is_shared():
        return branches
    results = [jax.eval_shape(branch, *operands) for branch in branches]

    def of(branch: Callable[..., _Out], *operands: Any) -> _Out:
        out = branch(*operands)
        for result in results:
            out = _cast(out, result)
        return out

    return [partial(of, branch) for branch in branches]


def _cast(tree: Any, like: Any) -> Any:
    """Let arrays also differ over the axes over which those of `like` differ."""

    def cast(x: ArrayLike, of: Any) -> ArrayLike:
        axes = tuple(sorted(_axes_of(of) - _axes_of(x)))
        return lax.pcast(x, axes, to="varying") if axes else x

    return jax.tree.map(cast, tree, like)


def _axes_of(x: Any) -> frozenset[str]:
    """Return the axes over which an array, or its `eval_shape`, may differ."""
    # JAX 0.10 to 0.12 has no public name for this part of a type. `shard_map` without `check_vma` omits it.
    axes = (x if isinstance(x, jax.ShapeDtypeStruct) else jax.typeof(x)).manual_axis_type
    return frozenset() if axes is None else axes.varying

"""Work on a chosen part of a batch, and work on a whole batch from within `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap

from unojax.device import control
from unojax.device.tracing import open_closure

_Tree = TypeVar("_Tree")


def for_chosen(chosen: Array, chunk: int, work: Callable[..., _Tree], args: tuple[Any, ...], out: _Tree) -> _Tree:
    """Replace the chosen elements of `out` by the results of `work`, computed for these only.

    Args:
        chosen: bool[B].
        chunk: Number of elements at a time, static. The last chunk is padded with other elements, whose results are dropped.
        work: `work(is_real, *args)` of one chunk's rows of `args`; bool[chunk] `is_real` is False for padding.
        args, out: Pytrees with a leading axis B.
    """
    return update_chosen(chosen, chunk, lambda is_real, _, *args: work(is_real, *args), args, out)


def update_chosen(chosen: Array, chunk: int, work: Callable[..., _Tree], args: tuple[Any, ...], state: _Tree) -> _Tree:
    """Replace the chosen elements of `state` by `work(is_real, rows, *args)` of their rows.

    Unlike `for_chosen` with the state among its `args`, this does not copy the state.
    """
    num = len(chosen)
    # The chosen ones first. Counting takes a tenth of the time of a sort on a CPU.
    before = jnp.cumsum(chosen, dtype=jnp.int32)
    index = jnp.arange(num, dtype=jnp.int32)
    place = jnp.where(chosen, before - 1, before[-1] + index - before)
    order = jnp.zeros_like(index).at[place].set(index, unique_indices=True)
    # JAX moves back a slice that reaches over the end, so there must be a whole number of chunks.
    order = jnp.append(order, jnp.zeros(-num % chunk, order.dtype))
    number = before[-1]

    def one_chunk(i: Array, state: _Tree) -> _Tree:
        at = lax.dynamic_slice(order, [i * chunk], [chunk])
        is_real = i * chunk + jnp.arange(chunk) < number
        made = work(is_real, *jax.tree.map(lambda a: a[at], (state, *args)))
        target = jnp.where(is_real, at, num)
        return jax.tree.map(lambda old, new: old.at[target].set(new, mode="drop"), state, made)

    return control.fori_loop(0, (number + chunk - 1) // chunk, one_chunk, state)


def together(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of one element that `vmap`, at any depth, turns into `work` on a batch.

    Args:
        work: `work(shared, *args)` with a leading axis on all of `args` and on the result. `shared` has no such axis. Elements
            that differ in `shared`, or in a traced array that `work` closes over, are processed one after the other.

    Returns:
        `of_one(shared, *args)`.
    """

    def of_one(shared: Any, *args: Any) -> Any:
        result = _of_batch(work, {}, shared, *jax.tree.map(lambda x: jnp.asarray(x)[None], args))
        return jax.tree.map(lambda x: x[0], result)

    return of_one


def _of_batch(work: Callable[..., Any], now: dict[int, Array], shared: Any, *args: Any) -> Any:
    """Call `work`, so that `vmap` makes a larger batch of batches.

    `now` replaces the arrays that `work` closes over, by identity, because within another transformation `work` still closes over
    the earlier ones.
    """
    opened, captured = open_closure(work, shared, *args)
    mapped = custom_vmap(opened)

    @mapped.def_vmap
    def of_batches(axis_size: int, in_batched: Any, *all_args: Any) -> tuple[Any, Any]:
        current, shared, *args = all_args
        if axis_size == 0:
            result = _of_no_elements(mapped, in_batched, all_args)
        elif any(jax.tree.leaves(in_batched[:2])):
            result = _one_by_one(mapped, axis_size, in_batched, all_args)
        else:
            rows = jax.tree.map(partial(spread, axis_size), args, list(in_batched[2:]))
            now = {id(before): array for before, array in zip(captured, current, strict=True)}
            merged = _of_batch(work, now, shared, *jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows))
            result = jax.tree.map(lambda x: x.reshape(axis_size, -1, *x.shape[1:]), merged)
        return result, jax.tree.map(lambda _: True, result)

    return mapped(tuple(now.get(id(array), array) for array in captured), shared, *args)


def _of_no_elements(function: Callable[..., Any], in_batched: Any, args: Any) -> Any:
    """Return the result for a batch without elements, which has no row that `function` could run on."""

    def element(x: Array, is_batched: bool) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(x.shape[1:] if is_batched else x.shape, x.dtype)

    shapes = jax.eval_shape(function, *jax.tree.map(element, list(args), list(in_batched)))
    return jax.tree.map(lambda x: jnp.zeros((0, *x.shape), x.dtype), shapes)


def _one_by_one(function: Callable[..., Any], axis_size: int, in_batched: Any, args: Any) -> Any:
    def of_element(index: Array) -> Any:
        return function(*jax.tree.map(lambda x, is_batched: x[index] if is_batched else x, list(args), list(in_batched)))

    return lax.map(of_element, jnp.arange(axis_size))


def spread(axis_size: int, x: Array, is_batched: bool) -> Array:
    """Broadcast an argument of a `custom_vmap` rule unless it is batched."""
    return x if is_batched else jnp.broadcast_to(x, (axis_size, *jnp.shape(x)))


class Agenda:
    """Kinds of work on the elements of a batch, with rounds for each element. Use it while tracing.

    Args:
        due: Number of rounds by the name of the work, int32[B].
        largest_chunk: Largest number of elements at a time, static.
    """

    def __init__(self, due: dict[str, Array], largest_chunk: int):
        self._names = list(due)
        number = jnp.stack([rounds.astype(jnp.int32) for rounds in due.values()])
        # Pad with elements beyond the end that need no work, to get whole chunks.
        number = jnp.pad(number, ((0, 0), (0, largest_chunk)))
        # The neediest elements first. One sort serves all kinds.
        self._ranked, self._order = lax.sort_key_val(-number, lax.broadcasted_iota(jnp.int32, number.shape, 1))
        # For each kind, the place in that order, the round, and the rounds of all elements that are left.
        self._cursor = jnp.pad(number.sum(1, dtype=jnp.int32)[:, None], ((0, 0), (2, 0)))

    def do(
        self,
        name: str,
        chunk: int,
        work: Callable[[Array, Array, _Tree], _Tree],
        state: _Tree,
        sizes: Array | None = None,
        room: int = 0,
        leave: int = 0,
    ) -> _Tree:
        """Do one kind of work, a chunk of elements at a time, and return the new state.

        All elements get a round before any gets the next. One loop covers all rounds and chunks, because on a GPU the host checks
        its condition once per iteration.

        Args:
            name: Name of the work and of the loop.
            chunk: Number of elements at a time, static.
            work: `work(round, elements, state)` does one round, int32[], for int32[chunk] different elements. Padding elements
                have numbers beyond the end: `put_rows` drops their results, `take_rows` returns arbitrary rows.
            state: Any pytree, passed through the rounds.
            sizes: int32[B] of the elements, if they differ.
            room: Largest total size of a chunk's elements, static. No single element is larger.
            leave: Stop when at most this number of rounds is left, counted over all elements; static. The next call for this kind
                of work, with chunks of another size, continues there.
        """
        order, ranked, kind = self._order, self._ranked, self._names.index(name)

        def goes_on(carry: tuple[Array, _Tree]) -> Array:
            return carry[0][kind, 2] > leave

        def one_turn(carry: tuple[Array, _Tree]) -> tuple[Array, _Tree]:
            cursor, state = carry
            begin, index, left = cursor[kind]
            here = [jnp.int32(kind), begin]
            rounds = -lax.dynamic_slice(ranked, here, [1, chunk])[0]
            at = lax.dynamic_slice(order, here, [1, chunk])[0]
            needs, number = rounds > index, chunk
            if sizes is not None:
                up_to = jnp.tri(chunk, dtype=bool)
                fits = jnp.where(up_to, jnp.where(needs, take_rows(sizes, at), 0), 0).sum(1) <= room
                needs, number = needs & fits, fits.sum(dtype=jnp.int32)
            state = work(index, jnp.where(needs, at, at + order.shape[1]), state)
            begin, left = begin + number, left - needs.sum(dtype=jnp.int32)
            is_last = -ranked[kind, begin] <= index
            after = jnp.stack([jnp.where(is_last, 0, begin), index + is_last.astype(jnp.int32), left])
            return cursor.at[kind].set(after), state

        with jax.named_scope(name):
            self._cursor, state = control.while_loop(goes_on, one_turn, (self._cursor, state))
        return state


def take_rows(tree: _Tree, at: Array) -> _Tree:
    """Return rows int32[C] of all leaves; arbitrary ones beyond the end."""
    return jax.tree.map(lambda leaf: leaf.at[at].get(mode="clip"), tree)


@custom_vmap
def look_up(table: Array, index: Array) -> Array:
    """Return rows of a table [R, ...] by non-negative int32[...]; beyond the end the last row.

    Under `vmap` the tables become one long table with a single row number, so that on a GPU the lookup fuses into another kernel.
    """
    return table.at[index].get(mode="clip")


@look_up.def_vmap
def _look_up_in_many(axis_size: int, in_batched: Any, table: Array, index: Array) -> tuple[Array, bool]:
    if not in_batched[0]:
        return look_up(table, index), True
    if not in_batched[1]:
        index = jnp.broadcast_to(index, (axis_size, *index.shape))
    number = table.shape[1]
    first = number * jnp.arange(axis_size).reshape(-1, *[1] * (index.ndim - 1))
    return look_up(table.reshape(-1, *table.shape[2:]), first + jnp.minimum(index, number - 1)), True


@custom_vmap
def put_in_columns(table: Array, index: Array, new: Array) -> Array:
    """Set `table[index[k, n], n] = new[k, n]` of a table [R, N], in place, except beyond the end.

    No place may be set twice. Under `vmap` the tables of many elements become one row, see `look_up`.
    """
    return _put_in_many_columns(table[None], index[None], new[None])[0]


@put_in_columns.def_vmap
def _put_in_columns_of_many(axis_size: int, in_batched: Any, *args: Array) -> tuple[Array, bool]:
    spread = (
        x if is_batched else jnp.broadcast_to(x, (axis_size, *x.shape)) for x, is_batched in zip(args, in_batched, strict=True)
    )
    return _put_in_many_columns(*spread), True


def _put_in_many_columns(tables: Array, index: Array, new: Array) -> Array:
    number, rows, width = tables.shape
    element, change, column = (lax.broadcasted_iota(jnp.int32, index.shape, axis) for axis in range(3))
    place = (rows * element + index.astype(jnp.int32)) * width + column
    # Indices beyond the end must differ too.
    beyond = tables.size + (change * number + element) * width + column
    place = jnp.where(index < rows, place, beyond)
    flat = tables.reshape(-1).at[place.reshape(-1)].set(new.reshape(-1), mode="drop", unique_indices=True)
    return flat.reshape(tables.shape)


def take_part(rows: Array, at: Array, number: int) -> Array:
    """Return the first `number` (static) entries of rows int32[C]; arbitrary beyond the end.

    The other entries are not read, as they would be if the rows were sliced first.
    """
    return rows.at[at, :number].get(mode="clip")


def put_rows(rows: Array, at: Array, new: Array) -> Array:
    """Set rows int32[C], all different, in place, except beyond the end; of wider rows the first part."""
    part = tuple(slice(size) for size in new.shape[1:])
    return rows.at[(at, *part)].set(new, mode="drop", unique_indices=True)

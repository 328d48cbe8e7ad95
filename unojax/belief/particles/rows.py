"""Loops over the slots of trajectories, in two forms.

On a CPU, XLA builds each array in a separate loop and recomputes its inputs there. `SERIAL` therefore packs each decision into
one array, computed once, and visits the filled slots only, in groups. On a GPU a loop of unknown length costs more than visits to
empty rows: `PARALLEL` visits all rows at once. Rows beyond the filled ones hold no card, so they change nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import bits
from unojax.belief.particles.public import PublicHistory
from unojax.belief.particles.trajectory import NO_SLOT, RELEASED
from unojax.device import control
from unojax.device.batching import look_up, put_in_columns

GROUP: Final = 4
"""Rows per iteration of a loop; tables of labels have a multiple of it."""

_LOW: Final = np.uint32(0xFFFF)
_HIGH: Final = np.uint32(16)
_T = TypeVar("_T")
Term = Callable[[ArrayLike], Array]
"""`term(slot)`, an array [N], for one slot or for one of each particle (uint16[N])."""


def capacity_for(number: int) -> int:
    """Round a number of rows up to a multiple of `GROUP`."""
    return -(-number // GROUP) * GROUP


def num_groups(number: Array) -> Array:
    """Count the groups of a number of rows: int32[]."""
    return (number + GROUP - 1) // GROUP


class Rows(ABC):
    """A form of the loops over slots.

    Attributes:
        at_a_time: slots that a round changes together, if it changes single slots.
    """

    at_a_time: int

    @abstractmethod
    def once(self, history: PublicHistory, compute: Callable[[], _T]) -> _T:
        """Call `compute()`, and keep it from being fused into each of its users."""

    @abstractmethod
    def repeat(self, number: Array, most: int, body: Callable[[Array, _T], _T], first: _T) -> _T:
        """Apply `body(index, carry)` to `first` in `number` rounds, int32[], at most `most` (static)."""

    @abstractmethod
    def total(self, history: PublicHistory, term: Term, zero: Array) -> Array:
        """Sum `term(slot)` over the filled slots and possibly some empty ones."""

    @abstractmethod
    def total_and_search(
        self, history: PublicHistory, share: Term, high: Term, zero: Array
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Sum `share(slot) + high(slot)`, uint32[N] in the low and in the high half, over the slots; and return a search.

        `search(threshold)` counts the slots up to which the shares sum to at most a threshold, uint32[N] below their sum.
        """

    @abstractmethod
    def find(self, history: PublicHistory, labels: Array, label: Array) -> Array:
        """Find the slot that holds the unreleased card with a label: uint16[N], `NO_SLOT` if there is none."""

    @abstractmethod
    def nth_live(self, history: PublicHistory, labels: Array, place: Array) -> Array:
        """Find the live slot with `place` (int32[]) live slots before it: uint16[N], at least `num_slots` if there is none."""

    @abstractmethod
    def put(self, history: PublicHistory, labels: Array, *changes: tuple[Array, Array], few: bool = False) -> Array:
        """Return the labels after `labels[slot[n], n] = label[n]` for each (slot uint16[N], label uint8[N]).

        `few` (static) means that the table stays in place, so that writing only the changes is cheaper on a GPU.
        """

    @abstractmethod
    def label_at(self, labels: Array, slot: Array) -> Array:
        """Read the label in each particle's slot uint16[N], which is in range: uint8[N]."""

    @abstractmethod
    def at(self, table: Array, slot: ArrayLike) -> Array:
        """Take entries of a table [..., S] by slots that are in range, one or uint16[N]."""


class _Serial(Rows):
    at_a_time = 1

    def once(self, history: PublicHistory, compute: Callable[[], _T]) -> _T:
        shapes = jax.eval_shape(compute)
        # A branch that the compiler cannot remove. (From jax 0.12 on, an optimization barrier has the same effect.)
        return control.cond(history.num_slots >= 0, compute, lambda: jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes))

    def repeat(self, number: Array, most: int, body: Callable[[Array, _T], _T], first: _T) -> _T:
        return control.fori_loop(0, number.astype(jnp.int32), body, first)

    def _fold(self, history: PublicHistory, visit: Callable[[ArrayLike, Array], Array], first: Array) -> Array:
        def two_slots(index: ArrayLike, carry: Array) -> Array:
            return visit(2 * index + 1, visit(2 * index, carry))

        return control.fori_loop(0, (history.num_slots + 1) // 2, two_slots, first)

    def total(self, history: PublicHistory, term: Term, zero: Array) -> Array:
        return self._fold(history, lambda slot, total: total + term(slot), zero)

    def total_and_search(
        self, history: PublicHistory, share: Term, high: Term, zero: Array
    ) -> tuple[Array, Callable[[Array], Array]]:
        def search(threshold: Array) -> Array:
            # Low half: the sum so far. High half: the number of slots that end at or below the threshold.
            def visit(slot: ArrayLike, sums: Array) -> Array:
                sums = sums + share(slot)
                return sums + (((sums & _LOW) <= threshold).astype(jnp.uint32) << _HIGH)

            return self._fold(history, visit, zero) >> _HIGH

        return self.total(history, lambda slot: share(slot) + high(slot), zero), search

    def find(self, history: PublicHistory, labels: Array, label: Array) -> Array:
        def visit(slot: ArrayLike, found: Array) -> Array:
            return jnp.where(labels[slot] == label, jnp.asarray(slot, jnp.uint16), found)

        return self._fold(history, visit, jnp.full(label.shape, NO_SLOT))

    def nth_live(self, history: PublicHistory, labels: Array, place: Array) -> Array:
        # High half: the live slots so far. Low half: the slots passed while there were too few.
        def visit(slot: ArrayLike, sums: Array) -> Array:
            sums = sums + ((labels[slot] < RELEASED).astype(jnp.uint32) << _HIGH)
            return sums + ((sums >> _HIGH) <= place.astype(jnp.uint32)).astype(jnp.uint32)

        return (self._fold(history, visit, jnp.zeros(labels.shape[1:], jnp.uint32)) & _LOW).astype(jnp.uint16)

    def put(self, history: PublicHistory, labels: Array, *changes: tuple[Array, Array], few: bool = False) -> Array:

        def one_group(group: Array, labels: Array) -> Array:
            first = GROUP * group
            index = (first + jnp.arange(GROUP)[:, None]).astype(jnp.uint16)
            rows = lax.dynamic_slice_in_dim(labels, first, GROUP)
            return lax.dynamic_update_slice_in_dim(labels, _changed(index, rows, changes), first, 0)

        return control.fori_loop(0, num_groups(history.num_slots), one_group, labels)

    def label_at(self, labels: Array, slot: Array) -> Array:
        return labels.at[slot.astype(jnp.int32), jnp.arange(slot.shape[0])].get(mode="promise_in_bounds")

    def at(self, table: Array, slot: ArrayLike) -> Array:
        return table.at[..., jnp.asarray(slot).astype(jnp.int32)].get(mode="promise_in_bounds")


class _Parallel(Rows):
    at_a_time = GROUP

    def once(self, history: PublicHistory, compute: Callable[[], _T]) -> _T:
        return compute()

    def repeat(self, number: Array, most: int, body: Callable[[Array, _T], _T], first: _T) -> _T:
        def one_round(index: Array, carry: _T) -> _T:
            return jax.tree.map(partial(jnp.where, index < number), body(index, carry), carry)

        # A few rounds become one kernel.
        return control.fori_loop(0, most, one_round, first, unroll=GROUP)

    def total(self, history: PublicHistory, term: Term, zero: Array) -> Array:
        return jax.vmap(term)(jnp.arange(history.max_slots)).sum(0, dtype=zero.dtype)

    def total_and_search(
        self, history: PublicHistory, share: Term, high: Term, zero: Array
    ) -> tuple[Array, Callable[[Array], Array]]:
        # A few slots at a time, then those of one such group.
        of_slots = jax.vmap(lambda slot: share(slot) + high(slot))(jnp.arange(history.max_slots))
        groups = of_slots.reshape(-1, GROUP, *zero.shape).sum(1, dtype=zero.dtype)

        def search(threshold: Array) -> Array:
            total, passed, number = zero, zero, zero
            for group in groups:
                total = total + (group & _LOW)
                is_passed = total <= threshold
                passed, number = jnp.where(is_passed, total, passed), number + is_passed.astype(jnp.uint32)
            first = GROUP * number
            number = first
            for offset in range(GROUP):
                passed = passed + share((first + np.uint32(offset)).astype(jnp.uint16))
                number = number + (passed <= threshold).astype(jnp.uint32)
            return number

        return groups.sum(0, dtype=zero.dtype), search

    def find(self, history: PublicHistory, labels: Array, label: Array) -> Array:
        index = jnp.arange(labels.shape[0], dtype=jnp.uint16)[:, None]
        return jnp.where(labels == label[None], index, NO_SLOT).min(0)

    def nth_live(self, history: PublicHistory, labels: Array, place: Array) -> Array:
        num_rows, place = labels.shape[0], place.astype(jnp.uint32)
        shifts = (jnp.arange(num_rows, dtype=jnp.uint32) % 32)[:, None]
        padded = jnp.pad((labels < RELEASED).astype(jnp.uint32) << shifts, ((0, -num_rows % 32), (0, 0)))
        words = padded.reshape(-1, 32, labels.shape[1]).sum(1, dtype=jnp.uint32)
        found = jnp.full(labels.shape[1], num_rows, jnp.uint32)
        begin = jnp.zeros_like(found)
        for number, word in enumerate(words):
            left, count = place - begin, lax.population_count(word)
            is_here = (begin <= place) & (left < count)
            found = jnp.where(is_here, 32 * number + bits.nth_bit(word, left), found)
            begin = begin + count
        return found.astype(jnp.uint16)

    def put(self, history: PublicHistory, labels: Array, *changes: tuple[Array, Array], few: bool = False) -> Array:
        if not few:
            return _changed(jnp.arange(labels.shape[0], dtype=jnp.uint16)[:, None], labels, changes)
        slots, new = (jnp.stack(each) for each in zip(*changes, strict=True))
        return put_in_columns(labels, slots, new)

    def label_at(self, labels: Array, slot: Array) -> Array:
        lanes = jnp.arange(slot.shape[0])
        return look_up(labels.reshape(-1), slot.astype(jnp.int32) * len(lanes) + lanes)

    def at(self, table: Array, slot: ArrayLike) -> Array:
        slot = jnp.asarray(slot).astype(jnp.int32)
        return look_up(table, slot) if table.ndim == 1 else jnp.stack([look_up(row, slot) for row in table])


def _changed(index: Array, rows: Array, changes: tuple[tuple[Array, Array], ...]) -> Array:
    for slot, label in changes:
        rows = jnp.where(index == slot[None], label[None], rows)
    return rows


SERIAL: Final = _Serial()
PARALLEL: Final = _Parallel()

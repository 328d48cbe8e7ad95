"""Clouds of accounts: what a particle is made of, and the primitives that the moves are written over.

A particle is a full account of the hidden past, told in physical cards (slots 0..107 of the canonical layout, here *labels*):
which label each slot of the opponent's hand got when it was filled, which of them it played, which ones the observer drew.
Equal cards look the same, so labels are never seen, only their types.

Functions here work on all N particles at once. On a CPU, XLA builds each array in a loop of its own and repeats in it whatever
the array depends on. So decisions are squeezed into one array (a label, a slot, a packed sum) that is computed once, and what
follows from them is cheap to repeat. Slots are visited a few per turn of a loop, and only those that are filled.

On a GPU a loop whose length the host must ask for costs more than rows visited for nothing, and many rows make one kernel: there
all rows of the arrays are visited, many per turn (`in_lockstep`), and `lockstep` sees to it that they are not many more than are
filled. Rows beyond hold no card, so they change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import bits, cards
from unojax.belief.particles.ledger import Ledger
from unojax.bits import Words
from unojax.device import control
from unojax.device.batching import look_up, put_in_columns
from unojax.device.platform import platform
from unojax.device.random_bits import key_words, threefry

RELEASED: Final = np.uint8(0x80)
"""Set in the label of a slot whose card has been played."""
ROWS_PER_TURN: Final = 4
"""Rows that a turn of a loop takes; `labels` and `played` have a multiple of it."""
NO_SLOT: Final = np.uint16(0xFFFF)
"""Beyond every slot."""

_GOLDEN: Final = np.uint32(0x9E37_79B9)
_LOW: Final = np.uint32(0xFFFF)
_T = TypeVar("_T")


class Cloud(NamedTuple):
    """N particles. A set of cards is four uint32[N]; a label is a number `word * 32 + position` below 128.

    Attributes:
        hand: the opponent's cards.
        deck: the cards left to draw.
        own: the observer's cards.
        recycled: cards that a reshuffle has ever put back.
        labels: uint8[S, N] the card of each slot, with `RELEASED` set once it was played.
        played: uint8[T, N] the card of each play of the opponent.
    """

    hand: Words
    deck: Words
    own: Words
    recycled: Words
    labels: Array
    played: Array


def card_of(number: Array) -> Words:
    """Make the set that holds one card, from its label: four uint32[...]. Empty for a label with `RELEASED` set."""
    number = number.astype(jnp.uint32)
    # Shifted by 32 or more, the bit is gone: lax defines that, and for a label in a lower word the difference wraps around.
    w0, w1, w2, w3 = (lax.shift_left(jnp.uint32(1), number - np.uint32(32 * c)) for c in range(cards.NUM_COLORS))
    return w0, w1, w2, w3


def contains(words: Words, number: Array) -> Array:
    """Tell whether a set holds the card with a label: bool[...], of no meaning for a label with `RELEASED` set."""
    number = number.astype(jnp.uint32)
    return bits.contains(words, number >> np.uint32(5), number & np.uint32(31))


def union(a: Words, b: Words) -> Words:
    """Collect the cards of either set."""
    return bits.map_words(lambda x, y: x | y, a, b)


def common(a: Words, b: Words) -> Words:
    """Collect the cards of both sets."""
    return bits.map_words(lambda x, y: x & y, a, b)


def without(a: Words, b: Words) -> Words:
    """Collect the cards of the first set that are not in the second."""
    return bits.map_words(lambda x, y: x & ~y, a, b)


def flip(words: Words, change: Words, where: Array) -> Words:
    """Put the cards of `change` in or take them out, in the particles `where`."""
    return bits.map_words(lambda w, c: w ^ jnp.where(where, c, np.uint32(0)), words, change)


def in_lockstep() -> bool:
    """Tell whether games and particles take every step together, with loops of fixed length: on a GPU."""
    return platform() == "gpu"


def once(ledger: Ledger, compute: Callable[[], _T]) -> _T:
    """Call `compute()`, and keep it from being fused into each of its users."""
    if in_lockstep():
        return compute()
    shapes = jax.eval_shape(compute)
    # A branch that the compiler cannot remove. (From jax 0.12 on, an optimization barrier has the same effect.)
    return control.cond(ledger.num_slots >= 0, compute, lambda: jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes))


def random_words(key: Array, ledger: Ledger, like: Array) -> Array:
    """Draw a random word for each particle, from which `random_bits` draws: uint32[N]; `like` is any array [N]."""
    counter = jnp.arange(like.shape[-1], dtype=jnp.uint32)
    return once(ledger, lambda: threefry(key_words(key), (jnp.zeros_like(counter), counter))[0])


def random_bits(words: Array, stream: ArrayLike) -> Array:
    """Draw random bits, others for every `stream`: uint32[N].

    An integer hash of the word and the stream ("lowbias32", C. Wellons, github.com/skeeto/hash-prospector): a tenth of the
    operations of Threefry, which makes the words themselves.
    """
    x = words + jnp.asarray(stream, jnp.uint32) * _GOLDEN
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB_352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846C_A68B)
    return x ^ (x >> np.uint32(16))


def random_card(random: Array, words: Words) -> Array:
    """Pick a uniformly random card of each set, for random bits uint32[N]: uint8[N] labels."""
    word, position = bits.choose(words, random)
    return ((word << np.uint32(5)) | position).astype(jnp.uint8)


def fold_slots(ledger: Ledger, visit: Callable[[ArrayLike, _T], _T], first: _T) -> _T:
    """Loop `carry = visit(slot, carry)` over the slots that are filled, and some that are not; not in lockstep."""

    def several(block: ArrayLike, carry: _T) -> _T:
        for offset in range(ROWS_PER_TURN):
            carry = visit(ROWS_PER_TURN * block + offset, carry)
        return carry

    return control.fori_loop(0, num_turns(ledger.num_slots), several, first)


def sum_slots(ledger: Ledger, term: Callable[[ArrayLike], Array], zero: Array) -> Array:
    """Add up `term(slot)`, an array [N], over the slots that are filled, and some that are not."""
    if in_lockstep():
        return jax.vmap(term)(jnp.arange(ledger.epoch.shape[0])).sum(0, dtype=zero.dtype)
    return fold_slots(ledger, lambda slot, total: total + term(slot), zero)


def sum_and_search(
    ledger: Ledger, share: Callable[[ArrayLike], Array], high: Callable[[ArrayLike], Array], zero: Array
) -> tuple[Array, Callable[[Array], Array]]:
    """Add up `share(slot) + high(slot)` over the slots, uint32[N] in the low and in the high half, and search the shares.

    Gives the sums, and a function of thresholds uint32[N] below the sums of the shares: it counts the slots up to which the
    shares add up to no more. `share` takes a slot, or in lockstep one for each particle too.
    """

    def both(slot: ArrayLike) -> Array:
        return share(slot) + high(slot)

    if in_lockstep():
        # A few slots at a time, then those of one such block.
        blocks = (
            jax.vmap(both)(jnp.arange(ledger.epoch.shape[0])).reshape(-1, ROWS_PER_TURN, *zero.shape).sum(1, dtype=zero.dtype)
        )

        def search(threshold: Array) -> Array:
            total, passed, number = zero, zero, zero
            for block in blocks:
                total = total + (block & _LOW)
                is_passed = total <= threshold
                passed, number = jnp.where(is_passed, total, passed), number + is_passed.astype(jnp.uint32)
            first = ROWS_PER_TURN * number
            for offset in range(ROWS_PER_TURN):
                passed = passed + share((first + np.uint32(offset)).astype(jnp.uint16))
                number = (passed <= threshold).astype(jnp.uint32) + (number if offset else first)
            return number

        return blocks.sum(0, dtype=zero.dtype), search

    def search(threshold: Array) -> Array:
        # Low half: the sum so far. High half: how many slots end at or below the threshold.
        def count(slot: ArrayLike, sums: Array) -> Array:
            sums = sums + share(slot)
            return sums + ((sums & _LOW) <= threshold).astype(jnp.uint32) * np.uint32(1 << 16)

        return fold_slots(ledger, count, zero) >> np.uint32(16)

    return sum_slots(ledger, both, zero), search


def change_slots(
    ledger: Ledger,
    where: Array,
    change: Callable[[ArrayLike, Array, _T], tuple[Array, _T]],
    labels: Array,
    first: _T,
    most: int | None = None,
) -> tuple[Array, _T]:
    """Loop `labels[slot], carry = change(slot, labels[slot], carry)` over the filled slots `where` (bool[S]), in order.

    In lockstep the first `most` of them are visited (all if None), and others if there are not so many: there `change` must
    change nothing.
    """

    def one(slot: Array, state: tuple[Array, _T]) -> tuple[Array, _T]:
        labels, carry = state

        def changed() -> tuple[Array, _T]:
            new, after = change(slot, labels[slot], carry)
            return labels.at[slot].set(new), after

        return control.cond(where[slot], changed, lambda: state)

    def several(block: Array, state: tuple[Array, _T]) -> tuple[Array, _T]:
        labels, carry = state
        slots = lax.dynamic_slice_in_dim(listed, rows_per_turn * block, rows_per_turn)
        rows = []
        for slot, row in zip(slots, labels.at[slots].get(mode="promise_in_bounds"), strict=True):
            new, carry = change(slot, row, carry)
            rows.append(new)
        return labels.at[slots].set(jnp.stack(rows), mode="promise_in_bounds", unique_indices=True), carry

    if not in_lockstep():
        return control.fori_loop(0, ledger.num_slots, one, (labels, first))
    # Whole turns: no slot is visited twice.
    rows_per_turn = math.gcd(ROWS_PER_TURN, labels.shape[0])
    listed = jnp.argsort(~where, stable=True)
    number = labels.shape[0] if most is None else min(most, labels.shape[0])
    return control.fori_loop(0, -(-number // rows_per_turn), several, (labels, first))


def map_rows(number: Array, change: Callable[[Array, Array], Array], rows: Array) -> Array:
    """Set `rows[r] = change(r, rows[r])` for rows 0..number-1 of [R, N], and some more, in place.

    `change` takes row numbers int32[r, 1] and rows [r, N]. R is a multiple of four.
    """
    if in_lockstep():
        return change(jnp.arange(rows.shape[0])[:, None], rows)

    def several(block: Array, rows: Array) -> Array:
        first = ROWS_PER_TURN * block
        some = change(first + jnp.arange(ROWS_PER_TURN)[:, None], lax.dynamic_slice_in_dim(rows, first, ROWS_PER_TURN))
        return lax.dynamic_update_slice_in_dim(rows, some, first, 0)

    return control.fori_loop(0, num_turns(number), several, rows)


def capacity_for(number: int) -> int:
    """Round a number of rows up to a multiple of `ROWS_PER_TURN`."""
    return -(-number // ROWS_PER_TURN) * ROWS_PER_TURN


def num_turns(number: Array) -> Array:
    """Count the turns of a loop over so many rows: int32[]."""
    return (number + ROWS_PER_TURN - 1) // ROWS_PER_TURN


def put(cloud: Cloud, ledger: Ledger, *changes: tuple[Array, Array], in_place: bool = False) -> Array:
    """Give the labels uint8[S, N] after `labels[slot[n], n] = label[n]` for each (slot uint16[N], label uint8[N]).

    In lockstep all rows are written, as suits where they go on to another table, or `in_place` (static) only what changes.
    """
    if in_lockstep() and in_place:
        slots, new = (jnp.stack(each) for each in zip(*changes, strict=True))
        return put_in_columns(cloud.labels, slots, new)

    def change(index: Array, rows: Array) -> Array:
        for slot, label in changes:
            rows = jnp.where(index.astype(jnp.uint16) == slot[None], label[None], rows)
        return rows

    return map_rows(ledger.num_slots, change, cloud.labels)


def find(cloud: Cloud, ledger: Ledger, number: Array) -> Array:
    """Find the slot that holds the card with a label, which is not released: uint16[N], `NO_SLOT` if none does."""
    if in_lockstep():
        index = jnp.arange(cloud.labels.shape[0], dtype=jnp.uint16)[:, None]
        return jnp.where(cloud.labels == number, index, NO_SLOT).min(0)

    def visit(slot: ArrayLike, found: Array) -> Array:
        return jnp.where(cloud.labels[slot] == number, jnp.asarray(slot, jnp.uint16), found)

    return fold_slots(ledger, visit, jnp.full(number.shape, NO_SLOT))


def nth_live(cloud: Cloud, ledger: Ledger, place: Array) -> Array:
    """Find the live slot before which lie `place` (int32[]) others: uint16[N], at least `num_slots` if there is none."""
    if in_lockstep():
        return _nth_of_rows(cloud.labels < RELEASED, place.astype(jnp.uint32))

    # High half: the live slots so far. Low half: the slots passed while there were not enough.
    def visit(slot: ArrayLike, sums: Array) -> Array:
        sums = sums + ((cloud.labels[slot] < RELEASED).astype(jnp.uint32) << np.uint32(16))
        return sums + ((sums >> np.uint32(16)) <= place.astype(jnp.uint32)).astype(jnp.uint32)

    first = jnp.zeros(cloud.labels.shape[1:], jnp.uint32)
    return (fold_slots(ledger, visit, first) & np.uint32(0xFFFF)).astype(jnp.uint16)


def _nth_of_rows(marked: Array, place: Array) -> Array:
    """Find in each column of bool[S, N] the row before which `place` (uint32[]) others are marked: uint16[N], S if none."""
    num_rows = marked.shape[0]
    shifts = (jnp.arange(num_rows, dtype=jnp.uint32) % 32)[:, None]
    padded = jnp.pad(marked.astype(jnp.uint32) << shifts, ((0, -num_rows % 32), (0, 0)))
    words = padded.reshape(-1, 32, marked.shape[1]).sum(1, dtype=jnp.uint32)
    found = jnp.full(marked.shape[1], num_rows, jnp.uint32)
    begin = jnp.zeros_like(found)
    for number, word in enumerate(words):
        left, count = place - begin, lax.population_count(word)
        is_here = (begin <= place) & (left < count)
        found = jnp.where(is_here, 32 * number + bits.nth_bit(word, left), found)
        begin = begin + count
    return found.astype(jnp.uint16)


def label_at(cloud: Cloud, slot: Array) -> Array:
    """Read the label in each particle's slot uint16[N], which is in range: uint8[N]."""
    lanes = jnp.arange(slot.shape[0])
    if in_lockstep():
        return look_up(cloud.labels.reshape(-1), slot.astype(jnp.int32) * len(lanes) + lanes)
    return cloud.labels.at[slot.astype(jnp.int32), lanes].get(mode="promise_in_bounds")


def insertable(cloud: Cloud, ledger: Ledger, slot: ArrayLike) -> Words:
    """Collect the cards that an exchange may put into a slot, if they are in the deck now: four uint32[N].

    `slot` is one for all particles, or uint16[N] one for each; with `NO_SLOT` the answer means nothing.
    """
    slot = jnp.minimum(jnp.asarray(slot).astype(jnp.int32), ledger.epoch.shape[0] - 1)
    # Cards that came back by a reshuffle may only enter a slot filled after the latest one.
    barred = jnp.where(row_at(ledger.epoch, slot) == ledger.num_reshuffles, np.uint32(0), bits.ALL_SLOTS)
    w0, w1, w2, w3 = (row_at(ledger.allowed[:, c], slot) & ~(recycled & barred) for c, recycled in enumerate(cloud.recycled))
    return w0, w1, w2, w3


def row_at(rows: Array, index: ArrayLike) -> Array:
    """Take rows by integers [...], which are in range."""
    index = jnp.asarray(index).astype(jnp.int32)
    return look_up(rows, index) if in_lockstep() else rows.at[index].get(mode="promise_in_bounds")

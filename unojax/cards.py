"""The 108 cards: types, copies, slots, and the canonical one-hot encoding of a set.

A card type is `colour * 13 + rank`, then Wild (52) and Wild+4 (53). Copies of a type are indistinguishable, so a set of cards is
a multiset. It is stored as a **canonical one-hot** `bool[108]`: slot `s` is set if and only if the multiset holds more than
`COPY_OF_SLOT[s]` copies of type `TYPE_OF_SLOT[s]`. Equal multisets are therefore equal arrays.

Each colour has a block of 27 slots, which is one 32-bit word of `unojax.bits`:

    offset  0..12   first copy of ranks 0..12 of the colour
    offset 13..24   second copy of ranks 1..12 (there is only one 0)
    offset 25       one of the four Wild cards
    offset 26       one of the four Wild+4 cards
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from jax import Array
    from jax.typing import ArrayLike

NUM_COLORS: Final = 4
NUM_RANKS: Final = 15
NUM_TYPES: Final = 54
NUM_CARDS: Final = 108
SLOTS_PER_COLOR: Final = 27

RED, YELLOW, BLUE, GREEN = range(NUM_COLORS)
COLOR_NAMES: Final = ("red", "yellow", "blue", "green")
COLOR_LETTERS: Final = "RYBG"

SKIP: Final = 10
REVERSE: Final = 11
DRAW_TWO: Final = 12
WILD: Final = 13
WILD_DRAW_FOUR: Final = 14
NUM_COLORED_RANKS: Final = 13
RANK_NAMES: Final = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "S", "R", "+2", "W", "W+4")

WILD_TYPE: Final = 52
WILD_DRAW_FOUR_TYPE: Final = 53

NUM_ACTIONS: Final = 61
"""Actions 0..59 are `declared_colour * 15 + rank`; action 60 is `DRAW`."""
DRAW: Final = 60
CHALLENGE: Final = 61
"""Challenges a Wild+4. It exists only under rules with challenges: `Rules.num_actions`."""
DRAW_OF_RANK: Final = (0,) * DRAW_TWO + (2, 0, 4)
"""Cards that the next player draws for a card of each rank."""


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


COLOR_OF_TYPE: Final = _read_only(np.array([t // 13 if t < 52 else -1 for t in range(NUM_TYPES)], np.int8))
"""int8[54]: colour of each type, -1 for Wild and Wild+4."""
RANK_OF_TYPE: Final = _read_only(np.array([t % 13 if t < 52 else t - 39 for t in range(NUM_TYPES)], np.int8))
"""int8[54]: rank 0..14 of each type."""
COPIES: Final = _read_only(np.array([4 if r >= WILD else 1 if r == 0 else 2 for r in RANK_OF_TYPE], np.int8))
"""int8[54]: copies of each type in the full deck."""
TYPE_NAMES: Final = tuple(
    RANK_NAMES[r] if c < 0 else COLOR_LETTERS[c] + RANK_NAMES[r]
    for c, r in zip(COLOR_OF_TYPE.tolist(), RANK_OF_TYPE.tolist(), strict=True)
)
"""Name of each type in the card notation: `R5`, `YS`, `BR`, `G+2`, `W`, `W+4`."""


def _slot_tables() -> tuple[np.ndarray, np.ndarray]:
    types, copies = [], []
    for color in range(NUM_COLORS):
        types += [color * 13 + rank for rank in range(13)] + [color * 13 + rank for rank in range(1, 13)]
        copies += [0] * 13 + [1] * 12
        types += [WILD_TYPE, WILD_DRAW_FOUR_TYPE]
        copies += [color, color]
    return np.array(types, np.int8), np.array(copies, np.int8)


TYPE_OF_SLOT, COPY_OF_SLOT = map(_read_only, _slot_tables())
"""int8[108] each: the card type a slot stands for, and the copy number (from 0) within that type."""


def _slots_of_type() -> np.ndarray:
    table = np.full((NUM_TYPES, 4), NUM_CARDS, np.int32)
    for slot, (card_type, copy) in enumerate(zip(TYPE_OF_SLOT, COPY_OF_SLOT, strict=True)):
        table[card_type, copy] = slot
    return table


SLOTS_OF_TYPE: Final = _read_only(_slots_of_type())
"""int32[54, 4]: slots of each type's copies in order; 108 (no slot) past the last copy."""

_WILD_SHIFT: Final = WILD_TYPE - WILD
_TYPES_OF_SLOTS: Final = _read_only(np.eye(NUM_TYPES, dtype=np.float32)[TYPE_OF_SLOT])
TYPE_OF_PLAY: Final = _read_only(
    np.array([rank + _WILD_SHIFT if rank >= WILD else color * 13 + rank for color in range(4) for rank in range(15)], np.int8)
)
"""int8[60]: card type of each play, `declared_colour * 15 + rank`."""


def _check_last(values: ArrayLike, size: int, name: str) -> None:
    shape = np.shape(values)
    if shape[-1:] != (size,):
        raise ValueError(f"{name} must have a last axis of {size}, got shape {shape}")


def along_last(values: np.ndarray, num_axes: int) -> np.ndarray:
    """Reshape constants [n] to `num_axes` axes with leading ones, to avoid rank promotion."""
    return values.reshape((1,) * (num_axes - 1) + values.shape)


@cache
def _traced(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    from unojax.device.tracing import traced_once

    return traced_once(function)


def counts(onehot: ArrayLike) -> Array:
    """Count the copies of each type: `bool[..., 108] -> int8[..., 54]`.

    Raises:
        ValueError: If the last axis has another size.
    """
    import jax.numpy as jnp

    _check_last(onehot, NUM_CARDS, "onehot")
    return _traced(_counts)(jnp.asarray(onehot))


def _counts(onehot: Array) -> Array:
    import jax.numpy as jnp

    return by_copy(onehot).sum(-1, dtype=jnp.int8)


def by_copy(of_slots: Array) -> Array:
    """Rearrange values of slots, [..., 108], by type and copy: [..., 54, 4], else zero."""
    import jax.numpy as jnp

    is_copy = (SLOTS_OF_TYPE < NUM_CARDS).reshape((1,) * (of_slots.ndim - 1) + SLOTS_OF_TYPE.shape)
    # checkify would report an index out of bounds.
    return jnp.where(is_copy, of_slots[..., np.minimum(SLOTS_OF_TYPE, NUM_CARDS - 1)], np.zeros((), of_slots.dtype))


def onehot(counts: ArrayLike) -> Array:
    """Return a multiset as a canonical one-hot: `int[..., 54] -> bool[..., 108]`.

    Counts above the number of copies are clipped.

    Raises:
        ValueError: If the last axis has another size.
    """
    import jax.numpy as jnp

    _check_last(counts, NUM_TYPES, "counts")
    return _traced(_onehot)(jnp.asarray(counts))


def _onehot(counts: Array) -> Array:
    return counts[..., TYPE_OF_SLOT] > along_last(COPY_OF_SLOT, counts.ndim).astype(counts.dtype)


def type_of(color: ArrayLike, rank: ArrayLike) -> Array:
    """Return the card type, int32, of a rank and its colour, which is ignored for wild cards."""
    import jax.numpy as jnp

    rank = jnp.asarray(rank, jnp.int32)
    return jnp.where(rank >= WILD, rank + _WILD_SHIFT, jnp.asarray(color, jnp.int32) * NUM_COLORED_RANKS + rank)


def card_type(color: int, rank: int) -> int:
    """Return the card type of a rank and its colour on the host; see `type_of`."""
    return int(TYPE_OF_PLAY[color * NUM_RANKS + rank])


def count_types(onehot: ArrayLike) -> np.ndarray:
    """Count the copies of each type on the host: `bool[..., 108] -> int64[..., 54]`."""
    return (np.asarray(onehot, np.float32) @ _TYPES_OF_SLOTS).astype(int)


def first(counts: Any, number: ArrayLike) -> Any:
    """Return the first `number` cards of a multiset in order of type, int8[54]."""
    return (number - (counts.cumsum() - counts)).clip(0, counts).astype(np.int8)


def onehot_of(counts: np.ndarray) -> np.ndarray:
    """Return a multiset as a canonical one-hot on the host; see `onehot`."""
    return np.asarray(counts)[..., TYPE_OF_SLOT] > COPY_OF_SLOT

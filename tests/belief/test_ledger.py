"""The public bookkeeping of a belief."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from unojax import bits, cards
from unojax.belief import history
from unojax.belief.particles import ledger
from unojax.belief.particles.ledger import as_words


def types_of(words) -> np.ndarray:
    """bool[54]: the types of which a labelled set holds all 4, 2 or 1 copies; every other type must be absent."""
    counts = np.asarray(cards.counts(bits.unpack(bits.canonical(words))))
    assert ((counts == 0) | (counts == cards.COPIES)).all()
    return counts > 0


def test_playable_cards_are_those_of_the_playable_types() -> None:
    for color in range(4):
        for rank in range(15):
            words = ledger.cards_playable_on(jnp.uint32(color), jnp.uint32(rank))
            np.testing.assert_array_equal(types_of(words), history.playable_types(color, rank), err_msg=f"{color} {rank}")


def test_slots_know_what_was_ruled_out_since_they_were_filled() -> None:
    red_five, blue_wild = (ledger.cards_playable_on(jnp.uint32(c), jnp.uint32(r)) for c, r in ((0, 5), (2, 13)))
    book = ledger.add_slots(ledger.empty(max_slots=6, max_plays=2), jnp.int32(2))
    book = ledger.forbid(book, red_five)
    book = ledger.add_slots(dataclasses.replace(book, num_reshuffles=book.num_reshuffles + 1), jnp.int32(1))
    book = ledger.forbid(book, blue_wild)
    book = ledger.add_slots(book, jnp.int32(2))
    by_red, by_blue = history.playable_types(0, 5), history.playable_types(2, 13)
    allowed = [types_of(as_words(row)) for row in book.allowed[:5]]
    for slot, expected in enumerate([~by_red & ~by_blue] * 2 + [~by_blue] + [jnp.ones(54, bool)] * 2):
        np.testing.assert_array_equal(allowed[slot], expected)
    np.testing.assert_array_equal(book.epoch[:5], [0, 0, 1, 1, 1])
    assert int(book.num_slots) == 5


def test_slots_beyond_the_capacity_are_counted_and_not_stored() -> None:
    book = ledger.add_slots(ledger.empty(max_slots=3, max_plays=1), jnp.int32(2))
    more = ledger.add_slots(book, jnp.int32(4))
    assert int(more.num_slots) == 6
    np.testing.assert_array_equal(more.allowed[:2], book.allowed[:2])

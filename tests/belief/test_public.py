"""The public history of a belief."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax import bits, cards, observe
from unojax.belief import belief_init, history
from unojax.belief.particles import public
from unojax.belief.particles.public import FAILS, FITS, HOLDS_COLOR, PublicHistory, Record
from unojax.belief.particles.stages import read_transition
from unojax.belief.particles.trajectory import as_words
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.text import make_state


def types_of(words) -> np.ndarray:
    """bool[54]: the types of which a labelled set holds all 4, 2 or 1 copies; every other type must be absent."""
    counts = np.asarray(cards.counts(bits.unpack(bits.canonical(words))))
    assert ((counts == 0) | (counts == cards.COPIES)).all()
    return counts > 0


def all_of(types) -> jax.Array:
    """All cards of some types (bool[54]): uint32[4, 1]."""
    return jnp.stack(bits.pack(np.asarray(types)[cards.TYPE_OF_SLOT]))[:, None]


def forbid(book: PublicHistory, types) -> PublicHistory:
    return dataclasses.replace(book, allowed=book.allowed & ~all_of(types))


def test_an_opponent_that_had_to_draw_held_nothing_playable() -> None:
    """For all top cards: the cards ruled out, in all slots filled before the draw, are those of the playable types."""
    before = observe(make_state("R1 R2", "G1 G2 G3", "B5", player=1), 0)
    after = dataclasses.replace(
        before,
        opponent_count=before.opponent_count + 1,
        deck_count=before.deck_count - 1,
        current_player=jnp.int8(0),
        last_action=jnp.int8(cards.DRAW),
    )
    belief = belief_init(before, jax.random.key(0), num_particles=2)
    key = jnp.uint32(0), jnp.uint32(1)

    @jax.jit
    def read(color: jax.Array, rank: jax.Array) -> tuple[jax.Array, jax.Array, PublicHistory]:
        first, then = (dataclasses.replace(seen, color=color, top_rank=rank) for seen in (before, after))
        here = dataclasses.replace(belief, seen=history.fingerprint(first))
        of = read_transition(here, first, jnp.int32(cards.DRAW), then, key)
        return of.moved, of.forbidden, of.new

    for color in range(4):
        for rank in range(15):
            moved, forbidden, new = read(jnp.int8(color), jnp.int8(rank))
            assert moved
            playable = np.asarray(history.playable_types(color, rank))
            np.testing.assert_array_equal(forbidden, jnp.broadcast_to(all_of(playable), forbidden.shape))
            assert int(new.num_slots) == 4
            for slot, expected in enumerate([~playable] * 3 + [np.ones(54, bool)]):
                np.testing.assert_array_equal(types_of(as_words(new.allowed[:, slot])), expected, err_msg=f"{color} {rank}")


@pytest.mark.parametrize(("penalty", "changes"), [(0, True), (2, False)])
def test_a_draw_that_proves_nothing_leaves_the_likelihood(penalty: int, changes: bool) -> None:
    """The cards of a penalty come after all choices so far; a draw for want of a playable card changes hands of the past."""
    before = observe(make_state("R1 R2", "G1 G2 G3", "B+2", player=1, penalty=penalty), 0)
    number = max(penalty, 1)
    after = dataclasses.replace(
        before,
        opponent_count=before.opponent_count + number,
        deck_count=before.deck_count - number,
        current_player=jnp.int8(0),
        penalty=jnp.int8(0),
        last_action=jnp.int8(cards.DRAW),
    )
    belief = belief_init(before, jax.random.key(0), num_particles=2)
    of = jax.jit(read_transition)(belief, before, jnp.int32(cards.DRAW), after, (jnp.uint32(0), jnp.uint32(1)))
    assert int(of.num_unseen) == number
    assert bool(of.changes_likelihood) == changes


def test_slots_know_what_was_ruled_out_since_they_were_filled() -> None:
    by_red, by_blue = history.playable_types(0, 5), history.playable_types(2, 13)
    book = public.add_slots(public.empty(max_slots=6, max_records=2), jnp.int32(2))
    book = forbid(book, by_red)
    book = public.add_slots(dataclasses.replace(book, recent=jnp.zeros_like(book.recent)), jnp.int32(1))
    book = forbid(book, by_blue)
    book = public.add_slots(book, jnp.int32(2), all_of(by_red))
    everything = jnp.ones(54, bool)
    for slot, expected in enumerate([~by_red & ~by_blue] * 2 + [everything & ~by_blue] + [by_red] * 2):
        np.testing.assert_array_equal(types_of(as_words(book.allowed[:, slot])), expected)
    np.testing.assert_array_equal(book.recent, [False, False, True, True, True, False])
    assert int(book.num_slots) == 5


def test_slots_beyond_the_capacity_are_counted_and_not_stored() -> None:
    book = public.add_slots(public.empty(max_slots=3, max_records=1), jnp.int32(2))
    more = public.add_slots(book, jnp.int32(4))
    assert int(more.num_slots) == 6
    np.testing.assert_array_equal(more.allowed[:, :2], book.allowed[:, :2])


LIMITS = {
    "slots_before": (0, 2**16 - 1),
    "action": (0, HOLDS_COLOR),
    "last_action": (-1, cards.CHALLENGE),
    "play_color": (0, 4),
    "play_rank": (0, 14),
    "color": (0, 3),
    "rank": (0, 14),
    "observer_count": (0, 108),
    "deck_count": (0, 108),
    "penalty": (0, 32),
    "contested": (-1, 3),
    "has_drawn": (0, 1),
}
"""Least and largest number of each field of a record."""


@pytest.mark.parametrize("which", ["least", "largest", "any"])
def test_records_survive_encoding(which: str) -> None:
    rng, shape = np.random.default_rng(0), (5, 3)

    def numbers(least: int, largest: int) -> np.ndarray:
        return {
            "least": np.full(shape, least),
            "largest": np.full(shape, largest),
            "any": rng.integers(least, largest + 1, shape),
        }[which]

    fields = {name: jnp.asarray(numbers(*limits), jnp.int32) for name, limits in LIMITS.items()}
    fields["has_drawn"] = fields["has_drawn"] > 0
    record = Record(pile=jnp.asarray(rng.integers(0, 2**27, (*shape, 4)), jnp.uint32), **fields)
    rows = public.encode(record)
    assert rows.shape == (*shape, 7) and rows.dtype == jnp.uint32
    for name, before, after in zip(Record._fields, record, public.decode(rows), strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after, err_msg=name)


def at_a_challenge() -> Observation:
    state = make_state(
        "R2 B7", "Y1 G5 R1", "W+4", color="green", penalty=4, contested="B", player=1, rules=Rules.official(), pile="R7 Y7"
    )
    return observe(state, 0)


def test_a_choice_is_recorded_with_what_the_opponent_saw() -> None:
    seen, book = at_a_challenge(), public.add_slots(public.empty(max_slots=8, max_records=2), jnp.int32(3))
    record = public.observed_choice(book, seen, jnp.int32(cards.CHALLENGE))
    book = public.append(book, record, jnp.bool_(False))
    assert int(book.num_records) == 0 and not np.asarray(book.records).any()
    for action in (cards.CHALLENGE, FITS):
        book = public.append(book, public.observed_choice(book, seen, jnp.int32(action)), jnp.bool_(True))
    found = public.decode(book.records)
    np.testing.assert_array_equal(found.pile, np.stack([jnp.stack(bits.pack(seen.pile))] * 2))
    expected = {
        "slots_before": 3,
        "last_action": int(seen.last_action),
        "color": cards.COLOR_NAMES.index("green"),
        "rank": cards.WILD_DRAW_FOUR,
        "observer_count": 2,
        "deck_count": int(seen.deck_count),
        "penalty": 4,
        "contested": cards.COLOR_NAMES.index("blue"),
    }
    for name, value in expected.items():
        assert getattr(found, name).tolist() == [value] * 2, name
    assert found.action.tolist() == [cards.CHALLENGE, FITS]
    # A fact about the card drawn is one after the draw, when it lies in the last slot.
    assert found.has_drawn.tolist() == [False, True]
    assert public.observed_choice(book, seen, jnp.int32(FAILS)).has_drawn


def test_records_beyond_the_capacity_are_counted_and_not_stored() -> None:
    seen, book = at_a_challenge(), public.empty(max_slots=4, max_records=1)
    full = public.append(book, public.observed_choice(book, seen, jnp.int32(3)), jnp.bool_(True))
    more = public.append(full, public.observed_choice(book, seen, jnp.int32(4)), jnp.bool_(True))
    assert (int(full.num_records), int(more.num_records)) == (1, 2)
    np.testing.assert_array_equal(more.records, full.records)

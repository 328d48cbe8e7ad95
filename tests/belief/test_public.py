"""The public history of a belief: slots, excluded cards, and records."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import numpy as np

from unojax import bits, cards, observe
from unojax.belief import belief_init, history
from unojax.belief.particles import public
from unojax.belief.particles.public import FAILS, FITS, HOLDS_COLOR, PublicHistory, Record
from unojax.belief.particles.stages import read_transition
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.text import make_state

PROGRAMS = 60  # Observations of each kind of choice.

add_slots = jax.jit(public.add_slots)
append = jax.jit(public.append)
choice = jax.jit(public.observed_choice)


def types_of(labels: np.ndarray) -> np.ndarray:
    """Return the types, bool[54], of a labelled set, uint32[4], with all or no copies of each."""
    counts = cards.count_types(bits.unpack(bits.canonical(tuple(labels))))
    assert ((counts == 0) | (counts == cards.COPIES)).all()
    return counts > 0


def all_of(types: np.ndarray) -> np.ndarray:
    """Return all cards of some types, bool[54], as uint32[4, 1]."""
    return np.stack(bits.static_words(types[cards.TYPE_OF_SLOT]))[:, None]


def playable(color: int, rank: int) -> np.ndarray:
    """Return the types playable on a top card, bool[54]."""
    number = np.arange(cards.NUM_TYPES)
    return (number // 13 == color) | (number >= cards.WILD_TYPE) | ((number % 13 == rank) & (rank < cards.WILD))


def drawn(before: Observation, number: int) -> Observation:
    """Return the observation after the opponent's draw."""
    counts = {"opponent_count": before.opponent_count + np.int8(number), "deck_count": before.deck_count - np.int8(number)}
    turn = {"current_player": np.int8(0), "penalty": np.int8(0), "last_action": np.int8(cards.DRAW)}
    return dataclasses.replace(before, **counts, **turn)


def test_an_opponent_that_had_to_draw_held_nothing_playable() -> None:
    """All slots filled before the draw exclude the playable types, for all top cards.

    Contract: opponent draws 1 for want of a playable card. The drawn card may be playable.
    """
    before = jax.device_get(observe(make_state("R1 R2", "G1 G2 G3", "B5", player=1), 0))
    belief = belief_init(before, jax.random.key(0), num_particles=2)

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0))
    def read(color: jax.Array, rank: jax.Array) -> tuple[jax.Array, jax.Array, PublicHistory]:
        first, then = (dataclasses.replace(seen, color=color, top_rank=rank) for seen in (before, drawn(before, 1)))
        here = dataclasses.replace(belief, seen=history.fingerprint(first))
        of = read_transition(here, first, np.int32(cards.DRAW), then, (np.uint32(0), np.uint32(1)))
        return of.moved, of.forbidden, of.new

    colors, ranks = np.divmod(np.arange(60, dtype=np.int8), 15)
    moved, forbidden, new = jax.device_get(read(colors, ranks))
    assert moved.all() and (new.num_slots == 4).all()
    for i, (color, rank) in enumerate(zip(colors.tolist(), ranks.tolist(), strict=True)):
        fits = playable(color, rank)
        np.testing.assert_array_equal(forbidden[i], np.broadcast_to(all_of(fits), forbidden[i].shape))
        for slot, expected in enumerate([~fits] * 3 + [np.ones(54, bool)]):
            np.testing.assert_array_equal(types_of(new.allowed[i, :, slot]), expected, err_msg=f"{color} {rank}")


def test_a_penalty_leaves_the_likelihood() -> None:
    """Contract: opponent draws n by penalty: no information about H."""
    for penalty, changes in ((0, True), (2, False)):
        before = observe(make_state("R1 R2", "G1 G2 G3", "B+2", player=1, penalty=penalty), 0)
        belief = belief_init(before, jax.random.key(0), num_particles=2)
        step = before, np.int32(cards.DRAW), drawn(before, max(penalty, 1))
        of = jax.jit(read_transition)(belief, *step, (np.uint32(0), np.uint32(1)))
        assert int(of.num_unseen) == max(penalty, 1) and bool(of.changes_likelihood) == changes


def test_slots_know_what_was_ruled_out_since_they_were_filled() -> None:
    by_red, by_blue = playable(0, 5), playable(2, 13)

    def forbid(book: PublicHistory, types: np.ndarray) -> PublicHistory:
        return dataclasses.replace(book, allowed=np.asarray(book.allowed) & ~all_of(types))

    book = forbid(add_slots(public.empty(max_slots=6, max_records=2), 2), by_red)
    book = forbid(add_slots(dataclasses.replace(book, recent=np.zeros(6, bool)), 1), by_blue)
    book = jax.device_get(add_slots(book, 2, all_of(by_red)))
    everything = np.ones(54, bool)
    for slot, expected in enumerate([~by_red & ~by_blue] * 2 + [everything & ~by_blue] + [by_red] * 2):
        np.testing.assert_array_equal(types_of(book.allowed[:, slot]), expected)
    np.testing.assert_array_equal(book.recent, [False, False, True, True, True, False])
    # Slots beyond the capacity are counted and not stored.
    more = add_slots(book, 4)
    assert (int(book.num_slots), int(more.num_slots)) == (5, 9)
    np.testing.assert_array_equal(more.allowed[:, :5], book.allowed[:, :5])


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


def test_records_survive_encoding() -> None:
    rng = np.random.default_rng(0)
    fields = {
        name: np.stack([[least] * 3, [largest] * 3, rng.integers(least, largest + 1, 3)]).astype(np.int32)
        for name, (least, largest) in LIMITS.items()
    }
    fields["has_drawn"] = fields["has_drawn"] > 0
    record = Record(pile=rng.integers(0, 2**27, (3, 3, 4)).astype(np.uint32), **fields)
    rows = jax.jit(public.encode)(record)
    assert rows.shape == (3, 3, 7) and rows.dtype == np.uint32
    for name, before, after in zip(Record._fields, record, jax.jit(public.decode)(rows), strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after, err_msg=name)


def test_a_choice_is_recorded_with_what_the_opponent_saw() -> None:
    """Records beyond the capacity are counted but not stored."""
    official = {"color": "green", "penalty": 4, "contested": "B", "player": 1, "pile": "R7 Y7", "rules": Rules.official()}
    seen = observe(make_state("R2 B7", "Y1 G5 R1", "W+4", **official), 0)
    book = add_slots(public.empty(max_slots=8, max_records=2), 3)
    book = append(book, choice(book, seen, cards.CHALLENGE), False)
    assert int(book.num_records) == 0 and not np.asarray(book.records).any()
    for action in (cards.CHALLENGE, FITS):
        book = append(book, choice(book, seen, action), True)
    found = jax.device_get(jax.jit(public.decode)(book.records))
    np.testing.assert_array_equal(found.pile, np.stack([np.stack(bits.pack(np.asarray(seen.pile)))] * 2))
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
    assert {name: getattr(found, name).tolist() for name in expected} == {name: [value] * 2 for name, value in expected.items()}
    assert found.action.tolist() == [cards.CHALLENGE, FITS]
    # A fact about the card drawn is one after the draw, when it lies in the last slot.
    assert found.has_drawn.tolist() == [False, True] and choice(book, seen, FAILS).has_drawn
    more = append(book, choice(book, seen, 4), True)
    assert (int(book.num_records), int(more.num_records)) == (2, 3)
    np.testing.assert_array_equal(more.records, book.records)

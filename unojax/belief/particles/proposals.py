"""Conditional proposals: carry all particles through one public event, and weight them.

A particle that fits the event is kept. In any other, a card of the hand and a card of the deck change places: the deck's card was
there from before the slot was filled until now, and its type was not excluded since. Cards that came back by a reshuffle enter
only slots filled later. `docs/explanation/belief-formulas.md` derives the weights (natural logs).

`rows` is the form of the loops over slots, and `random` are uint32[N] words, different for each call.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import bits
from unojax.belief.particles.likelihood import Exchange, LogLikelihood, mixed
from unojax.belief.particles.public import PublicHistory
from unojax.belief.particles.rows import Rows
from unojax.belief.particles.trajectory import (
    NO_SLOT,
    RELEASED,
    Trajectories,
    as_words,
    card_of,
    card_words,
    contains,
    random_card,
)
from unojax.bits import Words, map_words
from unojax.device.random_bits import hash_bits, uniform_of

_SHARES: Final = 512
_LOW: Final = np.uint32(0xFFFF)
_HIGH: Final = np.uint32(16)
_COPY, _SLOT, _NEW, _ACCEPT = range(4)
"""Streams of random bits."""


def condition_on_play(
    rows: Rows, random: Array, now: Trajectories, history: PublicHistory, color: Array, rank: Array
) -> tuple[Trajectories, Array]:
    """Condition on a play of the opponent: a card of the type (uint32[] each) leaves the hand of every particle.

    `history` is that before the play. The float32[N] log weights, -inf for an impossible play, lack the log number of unseen
    copies.
    """
    label = _random_copy(rows, random, now, history, color, rank)
    holds, is_barred = contains(as_words(now.hand), label), contains(as_words(now.recycled), label)
    # A slot with fewer alternatives is more likely to be chosen: c_j is close to the conditional probability of each slot. Whole
    # numbers keep sums exact and fit two sums in a word; the sum is below 2^16.
    num_allowed = bits.count(as_words(history.allowed))
    shares = jnp.where(takes_type(history, color, rank), _SHARES // jnp.maximum(num_allowed, 1), 0).astype(jnp.uint32)

    def share(slot: ArrayLike) -> Array:
        row = rows.label_at(now.labels, jnp.asarray(slot)) if jnp.ndim(slot) else now.labels[slot]
        return jnp.where(_exchangeable(rows, now, history, slot, row, is_barred), rows.at(shares, slot), np.uint32(0))

    def place(slot: ArrayLike) -> Array:
        """Return the slot of the card in the high half, if it is held there."""
        return (now.labels[slot] == label).astype(jnp.uint32) * (jnp.asarray(slot, jnp.uint32) << _HIGH)

    sums, search = rows.total_and_search(history, share, place, jnp.zeros_like(random))
    total = sums & _LOW
    chosen = search(bits.uniform_below(hash_bits(random, _SLOT), total))
    found = holds | (total > 0)

    def find() -> tuple[Array, Array]:
        """Return the slot and its label, read before the labels change: otherwise XLA would copy the table."""
        slot = jnp.where(holds, sums >> _HIGH, chosen).astype(jnp.uint16)
        return jnp.where(found, slot, NO_SLOT), rows.label_at(now.labels, jnp.where(found, slot, 0))

    slot, old = rows.once(history, find)
    out = jnp.where(found & ~holds, old, RELEASED)

    deck = bits.without(bits.either(as_words(now.deck), card_words(out)), card_words(label))
    others = bits.both(insertable(rows, now, history, slot), deck)
    share_at = rows.at(shares, jnp.minimum(slot.astype(jnp.int32), history.max_slots - 1))
    weight = jnp.where(_exchangeable(rows, now, history, slot, old, is_barred), share_at, np.uint32(0)).astype(jnp.float32)
    log_weight = -jnp.log1p(bits.count(others).astype(jnp.float32) * weight / jnp.maximum(total, 1).astype(jnp.float32))
    after = now._replace(
        hand=now.hand & ~(card_of(out) | card_of(label)),
        deck=(now.deck | card_of(out)) & ~card_of(label),
        labels=rows.put(history, now.labels, (slot, label | RELEASED)),
        played=now.played.at[history.num_records].set(label, mode="drop"),
    )
    return after, jnp.where(found, log_weight, -jnp.inf)


def condition_on_drawn_play(
    rows: Rows, random: Array, now: Trajectories, history: PublicHistory, color: Array, rank: Array
) -> tuple[Trajectories, Array]:
    """Condition on a play of the card just drawn, in the slot filled last. The weights are the complete evidence."""
    slot = history.num_slots - 1
    drawn = now.labels[slot]
    in_deck = bits.either(as_words(now.deck), card_words(drawn))
    copies = bits.both(in_deck, bits.type_mask(color, rank))
    label = rows.once(history, lambda: random_card(hash_bits(random, _COPY), copies))
    could_hold = insertable(rows, now, history, slot)
    others = bits.without(bits.both(could_hold, in_deck), card_words(label))
    fits = takes_type(history, color, rank)[slot] & (bits.any_of(copies) != 0)
    log_weight = jnp.log(bits.count(copies).astype(jnp.float32)) - jnp.log1p(bits.count(others).astype(jnp.float32))
    after = now._replace(
        hand=now.hand & ~card_of(drawn),
        deck=(now.deck | card_of(drawn)) & ~card_of(label),
        labels=now.labels.at[slot].set(label | RELEASED, mode="drop"),
        played=now.played.at[history.num_records].set(label, mode="drop"),
    )
    return after, jnp.where(fits, log_weight, -jnp.inf)


def open_slots(history: PublicHistory, sets: Array) -> Array:
    """Return which slots could hold one of some cards (uint32[4, 1] or [4, S]): bool[S]."""
    return bits.any_of(as_words(history.allowed & sets)) != 0


def condition_on_absence(
    rows: Rows, random: Array, now: Trajectories, history: PublicHistory, forbidden: Array, slots: Array, are_due: Array
) -> tuple[Trajectories, Array]:
    """Condition on the absence of forbidden cards in some slots; float32[N] log weights, -inf if no card fits a slot.

    Args:
        rows, random, now: See above.
        history: Public history before the cards are forbidden.
        forbidden: uint32[4, S] forbidden cards of each slot.
        slots: int32[K] different slots; in the order of their acquisition over all calls for an event.
        are_due: bool[K] whether to condition the slot.
    """
    deck, log_weight, changed = now.deck, jnp.zeros(random.shape, jnp.float32), []

    def choose(slot: Array, is_due: Array, deck: Array, log_weight: Array) -> tuple[Array, Array, Array]:
        """Return the label of a slot, read before the labels change (else XLA copies the table), its new one, and the weights."""
        row = now.labels[slot]
        counts = is_due & (row < RELEASED)
        ruled_out = as_words(rows.at(forbidden, slot))
        # Possible cards of this slot given all other slots: its own and those in the deck.
        could_hold = insertable(rows, now, history, slot)
        free = bits.both(could_hold, bits.either(as_words(deck), card_words(row)))
        good = bits.without(free, ruled_out)
        num_good, num_free = bits.count(good).astype(jnp.float32), bits.count(free).astype(jnp.float32)
        offends = contains(ruled_out, row)
        exchangeable = contains(could_hold, row)
        share = num_good / jnp.maximum(num_free, 1.0)
        # A card that no exchange could have put here has one trajectory behind it: itself.
        share = jnp.where(exchangeable, share, jnp.where(offends, 0.0, 1.0))
        changes = counts & offends & exchangeable & (num_good > 0)
        new = random_card(hash_bits(random, slot), good)
        return row, jnp.where(changes, new, row), log_weight + jnp.log(jnp.where(counts, share, 1.0))

    for slot, is_due in zip(jnp.minimum(slots, history.max_slots - 1), are_due, strict=True):
        row, new, log_weight = rows.once(history, partial(choose, slot, is_due, deck, log_weight))
        deck = jnp.where(new != row, deck ^ card_of(row) ^ card_of(new), deck)
        changed.append(new)
    labels = now.labels.at[slots].set(jnp.stack(changed), mode="drop", unique_indices=True)
    # Cards that entered the deck left the hand, and vice versa.
    return now._replace(hand=now.hand ^ now.deck ^ deck, deck=deck, labels=labels), log_weight


def condition_on_seen_draw(
    rows: Rows, random: Array, now: Trajectories, history: PublicHistory, color: Array, rank: Array, keeps: Array
) -> tuple[Trajectories, Array]:
    """Condition on a draw that the observer sees: a card of the type (uint32[] each) leaves the deck of every particle.

    It goes to the observer's hand if `keeps` (bool[]), else onto the pile. The float32[N] log weights, -inf for an impossible
    draw, lack the log number of unseen copies less that of the cards in the deck.
    """
    label = _random_copy(rows, random, now, history, color, rank)
    holds, is_barred = contains(as_words(now.hand), label), contains(as_words(now.recycled), label)
    slot = rows.find(history, now.labels, label)
    could_hold = insertable(rows, now, history, slot)
    free = bits.both(could_hold, as_words(now.deck))
    changes = holds & contains(could_hold, label) & (bits.any_of(free) != 0)
    # The label of the replacement, or the card's own.
    new = rows.once(history, lambda: jnp.where(changes, random_card(hash_bits(random, _NEW), free), label))
    changed = new != label
    deck = bits.without(as_words(now.deck), bits.either(card_words(label), card_words(new)))
    after = now._replace(
        hand=jnp.where(changed, now.hand ^ card_of(label) ^ card_of(new), now.hand),
        deck=now.deck & ~(card_of(label) | card_of(new)),
        own=jnp.where(keeps, now.own | card_of(label), now.own),
        labels=rows.put(history, now.labels, (jnp.where(changed, slot, NO_SLOT), new)),
    )
    takes = takes_type(history, color, rank)

    def share(slot: ArrayLike) -> Array:
        could_hold = takes[slot] & _exchangeable(rows, now, history, slot, after.labels[slot], is_barred)
        others = bits.both(insertable(rows, now, history, slot), deck)
        return jnp.where(could_hold, 1.0 / (bits.count(others) + np.uint32(1)).astype(jnp.float32), 0.0)

    total = rows.total(history, share, jnp.zeros(random.shape, jnp.float32))
    return after, jnp.where(holds & ~changed, -jnp.inf, -jnp.log1p(total))


def draw_unseen(
    rows: Rows, random: Array, now: Trajectories, history: PublicHistory, slot: Array, could_be: Array | None = None
) -> tuple[Trajectories, Array]:
    """Let the opponent draw a uniform card of each particle's deck into a slot (int32[]).

    `could_be` (uint32[4, 1]) are the cards consistent with the rest of the turn; None: any card.
    """
    deck = as_words(now.deck)
    fitting = deck if could_be is None else bits.both(deck, as_words(could_be))
    label = rows.once(history, lambda: random_card(hash_bits(random, _NEW), fitting))
    log_weight = jnp.zeros(random.shape, jnp.float32)
    if could_be is not None:
        log_weight = jnp.log(bits.count(fitting).astype(jnp.float32)) - jnp.log(bits.count(deck).astype(jnp.float32))
    after = now._replace(
        hand=now.hand | card_of(label),
        deck=now.deck & ~card_of(label),
        labels=now.labels.at[slot].set(label, mode="drop"),
    )
    return after, log_weight


def play_own(now: Trajectories, color: Array, rank: Array) -> Trajectories:
    """Move a card of a type from the observer's hand onto the pile."""
    own = as_words(now.own)
    return now._replace(own=jnp.stack(bits.remove(own, *bits.one_copy(own, color, rank))))


def reshuffle(now: Trajectories, all_cards: Array, color: Array, rank: Array, with_top: bool = False) -> Trajectories:
    """Put the pile back into the deck; without its top card, of type (`color`, `rank`), unless `with_top` (static)."""
    back = all_cards[:, None] & ~(now.hand | now.deck | now.own)
    if not with_top:
        words = as_words(back)
        back = jnp.stack(bits.remove(words, *bits.one_copy(words, color, rank)))
    return now._replace(deck=now.deck | back, recycled=now.recycled | back)


class Proposal(NamedTuple):
    """An exchange that each particle may make.

    Attributes:
        exchange: Cards, and their slots.
        out, new: uint8[N] labels of the cards that leave and enter the hand's slot.
        fits: bool[N] the exchange is valid in both directions.
        random: uint32[N] random bits of the decision.
    """

    exchange: Exchange
    out: Array
    new: Array
    fits: Array
    random: Array


def propose(rows: Rows, random: Array, now: Trajectories, history: PublicHistory, slot: Array) -> Proposal:
    """Propose the exchanges of a Metropolis move (resample-move; Gilks and Berzuini 2001), in slots uint16[N].

    The card of a slot swaps with a random other unseen card that the slot could hold. The way back has equally many candidates,
    so `accept` leaves the posterior invariant. No card fits a slot beyond the filled ones.
    """
    has_slot = slot < history.num_slots.astype(slot.dtype)
    out = rows.once(history, lambda: rows.label_at(now.labels, jnp.where(has_slot, slot, 0)))
    could_hold = insertable(rows, now, history, slot)
    unseen = bits.either(as_words(now.hand), as_words(now.deck))
    others = bits.without(bits.both(could_hold, unseen), card_words(out))
    new = rows.once(history, lambda: random_card(hash_bits(random, _NEW), others))
    # The other card may lie in another slot of the hand; then the two slots swap.
    other = rows.find(history, now.labels, new)
    back = insertable(rows, now, history, other)
    fits = has_slot & (bits.any_of(others) != 0) & contains(could_hold, out)
    fits &= (other == NO_SLOT) | (contains(back, out) & contains(back, new))
    exchange = Exchange(card_of(out) | card_of(new), out ^ new, slot, other)
    return Proposal(exchange, out, new, fits, hash_bits(random, _ACCEPT))


def accept(
    rows: Rows,
    now: Trajectories,
    history: PublicHistory,
    proposal: Proposal,
    log_lik: LogLikelihood,
    proposed: LogLikelihood,
    log_types: Array | None = None,
) -> tuple[Trajectories, LogLikelihood, Array]:
    """Accept exchanges with probability min(1, likelihood ratio).

    `log_lik` and `proposed` are the log likelihoods before and after them, under a `Family` by type, and `log_types` is the
    prior of the types. Returns the trajectories, their log likelihood, and which particles changed, bool[N].
    """
    (both, _, slot, other), out, new, fits, random = proposal
    log_ratio = mixed(proposed.softened, log_types) - mixed(log_lik.softened, log_types)
    accepted = rows.once(history, lambda: fits & (uniform_of(random) < jnp.exp(log_ratio)))
    change = jnp.where(accepted & (other == NO_SLOT), both, np.uint32(0))
    changes = ((jnp.where(accepted, slot, NO_SLOT), new), (jnp.where(accepted, other, NO_SLOT), out))
    labels = rows.put(history, now.labels, *changes, few=True)
    now = now._replace(hand=now.hand ^ change, deck=now.deck ^ change, labels=labels)
    return now, jax.tree.map(partial(jnp.where, accepted), proposed, log_lik), accepted


def insertable(rows: Rows, now: Trajectories, history: PublicHistory, slot: ArrayLike) -> Words:
    """Return the cards that an exchange may put into a slot, one or uint16[N]; meaningless for `NO_SLOT`."""
    slot = jnp.minimum(jnp.asarray(slot).astype(jnp.int32), history.max_slots - 1)
    # Cards that came back by a reshuffle may only enter a slot filled after the latest one.
    barred = jnp.where(rows.at(history.recent, slot), np.uint32(0), bits.ALL_SLOTS)
    allowed = map_words(lambda word: rows.at(word, slot), as_words(history.allowed))
    return map_words(lambda a, r: a & ~(r & barred), allowed, as_words(now.recycled))


def _exchangeable(rows: Rows, now: Trajectories, history: PublicHistory, slot: ArrayLike, row: Array, is_barred: Array) -> Array:
    """Return whether a live slot, one or uint16[N], may exchange its label `row` for a card: bool[N].

    `is_barred` marks new cards that a reshuffle put back, which no older slot takes.
    """
    slot = jnp.minimum(jnp.asarray(slot).astype(jnp.int32), history.max_slots - 1)
    is_free = rows.at(history.recent, slot) | ~(contains(as_words(now.recycled), row) | is_barred)
    return (row < RELEASED) & is_free


def _random_copy(rows: Rows, random: Array, now: Trajectories, history: PublicHistory, color: Array, rank: Array) -> Array:
    """Pick a random unseen card of a type: uint8[N] labels."""
    of_type = bits.type_mask(color, rank)
    copies = bits.both(bits.either(as_words(now.hand), as_words(now.deck)), of_type)
    return rows.once(history, lambda: random_card(hash_bits(random, _COPY), copies))


def takes_type(history: PublicHistory, color: Array, rank: Array) -> Array:
    """Return whether each slot could hold a type: bool[S]. It is public, and the same for all copies."""
    return open_slots(history, jnp.stack(bits.type_mask(color, rank))[:, None])

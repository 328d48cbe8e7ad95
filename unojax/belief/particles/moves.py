r"""Carry a cloud of particles through one public event, and weight it.

**Accounts.** A particle is a full account of the hidden past (`unojax.belief.particles.accounts`). All accounts that fit the
observed types have the same prior probability, because draws are uniform over physical cards. The posterior is therefore flat
over the accounts that are possible, times the likelihood of the opponent's choices,

    p(x | history)  ~  [x possible]  *  prod_t pi(a_t | H_t(x), public_t) / copies_t(x)

(`unojax.belief.particles.likelihood`).

**Why not bootstrap.** A public event rules accounts out: the opponent plays a card that a particle does not hold; could not
play although the particle could; the observer draws a card that the particle holds. Weighting by 0 or 1 loses most particles at
every such event. Instead the particle is repaired by exchanging a card of the hand for one of the deck, and weighted as a step
of an SMC sampler (Del Moral, Doucet, Jasra 2006, eq. 12): for old and new targets p, p', forward kernel K and *any* backward
kernel L,

    weight(x -> x')  =  p'(x') L(x | x') / (p(x) K(x' | x)),

which is unbiased for the evidence whatever L is, as long as L(x | x') > 0 only where K(x' | x) > 0 and p(x) > 0. Each repair
below is of one kind: keep x if it already fits, else pick a slot j (with probability c_j) and a replacement (1 of m) for its
card. The backward kernel chosen is K reversed under a flat p. It makes the weight of a kept and of a repaired particle the same
but for the ratio of the likelihoods:

    opponent plays card A       slot j chosen with probability c_j among those that could hold A; m cards of the deck could have
                                been in its place:                             weight 1 / (1 + m c_j)
    opponent could not play     per slot, m_good cards that fit, m_bad that do not:   weight m_good / (m_good + m_bad)
    observer draws card A       sum over slots i that could hold A, with m_i cards that could replace it there:
                                                                               weight 1 / (1 + sum_i 1 / m_i)

Which copy A of the type seen is drawn at random among the n unseen copies, which multiplies the evidence by n. For a flat
belief without reshuffles the weights are constant: with k cards in hand of u unseen ones, k/u for a play and 1 - k/u for a
draw, the exact evidence.

**Which exchanges are valid.** A card may take the place of another in a slot if it was in the deck from before the slot was
filled until now, and its type was not ruled out since. Cards that came back by a reshuffle are let only into slots filled after
the latest reshuffle: no invalid account can arise, and what valid ones this misses (after two reshuffles) costs efficiency and
nothing else.

Functions here work on all N particles at once. Weights are natural logs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import bits
from unojax.belief.particles import accounts
from unojax.belief.particles.accounts import (
    NO_SLOT,
    RELEASED,
    Cloud,
    card_of,
    common,
    contains,
    flip,
    insertable,
    once,
    union,
    without,
)
from unojax.belief.particles.ledger import Ledger
from unojax.belief.particles.likelihood import Exchange, mixed
from unojax.bits import Words
from unojax.device import control
from unojax.device.tracing import traced_once

_SHARES: Final = 512
_LOW: Final = np.uint32(0xFFFF)
_HIGH: Final = np.uint32(16)
_COPY, _SLOT, _NEW, _ACCEPT = range(4)
"""Streams of random bits."""
_Repair = tuple[Words, Array]
"""Deck and log weights on the way through the slots."""


@traced_once
def condition_on_play(key: Array, cloud: Cloud, ledger: Ledger, color: Array, rank: Array) -> tuple[Cloud, Array]:
    """Condition on a play of the opponent: a card of the type (uint32[] each) leaves the hand of every particle.

    `ledger` is the one before the play is recorded. Gives the cloud after the play, repaired where it held no such card, and
    float32[N] log weights, -inf where that was impossible; the log evidence still needs the log number of unseen copies.
    """
    random = accounts.random_words(key, ledger, cloud.labels)
    number = _random_copy(random, cloud, ledger, color, rank)
    card = card_of(number)
    holds = contains(cloud.hand, number)
    # A slot with fewer alternatives is the likelier one: c_j is close to the conditional probability of each slot. Whole
    # numbers, so that sums are exact and two of them fit in a word; the sum is below 2^16.
    num_allowed = lax.population_count(ledger.allowed).sum(1, dtype=jnp.uint32)
    shares = jnp.where(_takes_type(ledger, color, rank), _SHARES // jnp.maximum(num_allowed, 1), 0).astype(jnp.uint32)

    def share(slot: ArrayLike) -> Array:
        if jnp.ndim(slot):
            row, share_at = accounts.label_at(cloud, jnp.asarray(slot)), accounts.row_at(shares, slot)
        else:
            row, share_at = cloud.labels[slot], shares[slot]
        return jnp.where(_exchangeable(cloud, ledger, slot, row, number), share_at, np.uint32(0))

    # The slot of the card, if it is held.
    def place(slot: ArrayLike) -> Array:
        is_held = (cloud.labels[slot] == number).astype(jnp.uint32)
        return is_held * (jnp.asarray(slot, jnp.uint32) << _HIGH)

    sums, search = accounts.sum_and_search(ledger, share, place, jnp.zeros_like(cloud.hand[0]))
    total = sums & _LOW
    threshold = bits.uniform_below(accounts.random_bits(random, _SLOT), total)
    found = holds | (total > 0)
    chosen = jnp.where(holds, sums >> _HIGH, search(threshold))
    slot = once(ledger, lambda: jnp.where(found, chosen.astype(jnp.uint16), NO_SLOT))
    old = accounts.label_at(cloud, jnp.where(found, slot, 0))

    old_card = bits.map_words(lambda w: jnp.where(found & ~holds, w, np.uint32(0)), card_of(old))
    hand = without(cloud.hand, union(old_card, card))
    deck = without(union(cloud.deck, old_card), card)
    num_others = bits.count(common(insertable(cloud, ledger, slot), deck)).astype(jnp.float32)
    share_at = accounts.row_at(shares, jnp.minimum(slot.astype(jnp.int32), shares.shape[0] - 1))
    weight = jnp.where(_exchangeable(cloud, ledger, slot, old, number), share_at, np.uint32(0)).astype(jnp.float32)
    log_weight = -jnp.log1p(num_others * weight / jnp.maximum(total, 1).astype(jnp.float32))
    after = cloud._replace(
        hand=hand,
        deck=deck,
        labels=accounts.put(cloud, ledger, (slot, number | RELEASED)),
        played=cloud.played.at[ledger.num_plays].set(number, mode="drop"),
    )
    return after, jnp.where(found, log_weight, -jnp.inf)


@partial(traced_once, static=("most_open",))
def condition_on_no_play(
    key: Array, cloud: Cloud, ledger: Ledger, playable: Words, most_open: int | None = None, where: Array | None = None
) -> tuple[Cloud, Array]:
    """Condition on the opponent having no card to play: no particle holds one of `playable` (four uint32[]) afterwards.

    `ledger` is the one before they are forbidden; at most `most_open` slots (static; None: any number) are `open_slots`. With
    `where` (bool[S]) only these slots are known to hold none. Gives the repaired cloud; float32[N] log weights, -inf if no card
    fits a slot.
    """
    random = accounts.random_words(key, ledger, cloud.labels)
    # Most of the older slots are closed to these cards already; there nothing changes.
    is_open = open_slots(ledger, playable)
    if where is not None:
        is_open &= where

    def choose(slot: ArrayLike, row: Array, deck: Words, log_weight: Array) -> tuple[Array, Array]:
        """Give the label that the slot gets, and the weights so far."""
        # In lockstep other slots come along, some of them open ones of another round.
        counts = is_open[slot] & (row < RELEASED)
        held = card_of(row)
        # The cards that this slot could hold with all other slots as they are: its own and those in the deck.
        could_hold = insertable(cloud, ledger, slot)
        free = common(could_hold, union(deck, held))
        good = without(free, playable)
        num_good, num_free = bits.count(good).astype(jnp.float32), bits.count(free).astype(jnp.float32)
        offends = contains(playable, row)
        exchangeable = contains(could_hold, row)
        share = num_good / jnp.maximum(num_free, 1.0)
        # A card that no exchange could have put here has one account behind it: itself.
        share = jnp.where(exchangeable, share, jnp.where(offends, 0.0, 1.0))
        repairs = counts & offends & exchangeable & (num_good > 0)
        new = accounts.random_card(accounts.random_bits(random, slot), good)
        return jnp.where(repairs, new, row), log_weight + jnp.log(jnp.where(counts, share, 1.0))

    def repair(slot: ArrayLike, row: Array, carry: _Repair) -> tuple[Array, _Repair]:
        deck, log_weight = carry
        new, log_weight = once(ledger, lambda: choose(slot, row, deck, log_weight))
        change = bits.map_words(lambda a, b: a ^ b, card_of(row), card_of(new))
        return new, (flip(deck, change, new != row), log_weight)

    first = (cloud.deck, jnp.zeros_like(cloud.hand[0], jnp.float32))
    labels, (deck, log_weight) = accounts.change_slots(ledger, is_open, repair, cloud.labels, first, most_open)
    # What came into the deck left the hand, and the other way round.
    hand = bits.map_words(lambda held, before, after: held ^ before ^ after, cloud.hand, cloud.deck, deck)
    return cloud._replace(hand=hand, deck=deck, labels=labels), log_weight


@traced_once
def play_drawn(key: Array, cloud: Cloud, ledger: Ledger, color: Array, rank: Array) -> tuple[Cloud, Array]:
    """Condition on a play of the opponent of the card that it has just drawn, which is in the slot filled last.

    As `condition_on_play`, but the copy is one of those that the slot and the deck hold, n of them: then only the deck's cards
    can have been in its place, m of them, and the weight is n / (1 + m), the evidence and no more.
    """
    random = accounts.random_words(key, ledger, cloud.labels)
    slot = ledger.num_slots - 1
    drawn = card_of(cloud.labels[slot])
    in_deck = union(cloud.deck, drawn)
    copies = common(in_deck, bits.type_mask(color, rank))
    number = once(ledger, lambda: accounts.random_card(accounts.random_bits(random, _COPY), copies))
    deck = without(in_deck, card_of(number))
    num_others = bits.count(common(insertable(cloud, ledger, slot), deck)).astype(jnp.float32)
    fits = _takes_type(ledger, color, rank)[slot] & (bits.any_of(copies) != 0)
    log_weight = jnp.log(bits.count(copies).astype(jnp.float32)) - jnp.log1p(num_others)
    after = cloud._replace(
        hand=without(cloud.hand, drawn),
        deck=deck,
        labels=cloud.labels.at[slot].set(number | RELEASED, mode="drop"),
        played=cloud.played.at[ledger.num_plays].set(number, mode="drop"),
    )
    return after, jnp.where(fits, log_weight, -jnp.inf)


def open_slots(ledger: Ledger, cards: Words) -> Array:
    """Mark the slots that could hold one of some cards (four uint32[]): bool[S]."""
    return (ledger.allowed & jnp.stack(cards)[None]).any(1)


@traced_once
def condition_on_own_draw(key: Array, cloud: Cloud, ledger: Ledger, color: Array, rank: Array) -> tuple[Cloud, Array]:
    """Condition on a draw of the observer: a card of the type (uint32[] each) moves from the deck to its hand in every particle.

    Gives the cloud after the draw, repaired where the opponent held the card, and float32[N] log weights, -inf where that was
    impossible; the log evidence still needs the log number of unseen copies of the type, less that of the cards in the deck.
    """
    random = accounts.random_words(key, ledger, cloud.labels)
    number = _random_copy(random, cloud, ledger, color, rank)
    card = card_of(number)
    holds = contains(cloud.hand, number)
    slot = accounts.find(cloud, ledger, number)
    could_hold = insertable(cloud, ledger, slot)
    free = common(could_hold, cloud.deck)
    repairs = holds & contains(could_hold, number) & (bits.any_of(free) != 0)
    random_new = accounts.random_bits(random, _NEW)
    # The label of the card that takes its place, or its own.
    new = once(ledger, lambda: jnp.where(repairs, accounts.random_card(random_new, free), number))
    new_card = card_of(new)
    repaired = cloud._replace(
        hand=flip(cloud.hand, union(card, new_card), new != number),
        deck=without(cloud.deck, union(card, new_card)),
        own=union(cloud.own, card),
        labels=accounts.put(cloud, ledger, (jnp.where(new != number, slot, NO_SLOT), new)),
    )
    takes = _takes_type(ledger, color, rank)

    def share(slot: ArrayLike) -> Array:
        row = repaired.labels[slot]
        could_hold = takes[slot] & _exchangeable(cloud, ledger, slot, row, number)
        num_others = bits.count(common(insertable(cloud, ledger, slot), repaired.deck)) + np.uint32(1)
        return jnp.where(could_hold, 1.0 / num_others.astype(jnp.float32), 0.0)

    total = accounts.sum_slots(ledger, share, jnp.zeros_like(cloud.hand[0], jnp.float32))
    return repaired, jnp.where(holds & (new == number), -jnp.inf, -jnp.log1p(total))


@traced_once
def draw(key: Array, cloud: Cloud, ledger: Ledger, number: Array) -> Cloud:
    """Let the opponent draw `number` cards, uniformly from each particle's deck into the next slots. The prior, so no weight."""
    random = accounts.random_words(key, ledger, cloud.labels)

    def one_card(index: Array, cloud: Cloud) -> Cloud:
        hand, deck, new = draw_card(random, index, ledger, cloud.hand, cloud.deck)
        return cloud._replace(hand=hand, deck=deck, labels=cloud.labels.at[ledger.num_slots + index].set(new, mode="drop"))

    return control.fori_loop(0, number, one_card, cloud)


def draw_card(random: Array, index: Array, ledger: Ledger, hand: Words, deck: Words) -> tuple[Words, Words, Array]:
    """Let the opponent draw the card number `index` of a draw: the hands, the decks, and uint8[N] the labels drawn."""
    new = once(ledger, lambda: accounts.random_card(accounts.random_bits(random, index), deck))
    card = card_of(new)
    return union(hand, card), without(deck, card), new


@traced_once
def play_own(cloud: Cloud, color: Array, rank: Array) -> Cloud:
    """Take a card of a type out of the observer's hand, onto the pile."""
    word, bit = bits.one_copy(cloud.own, color, rank)
    return cloud._replace(own=bits.remove(cloud.own, word, bit))


@partial(traced_once, static=("with_top",))
def reshuffle(cloud: Cloud, all_cards: Words, color: Array, rank: Array, with_top: bool = False) -> Cloud:
    """Put the pile back into the deck, except its top card of type (`color`, `rank`), or `with_top` (static) that too."""
    back = bits.map_words(lambda f, h, d, o: f & ~(h | d | o), all_cards, cloud.hand, cloud.deck, cloud.own)
    if not with_top:
        word, bit = bits.one_copy(back, color, rank)
        back = bits.remove(back, word, bit)
    return cloud._replace(deck=union(cloud.deck, back), recycled=union(cloud.recycled, back))


def refresh(
    key: Array,
    cloud: Cloud,
    ledger: Ledger,
    log_lik: Array,
    likelihood: Callable[[Cloud, Exchange], Array],
    place: Array,
    log_types: Array | None = None,
) -> tuple[Cloud, Array, Array]:
    """Make one Metropolis move, which leaves the posterior invariant (resample-move; Gilks and Berzuini 2001).

    One card of the hand changes places with a random one of the other unseen cards that its slot could hold; accepted with
    probability min(1, likelihood ratio) if the exchange is valid in both directions. The proposal is symmetric: the slot could
    hold its own card too, so that as many cards could be proposed for the way back.

    Args:
        key: consumed.
        cloud, ledger: the particles and the public bookkeeping.
        log_lik: float32[N] of the cloud, or by type [K, N].
        likelihood: gives the like for a cloud as it were after an exchange.
        place: of the card among the live slots, in the order of acquisition. A series of moves that takes one place after the
            other renews a hand faster than one that picks them at random.
        log_types: float32[K] nats, prior of the opponent's types; None without types.

    Returns:
        the cloud, its log likelihood, and bool[N] which particles changed.
    """
    proposal = propose(key, cloud, ledger, accounts.nth_live(cloud, ledger, place))
    return accept(cloud, ledger, proposal, log_lik, likelihood(cloud, proposal.exchange), log_types)


class Proposal(NamedTuple):
    """An exchange that each particle may make.

    Attributes:
        exchange: of which cards, and in which slots.
        out, new: uint8[N] labels of the card that leaves the slot of the hand, and of the one that comes into it.
        fits: bool[N] the exchange is valid in both directions.
        random: uint32[N] random bits that decide.
    """

    exchange: Exchange
    out: Array
    new: Array
    fits: Array
    random: Array


def propose(key: Array, cloud: Cloud, ledger: Ledger, slot: Array) -> Proposal:
    """Draw the exchanges of a refreshing move, of the cards in slots uint16[N]; of none where there is no such slot."""
    random = accounts.random_words(key, ledger, cloud.labels)
    has_slot = slot < ledger.num_slots.astype(slot.dtype)
    out = once(ledger, lambda: accounts.label_at(cloud, jnp.where(has_slot, slot, 0)))
    out_card = card_of(out)
    could_hold = insertable(cloud, ledger, slot)
    others = without(common(could_hold, union(cloud.hand, cloud.deck)), out_card)
    new = once(ledger, lambda: accounts.random_card(accounts.random_bits(random, _NEW), others))
    # The other card may lie in another slot of the hand; then the two slots swap.
    other = accounts.find(cloud, ledger, new)
    back = insertable(cloud, ledger, other)
    fits = has_slot & (bits.any_of(others) != 0) & contains(could_hold, out)
    fits &= (other == NO_SLOT) | (contains(back, out) & contains(back, new))
    exchange = Exchange(union(out_card, card_of(new)), slot, other)
    return Proposal(exchange, out, new, fits, accounts.random_bits(random, _ACCEPT))


def accept(
    cloud: Cloud, ledger: Ledger, proposal: Proposal, log_lik: Array, proposed: Array, log_types: Array | None = None
) -> tuple[Cloud, Array, Array]:
    """Make the exchanges that are accepted, for log likelihoods float32[N] or [K, N] before and after; see `refresh`."""
    (both, slot, other), out, new, fits, random = proposal
    swaps = other != NO_SLOT
    accepted = once(ledger, lambda: fits & (_unit(random) < jnp.exp(mixed(proposed, log_types) - mixed(log_lik, log_types))))
    changes = ((jnp.where(accepted, slot, NO_SLOT), new), (jnp.where(accepted, other, NO_SLOT), out))
    cloud = cloud._replace(
        hand=flip(cloud.hand, both, accepted & ~swaps),
        deck=flip(cloud.deck, both, accepted & ~swaps),
        labels=accounts.put(cloud, ledger, *changes, in_place=True),
    )
    return cloud, jnp.where(accepted, proposed, log_lik), accepted


def _random_copy(random: Array, cloud: Cloud, ledger: Ledger, color: Array, rank: Array) -> Array:
    """Pick a random unseen card of a type: uint8[N] labels."""
    copies = common(union(cloud.hand, cloud.deck), bits.type_mask(color, rank))
    return once(ledger, lambda: accounts.random_card(accounts.random_bits(random, _COPY), copies))


def _takes_type(ledger: Ledger, color: Array, rank: Array) -> Array:
    """Mark the slots that could hold a type: bool[S]. It is public, and the same for all copies."""
    return open_slots(ledger, bits.type_mask(color, rank))


def _exchangeable(cloud: Cloud, ledger: Ledger, slot: ArrayLike, row: Array, number: Array) -> Array:
    """Tell whether no reshuffle keeps a live slot, one or uint16[N], from exchanging its label `row` for `number`: bool[N]."""
    slot = jnp.minimum(jnp.asarray(slot).astype(jnp.int32), ledger.epoch.shape[0] - 1)
    is_latest = accounts.row_at(ledger.epoch, slot) == ledger.num_reshuffles
    return (row < RELEASED) & (is_latest | ~(contains(cloud.recycled, row) | contains(cloud.recycled, number)))


def _unit(random: Array) -> Array:
    """Turn random bits into numbers uniform in [0, 1), multiples of 2^-24: float32[N]."""
    return (random >> np.uint32(8)).astype(jnp.float32) * np.float32(2.0**-24)

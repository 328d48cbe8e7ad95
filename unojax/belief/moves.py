r"""How a cloud of particles is carried through one public event, and its weights.

**Accounts.** A particle is a full account of the hidden past, told in physical cards (slots 0..107 of the canonical layout,
here *labels*): which label each slot of the opponent's hand got when it was filled, which of them it played, which ones the
observer drew. Equal cards look the same, so labels are never seen, only their types. All accounts that fit the observed types
have the same prior probability, because draws are uniform over physical cards. The posterior is therefore flat over the
accounts that are possible, times the likelihood of the opponent's choices,

    p(x | history)  ~  [x possible]  *  prod_t pi(a_t | H_t(x), public_t) / copies_t(x),

where H_t(x) is the hand before the t-th play and copies_t the number of cards of the played type in it, each of which was as
likely to be the physical card played. `log_likelihood` computes the second factor by replaying the plays.

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

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import bits, cards, game
from unojax.belief.ledger import Ledger, Plays, as_words
from unojax.belief.opponents import OpponentModel, PackedOpponent
from unojax.bits import Words
from unojax.observation import Observation
from unojax.policies import View
from unojax.random_bits import key_words, threefry
from unojax.table import Picked

RELEASED = np.uint8(0x80)
"""Set in the label of a slot whose card has been played."""
SLOTS_PER_TURN = 4
"""The capacity for slots is a multiple of this."""
_NO_SLOT = np.int32(-1)
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


def condition_on_play(key: Array, cloud: Cloud, ledger: Ledger, color: Array, rank: Array) -> tuple[Cloud, Array]:
    """The opponent plays a card of a type: it leaves the hand of every particle.

    Args:
        key: consumed.
        cloud: the particles.
        ledger: before the play is recorded.
        color, rank: uint32[] the type; the colour of a wild is ignored.

    Returns:
        the cloud after the play, repaired where it held no such card; float32[N] log weights, -inf where that was impossible.
        The log evidence still needs the log number of unseen copies of the type.
    """
    key_copy, key_slot = jax.random.split(key)
    number = _once(ledger, lambda: _random_copy(key_copy, _union(cloud.hand, cloud.deck), color, rank))
    card = card_of(number)
    holds = _common(cloud.hand, card) != 0
    # A slot with fewer alternatives is the likelier one: c_j is close to the conditional probability of each slot.
    num_allowed = lax.population_count(ledger.allowed).sum(1)
    share = 1.0 / jnp.maximum(num_allowed, 1).astype(jnp.float32)

    def weigh(slot: Array) -> Array:
        # The slot must be able to take the card, and its own back in the reverse exchange.
        row, insertable = cloud.labels[slot], _insertable(cloud, ledger, slot)
        could_hold = _is_live(row) & (_common(insertable, card) != 0) & (_common(insertable, card_of(row)) != 0)
        return jnp.where(could_hold, share[slot], 0.0)

    zero = jnp.zeros_like(cloud.hand[0])
    total = _fold_slots(ledger, lambda s, t: t + weigh(s), zero.astype(jnp.float32))
    threshold = jax.random.uniform(key_slot, total.shape, jnp.float32) * total

    def find(slot: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        passed, chosen, old, chosen_weight, *allowed = carry
        row = cloud.labels[slot]
        weight = weigh(slot)
        reached = passed + weight
        hit = jnp.where(holds, row == number, (passed <= threshold) & (threshold < reached))
        insertable = _insertable(cloud, ledger, slot)
        return (
            reached,
            jnp.where(hit, slot, chosen),
            jnp.where(hit, row, old),
            jnp.where(hit, weight, chosen_weight),
            *(jnp.where(hit, i, a) for i, a in zip(insertable, allowed, strict=True)),
        )

    zero_f = zero.astype(jnp.float32)
    first = (zero_f, zero.astype(jnp.int32) + _NO_SLOT, zero.astype(jnp.uint8), zero_f, zero, zero, zero, zero)
    _, slot, old, weight, a0, a1, a2, a3 = _fold_slots(ledger, find, first)

    found = slot != _NO_SLOT
    old_card = bits.map_words(lambda w: jnp.where(found & ~holds, w, np.uint32(0)), card_of(old))
    hand = bits.map_words(lambda h, o, a: h & ~o & ~a, cloud.hand, old_card, card)
    deck = bits.map_words(lambda d, o, a: (d | o) & ~a, cloud.deck, old_card, card)
    num_others = _common((a0, a1, a2, a3), deck).astype(jnp.float32)
    log_weight = -jnp.log1p(num_others * weight / jnp.where(total > 0, total, 1.0))
    after = cloud._replace(
        hand=hand,
        deck=deck,
        labels=_put(cloud.labels, slot, number | RELEASED),
        played=_put(cloud.played, ledger.num_plays, number),
    )
    return after, jnp.where(found, log_weight, -jnp.inf)


def condition_on_no_play(key: Array, cloud: Cloud, ledger: Ledger, playable: Words) -> tuple[Cloud, Array]:
    """The opponent could not play: no particle holds one of the cards `playable` afterwards.

    Args:
        key: consumed.
        cloud: the particles.
        ledger: before these cards are forbidden.
        playable: four uint32[]: all cards that could have been played.

    Returns:
        the repaired cloud; float32[N] log weights, -inf if no card fits a slot.
    """

    def one_slot(slot: Array, carry: tuple[Cloud, Array]) -> tuple[Cloud, Array]:
        cloud, log_weight = carry
        row = cloud.labels[slot]

        def decide() -> tuple[Array, Array]:
            live = _is_live(row)
            held = card_of(row)
            # The cards that this slot could hold with all other slots as they are: its own and those in the deck.
            insertable = _insertable(cloud, ledger, slot)
            free = bits.map_words(lambda i, d, h: i & (d | h), insertable, cloud.deck, held)
            good = bits.map_words(lambda f, p: f & ~p, free, playable)
            num_good, num_free = bits.count(good).astype(jnp.float32), bits.count(free).astype(jnp.float32)
            offends = _common(held, playable) != 0
            exchangeable = _common(held, insertable) != 0
            repairs = offends & exchangeable & (num_good > 0)
            share = num_good / jnp.maximum(num_free, 1.0)
            # A card that no exchange could have put here has one account behind it: itself.
            share = jnp.where(exchangeable, share, jnp.where(offends, 0.0, 1.0))
            return jnp.where(repairs, _random_card(key, good, slot), row), jnp.where(live, share, 1.0)

        new, share = _once(ledger, decide)
        cloud = _exchange(cloud, new != row, card_of(row), card_of(new))
        return cloud._replace(labels=cloud.labels.at[slot].set(new)), log_weight + jnp.log(share)

    zero = jnp.zeros_like(cloud.hand[0], jnp.float32)
    return lax.fori_loop(0, ledger.num_slots, one_slot, (cloud, zero))


def condition_on_own_draw(key: Array, cloud: Cloud, ledger: Ledger, color: Array, rank: Array) -> tuple[Cloud, Array]:
    """The observer draws a card of a type: it moves from the deck to the observer's hand in every particle.

    Args:
        key: consumed.
        cloud: the particles.
        ledger: the public bookkeeping.
        color, rank: uint32[] the type.

    Returns:
        the cloud after the draw, repaired where the opponent held the card; float32[N] log weights, -inf where that was
        impossible. The log evidence still needs the log number of unseen copies of the type, less the log number of cards in
        the deck.
    """
    key_copy, key_new = jax.random.split(key)
    number = _once(ledger, lambda: _random_copy(key_copy, _union(cloud.hand, cloud.deck), color, rank))
    card = card_of(number)
    holds = _common(cloud.hand, card) != 0
    zero = jnp.zeros_like(cloud.hand[0])

    def find(slot: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        chosen, *allowed = carry
        hit = cloud.labels[slot] == number
        insertable = _insertable(cloud, ledger, slot)
        return (
            jnp.where(hit, slot, chosen),
            *(jnp.where(hit, i, a) for i, a in zip(insertable, allowed, strict=True)),
        )

    slot, a0, a1, a2, a3 = _fold_slots(ledger, find, (zero.astype(jnp.int32) + _NO_SLOT, zero, zero, zero, zero))
    insertable = (a0, a1, a2, a3)
    free = bits.map_words(lambda i, d: i & d, insertable, cloud.deck)
    new = _once(ledger, lambda: _random_card(key_new, free))
    repairs = holds & (_common(insertable, card) != 0) & (bits.any_of(free) != 0)
    repaired = _exchange(cloud, repairs, card, card_of(new))
    labels = _put(cloud.labels, jnp.where(repairs, slot, _NO_SLOT), new)
    repaired = repaired._replace(
        labels=labels,
        deck=bits.map_words(lambda d, a: d & ~a, repaired.deck, card),
        own=bits.map_words(lambda o, a: o | a, repaired.own, card),
    )

    def add(slot: Array, total: Array) -> Array:
        row = labels[slot]
        held = card_of(row)
        insertable = _insertable(cloud, ledger, slot)
        could_hold = _is_live(row) & (_common(insertable, card) != 0) & (_common(insertable, held) != 0)
        num_others = _common(insertable, _union(repaired.deck, held)).astype(jnp.float32)
        return total + jnp.where(could_hold, 1.0 / jnp.maximum(num_others, 1.0), 0.0)

    total = _fold_slots(ledger, add, zero.astype(jnp.float32))
    return repaired, jnp.where(holds & ~repairs, -jnp.inf, -jnp.log1p(total))


def draw(key: Array, cloud: Cloud, ledger: Ledger, number: Array) -> Cloud:
    """The opponent draws `number` cards: in each particle, uniformly from its deck, into the next slots. The prior, so no
    weight."""

    def one_card(index: Array, cloud: Cloud) -> Cloud:
        new = _once(ledger, lambda: _random_card(key, cloud.deck, index))
        card = card_of(new)
        return cloud._replace(
            hand=bits.map_words(lambda h, n: h | n, cloud.hand, card),
            deck=bits.map_words(lambda d, n: d & ~n, cloud.deck, card),
            labels=cloud.labels.at[ledger.num_slots + index].set(new, mode="drop"),
        )

    return lax.fori_loop(0, number, one_card, cloud)


def play_own(cloud: Cloud, color: Array, rank: Array) -> Cloud:
    """The observer plays a card of a type."""
    word, bit = bits.one_copy(cloud.own, color, rank)
    w0, w1, w2, w3 = (jnp.where(word == c, o & ~bit, o) for c, o in enumerate(cloud.own))
    return cloud._replace(own=(w0, w1, w2, w3))


def reshuffle(cloud: Cloud, all_cards: Words, color: Array, rank: Array) -> Cloud:
    """The pile except its top card, of type (`color`, `rank`), goes back into the deck."""
    pile = bits.map_words(lambda f, h, d, o: f & ~(h | d | o), all_cards, cloud.hand, cloud.deck, cloud.own)
    word, bit = bits.one_copy(pile, color, rank)
    w0, w1, w2, w3 = (jnp.where(word == c, p & ~bit, p) for c, p in enumerate(pile))
    back = (w0, w1, w2, w3)
    return cloud._replace(deck=_union(cloud.deck, back), recycled=_union(cloud.recycled, back))


def log_likelihood(cloud: Cloud, ledger: Ledger, opponent: OpponentModel, like: Observation) -> Array:
    """The second factor of the posterior (module docstring) in nats, float32[N]: all plays of the opponent, replayed.

    Under the "deal" prior it starts from the probability of the start card, one of the coloured cards that were not dealt.

    Args:
        cloud: the particles.
        ledger: with all plays recorded.
        opponent: the model.
        like: any observation of the observer's; its player and static fields are used.
    """

    def one_play(t: Array, carry: tuple[Words, Array, Array]) -> tuple[Words, Array, Array]:
        hand, total, filled = carry
        play = Plays(*(rows[t] for rows in ledger.plays))
        hand = _fill(cloud, hand, filled, play.slots_before)
        action = play.action.astype(jnp.uint32)
        copies = copies_held(hand, action // cards.NUM_RANKS, action % cards.NUM_RANKS)
        total = total + play_log_prob(hand, play, opponent, like) - jnp.log(copies.astype(jnp.float32))
        hand = bits.map_words(lambda h, b: h & ~b, hand, card_of(cloud.played[t]))
        return hand, total, play.slots_before

    dealt = _fill(cloud, bits.empty(cloud.hand[0]), jnp.int32(0), ledger.num_dealt)
    first = (dealt, start_log_prob(dealt, ledger), ledger.num_dealt)
    return lax.fori_loop(0, ledger.num_plays, one_play, first)[1]


def start_log_prob(dealt: Words, ledger: Ledger) -> Array:
    """Log probability (nats) of the start card that was turned up, float32[N]; 0 if the ledger leaves it out (`num_dealt` 0)."""
    colored = bits.count(bits.map_words(lambda w: w & bits.COLORED, dealt)).astype(jnp.int32)
    return jnp.where(ledger.num_dealt > 0, -jnp.log(jnp.maximum(ledger.num_colored - colored, 1).astype(jnp.float32)), 0.0)


def _fill(cloud: Cloud, hand: Words, first: Array, end: Array) -> Words:
    """The hands with the cards that slots first..end-1 got."""
    return lax.fori_loop(first, end, lambda s, h: _union(h, card_of(cloud.labels[s] & ~RELEASED)), hand)


def play_log_prob(hand: Words, play: Plays, opponent: OpponentModel, like: Observation) -> Array:
    """Log probability (nats) that the model gives one recorded play, for each hand (four uint32[N]): float32[N]."""
    color, rank = play.color.astype(jnp.uint32), play.rank.astype(jnp.uint32)
    action = play.action.astype(jnp.uint32)
    if isinstance(opponent, PackedOpponent):
        option = bits.rank_bit(action % cards.NUM_RANKS)
        played = Picked(action // cards.NUM_RANKS, lax.population_count(option - np.uint32(1)))
        view = View(
            hand=hand,
            opponent_count=play.observer_count.astype(jnp.uint32),
            pile=as_words(play.pile),
            color=color,
            everything=bits.all_cards(like.composition),
        )
        return opponent.log_likelihood(view, bits.playable(hand, color, rank), played)

    them = (1 - like.player).astype(like.player.dtype)
    view = Observation(
        player=them,
        hand=like.hand,
        pile=bits.unpack(as_words(play.pile)),
        opponent_count=play.observer_count,
        deck_count=play.deck_count,
        top_rank=play.rank,
        color=play.color,
        penalty=jnp.zeros_like(like.penalty),
        current_player=them,
        last_action=play.last_action,
        terminated=jnp.zeros_like(like.terminated),
        composition=like.composition,
    )

    def one_hand(onehot: Array) -> Array:
        imagined = dataclasses.replace(view, hand=onehot)
        legal_mask = game.hand_legal_mask(onehot, play.color, play.rank, imagined.penalty)
        return jnp.log(opponent(imagined, legal_mask)[action]).astype(jnp.float32)

    return jax.vmap(one_hand)(bits.unpack(bits.canonical(hand)))


def refresh(
    key: Array, cloud: Cloud, ledger: Ledger, log_lik: Array, likelihood: Callable[[Cloud], Array]
) -> tuple[Cloud, Array, Array]:
    """One Metropolis move that leaves the posterior invariant (resample-move; Gilks and Berzuini 2001).

    A random card of the hand and a random other unseen card change places; accepted with probability min(1, likelihood ratio)
    if the exchange is valid in both directions. The proposal is symmetric.

    Args:
        key: consumed.
        cloud, ledger: the particles and the public bookkeeping.
        log_lik: float32[N] of the cloud.
        likelihood: gives float32[N] for a cloud.

    Returns:
        the cloud, its log likelihood, and bool[N] which particles changed.
    """
    key_out, key_in, key_accept = jax.random.split(key, 3)
    out = _once(ledger, lambda: _random_card(key_out, cloud.hand))
    out_card = card_of(out)
    others = bits.map_words(lambda h, d, b: (h | d) & ~b, cloud.hand, cloud.deck, out_card)
    new = _once(ledger, lambda: _random_card(key_in, others))
    new_card = card_of(new)
    # The other card may lie in another slot of the hand; then the two slots swap.
    swaps = _common(cloud.hand, new_card) != 0

    def check(slot: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        fits, slot_out, slot_new = carry
        row = cloud.labels[slot]
        insertable = _insertable(cloud, ledger, slot)
        takes_both = (_common(insertable, new_card) != 0) & (_common(insertable, out_card) != 0)
        is_out, is_new = row == out, row == new
        fits &= ~(is_out | is_new) | takes_both
        return fits, jnp.where(is_out, slot, slot_out), jnp.where(is_new, slot, slot_new)

    none = jnp.zeros_like(cloud.hand[0], jnp.int32) + _NO_SLOT
    possible = (bits.any_of(cloud.hand) != 0) & (bits.any_of(others) != 0)
    fits, slot_out, slot_new = _fold_slots(ledger, check, (possible, none, none))
    proposal = _exchange(cloud, ~swaps, out_card, new_card)
    proposal = proposal._replace(labels=_put(_put(cloud.labels, slot_out, new), slot_new, out))
    proposed = likelihood(proposal)
    log_u = jnp.log1p(-jax.random.uniform(key_accept, proposed.shape, jnp.float32))
    accepted = fits & (log_u < proposed - log_lik)
    cloud = cloud._replace(
        hand=bits.where(accepted, proposal.hand, cloud.hand),
        deck=bits.where(accepted, proposal.deck, cloud.deck),
        labels=jnp.where(accepted, proposal.labels, cloud.labels),
    )
    return cloud, jnp.where(accepted, proposed, log_lik), accepted


def card_of(number: Array) -> Words:
    """The set that holds one card, from its label: four uint32[...]. Empty for a label with `RELEASED` set."""
    number = number.astype(jnp.uint32)
    bit = jnp.uint32(1) << (number & np.uint32(31))
    word = number >> np.uint32(5)
    w0, w1, w2, w3 = (jnp.where(word == c, bit, np.uint32(0)) for c in range(cards.NUM_COLORS))
    return w0, w1, w2, w3


def copies_held(hand: Words, color: Array, rank: Array) -> Array:
    """uint32[...]: copies of a type in a set."""
    return bits.count(bits.map_words(lambda w, k: w & k, hand, _type_mask(color, rank)))


def _type_mask(color: Array, rank: Array) -> Words:
    kind = bits.both_copies(bits.rank_bit(rank))
    everywhere = rank >= cards.WILD
    w0, w1, w2, w3 = (jnp.where(everywhere | (color == c), kind, np.uint32(0)) for c in range(cards.NUM_COLORS))
    return w0, w1, w2, w3


def _once(ledger: Ledger, compute: Callable[[], _T]) -> _T:
    """`compute()`, kept from being fused into each of its users.

    XLA on CPU builds each array in a loop of its own and repeats in it whatever the array depends on. A branch that the
    compiler cannot remove makes it compute the result once. (From jax 0.12 on, an optimization barrier has the same effect.)
    """
    shapes = jax.eval_shape(compute)
    return lax.cond(ledger.num_slots >= 0, compute, lambda: jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes))


def _random_card(key: Array, words: Words, stream: ArrayLike = 0) -> Array:
    """uint8[N]: label of a uniformly random card of each set. Keys may be used again with another `stream`."""
    counter = jnp.arange(words[0].shape[0], dtype=jnp.uint32)
    random, _ = threefry(key_words(key), (jnp.asarray(stream, jnp.uint32), counter))
    word, position = bits.choose(words, random)
    return ((word << np.uint32(5)) | position).astype(jnp.uint8)


def _random_copy(key: Array, words: Words, color: Array, rank: Array) -> Array:
    return _random_card(key, bits.map_words(lambda w, k: w & k, words, _type_mask(color, rank)))


def _fold_slots(ledger: Ledger, visit: Callable[[Array, _T], _T], first: _T) -> _T:
    """`carry = visit(slot, carry)` over all filled slots, and up to three empty ones: a few slots per turn of the loop."""

    def several(block: Array, carry: _T) -> _T:
        for offset in range(SLOTS_PER_TURN):
            carry = visit(SLOTS_PER_TURN * block + offset, carry)
        return carry

    return lax.fori_loop(0, (ledger.num_slots + SLOTS_PER_TURN - 1) // SLOTS_PER_TURN, several, first)


def _is_live(row: Array) -> Array:
    return row < RELEASED


def _insertable(cloud: Cloud, ledger: Ledger, slot: Array) -> Words:
    """The cards that an exchange may put into a slot, if they are in the deck now: four uint32[N]."""
    is_latest = ledger.epoch[slot] == ledger.num_reshuffles
    return bits.map_words(
        lambda a, r: a & jnp.where(is_latest, bits.ALL_SLOTS, ~r), as_words(ledger.allowed[slot]), cloud.recycled
    )


def _exchange(cloud: Cloud, where: Array, out: Words, new: Words) -> Cloud:
    """A card of the hand and a card of the deck change places, in the particles `where`; labels are left to the caller."""

    def swap(words: Words, leaves: Words, enters: Words) -> Words:
        return bits.map_words(lambda w, a, b: jnp.where(where, (w & ~a) | b, w), words, leaves, enters)

    return cloud._replace(hand=swap(cloud.hand, out, new), deck=swap(cloud.deck, new, out))


def _union(a: Words, b: Words) -> Words:
    return bits.map_words(lambda x, y: x | y, a, b)


def _common(a: Words, b: Words) -> Array:
    """uint32[N]: number of cards in both sets."""
    return bits.count(bits.map_words(lambda x, y: x & y, a, b))


def _put(rows: Array, index: Array, values: Array) -> Array:
    """`rows[index[n], n] = values[n]` for every particle n whose index is in range."""
    return jnp.where(jnp.arange(rows.shape[0])[:, None] == index, values, rows)

"""The particle filter of `unojax.belief.particles` in plain NumPy, for the uniform opponent model: a peer for its speed.

The same algorithm step by step (`unojax.belief.particles.moves` derives it), vectorised over particles and, where slots do not depend on
each other, over slots. Sets of cards are uint32[4, N] in the layout of `unojax.bits`. One game at a time, on the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike

from unojax import bits, cards
from unojax.belief.particles import MOST_ROUNDS, NUM_MOVES, Belief
from unojax.observation import Observation
from unojax.rules import Rules

_RELEASED: Final = np.uint8(0x80)
_LABEL: Final = np.uint8(0x7F)
_WORDS: Final = np.arange(4, dtype=np.uint32)[:, None]
_ONE: Final = np.uint32(1)


class Play(NamedTuple):
    """A play of the opponent: the slots filled before it, the action, and the colour and rank it was played on."""

    slots_before: int
    action: int
    color: int
    rank: int


@dataclass(frozen=True)
class NumpyBelief:
    """The fields of `Belief`, without capacity to spare: S slots, P plays."""

    log_weights: np.ndarray
    log_likelihood: np.ndarray
    hand: np.ndarray
    deck: np.ndarray
    own: np.ndarray
    recycled: np.ndarray
    labels: np.ndarray
    played: np.ndarray
    allowed: np.ndarray
    epoch: np.ndarray
    num_reshuffles: int
    plays: tuple[Play, ...]
    num_dealt: int
    num_colored: int

    @property
    def is_latest(self) -> np.ndarray:
        """bool[S]: slots filled after the latest reshuffle."""
        return self.epoch == self.num_reshuffles


class NumpyInfo(NamedTuple):
    """`Info`, as far as it is compared."""

    ess: float
    log_evidence: float
    resampled: bool


def from_belief(belief: Belief) -> NumpyBelief:
    """A copy of a belief on the host."""
    log_weights, log_likelihood, book, cloud = jax.device_get(
        (belief.log_weights, belief.log_likelihood, belief.ledger, belief.cloud)
    )
    num_slots, num_plays = int(book.num_slots), int(book.num_plays)
    rows = zip(book.plays.slots_before, book.plays.action, book.plays.color, book.plays.rank, strict=True)
    return NumpyBelief(
        log_weights=np.asarray(log_weights),
        log_likelihood=np.asarray(log_likelihood),
        hand=np.stack(cloud.hand),
        deck=np.stack(cloud.deck),
        own=np.stack(cloud.own),
        recycled=np.stack(cloud.recycled),
        labels=np.asarray(cloud.labels[:num_slots]),
        played=np.asarray(cloud.played[:num_plays]),
        allowed=np.asarray(book.allowed[:num_slots]),
        epoch=np.asarray(book.epoch[:num_slots]),
        num_reshuffles=int(book.num_reshuffles),
        plays=tuple(Play(*map(int, row)) for row, _ in zip(rows, range(num_plays), strict=False)),
        num_dealt=int(book.num_dealt),
        num_colored=int(book.num_colored),
    )


def numpy_update(
    belief: NumpyBelief,
    before: Observation,
    action: int,
    after: Observation,
    rng: np.random.Generator,
    *,
    rules: Rules = Rules(),
    num_moves: int = NUM_MOVES,
) -> tuple[NumpyBelief, NumpyInfo]:
    """`belief_update` with the uniform model. `before` and `after` hold NumPy arrays; `action` is one that took place.

    Raises:
        RuntimeError: no particle explains what was seen. (The original begins anew.)
    """
    by_opponent = before.current_player != before.player
    increment, constant = np.zeros_like(belief.log_weights), 0.0
    color, rank = action // cards.NUM_RANKS, action % cards.NUM_RANKS
    now = belief
    if action == cards.DRAW and by_opponent:
        if before.penalty == 0:
            now, increment = _condition_on_no_play(now, int(before.color), int(before.top_rank), rng)
        now = _reshuffle_if_any(now, before, after, rules)
        now = _draw(now, int(after.opponent_count) - int(before.opponent_count), rng)
    elif action == cards.DRAW:
        now = _reshuffle_if_any(now, before, after, rules)
        now, increment, constant = _observer_draws(now, before, after, rules, rng)
    elif by_opponent:
        now, increment = _condition_on_play(now, before, action, rng)
        constant = math.log(_unseen(before, before.pile, rules)[_type(color, rank)])
    else:
        own = now.own.copy()
        _remove_one(own, color, rank)
        now = replace(now, own=own)

    log_lik = _log_likelihood(now) if by_opponent or action == cards.DRAW else belief.log_likelihood
    # A particle that could not be repaired holds no card that was played; its likelihood means nothing.
    log_lik = np.where(np.isneginf(increment), 0.0, log_lik)
    joint = belief.log_weights + increment + log_lik - belief.log_likelihood
    largest = joint.max()
    if largest == -np.inf:
        raise RuntimeError("no particle explains what was seen")
    log_sum = largest + math.log(np.exp(joint - largest).sum())
    log_weights = (joint - log_sum).astype(np.float32)
    ess = 1.0 / np.exp(2.0 * log_weights).sum()
    resampled = bool(ess < 0.5 * log_weights.size or np.isneginf(log_weights).any())
    now = replace(now, log_weights=log_weights, log_likelihood=log_lik)
    if resampled:
        now = _resample(now, rng)
        hand_count = int(_count(now.hand[:, :1])[0])
        start = int(rng.integers(max(hand_count, 1)))
        # The fewer ancestors, the more there is to renew.
        rounds = round(num_moves * min(max(0.5 * log_weights.size / ess, 1.0), MOST_ROUNDS))
        for index in range(rounds if hand_count else 0):
            now = _refresh(now, (start + index) % hand_count, rng)
    return now, NumpyInfo(float(ess), float(log_sum + constant), resampled)


def _condition_on_play(
    b: NumpyBelief, before: Observation, action: int, rng: np.random.Generator
) -> tuple[NumpyBelief, np.ndarray]:
    color, rank = action // cards.NUM_RANKS, action % cards.NUM_RANKS
    number = _random_card((b.hand | b.deck) & _type_mask(color, rank), rng)
    card = _card_of(number)
    holds = _common(b.hand, card) != 0
    share = 512 // np.maximum(np.bitwise_count(b.allowed).sum(1, dtype=np.int32), 1)
    weight = np.where((b.labels < _RELEASED) & _fits(b, number) & _fits(b, b.labels), share[:, None], 0)
    reached = weight.cumsum(0)
    total = reached[-1]
    threshold = (rng.random(total.size) * total).astype(np.int32)
    lanes = np.arange(total.size)
    slot = np.where(holds, (b.labels == number).argmax(0), (threshold < reached).argmax(0))
    found = holds | (total > 0)
    old_card = _card_of(np.where(found & ~holds, b.labels[slot, lanes], _RELEASED))
    hand = b.hand & ~old_card & ~card
    deck = (b.deck | old_card) & ~card
    insertable = b.allowed[slot].T & np.where(b.is_latest[slot], bits.ALL_SLOTS, ~b.recycled)
    num_others = _common(insertable, deck)
    log_weight = -np.log1p(num_others * weight[slot, lanes] / np.where(total > 0, total, 1))
    labels = b.labels.copy()
    labels[slot[found], lanes[found]] = number[found] | _RELEASED
    play = Play(len(b.labels), action, int(before.color), int(before.top_rank))
    after = replace(b, hand=hand, deck=deck, labels=labels, played=np.vstack([b.played, number]), plays=(*b.plays, play))
    return after, np.where(found, log_weight, -np.inf).astype(np.float32)


def _condition_on_no_play(b: NumpyBelief, color: int, rank: int, rng: np.random.Generator) -> tuple[NumpyBelief, np.ndarray]:
    playable = _playable_cards(color, rank)
    hand, deck, labels = b.hand.copy(), b.deck.copy(), b.labels.copy()
    log_weight = np.zeros_like(b.log_weights)
    for slot, row in enumerate(labels):
        live = row < _RELEASED
        if not live.any():
            continue
        held = _card_of(row)
        insertable = b.allowed[slot][:, None] & (bits.ALL_SLOTS if b.is_latest[slot] else ~b.recycled)
        free = insertable & (deck | held)
        good = free & ~playable
        num_good, num_free = _count(good), _count(free)
        offends = _common(held, playable) != 0
        exchangeable = _common(held, insertable) != 0
        repairs = np.flatnonzero(live & offends & exchangeable & (num_good > 0))
        share = np.where(exchangeable, num_good / np.maximum(num_free, 1), np.where(offends, 0.0, 1.0))
        with np.errstate(divide="ignore"):
            log_weight += np.where(live, np.log(share), 0.0)
        new = _random_card(good[:, repairs], rng)
        out, into = held[:, repairs], _card_of(new)
        hand[:, repairs] = (hand[:, repairs] & ~out) | into
        deck[:, repairs] = (deck[:, repairs] & ~into) | out
        row[repairs] = new
    allowed = b.allowed & ~playable[:, 0]
    return replace(b, hand=hand, deck=deck, labels=labels, allowed=allowed), log_weight


def _observer_draws(
    b: NumpyBelief, before: Observation, after: Observation, rules: Rules, rng: np.random.Generator
) -> tuple[NumpyBelief, np.ndarray, float]:
    unseen = _unseen(before, after.pile, rules)
    drawn = _counts(after.hand) - _counts(before.hand)
    deck_count = int(unseen.sum()) - int(before.opponent_count)
    number = int(drawn.sum())
    constant = math.lgamma(number + 1.0) + sum(math.log(math.comb(n, k)) for n, k in zip(unseen, drawn, strict=True))
    constant -= sum(math.log(deck_count - i) for i in range(number))
    increment = np.zeros_like(b.log_weights)
    for card_type in np.repeat(np.arange(cards.NUM_TYPES), drawn):
        color, rank = max(int(cards.COLOR_OF_TYPE[card_type]), 0), int(cards.RANK_OF_TYPE[card_type])
        b, step = _condition_on_own_draw(b, color, rank, rng)
        increment += step
    return b, increment, constant


def _condition_on_own_draw(b: NumpyBelief, color: int, rank: int, rng: np.random.Generator) -> tuple[NumpyBelief, np.ndarray]:
    number = _random_card((b.hand | b.deck) & _type_mask(color, rank), rng)
    card = _card_of(number)
    holds = _common(b.hand, card) != 0
    lanes = np.arange(number.size)
    slot = (b.labels == number).argmax(0)
    insertable = b.allowed[slot].T & np.where(b.is_latest[slot], bits.ALL_SLOTS, ~b.recycled)
    free = insertable & b.deck
    repairs = holds & (_common(insertable, card) != 0) & (_count(free) > 0)
    new = _random_card(free, rng)
    labels = b.labels.copy()
    labels[slot[repairs], lanes[repairs]] = new[repairs]
    into = np.where(repairs, _card_of(new), 0)
    hand = np.where(repairs, b.hand & ~card, b.hand) | into
    deck = b.deck & ~into & ~card
    repaired = replace(b, hand=hand, deck=deck, own=b.own | card, labels=labels)
    could_hold = (labels < _RELEASED) & _fits(b, number) & _fits(b, labels)
    total = np.zeros(number.size)
    for s in np.flatnonzero(could_hold.any(1)):
        insertable = b.allowed[s][:, None] & (bits.ALL_SLOTS if b.is_latest[s] else ~b.recycled)
        num_others = _common(insertable, deck | _card_of(labels[s]))
        total += np.where(could_hold[s], 1.0 / np.maximum(num_others, 1), 0.0)
    return repaired, np.where(holds & ~repairs, -np.inf, -np.log1p(total)).astype(np.float32)


def _draw(b: NumpyBelief, number: int, rng: np.random.Generator) -> NumpyBelief:
    hand, deck, rows = b.hand, b.deck, []
    for _ in range(number):
        rows.append(_random_card(deck, rng))
        card = _card_of(rows[-1])
        hand, deck = hand | card, deck & ~card
    return replace(
        b,
        hand=hand,
        deck=deck,
        labels=np.vstack([b.labels, *rows]),
        allowed=np.vstack([b.allowed, np.full((number, 4), bits.ALL_SLOTS, np.uint32)]),
        epoch=np.append(b.epoch, np.full(number, b.num_reshuffles)),
    )


def _reshuffle_if_any(b: NumpyBelief, before: Observation, after: Observation, rules: Rules) -> NumpyBelief:
    if after.pile.sum() >= before.pile.sum():
        return b
    everything = np.array(bits.all_cards(rules.deck), np.uint32)[:, None]
    back = everything & ~(b.hand | b.deck | b.own)
    _remove_one(back, int(before.color), int(before.top_rank))
    return replace(b, deck=b.deck | back, recycled=b.recycled | back, num_reshuffles=b.num_reshuffles + 1)


def _log_likelihood(b: NumpyBelief) -> np.ndarray:
    """float32[N]: the start card's probability, and all plays of the uniform opponent replayed."""
    filled = _card_of(b.labels & _LABEL)
    hand = np.bitwise_or.reduce(filled[:, : b.num_dealt], axis=1)
    colored = _count(hand & bits.COLORED)
    first = -np.log(np.maximum(b.num_colored - colored, 1)) if b.num_dealt else np.zeros(hand.shape[1])
    if not b.plays:
        return first.astype(np.float32)
    done, hands = b.num_dealt, []
    for play, label in zip(b.plays, b.played, strict=True):
        hand = hand | np.bitwise_or.reduce(filled[:, done : play.slots_before], axis=1)
        hands.append(hand)
        hand = hand & ~_card_of(label)
        done = play.slots_before
    before = np.stack(hands)
    colors, ranks = [play.color for play in b.plays], [play.rank for play in b.plays]
    num_options = _count(_options(before, np.array(colors), np.array(ranks)), axis=1)
    masks = np.stack([_type_mask(*divmod(play.action, cards.NUM_RANKS)) for play in b.plays])
    copies = _count(before & masks, axis=1)
    with np.errstate(divide="ignore"):
        return (first - np.log(num_options * copies.astype(np.float64)).sum(0)).astype(np.float32)


def _options(hands: np.ndarray, colors: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """uint32[P, 4, N]: the options of hands uint32[P, 4, N], each row on a top card of its own (see `bits.playable`)."""
    wilds = np.bitwise_or.reduce(hands, axis=1, keepdims=True) & bits.WILDS
    types = (hands | ((hands & bits.SECOND_COPIES) >> np.uint32(12))) & bits.FIRST_COPIES
    same_rank = np.where(ranks < cards.WILD, np.left_shift(_ONE, ranks.astype(np.uint32)), np.uint32(0))
    mask = np.where(_WORDS.T == colors[:, None], bits.FIRST_COPIES, same_rank[:, None])
    return (types & mask[:, :, None]) | wilds


def _resample(b: NumpyBelief, rng: np.random.Generator) -> NumpyBelief:
    n = b.log_weights.size
    ends = np.exp(b.log_weights.astype(np.float64)).cumsum()
    ancestors = np.searchsorted(ends, (np.arange(n) + rng.random()) * (ends[-1] / n), side="right")
    ancestors = np.minimum(ancestors, np.flatnonzero(np.isfinite(b.log_weights))[-1])
    fields = ("log_likelihood", "hand", "deck", "own", "recycled", "labels", "played")
    picked = {name: getattr(b, name)[..., ancestors] for name in fields}
    return replace(b, log_weights=np.full(n, -np.log(n), np.float32), **picked)


def _refresh(b: NumpyBelief, place: int, rng: np.random.Generator) -> NumpyBelief:
    """One Metropolis move: the card in one live slot and another unseen one that the slot could hold change places."""
    lanes = np.arange(b.labels.shape[1])
    live = b.labels < _RELEASED
    slot = (live.cumsum(0) > place).argmax(0)
    out = b.labels[slot, lanes]
    out_card = _card_of(out)
    insertable = b.allowed[slot].T & np.where(b.is_latest[slot], bits.ALL_SLOTS, ~b.recycled)
    others = insertable & (b.hand | b.deck) & ~out_card
    new = _random_card(others, rng)
    new_card = _card_of(new)
    swaps = _common(b.hand, new_card) != 0
    is_out, is_new = b.labels == out, b.labels == new
    fits = (~(is_out | is_new) | (_fits(b, out) & _fits(b, new))).all(0) & (_count(others) > 0)
    labels = np.where(is_out, new, np.where(is_new, out, b.labels))
    hand = np.where(swaps, b.hand, (b.hand & ~out_card) | new_card)
    deck = np.where(swaps, b.deck, (b.deck & ~new_card) | out_card)
    proposed = _log_likelihood(replace(b, labels=labels))
    with np.errstate(over="ignore"):
        accepted = fits & (rng.random(proposed.size) < np.exp(proposed - b.log_likelihood))
    return replace(
        b,
        hand=np.where(accepted, hand, b.hand),
        deck=np.where(accepted, deck, b.deck),
        labels=np.where(accepted, labels, b.labels),
        log_likelihood=np.where(accepted, proposed, b.log_likelihood),
    )


def _fits(b: NumpyBelief, labels: np.ndarray) -> np.ndarray:
    """bool[S, N]: whether an exchange may put the card `labels` (uint8[N], or [S, N] for one each) into each slot."""
    word, position = (labels & _LABEL) >> 5, (labels & 31).astype(np.uint32)
    allowed = b.allowed[np.arange(len(b.allowed))[:, None], word] >> position
    recycled = b.recycled[word, np.arange(labels.shape[-1])] >> position
    return ((allowed & _ONE) != 0) & (b.is_latest[:, None] | ((recycled & _ONE) == 0))


def _random_card(words: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """uint8[N]: label of a uniformly random card of each set uint32[4, N]."""
    ends = np.bitwise_count(words).astype(np.int32).cumsum(0, dtype=np.int32)
    r = (rng.random(words.shape[1]) * ends[3]).astype(np.int32)
    index = (r >= ends[:3]).sum(0)
    lanes = np.arange(words.shape[1])
    r = r - np.where(index > 0, ends[index - 1, lanes], 0)
    word = words[index, lanes]
    position = np.zeros_like(word)
    for width in (16, 8, 4, 2, 1):
        below = np.bitwise_count((word >> position) & np.uint32((1 << width) - 1))
        beyond = r >= below
        position += np.where(beyond, np.uint32(width), np.uint32(0))
        r = r - np.where(beyond, below, 0)
    return (index.astype(np.uint32) << np.uint32(5) | np.minimum(position, np.uint32(26))).astype(np.uint8)


def _card_of(labels: np.ndarray) -> np.ndarray:
    """uint32[4, ...]: the set that holds one card, from its label; empty for a released one."""
    word, bit = labels >> 5, np.left_shift(_ONE, (labels & 31).astype(np.uint32))
    return np.stack([np.where(word == c, bit, np.uint32(0)) for c in range(4)])


def _remove_one(words: np.ndarray, color: int, rank: int) -> None:
    """Take the lowest copy of a type out of each set uint32[4, N], in place."""
    copies = words & _type_mask(color, rank)
    index = (copies != 0).argmax(0)
    lanes = np.arange(words.shape[1])
    word = copies[index, lanes]
    words[index, lanes] &= ~(word & (~word + _ONE))


def _type_mask(color: int, rank: int) -> np.ndarray:
    """uint32[4, 1]: all cards of a type."""
    bit = 1 << rank if rank < cards.WILD else 1 << (rank + 12)
    second = 1 << (rank + 12) if 0 < rank < cards.WILD else 0
    return np.where((_WORDS == color) | (rank >= cards.WILD), np.uint32(bit | second), np.uint32(0))


def _playable_cards(color: int, rank: int) -> np.ndarray:
    """uint32[4, 1]: all cards that may be played."""
    same_rank = _type_mask(0, rank)[0, 0] if rank < cards.WILD else np.uint32(0)
    return np.where(_WORDS == color, bits.COLORED, same_rank) | bits.WILDS


def _count(words: np.ndarray, axis: int = 0) -> np.ndarray:
    return np.bitwise_count(words).sum(axis, dtype=np.int32)


def _common(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _count(a & b)


def _counts(onehot: ArrayLike) -> np.ndarray:
    return np.bincount(cards.TYPE_OF_SLOT[np.asarray(onehot)], minlength=cards.NUM_TYPES)


def _unseen(before: Observation, pile: ArrayLike, rules: Rules) -> np.ndarray:
    return np.asarray(rules.deck) - _counts(before.hand) - _counts(pile)


def _type(color: int, rank: int) -> int:
    return rank + 39 if rank >= cards.WILD else color * 13 + rank

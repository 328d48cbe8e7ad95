"""Repairs and refreshing moves against an enumeration of all accounts of one crafted history."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from itertools import permutations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.belief.oracle import FORFEITING
from tests.helpers import ERROR_PROBABILITY, assert_distributed, deck_of
from unojax import bits, cards, init, observe
from unojax.belief import belief_init, uniform_opponent
from unojax.belief.particles import ledger, moves
from unojax.belief.particles.accounts import RELEASED, Cloud
from unojax.belief.particles.ledger import Ledger, as_words
from unojax.belief.particles.likelihood import Exchange, log_likelihood
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.text import make_state

NUM = 40_000

# The observer holds G5, and G1 lies under R9. The opponent's first two cards cannot be played on red 1; it draws a third, plays a
# blue 2 on a blue 9, and draws a fourth after a reshuffle that brings G1 and a 9 back.
UNSEEN = "R1 R2 Y1 Y1 Y2 B2 B2 W"
RULES = Rules(deck=deck_of(f"{UNSEEN} G5 G1 B9"), hand_size=1)


def labels_of(text: str) -> list[int]:
    """Labels of the lowest copies of some cards: word * 32 + position."""
    onehot = cards.onehot(np.array(deck_of(text)))
    slots = np.flatnonzero(onehot)
    return (slots // 27 * 32 + slots % 27).tolist()


UNSEEN_LABELS = labels_of(UNSEEN)
BACK = labels_of("G1 B9")


def type_of(label: int) -> int:
    return int(cards.TYPE_OF_SLOT[label // 32 * 27 + label % 32])


YELLOW_1, YELLOW_2, BLUE_2, GREEN_1, WILD = (cards.TYPE_NAMES.index(name) for name in ("Y1", "Y2", "B2", "G1", "W"))


def is_playable(card_type: int, color: int, rank: int) -> bool:
    return card_type >= 52 or card_type // 13 == color or (rank < 13 and card_type % 13 == rank)


def num_options(hand: list[int], color: int, rank: int) -> int:
    """Actions that a hand of labels offers."""
    types = {type_of(label) for label in hand}
    return sum(4 if t >= 52 else 1 for t in types if is_playable(t, color, rank))


class Account(NamedTuple):
    """Labels of the four slots, the one that was played, and the likelihood of the play."""

    labels: tuple[int, ...]
    played: int
    likelihood: float

    @property
    def hand(self) -> list[int]:
        return [label for label in self.labels if label != self.played]

    @property
    def deck(self) -> list[int]:
        # Of the blue 9 that was on top and the G1, both came back; the blue 2 is on top now.
        return [label for label in UNSEEN_LABELS + BACK if label not in self.labels]


@cache
def accounts() -> list[Account]:
    result = []
    for first in permutations(UNSEEN_LABELS, 3):
        if any(is_playable(type_of(label), 0, 1) for label in first[:2]):
            continue
        blue_twos = [label for label in first if type_of(label) == BLUE_2]
        for played in blue_twos:
            likelihood = 1 / num_options(list(first), 2, 9) / len(blue_twos)
            left = [label for label in UNSEEN_LABELS + BACK if label not in first]
            result += [Account((*first, last), played, likelihood) for last in left]
    return result


def posterior() -> np.ndarray:
    likelihood = np.array([a.likelihood for a in accounts()])
    return likelihood / likelihood.sum()


def words_of(sets: list[list[int]]) -> bits.Words:
    words = np.zeros((4, len(sets)), np.uint32)
    for n, labels in enumerate(sets):
        for label in labels:
            words[label // 32, n] |= np.uint32(1 << label % 32)
    return as_words(jnp.asarray(words))


@cache
def seen() -> Observation:
    """Only the seat and the deck of it are used."""
    with jax.ensure_compile_time_eval():
        return observe(make_state("G5", "R1", "B9", rules=RULES), 0)


@cache
def history() -> Ledger:
    def on(color: int, rank: int) -> bits.Words:
        return ledger.cards_playable_on(jnp.uint32(color), jnp.uint32(rank))

    book = ledger.add_slots(ledger.empty(max_slots=8, max_plays=4), jnp.int32(2))
    book = ledger.add_slots(ledger.forbid(book, on(0, 1)), jnp.int32(1))
    before = dataclasses.replace(seen(), color=jnp.int8(2), top_rank=jnp.int8(9))
    book = ledger.record_play(book, before, jnp.int32(2 * 15 + 2))
    return ledger.add_slots(dataclasses.replace(book, num_reshuffles=jnp.int32(1)), jnp.int32(1))


def cloud_of(chosen: np.ndarray) -> Cloud:
    """The cloud of some accounts, by index."""
    all_accounts = accounts()
    labels = np.full((8, len(all_accounts)), RELEASED, np.uint8)
    for n, a in enumerate(all_accounts):
        labels[:4, n] = [label | RELEASED if label == a.played else label for label in a.labels]
    played = np.zeros((4, len(all_accounts)), np.uint8)
    played[0] = [a.played for a in all_accounts]
    every = Cloud(
        hand=words_of([a.hand for a in all_accounts]),
        deck=words_of([a.deck for a in all_accounts]),
        own=words_of([labels_of("G5")] * len(all_accounts)),
        recycled=words_of([BACK] * len(all_accounts)),
        labels=jnp.asarray(labels),
        played=jnp.asarray(played),
    )
    return jax.tree.map(lambda x: x[..., chosen], every)


def sample(seed: int) -> Cloud:
    """Independent draws from the exact posterior."""
    return cloud_of(np.random.default_rng(seed).choice(len(accounts()), NUM, p=posterior()))


@jax.jit
def likelihood(cloud: Cloud, book: Ledger, exchange: Exchange | None = None) -> jax.Array:
    return log_likelihood(cloud, book, uniform_opponent, seen(), exchange)


def test_log_likelihood_by_hand() -> None:
    every = cloud_of(np.arange(len(accounts())))
    expected = [a.likelihood for a in accounts()]
    assert len(set(expected)) >= 4
    np.testing.assert_allclose(np.exp(likelihood(every, history())), expected, rtol=1e-5)


def test_refreshing_leaves_the_posterior_as_it_is() -> None:
    """Chi-square over all accounts after three moves of independent draws; fails for a right move with probability 1e-6."""

    @jax.jit
    def refreshed(key, cloud, log_lik, place):
        return moves.refresh(key, cloud, history(), log_lik, lambda c, exchange: likelihood(c, history(), exchange), place)

    cloud, changed = sample(seed=1), np.zeros(NUM, bool)
    log_lik = likelihood(cloud, history())
    for place, key in enumerate(jax.random.split(jax.random.key(1), 3)):
        cloud, log_lik, accepted = refreshed(key, cloud, log_lik, jnp.int32(place))
        changed |= np.asarray(accepted)
    assert 0.2 < float(changed.mean()) < 1.0
    index = {(*a.labels, a.played): i for i, a in enumerate(accounts())}
    labels = np.asarray(cloud.labels[:4] & ~RELEASED).T
    found = [index[(*row, played)] for row, played in zip(labels.tolist(), cloud.played[0].tolist(), strict=True)]
    assert_distributed(np.bincount(found, minlength=len(index)), posterior())
    np.testing.assert_allclose(np.exp(log_lik), np.array([a.likelihood for a in accounts()])[found], rtol=1e-5)
    again = cloud_of(np.array(found))
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(cloud), strict=True):
        np.testing.assert_array_equal(one, other)


def counts(labels: list[int]) -> np.ndarray:
    return np.bincount([type_of(label) for label in labels], minlength=54)


def assert_repairs(log_weights: jax.Array, cloud: Cloud, outcomes: list[tuple[float, list[int]]]) -> None:
    """Weighted means of 1 and of the counts of each type against (probability, hand) of all outcomes: z-tests, 1e-6 in all."""
    weights = np.exp(np.asarray(log_weights, np.float64))
    held = np.asarray(cards.counts(bits.unpack(bits.canonical(cloud.hand))))
    values = weights[:, None] * np.column_stack([np.ones(NUM), held])
    expected = np.sum([p * np.append(1.0, counts(hand)) for p, hand in outcomes], axis=0)
    # A type that no outcome holds must not occur with any weight at all.
    error = values.std(0) / np.sqrt(NUM)
    threshold = stats.norm.isf(ERROR_PROBABILITY / 2 / (expected > 0).sum())
    assert (np.abs(values.mean(0) - expected) <= threshold * error + 1e-6).all()
    alive = np.isfinite(log_weights)
    assert (held[alive].sum(-1) == len(outcomes[0][1])).all()


def repaired_after_a_play(cloud: Cloud, book: Ledger, color: jax.Array, rank: jax.Array) -> tuple[Cloud, jax.Array]:
    before = dataclasses.replace(seen(), color=color.astype(jnp.int8), top_rank=rank.astype(jnp.int8))
    after, log_weight = moves.condition_on_play(jax.random.key(2), cloud, book, color, rank)
    recorded = ledger.record_play(book, before, color * 15 + rank)
    return after, log_weight + likelihood(after, recorded) - likelihood(cloud, book)


def repaired_without_a_play(cloud: Cloud, book: Ledger, color: jax.Array, rank: jax.Array) -> tuple[Cloud, jax.Array]:
    after, log_weight = moves.condition_on_no_play(jax.random.key(3), cloud, book, ledger.cards_playable_on(color, rank))
    return after, log_weight + likelihood(after, book) - likelihood(cloud, book)


def repaired_after_a_draw(cloud: Cloud, book: Ledger, color: jax.Array, rank: jax.Array) -> tuple[Cloud, jax.Array]:
    after, log_weight = moves.condition_on_own_draw(jax.random.key(4), cloud, book, color, rank)
    return after, log_weight + likelihood(after, book) - likelihood(cloud, book)


@pytest.mark.parametrize("card_type", [BLUE_2, YELLOW_1, YELLOW_2, GREEN_1])
def test_repair_after_a_play(card_type: int) -> None:
    """The opponent plays one more card, on a top card of the same type; the green 1 only the reshuffle brought into the deck."""
    color, rank = card_type // 13, card_type % 13
    cloud, log_weights = repaired_after_a_play(sample(seed=2), history(), jnp.uint32(color), jnp.uint32(rank))
    unseen = UNSEEN_LABELS + BACK
    # One blue 2 was played and is on top.
    num_copies = sum(type_of(label) == card_type for label in unseen) - (card_type == BLUE_2)
    outcomes = []
    for p, a in zip(posterior(), accounts(), strict=True):
        fitting = [label for label in a.hand if type_of(label) == card_type]
        if fitting:
            outcomes.append((p / num_options(a.hand, color, rank), [label for label in a.hand if label != fitting[0]]))
    assert sum(p for p, _ in outcomes) > 0.05
    assert_repairs(log_weights + np.log(num_copies), cloud, outcomes)


@pytest.mark.parametrize(("color", "rank"), [(1, 9), (0, 1), (3, 1)])
def test_repair_when_the_opponent_cannot_play(color: int, rank: int) -> None:
    cloud, log_weights = repaired_without_a_play(sample(seed=3), history(), jnp.uint32(color), jnp.uint32(rank))
    outcomes = [
        (p, a.hand)
        for p, a in zip(posterior(), accounts(), strict=True)
        if not any(is_playable(type_of(label), color, rank) for label in a.hand)
    ]
    assert 0.02 < sum(p for p, _ in outcomes) < 0.8
    assert_repairs(log_weights, cloud, outcomes)


@pytest.mark.parametrize("card_type", [BLUE_2, YELLOW_1, WILD, GREEN_1])
def test_repair_when_the_observer_draws(card_type: int) -> None:
    color, rank = (card_type // 13, card_type % 13) if card_type < 52 else (0, card_type - 39)

    cloud, log_weights = repaired_after_a_draw(sample(seed=4), history(), jnp.uint32(color), jnp.uint32(rank))
    num_copies = sum(type_of(label) == card_type for label in UNSEEN_LABELS + BACK) - (card_type == BLUE_2)
    outcomes = []
    for p, a in zip(posterior(), accounts(), strict=True):
        ways = sum(type_of(label) == card_type for label in a.deck)
        if ways:
            outcomes.append((p * ways / len(a.deck), a.hand))
    num_deck = len(accounts()[0].deck)
    assert_repairs(log_weights + np.log(num_copies / num_deck), cloud, outcomes)


def test_weights_of_a_flat_belief_are_constant() -> None:
    """With k cards in hand of u unseen ones: k/u for a play, 1 - k/u for a draw of the observer, in every particle."""
    view = observe(init(jax.random.key(0), rules=FORFEITING), 0)
    belief = jax.jit(partial(belief_init, num_particles=500, max_slots=16, max_plays=2))(view, jax.random.key(0))
    share = int(view.opponent_count) / int(view.unseen.sum())
    play, draw = jax.jit(moves.condition_on_play), jax.jit(moves.condition_on_own_draw)
    tried = 0
    for card_type in np.flatnonzero(view.unseen).tolist():
        color, rank = (card_type // 13, card_type % 13) if card_type < 52 else (2, card_type - 39)
        arguments = (jax.random.key(card_type), belief.cloud, belief.ledger, jnp.uint32(color), jnp.uint32(rank))
        for move, expected in ((play, share), (draw, 1 - share)):
            cloud, log_weights = move(*arguments)
            np.testing.assert_allclose(np.exp(log_weights), expected, rtol=1e-5)
            moved = int(move is play)
            assert (bits.count(cloud.hand) == int(view.opponent_count) - moved).all()
            tried += 1
    assert tried >= 10

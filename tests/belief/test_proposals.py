"""Conditional proposals and rejuvenation moves against all trajectories of one crafted history."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from itertools import permutations
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.belief.games import games_of
from tests.belief.oracle import FORFEITING
from tests.helpers import ERROR_PROBABILITY, assert_distributed, deck_of
from unojax import bits, cards, observe
from unojax.belief import belief_init, uniform_opponent
from unojax.belief.particles import proposals, public
from unojax.belief.particles.likelihood import Exchange, LogLikelihood, log_likelihood
from unojax.belief.particles.public import PublicHistory
from unojax.belief.particles.rows import GROUP, PARALLEL, SERIAL, Rows
from unojax.belief.particles.trajectory import RELEASED, Trajectories, as_words
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.text import make_state

PROGRAMS: Final = 60  # a program for each proposal

NUM = 40_000

# The observer holds G5, and G1 lies under R9. The opponent's first two cards cannot be played on red 1; it draws a third, plays a
# blue 2 on a blue 9, and draws a fourth after a reshuffle that brings G1 and a 9 back.
UNSEEN = "R1 R2 Y1 Y1 Y2 B2 B2 W"
RULES = Rules(deck=deck_of(f"{UNSEEN} G5 G1 B9"), hand_size=1)


def labels_of(text: str) -> list[int]:
    """Return labels of the lowest copies of some cards: word * 32 + position."""
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
    """Return the number of actions of a hand of labels."""
    types = {type_of(label) for label in hand}
    return sum(4 if t >= 52 else 1 for t in types if is_playable(t, color, rank))


@pytest.fixture(scope="module", autouse=True)
def crafted() -> None:
    """Make the history before any trace."""
    crafted_history()


class Trajectory(NamedTuple):
    """Labels of the four slots, the played one, and the likelihood of the play."""

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
def enumerated() -> list[Trajectory]:
    result = []
    for first in permutations(UNSEEN_LABELS, 3):
        if any(is_playable(type_of(label), 0, 1) for label in first[:2]):
            continue
        blue_twos = [label for label in first if type_of(label) == BLUE_2]
        for played in blue_twos:
            likelihood = 1 / num_options(list(first), 2, 9) / len(blue_twos)
            left = [label for label in UNSEEN_LABELS + BACK if label not in first]
            result += [Trajectory((*first, last), played, likelihood) for last in left]
    return result


def posterior() -> np.ndarray:
    likelihood = np.array([one.likelihood for one in enumerated()])
    return likelihood / likelihood.sum()


def sets_of(sets: list[list[int]]) -> np.ndarray:
    """Return sets of labels as uint32[4, N]."""
    words = np.zeros((4, len(sets)), np.uint32)
    for n, labels in enumerate(sets):
        for label in labels:
            words[label // 32, n] |= np.uint32(1 << label % 32)
    return words


def cards_playable_on(color: int, rank: int) -> np.ndarray:
    """Return all cards playable on a top card, uint32[4, 1]."""
    fits = np.array([is_playable(t, color, rank) for t in range(54)])
    return np.stack(bits.static_words(fits[cards.TYPE_OF_SLOT]))[:, None]


@cache
def seen() -> Observation:
    """Return an observation of which only the seat and the deck are used; first called outside of `jit`."""
    return jax.device_get(jax.jit(observe, static_argnums=1)(make_state("G5", "R1", "B9", rules=RULES), 0))


def record_play(history: PublicHistory, color: jax.Array, rank: jax.Array, action: jax.Array) -> PublicHistory:
    """Return the history after a play on a top card."""
    before = dataclasses.replace(seen(), color=jnp.int8(color), top_rank=jnp.int8(rank))
    return public.append(history, public.observed_choice(history, before, action), jnp.bool_(True))


@cache
def crafted_history() -> PublicHistory:
    """Return the public history; first called outside of `jit`."""
    seen()

    @jax.jit
    def craft() -> PublicHistory:
        history = public.add_slots(public.empty(max_slots=8, max_records=4), jnp.int32(2))
        history = dataclasses.replace(history, allowed=history.allowed & ~cards_playable_on(0, 1))
        history = public.add_slots(history, jnp.int32(1))
        history = record_play(history, jnp.int8(2), jnp.int8(9), jnp.int32(2 * 15 + 2))
        reshuffled = dataclasses.replace(history, recent=jnp.zeros_like(history.recent))
        return public.add_slots(reshuffled, jnp.int32(1))

    return craft()


def particles_of(chosen: np.ndarray) -> Trajectories:
    """Return the trajectories with these indices as particles."""
    every = enumerated()
    labels = np.full((8, len(every)), RELEASED, np.uint8)
    for n, one in enumerate(every):
        labels[:4, n] = [label | RELEASED if label == one.played else label for label in one.labels]
    played = np.full((4, len(every)), RELEASED, np.uint8)
    played[0] = [one.played for one in every]
    particles = Trajectories(
        hand=sets_of([one.hand for one in every]),
        deck=sets_of([one.deck for one in every]),
        own=sets_of([labels_of("G5")] * len(every)),
        recycled=sets_of([BACK] * len(every)),
        labels=labels,
        played=played,
    )
    return jax.tree.map(lambda x: x[..., chosen], particles)


def sample(seed: int) -> Trajectories:
    """Draw independently from the exact posterior."""
    return particles_of(np.random.default_rng(seed).choice(len(enumerated()), NUM, p=posterior()))


def words(seed: int, number: int = NUM) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**32, number, np.uint32)


@jax.jit
def likelihood(now: Trajectories, history: PublicHistory, exchange: Exchange | None = None) -> LogLikelihood:
    return log_likelihood(now, history, uniform_opponent, seen(), exchange)


def test_log_likelihood_by_hand() -> None:
    every = particles_of(np.arange(len(enumerated())))
    expected = [one.likelihood for one in enumerated()]
    assert len(set(expected)) >= 4
    np.testing.assert_allclose(np.exp(likelihood(every, crafted_history()).softened), expected, rtol=1e-5)


def test_rejuvenation_leaves_the_posterior_as_it_is() -> None:
    """Chi-square over all trajectories after three moves; the error probability is 1e-6."""
    history = crafted_history()

    @jax.jit
    def moved(
        random: jax.Array, now: Trajectories, log_lik: LogLikelihood, place: jax.Array
    ) -> tuple[Trajectories, LogLikelihood, jax.Array]:
        slot = SERIAL.nth_live(history, now.labels, place)
        proposal = proposals.propose(SERIAL, random, now, history, slot)
        return proposals.accept(SERIAL, now, history, proposal, log_lik, likelihood(now, history, proposal.exchange))

    now, changed = sample(seed=1), np.zeros(NUM, bool)
    log_lik = likelihood(now, history)
    for place in range(3):
        now, log_lik, accepted = moved(words(place), now, log_lik, jnp.int32(place))
        changed |= np.asarray(accepted)
    assert 0.2 < float(changed.mean()) < 1.0
    index = {(*one.labels, one.played): i for i, one in enumerate(enumerated())}
    labels = np.asarray(now.labels[:4] & ~RELEASED).T
    found = [index[(*row, played)] for row, played in zip(labels.tolist(), now.played[0].tolist(), strict=True)]
    assert_distributed(np.bincount(found, minlength=len(index)), posterior())
    np.testing.assert_allclose(np.exp(log_lik.softened), np.array([one.likelihood for one in enumerated()])[found], rtol=1e-5)
    again = particles_of(np.array(found))
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(now), strict=True):
        np.testing.assert_array_equal(one, other)


def counts(labels: list[int]) -> np.ndarray:
    return np.bincount([type_of(label) for label in labels], minlength=54)


@jax.jit
def hand_counts(sets: jax.Array) -> jax.Array:
    """Count the cards of each type in sets of labels, [N, 54]."""
    return cards.counts(bits.unpack(bits.canonical(as_words(sets))))


def assert_weighted(log_weights: jax.Array, now: Trajectories, outcomes: list[tuple[float, list[int]]]) -> None:
    """Check weighted means of 1 and of the counts of each type against all outcomes (probability, hand).

    z-tests with `ERROR_PROBABILITY` in all. A type in no outcome must have weight 0.
    """
    weights, held = np.exp(np.asarray(log_weights, np.float64)), np.asarray(hand_counts(now.hand))
    values = weights[:, None] * np.column_stack([np.ones(NUM), held])
    expected = np.sum([p * np.append(1.0, counts(hand)) for p, hand in outcomes], axis=0)
    error = values.std(0) / np.sqrt(NUM)
    threshold = stats.norm.isf(ERROR_PROBABILITY / 2 / (expected > 0).sum())
    assert (np.abs(values.mean(0) - expected) <= threshold * error + 1e-6).all()
    assert (held[np.isfinite(log_weights)].sum(-1) == len(outcomes[0][1])).all()


def each() -> list[tuple[float, Trajectory]]:
    return list(zip(posterior().tolist(), enumerated(), strict=True))


def card_of(card_type: int) -> tuple[np.uint32, np.uint32]:
    """Return colour and rank of a type; a wild card's colour is ignored."""
    return (
        (np.uint32(card_type // 13), np.uint32(card_type % 13)) if card_type < 52 else (np.uint32(0), np.uint32(card_type - 39))
    )


def num_unseen(card_type: int) -> int:
    """Count the unseen cards of a type."""
    return sum(type_of(label) == card_type for label in UNSEEN_LABELS + BACK) - (card_type == BLUE_2)


def test_a_play() -> None:
    """The opponent plays a card on a top card of the same type; the green 1 is in the deck after a reshuffle."""

    @jax.jit
    def play(now: Trajectories, color: jax.Array, rank: jax.Array) -> tuple[Trajectories, jax.Array]:
        history = crafted_history()
        after, log_weight = proposals.condition_on_play(SERIAL, words(2), now, history, color, rank)
        recorded = record_play(history, color, rank, (color * 15 + rank).astype(jnp.int32))
        return after, log_weight + likelihood(after, recorded).softened - likelihood(now, history).softened

    for card_type in (BLUE_2, YELLOW_1, YELLOW_2, GREEN_1):
        now, log_weights = play(sample(seed=2), *card_of(card_type))
        outcomes = []
        for p, one in each():
            fitting = [label for label in one.hand if type_of(label) == card_type]
            if fitting:
                options = num_options(one.hand, card_type // 13, card_type % 13)
                outcomes.append((p / options, [label for label in one.hand if label != fitting[0]]))
        assert sum(p for p, _ in outcomes) > 0.05
        assert_weighted(np.asarray(log_weights) + np.log(num_unseen(card_type)), now, outcomes)


def test_a_play_of_the_card_just_drawn() -> None:
    """The card is in the fourth slot; the model's likelihood is that of any other play."""
    play = jax.jit(lambda now, *card: proposals.condition_on_drawn_play(SERIAL, words(5), now, crafted_history(), *card))
    for card_type in (YELLOW_1, WILD, GREEN_1):
        after, log_weights = jax.device_get(play(sample(seed=5), *card_of(card_type)))
        outcomes = [
            (p, [label for label in one.hand if label != one.labels[3]])
            for p, one in each()
            if type_of(one.labels[3]) == card_type
        ]
        assert_weighted(log_weights, after, outcomes)
        played = after.played[1][np.isfinite(log_weights)]
        assert {type_of(label) for label in played.tolist()} == {card_type}
        np.testing.assert_array_equal(after.labels[3], after.played[1] | RELEASED)


def test_an_opponent_that_cannot_play() -> None:
    @jax.jit
    def without_a_play(now: Trajectories, forbidden: jax.Array) -> tuple[Trajectories, jax.Array]:
        history = crafted_history()
        forbidden = jnp.broadcast_to(forbidden, history.allowed.shape)
        slots, filled = jnp.arange(8), jnp.arange(8) < history.num_slots
        after, log_weight = proposals.condition_on_absence(SERIAL, words(3), now, history, forbidden, slots, filled)
        return after, log_weight + likelihood(after, history).softened - likelihood(now, history).softened

    for color, rank in ((1, 9), (0, 1), (3, 1)):
        now, log_weights = without_a_play(sample(seed=3), cards_playable_on(color, rank))
        outcomes = [(p, one.hand) for p, one in each() if not any(is_playable(type_of(label), color, rank) for label in one.hand)]
        assert 0.02 < sum(p for p, _ in outcomes) < 0.8
        assert_weighted(log_weights, now, outcomes)


def test_a_draw_that_the_observer_sees() -> None:
    """The card moves from the deck to the observer's hand, or to the pile."""

    @jax.jit
    def draw(now: Trajectories, color: jax.Array, rank: jax.Array, keeps: jax.Array) -> tuple[Trajectories, jax.Array]:
        history = crafted_history()
        after, log_weight = proposals.condition_on_seen_draw(SERIAL, words(4), now, history, color, rank, keeps)
        return after, log_weight + likelihood(after, history).softened - likelihood(now, history).softened

    before, num_deck = sample(seed=4), len(enumerated()[0].deck)
    for card_type, keeps in ((BLUE_2, True), (YELLOW_1, False), (WILD, True), (GREEN_1, False), (GREEN_1, True)):
        now, log_weights = jax.device_get(draw(before, *card_of(card_type), np.bool_(keeps)))
        ways = [(p, one, sum(type_of(label) == card_type for label in one.deck)) for p, one in each()]
        outcomes = [(p * number / num_deck, one.hand) for p, one, number in ways if number]
        assert_weighted(log_weights + np.log(num_unseen(card_type) / num_deck), now, outcomes)
        alive = np.isfinite(log_weights)
        assert (np.asarray(hand_counts(now.deck)).sum(-1)[alive] == num_deck - 1).all()
        gained = np.asarray(hand_counts(now.own & ~before.own))[alive]
        np.testing.assert_array_equal(gained, np.broadcast_to(keeps * (np.arange(54) == card_type), gained.shape))


def test_a_draw_that_the_observer_does_not_see() -> None:
    """Any card, or one consistent with the rest of the turn, goes into the fifth slot."""
    before = sample(seed=6)
    for fitting in ([], [YELLOW_1, YELLOW_2, GREEN_1]):
        could_be = np.stack(bits.static_words(np.isin(cards.TYPE_OF_SLOT, fitting)))[:, None] if fitting else None
        draw = jax.jit(
            lambda now, could_be=could_be: proposals.draw_unseen(SERIAL, words(6), now, crafted_history(), 4, could_be)
        )
        now, log_weights = jax.device_get(draw(before))
        outcomes = [
            (p / len(one.deck), [*one.hand, label])
            for p, one in each()
            for label in one.deck
            if not fitting or type_of(label) in fitting
        ]
        assert_weighted(log_weights, now, outcomes)
        alive = np.isfinite(log_weights)
        drawn = (now.hand & ~before.hand)[:, alive]
        np.testing.assert_array_equal(drawn, sets_of([[label] for label in now.labels[4, alive].tolist()]))
        np.testing.assert_array_equal(drawn, (before.deck & ~now.deck)[:, alive])


def test_weights_of_a_flat_belief_are_constant() -> None:
    """With k of u unseen cards in hand: k/u for a play, 1 - k/u for a draw of the observer."""
    view = games_of(FORFEITING).view(0, 0, 0)
    belief = jax.jit(partial(belief_init, num_particles=500, max_slots=16, max_plays=4))(view, jax.random.key(0))
    share = int(view.opponent_count) / int(view.unseen.sum())
    play = jax.jit(partial(proposals.condition_on_play, SERIAL))
    draw = jax.jit(partial(proposals.condition_on_seen_draw, SERIAL, keeps=True))
    types = np.flatnonzero(view.unseen).tolist()
    assert len(types) >= 5
    for card_type in types:
        arguments = (words(card_type, 500), belief.trajectories, belief.public, *card_of(card_type))
        for move, expected, number in ((play, share, 1), (draw, 1 - share, 0)):
            now, log_weights = move(*arguments)
            np.testing.assert_allclose(np.exp(log_weights), expected, rtol=1e-5)
            assert (np.asarray(hand_counts(now.hand)).sum(-1) == int(view.opponent_count) - number).all()


def test_slots_in_several_rounds_are_weighed_once_each() -> None:
    """Seven unseen cards in rounds of four slots, or all in one round."""
    seen = observe(make_state("B1 B2", "G1 G2 G3 G4 G6 G7 G8", "R5"), 0)
    belief = jax.jit(partial(belief_init, num_particles=8))(seen, jax.random.key(1))
    before, history, random = belief.trajectories, belief.public, words(2, 8)
    forbidden = jnp.broadcast_to(cards_playable_on(0, 5), history.allowed.shape)
    assert jax.jit(proposals.open_slots)(history, forbidden).sum() == 7

    @partial(jax.jit, static_argnames=("rows", "at_a_time"))
    def in_rounds(now: Trajectories, *, rows: Rows, at_a_time: int) -> tuple[Trajectories, jax.Array]:
        log_weights = jnp.zeros(8)
        for first in range(0, 7, at_a_time):
            slots = first + jnp.arange(at_a_time)
            round_of = random, now, history, forbidden, slots, slots < 7
            now, log_weight = proposals.condition_on_absence(rows, *round_of)
            log_weights += log_weight
        return now, log_weights

    expected, log_expected = in_rounds(before, rows=SERIAL, at_a_time=7)
    assert (expected.labels != before.labels).any() and len(set(np.asarray(log_expected).tolist())) > 1
    fits = np.array([is_playable(t, 0, 5) for t in range(54)])
    assert not np.asarray(hand_counts(expected.hand))[:, fits].any()
    for rows in (SERIAL, PARALLEL):
        now, log_weights = in_rounds(before, rows=rows, at_a_time=GROUP)
        for one, other in zip(expected, now, strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(log_weights, log_expected, rtol=1e-5)


def test_both_forms_of_the_loops_propose_the_same() -> None:
    """All proposals and a move, by loops over slots and by all rows at once."""
    now, history = jax.tree.map(lambda x: x[..., :1000], sample(seed=7)), crafted_history()
    could_be = cards_playable_on(1, 9)

    @partial(jax.jit, static_argnames="rows")
    def all_of_them(now: Trajectories, *, rows: Rows) -> list[tuple[Trajectories, jax.Array]]:
        random, yellow_1, keeps = words(7, 1000), (jnp.uint32(1), jnp.uint32(1)), jnp.bool_(True)
        slot = rows.nth_live(history, now.labels, jnp.int32(1))
        proposal = proposals.propose(rows, random, now, history, slot)
        proposed = likelihood(now, history, proposal.exchange)
        after, log_lik, _ = proposals.accept(rows, now, history, proposal, likelihood(now, history), proposed)
        return [
            proposals.condition_on_play(rows, random, now, history, *yellow_1),
            proposals.condition_on_drawn_play(rows, random, now, history, *yellow_1),
            proposals.condition_on_seen_draw(rows, random, now, history, *yellow_1, keeps),
            proposals.draw_unseen(rows, random, now, history, jnp.int32(4), could_be),
            (after, log_lik.softened),
        ]

    pairs = zip(all_of_them(now, rows=SERIAL), all_of_them(now, rows=PARALLEL), strict=True)
    for (one, log_one), (other, log_other) in pairs:
        assert (np.asarray(one.labels) != np.asarray(now.labels)).any()
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_allclose(log_one, log_other, rtol=1e-5)

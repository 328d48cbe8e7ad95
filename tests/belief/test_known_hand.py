"""The exact and the particle filter given the opponent's hand, and later updates."""

from __future__ import annotations

import math
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.helpers import ERROR_PROBABILITY, assert_trees_equal, deck_of, fold_in_all, play
from unojax import Rules, cards, make_observation, observe, parse_cards
from unojax.belief import Family, belief_given_hand, belief_init, belief_update, history, summary, uniform_opponent
from unojax.belief.exact import exact_given_hand, exact_init, exact_update
from unojax.belief.opponents import PolicyOpponent
from unojax.belief.updaters import BootstrapFilter, ExactFilter, ParticleFilter, UniformFilter
from unojax.observation import Observation
from unojax.policies import POLICIES

PROGRAMS = 160  # Two filters, with and without types, and their evidence.

OFFICIAL = Rules.official(deck=deck_of("R1 R1 R2 RS R+2 Y1 Y2 YR Y+2 B1 B3 W W W+4 W+4 W+4"), hand_size=4)
FAMILY = Family((uniform_opponent, PolicyOpponent(POLICIES["guard"], 0.2)))
ROOM: dict[str, Any] = {"max_slots": 32, "max_plays": 24}
NUM_RUNS, NUM_PARTICLES, NUM_GAMES, NUM_STEPS = 32, 256, 12, 14

Steps = list[tuple[Observation, int, Observation]]
_observe = jax.jit(jax.vmap(observe, in_axes=(0, None)))
_infer = jax.jit(jax.vmap(history.infer_action))


class Shown(NamedTuple):
    """A game in which the other hand becomes known after the first `number` steps."""

    steps: Steps
    number: int
    hands: np.ndarray


@cache
def games() -> list[Shown]:
    """Return games of player 0 under rules with challenges; the hand is known after a challenge or four steps."""
    states, found = play(5, num_games=NUM_GAMES, num_steps=NUM_STEPS, rules=OFFICIAL).states, []
    for lane in range(NUM_GAMES):
        of_game = jax.tree.map(lambda x, i=lane: x[i], states)
        views = jax.device_get(_observe(of_game, np.int32(0)))
        view = [jax.tree.map(lambda x, t=t: x[t], views) for t in range(NUM_STEPS + 1)]
        shown = np.asarray(_infer(jax.tree.map(lambda x: x[:-1], views), jax.tree.map(lambda x: x[1:], views)))
        steps = [(view[t], int(a), view[t + 1], of_game.hands[t + 1, 1]) for t, a in enumerate(shown.tolist()) if a >= 0]
        challenges = [n for n, (before, action, _, _) in enumerate(steps) if action == cards.CHALLENGE and before.is_my_turn]
        number = challenges[0] + 1 if challenges else 4
        after = steps[number - 1][2] if len(steps) > number else None
        if after is not None and not (after.terminated or (after.has_drawn and not after.is_my_turn)):
            found.append(Shown([step[:3] for step in steps], number, np.stack([step[3] for step in steps])))
    assert any(game.steps[game.number - 1][1] == cards.CHALLENGE for game in found)
    return found


@pytest.mark.parametrize("index", range(4))
def test_exact_filter_given_the_hand(index: int) -> None:
    """P(type) against filters of a single type, and later hands against the hand and the draws."""
    game = games()[index]
    start = game.steps[0][0]
    belief, singles, evidence = exact_init(start, opponent=FAMILY), [exact_init(start)] * 2, np.zeros(2)
    for before, action, after in game.steps[: game.number]:
        belief = exact_update(belief, before, action, after, opponent=FAMILY)[0]
        for k, model in enumerate(FAMILY.models):
            singles[k], log_evidence = exact_update(singles[k], before, action, after, opponent=model)
            evidence[k] += log_evidence
    hand = game.hands[game.number - 1]
    by_type = evidence + [single.log_prob(hand) for single in singles]
    known, log_evidence = exact_given_hand(belief, hand)
    assert log_evidence == pytest.approx(np.logaddexp.reduce(by_type) - np.logaddexp.reduce(evidence), abs=1e-5)
    np.testing.assert_allclose(known.log_type_probs, by_type - np.logaddexp.reduce(by_type), atol=1e-5)
    assert known.log_prob(hand) == pytest.approx(0.0, abs=1e-12)
    assert math.isinf(known.log_prob(cards.onehot_of(cards.count_types(start.pile))))
    for number, (before, action, after) in enumerate(game.steps[game.number :], game.number):
        known = exact_update(known, before, action, after, opponent=FAMILY)[0]
        assert known.log_prob(game.hands[number]) > -math.inf
    with pytest.raises(ValueError, match="the hand is impossible after this history"):
        exact_given_hand(belief, start.pile)


class Runs(NamedTuple):
    """Independent runs of the particle filter after each step from the known hand, and the exact filter's results."""

    log_evidence: np.ndarray
    types: np.ndarray
    expected: np.ndarray
    exact_evidence: float
    exact_types: np.ndarray
    exact_expected: np.ndarray
    possible: np.ndarray
    flags: np.ndarray


@jax.jit
def _begin(start: Observation, keys: jax.Array) -> Any:
    init = partial(belief_init, num_particles=NUM_PARTICLES, opponent=FAMILY, **ROOM)
    return jax.lax.map(lambda key: init(start, key), keys)


@jax.jit
def _advance(beliefs: Any, before: Observation, action: jax.Array, after: Observation, keys: jax.Array) -> Any:
    return jax.lax.map(lambda row: belief_update(row[0], before, action, after, row[1], opponent=FAMILY), (beliefs, keys))


@jax.jit
def _given(beliefs: Any, seen: Observation, hand: jax.Array, keys: jax.Array) -> Any:
    return jax.lax.map(lambda row: belief_given_hand(row[0], seen, hand, row[1], opponent=FAMILY), (beliefs, keys))


@jax.jit
def _figures(beliefs: Any) -> Any:
    return jax.vmap(summary.type_probs)(beliefs), jax.vmap(summary.expected_counts)(beliefs), beliefs.particles


@cache
def runs(index: int) -> Runs:
    game, seed = games()[index], jax.random.key(index)
    keys = jax.random.split(seed, NUM_RUNS)
    start = game.steps[0][0]
    beliefs, exact = _begin(start, keys), exact_init(start, opponent=FAMILY)
    rows, exactly, flags, evidence = [], [], [], (np.zeros(0), 0.0)
    for number, (before, action, after) in enumerate(game.steps, 1):
        beliefs, info = _advance(beliefs, before, np.int32(action), after, fold_in_all(keys, number))
        exact = exact_update(exact, before, action, after, opponent=FAMILY)[0]
        flags.append(np.stack([info.depleted, info.restarted, info.inconsistent]))
        if number == game.number:
            hand = game.hands[number - 1]
            beliefs, info = _given(beliefs, after, hand, fold_in_all(keys, 1000))
            exact, log_evidence = exact_given_hand(exact, hand)
            evidence = np.asarray(info.log_evidence, np.float64), log_evidence
            flags.append(np.stack([info.depleted, ~info.restarted, info.inconsistent]))
            assert (np.asarray(beliefs.particles) == hand).all()
        if number >= game.number:
            types, expected, hands = jax.device_get(_figures(beliefs))
            counts = hands.reshape(-1, cards.NUM_CARDS)[:: NUM_PARTICLES // 16]
            possible = [exact.log_prob(each) > -math.inf for each in np.unique(counts, axis=0)]
            rows.append((types, expected, all(possible)))
            assert exact.log_type_probs is not None
            exactly.append((np.exp(exact.log_type_probs), exact.expected_counts))
    types, expected, possible = (np.stack(column) for column in zip(*rows, strict=True))
    exact_types, exact_expected = (np.stack(column) for column in zip(*exactly, strict=True))
    return Runs(*evidence[:1], types, expected, evidence[1], exact_types, exact_expected, possible, np.stack(flags))


def test_particle_filter_agrees_with_the_exact_filter() -> None:
    """t-tests of P(type) and expected counts over independent runs; the error probability is 1e-6 in all.

    The tolerance allows for a bias of 2 / N.
    """
    compared = [runs(index) for index in range(4)]
    num_tests = sum(c.exact_types.size + c.exact_expected.size for c in compared)
    threshold = stats.t.isf(ERROR_PROBABILITY / 2 / num_tests, NUM_RUNS - 1)
    for c in compared:
        assert not c.flags.any()
        assert c.possible.all()
        for got, exactly in ((c.types, c.exact_types), (c.expected, c.exact_expected)):
            error = np.maximum(got.std(1, ddof=1), np.sqrt(exactly / NUM_PARTICLES) / 3) / np.sqrt(NUM_RUNS)
            wrong = np.argwhere(np.abs(got.mean(1) - exactly) > threshold * error + 2 / NUM_PARTICLES)
            assert not wrong.size, wrong[0]


def test_evidence_of_the_hand_is_unbiased() -> None:
    """The mean of estimated / exact P(hand | history); the error probability is 1e-6."""
    compared = [runs(index) for index in range(4)]
    threshold = stats.t.isf(ERROR_PROBABILITY / 2 / len(compared), NUM_RUNS - 1)
    for c in compared:
        ratio = np.exp(c.log_evidence - c.exact_evidence)
        assert abs(ratio.mean() - 1.0) <= threshold * ratio.std(ddof=1) / np.sqrt(NUM_RUNS) + 0.02, (ratio.mean(), ratio.std())


KEY = jax.random.key(0)
SEEN = make_observation("R1 R5 Y2 W", "R0", 5, rules="official")
HAND = parse_cards("R2 R2 G7 W W+4")
SMALL_FILTER = ParticleFilter(64, max_slots=128, max_plays=1)
"""With room for a single record, so that two plays restart the belief."""
_update = jax.jit(belief_update)


def test_the_evidence_without_a_history_is_that_of_the_deal() -> None:
    """A hand of k of u unseen cards has probability prod C(U_t, H_t) / C(u, k) in every particle."""
    belief = SMALL_FILTER.init(KEY, SEEN)
    given, info = SMALL_FILTER.given_hand(jax.random.key(1), belief, SEEN, HAND)
    counts, unseen = cards.count_types(HAND), np.asarray(SEEN.unseen)
    ways = math.prod(math.comb(int(u), int(h)) for u, h in zip(unseen, counts, strict=True))
    assert info.log_evidence == pytest.approx(math.log(ways / math.comb(int(unseen.sum()), 5)), abs=1e-3)
    assert (given.particles == HAND).all() and not info.depleted and not info.inconsistent and info.restarted
    assert info.ess == pytest.approx(64, rel=1e-5)


@pytest.mark.parametrize(
    ("hand", "seen"),
    [
        ("R2 R2 G7 W", SEEN),
        ("R0 R2 G7 W W+4", SEEN),
        ("R1 R1 G7 W W+4", SEEN),
        ("R2 R2 G7 W W+4", make_observation("R1 R5 Y2 W", "R3", 5, rules="official")),
    ],
)
def test_impossible_hands_change_nothing(hand: str, seen: Observation) -> None:
    """A wrong number of cards, a card on the pile or in the own hand, and another position."""
    belief = SMALL_FILTER.init(KEY, SEEN)
    given, info = SMALL_FILTER.given_hand(KEY, belief, seen, parse_cards(hand))
    assert info.inconsistent and not info.depleted and info.log_evidence == 0
    assert_trees_equal(given, belief)


def test_bad_arguments() -> None:
    belief = SMALL_FILTER.init(KEY, SEEN)
    with pytest.raises(ValueError, match="hand must be"):
        belief_given_hand(belief, SEEN, jnp.zeros(54, jnp.int8), KEY)
    with pytest.raises(ValueError, match="the rules of belief and observation differ"):
        belief_given_hand(belief, make_observation("R1", "R0", 5), HAND, KEY)
    with pytest.raises(ValueError, match="types of opponents"):
        belief_given_hand(belief, SEEN, HAND, KEY, opponent=FAMILY)


def view(text: str, top: str, number: int, **others: Any) -> Observation:
    return make_observation(text, top, number, rules="default", **others)


def test_a_reinitialised_belief_holds_the_known_cards() -> None:
    """The belief restarts after two plays, with the shown cards that were not played."""
    seen = view("R1 R5 Y2 W", "G0", 6, opponent_begins=True)
    hand = parse_cards("GR GS G1 G2 R2 W+4")
    belief, _ = SMALL_FILTER.given_hand(KEY, SMALL_FILTER.init(KEY, seen), seen, hand)
    plays = ["GS", "GR"]
    views = [seen]
    for number, card in enumerate(plays):
        views.append(view("R1 R5 Y2 W", card, 5 - number, opponent_begins=True, pile=" ".join(["G0", *plays[:number]])))
    restarts = 0
    for before, after in pairwise(views):
        action = history.infer_action(before, after)
        belief, info = _update(belief, before, action, after, jax.random.key(1))
        restarts += int(info.restarted)
        assert not info.depleted and not info.inconsistent
    assert restarts
    assert (belief.particles == parse_cards("G1 G2 R2 W+4")).all()


def test_contradictions_drop_what_was_known() -> None:
    """The opponent plays a card that it had not shown, and the belief restarts without the hand."""
    seen = view("R1 R5 Y2 W", "G0", 3, opponent_begins=True)
    belief, _ = SMALL_FILTER.given_hand(KEY, SMALL_FILTER.init(KEY, seen), seen, parse_cards("R2 R3 B4"))
    after = view("R1 R5 Y2 W", "G7", 2, pile="G0")
    belief, info = _update(belief, seen, history.infer_action(seen, after), after, KEY)
    assert info.depleted and info.restarted
    assert len(np.unique(np.asarray(belief.particles), axis=0)) > 1


def test_later_events_of_a_full_deck_never_contradict_the_hand() -> None:
    """Each particle fulfils the invariants under official rules, through draws, plays and rejuvenation."""
    states = play(7, num_games=2, num_steps=40, rules=Rules.official()).states
    updater = ParticleFilter(128, max_slots=128, max_plays=64)
    of_game = jax.tree.map(lambda x: x[0], states)
    views = jax.device_get(_observe(of_game, np.int32(0)))
    view = [jax.tree.map(lambda x, t=t: x[t], views) for t in range(41)]
    first = next(t for t in range(10, 40) if not (view[t].has_drawn and not view[t].is_my_turn))
    seen, hand = view[first], of_game.hands[first, 1]
    belief, _ = updater.given_hand(KEY, updater.init(KEY, seen), seen, hand)
    held, resampled = cards.count_types(hand).astype(int), 0
    update = jax.jit(updater.update)
    for t in range(first, 40):
        before, after = view[t], view[t + 1]
        action = int(history.infer_action(before, after))
        if action < 0:
            continue
        if not before.is_my_turn and action < cards.DRAW and not before.has_drawn:
            held[cards.TYPE_OF_PLAY[action]] = max(held[cards.TYPE_OF_PLAY[action]] - 1, 0)
        belief, info = update(jax.random.fold_in(KEY, t), belief, before, jnp.int32(action), after)
        resampled += int(info.resampled)
        counts = np.asarray(cards.counts(belief.particles))
        assert (counts >= held).all() and not info.depleted
        assert (counts.sum(1) == after.opponent_count).all()
    assert resampled


def test_other_updaters() -> None:
    """Bootstrap and exact filter hold the hand; the uniform belief is unchanged."""
    seen = make_observation("R1 R1", "Y1", 4, rules=OFFICIAL)
    hand = parse_cards("R2 Y2 B1 W")
    for updater in (BootstrapFilter(32), ExactFilter()):
        belief, info = updater.given_hand(KEY, updater.init(KEY, seen), seen, hand)
        assert not info.inconsistent
        expected = summary.summarize(updater.hands(KEY, belief, seen), seen).expected_counts
        np.testing.assert_allclose(np.asarray(expected), cards.count_types(hand), atol=1e-5)
    unaware = UniformFilter(8)
    assert unaware.given_hand(KEY, unaware.init(KEY, seen), seen, hand)[0] == ()
    belief = BootstrapFilter(32).init(KEY, seen)
    same, info = BootstrapFilter(32).given_hand(KEY, belief, seen, parse_cards("R2"))
    assert info.inconsistent
    assert_trees_equal(same, belief)

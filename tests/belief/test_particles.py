"""The particle filter against the exact filter in random games of small decks, and what must hold in every particle."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.scipy.special import logsumexp
from scipy import stats

from tests.belief.oracle import FORFEITING, PASSING, THIN, Record, play_games
from tests.belief.test_exact import choosy_opponent, events
from tests.helpers import ERROR_PROBABILITY, assert_trees_equal, fold_in_all
from unojax import bits, cards, game
from unojax.belief import (
    Belief,
    Info,
    belief_init,
    belief_update,
    belief_update_checked,
    consistent_opponent,
    history,
    summary,
    uniform_opponent,
)
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.filters import BootstrapFilter, ClosedFormFilter, ExactFilter, plain_info
from unojax.belief.history import Prior
from unojax.belief.opponents import OpponentModel, PolicyOpponent
from unojax.belief.particles import accounts, likelihood
from unojax.belief.particles.ledger import as_words
from unojax.observation import Observation
from unojax.policies import POLICIES
from unojax.rules import Rules

NUM_STEPS = 25
NUM_PARTICLES = 256
NUM_RUNS = 40
NUM_LOOKED_INTO = 8
"""Runs all of whose particles are looked into, which takes longer than an update."""
CAPACITY: dict[str, Any] = {"max_slots": 48, "max_plays": 24}
guard_opponent = PolicyOpponent(POLICIES["guard"], tremble=0.3)

CASES: dict[str, tuple[OpponentModel, Rules, Prior]] = {
    "uniform, forfeiting": (uniform_opponent, FORFEITING, "uniform"),
    "uniform, thin": (uniform_opponent, THIN, "uniform"),
    "consistent, passing": (consistent_opponent, PASSING, "uniform"),
    "policy, forfeiting, as dealt": (guard_opponent, FORFEITING, "deal"),
    "callable, passing": (choosy_opponent, PASSING, "uniform"),
}


def games(rules: Rules) -> Record:
    return play_games(seed=3, num_games=300, num_steps=NUM_STEPS, rules=rules)


@pytest.fixture(scope="module", autouse=True)
def played() -> None:
    """Games, before anything is optimised: they are those of other files, and of their programs."""
    games(THIN)


class Track(NamedTuple):
    """R runs over T steps: expected counts, numbers of the hands in the lattice, `Info`; and what held in some of the runs."""

    expected: jax.Array
    hands: jax.Array
    info: Info
    holds: dict[str, jax.Array]


def invariants(belief: Belief, seen: Observation, opponent: OpponentModel, rules: Rules) -> dict[str, jax.Array]:
    """What must hold in all particles of a belief at an observation: bool[] each."""
    cloud, book = belief.cloud, belief.ledger

    def is_same(words: bits.Words, onehot: jax.Array) -> jax.Array:
        return (bits.unpack(bits.canonical(words)) == onehot).all()

    def union(*sets: bits.Words) -> bits.Words:
        return bits.map_words(lambda *words: jnp.bitwise_or.reduce(jnp.stack(words)), *sets)

    everything = as_words(jnp.asarray(bits.all_cards(rules.deck)))
    outside = union(cloud.hand, cloud.deck, cloud.own)
    pile = bits.map_words(lambda a, o: a & ~o, everything, outside)
    filled = jnp.arange(cloud.labels.shape[0])[:, None] < book.num_slots
    # A label that was released, or not yet given, is card_of(RELEASED): no card.
    live = accounts.card_of(jnp.where(filled, cloud.labels, accounts.RELEASED))
    rebuilt = bits.map_words(lambda w: jnp.bitwise_or.reduce(w, axis=0), live)
    replayed = likelihood.log_likelihood(cloud, book, opponent, seen)
    hands = bits.unpack(belief.packed)
    return {
        "no card in two places": (bits.count(outside) == sum(map(bits.count, (cloud.hand, cloud.deck, cloud.own)))).all(),
        "only cards of the game": (bits.any_of(bits.map_words(lambda o, a: o & ~a, outside, everything)) == 0).all(),
        "own cards": is_same(cloud.own, seen.hand),
        "pile": is_same(pile, seen.pile),
        "unseen": is_same(union(cloud.hand, cloud.deck), cards.onehot(seen.unseen)),
        "hand count": (bits.count(cloud.hand) == seen.opponent_count).all(),
        "deck count": (bits.count(cloud.deck) == seen.deck_count).all(),
        "hand is what the slots hold": bits.any_of(bits.map_words(jnp.bitwise_xor, rebuilt, cloud.hand)).max() == 0,
        "one live slot per card": (((cloud.labels < accounts.RELEASED) & filled).sum(0) == bits.count(cloud.hand)).all(),
        "particles are canonical": (hands == bits.unpack(bits.canonical(bits.pack(hands)))).all(),
        "likelihood is that of the replay": (jnp.abs(replayed - belief.log_likelihood) <= 1e-4).all(),
        "weights are normalised": jnp.abs(logsumexp(belief.log_weights)) < 1e-4,
        "no particle of weight zero": jnp.isfinite(belief.target_weights).all(),
    }


def numbers_of(belief: Belief, rules: Rules) -> jax.Array:
    """int32[N]: the numbers of the hands in the lattice of the exact filter."""
    deck = np.array(rules.deck)
    shape = deck[deck > 0] + 1
    strides = np.zeros(54, np.int32)
    strides[deck > 0] = np.prod(shape) // np.cumprod(shape)
    numbers = belief.particles.astype(jnp.int32) @ strides[cards.TYPE_OF_SLOT]
    # In place of particles that count for nothing, the heaviest one.
    return jnp.where(jnp.isneginf(belief.log_weights), numbers[jnp.argmax(belief.log_weights)], numbers)


@partial(jax.jit, static_argnames="prior")
def begin_runs(keys: jax.Array, seen: Observation, *, prior: Prior) -> Belief:
    return jax.vmap(lambda key: belief_init(seen, key, num_particles=NUM_PARTICLES, prior=prior, **CAPACITY))(keys)


@partial(jax.jit, static_argnames="opponent")
def advance_runs(
    beliefs: Belief, before: Observation, action: jax.Array, after: Observation, keys: jax.Array, *, opponent: OpponentModel
) -> tuple[Belief, Track]:
    """One step of R runs that see the same."""

    def measure(belief: Belief) -> tuple[jax.Array, jax.Array]:
        return summary.expected_counts(belief), numbers_of(belief, belief.rules)

    update = partial(belief_update, opponent=opponent)
    beliefs, infos = jax.vmap(update, (0, None, None, None, 0))(beliefs, before, action, after, keys)
    some = jax.tree.map(lambda rows: rows[:NUM_LOOKED_INTO], beliefs)
    holds = jax.lax.map(lambda belief: invariants(belief, after, opponent, belief.rules), some)
    return beliefs, Track(*jax.lax.map(measure, beliefs), infos, holds)


def follow_runs(
    keys: jax.Array, views: list[Observation], happened: np.ndarray, *, opponent: OpponentModel, prior: Prior
) -> Track:
    """Let R filters follow the steps of one game at which anything happened: a track [R, n, ...]."""
    beliefs, tracks = begin_runs(keys, views[0], prior=prior), []
    for t in np.flatnonzero(happened != game.NO_ACTION).tolist():
        keys_t = fold_in_all(keys, t)
        beliefs, track = advance_runs(beliefs, views[t], np.int32(happened[t]), views[t + 1], keys_t, opponent=opponent)
        tracks.append(jax.device_get(track))
    return jax.tree.map(lambda *xs: np.stack(xs, 1), *tracks)


class Comparison(NamedTuple):
    """A game from one seat: the n updates, the track of the particle filters [R, n, ...], and the exact filter's answers."""

    name: str
    track: Track
    expected: np.ndarray
    variance: np.ndarray
    possible: list[np.ndarray]
    log_evidence: np.ndarray
    deck_count: np.ndarray


@cache
def comparisons(case: str) -> list[Comparison]:
    """Games from both seats in which, together, every kind of event occurs."""
    opponent, rules, prior = CASES[case]
    record, happened = games(rules), games(rules).happened
    result = []
    for player in (0, 1):
        lanes: set[int] = set()
        for occurs in events(record, player).values():
            found = np.flatnonzero(occurs.any(0))
            assert found.size
            if not lanes & set(found.tolist()):
                # The longest of the first few: more happens there.
                lanes.add(int(max(found[:6], key=lambda lane: (happened[:, lane] >= 0).sum())))
        for lane in sorted(lanes):
            keys = jax.random.split(jax.random.key(lane), NUM_RUNS)
            views = [record.view(player, t, lane) for t in range(NUM_STEPS + 1)]
            track = follow_runs(keys, views, happened[:, lane], opponent=opponent, prior=prior)
            belief = exact_init(views[0], prior=prior)
            rows = []
            for t in np.flatnonzero(happened[:, lane] != game.NO_ACTION).tolist():
                before, after = views[t], views[t + 1]
                belief, log_evidence = exact_update(belief, before, int(happened[t, lane]), after, opponent=opponent)
                copies = np.arange(5)
                expected = belief.count_probs @ copies
                variance = np.maximum(belief.count_probs @ copies**2 - expected**2, 0.0)
                rows.append((expected, variance, belief.probs.ravel() > 0, log_evidence, int(after.deck_count)))
            expected, variance, possible, log_evidence, deck_count = zip(*rows, strict=True)
            result.append(
                Comparison(
                    name=f"{case}, player {player}, game {lane}",
                    track=track,
                    expected=np.array(expected),
                    variance=np.array(variance),
                    possible=list(possible),
                    log_evidence=np.array(log_evidence),
                    deck_count=np.array(deck_count),
                )
            )
    return result


# The other models and rules compile a filter each. Whichever test comes first runs the filters for all.
FAST_CASE = "uniform, thin"
EACH_CASE = pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.optimized, *([] if case == FAST_CASE else [pytest.mark.slow])]) for case in CASES],
)


@EACH_CASE
def test_expected_counts_agree_with_the_exact_filter(case: str) -> None:
    """Each type after each update: t-tests over independent runs; a right filter fails with probability 1e-6 in all.

    The standard deviation is at least that of N independent draws, as a guard for types so rare that few runs have any. The bias
    of the filter, of order 1/N, is far below the tolerance.
    """
    compared = comparisons(case)
    num_tests = sum(int((c.variance > 1e-12).sum()) for c in compared)
    assert num_tests > 200
    threshold = stats.t.isf(ERROR_PROBABILITY / 2 / num_tests, NUM_RUNS - 1)
    for c in compared:
        mean, variance = c.track.expected.mean(0), c.track.expected.var(0, ddof=1)
        error = np.sqrt(np.maximum(variance, c.variance / NUM_PARTICLES) / NUM_RUNS)
        # 1e-5 is float32.
        assert (np.abs(mean - c.expected) <= threshold * error + 1e-5).all(), c.name


@EACH_CASE
def test_evidence_is_unbiased(case: str) -> None:
    """The mean over runs of estimated / exact evidence, for the history up to each update, and over all games at their ends.

    Fails for a right filter with probability 2e-6. (The logarithm would be biased: Jensen.)
    """
    compared = comparisons(case)
    ratios = [np.exp((c.track.info.log_evidence - c.log_evidence).cumsum(1, dtype=np.float64)) for c in compared]
    threshold = stats.t.isf(ERROR_PROBABILITY / 2 / sum(r.shape[1] for r in ratios), NUM_RUNS - 1)
    for c, ratio in zip(compared, ratios, strict=True):
        error = ratio.std(0, ddof=1) / np.sqrt(NUM_RUNS)
        assert (np.abs(ratio.mean(0) - 1.0) <= threshold * error + 1e-4).all(), c.name
    ends = np.array([r[:, -1] for r in ratios])
    error = np.sqrt((ends.var(1, ddof=1) / NUM_RUNS).sum())
    assert abs((ends.mean(1) - 1.0).sum()) <= stats.norm.isf(ERROR_PROBABILITY / 2) * error + 1e-4 * len(ends)


@EACH_CASE
def test_errors_are_those_of_few_draws_less(case: str) -> None:
    """The squared error of expected counts is below three times that of N independent draws: particles do not degenerate.

    Not a test of correctness but of efficiency; the ratio is 1.2 to 1.9, and averages hundreds of estimates in 40 runs.
    """
    compared = comparisons(case)
    squared = sum(float(((c.track.expected - c.expected) ** 2).mean(0).sum()) for c in compared)
    ideal = sum(float(c.variance.sum()) / NUM_PARTICLES for c in compared)
    assert squared < 3.0 * ideal


@EACH_CASE
def test_no_particle_is_impossible_and_none_begins_anew(case: str) -> None:
    for c in comparisons(case):
        for t, possible in enumerate(c.possible):
            assert possible[c.track.hands[:, t]].all(), f"{c.name}, update {t}"
        assert not c.track.info.restarted.any()
        assert not c.track.info.depleted.any()


@EACH_CASE
def test_invariants_of_all_particles(case: str) -> None:
    for c in comparisons(case):
        for name, held in c.track.holds.items():
            assert held.all(), f"{c.name}: {name}, first at update {np.argwhere(~held.all(0))[0]}"


@EACH_CASE
def test_info(case: str) -> None:
    resampled = moved = 0
    for c in comparisons(case):
        info = c.track.info
        assert ((info.ess >= 1 - 1e-3) & (info.ess <= NUM_PARTICLES * (1 + 1e-4))).all()
        assert info.resampled[info.ess < 0.5 * NUM_PARTICLES - 1].all()
        assert ((info.acceptance >= 0) & (info.acceptance <= 1)).all()
        assert (info.acceptance[~info.resampled] == 0).all()
        resampled, moved = resampled + info.resampled.sum(), moved + (info.acceptance > 0.05).sum()
    assert resampled > 0
    assert moved > resampled / 2


def test_an_empty_deck_leaves_no_doubt() -> None:
    empty = 0
    for c in comparisons("uniform, thin"):
        for t in np.flatnonzero(c.deck_count == 0):
            np.testing.assert_allclose(c.track.expected[:, t], np.broadcast_to(c.expected[t], (NUM_RUNS, 54)), atol=1e-5)
            assert (c.track.hands[:, t] == c.track.hands[0, t, 0]).all()
            empty += 1
    assert empty > 0


# One update at a time, with little room.

SMALL = {"max_slots": THIN.num_cards, "max_plays": 3}
update: Any = jax.jit(belief_update)
update_games = jax.jit(jax.vmap(belief_update))
start = jax.jit(partial(belief_init, num_particles=64, **SMALL))
check = jax.jit(partial(invariants, opponent=uniform_opponent, rules=THIN))


def thin_lane(player: int, lane: int) -> tuple[list[Observation], np.ndarray]:
    record = games(THIN)
    return [record.view(player, t, lane) for t in range(NUM_STEPS + 1)], record.happened[:, lane].astype(np.int32)


def assert_begun_anew(belief: Belief, info: Info, seen: Observation) -> None:
    assert info.restarted
    assert not (info.depleted or info.resampled)
    assert int(belief.ledger.num_slots) == int(seen.opponent_count)
    assert int(belief.ledger.num_plays) == 0
    np.testing.assert_allclose(belief.log_weights, -np.log(64.0), rtol=1e-6)
    assert all(check(belief, seen).values())


def test_the_last_play_that_fits_begins_anew() -> None:
    """The belief restarts at the play that fills its capacity, and not before; then it is as good as one from the position."""
    record, happened = games(THIN), games(THIN).happened
    plays = ((happened >= 0) & (happened < cards.DRAW) & (record.states.current_player[:-1] == 1)).cumsum(0)
    lane = int(np.flatnonzero(plays[-1] > SMALL["max_plays"])[0])
    views, happened = thin_lane(0, lane)
    first = int((plays[:, lane] >= SMALL["max_plays"]).argmax())
    belief = start(views[0], jax.random.key(lane))
    for t in range(first):
        belief, info = update(belief, views[t], happened[t], views[t + 1], jax.random.fold_in(jax.random.key(lane), t))
        assert not info.restarted
    assert int(belief.ledger.num_plays) == SMALL["max_plays"] - 1
    belief, info = update(belief, views[first], happened[first], views[first + 1], jax.random.key(lane))
    assert_begun_anew(belief, info, views[first + 1])


def test_one_slot_too_many_begins_anew() -> None:
    """Capacities may be rounded up. Slots without a card stand for cards that the opponent has drawn and played long ago."""
    record, happened = games(THIN), games(THIN).happened
    drawn = np.diff(record.observations[0].opponent_count.astype(int), axis=0)
    t, lane = np.argwhere(drawn > 0)[0].tolist()
    before, after = record.view(0, t, lane), record.view(0, t + 1, lane)
    belief = start(before, jax.random.key(lane))
    capacity = belief.ledger.epoch.shape[0]
    assert SMALL["max_slots"] <= capacity < SMALL["max_slots"] + 8
    for spare in (0, -1):
        used = jnp.int32(capacity - drawn[t, lane] - spare)
        full = dataclasses.replace(belief, ledger=dataclasses.replace(belief.ledger, num_slots=used))
        updated, info = update(full, before, happened[t, lane].astype(np.int32), after, jax.random.key(1))
        assert bool(info.restarted) == (spare < 0)
    assert_begun_anew(updated, info, after)


def test_depletion_is_reported_and_begins_anew() -> None:
    views, happened = thin_lane(0, 0)
    belief = start(views[0], jax.random.key(0))
    hopeless = dataclasses.replace(belief, log_weights=jnp.full_like(belief.log_weights, -jnp.inf))
    belief, info = update(hopeless, views[0], happened[0], views[1], jax.random.key(1))
    assert info.depleted and info.restarted and not info.resampled
    assert np.isneginf(info.log_evidence)
    assert float(info.ess) == 0.0
    assert all(check(belief, views[1]).values())


def test_nothing_changes_when_nothing_moves() -> None:
    """Finished games and refused actions, whether called -1 or by the number that was tried."""
    record, happened = games(THIN), games(THIN).happened
    finished = np.argwhere(record.states.terminated[:-1])[0]
    refused = np.argwhere((happened == game.NO_ACTION) & ~record.states.terminated[:-1])[0]
    for t, lane in (finished.tolist(), refused.tolist()):
        view = record.view(0, t, lane)
        belief = start(view, jax.random.key(0))
        for action in np.array([game.NO_ACTION, record.actions[t, lane], cards.DRAW], np.int32):
            same, info = update(belief, view, action, record.view(0, t + 1, lane), jax.random.key(1))
            assert_trees_equal(same, belief)
            assert float(info.log_evidence) == pytest.approx(0.0, abs=1e-5)
            assert not (info.restarted or info.depleted or info.resampled)


@pytest.mark.slow
def test_a_batch_of_games_equals_its_games() -> None:
    lanes, t = range(8), 1
    views = [thin_lane(lane % 2, lane)[0] for lane in lanes]
    actions = [thin_lane(lane % 2, lane)[1][t] for lane in lanes]
    keys = jax.random.split(jax.random.key(0), len(lanes))
    beliefs = [start(view[t], key) for view, key in zip(views, keys, strict=True)]

    def stack(trees: list) -> Any:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)

    before, after = stack([view[t] for view in views]), stack([view[t + 1] for view in views])
    batch = update_games(stack(beliefs), before, jnp.array(actions, jnp.int32), after, keys)
    assert (
        len({(a == cards.DRAW, int(v[t].current_player) == lane % 2) for lane, a, v in zip(lanes, actions, views, strict=True)})
        > 1
    )
    for lane in lanes:
        one = update(beliefs[lane], views[lane][t], actions[lane], views[lane][t + 1], keys[lane])
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(jax.tree.map(lambda x, lane=lane: x[lane], batch)), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_one_program_for_all_events_and_seats() -> None:
    size, kinds = update._cache_size(), set()
    for lane in range(6):
        views, happened = thin_lane(lane % 2, lane)
        belief = start(views[0], jax.random.key(lane))
        for t in range(6):
            belief, _ = update(belief, views[t], happened[t], views[t + 1], jax.random.key(t))
            kinds.add((int(happened[t]) == cards.DRAW, int(views[t].current_player) == lane % 2))
    assert len(kinds) == 4
    assert update._cache_size() == max(size, 1)


def test_the_same_key_gives_the_same_belief() -> None:
    views, happened = thin_lane(0, 1)
    belief = start(views[0], jax.random.key(0))
    one, two = (update(belief, views[0], happened[0], views[1], jax.random.key(1))[0] for _ in range(2))
    assert_trees_equal(one, two)
    assert not np.array_equal(*(start(views[0], jax.random.key(k)).particles for k in (0, 1)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_particles": 0}, "num_particles must be at least 1, got 0"),
        ({"max_slots": THIN.num_cards - 1}, "max_slots must be at least the 11 cards of the game"),
        ({"max_plays": 0}, "max_plays at least 1, got 192 and 0"),
    ],
)
def test_bad_sizes(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        belief_init(games(THIN).view(0, 0, 0), jax.random.key(0), **arguments)


# Observations that do not belong together.


def test_what_does_not_belong_together_changes_nothing() -> None:
    """Another action than the one shown, a skipped turn, another player's view, and a belief of another position."""
    record, happened = games(THIN), games(THIN).happened
    mine = record.states.current_player[:-1] == 0
    both = (happened[:-1] >= 0) & (happened[1:] >= 0) & ~record.states.terminated[2:]
    play, draw = ((happened[:-1] >= 0) & (happened[:-1] < cards.DRAW), happened[:-1] == cards.DRAW)
    for kind in (play & ~mine[:-1], draw & ~mine[:-1], play & mine[:-1], draw & mine[:-1]):
        t, lane = np.argwhere(both & kind)[0].tolist()
        views, actions = thin_lane(0, lane)
        belief = start(views[t], jax.random.key(1))
        elsewhere = start(thin_lane(0, lane + 1)[0][0], jax.random.key(1))
        wrong_action = np.int32(3 if actions[t] == cards.DRAW else cards.DRAW)
        other_player = thin_lane(1, lane)[0]
        cases = {
            "right": (belief, views[t], actions[t], views[t + 1]),
            "another action": (belief, views[t], wrong_action, views[t + 1]),
            "no action": (belief, views[t], np.int32(game.NO_ACTION), views[t + 1]),
            "a skipped turn": (belief, views[t], actions[t], views[t + 2]),
            "the other player after": (belief, views[t], actions[t], other_player[t + 1]),
            "the other player": (belief, other_player[t], actions[t], other_player[t + 1]),
            "another position": (elsewhere, views[t], actions[t], views[t + 1]),
            "backwards": (belief, views[t + 1], actions[t], views[t]),
        }
        for name, (old, before, action, after) in cases.items():
            updated, info = update(old, before, action, after, jax.random.key(2))
            assert bool(info.inconsistent) == (name != "right"), name
            if name != "right":
                assert_trees_equal(updated, old)
                assert not (info.restarted or info.depleted or info.resampled), name
                assert float(info.log_evidence) == 0.0


def test_an_uneven_belief_stays_as_it_was_too() -> None:
    """Its weights are not evened out by a resampling for which nothing gave a reason."""
    views, happened = thin_lane(0, 0)
    belief = start(views[0], jax.random.key(0))
    log_weights = jnp.log(jnp.arange(64.0) ** 4 / (jnp.arange(64.0) ** 4).sum())
    uneven = dataclasses.replace(belief, log_weights=log_weights)
    updated, info = update(uneven, views[0], happened[0], views[2], jax.random.key(1))
    assert info.inconsistent
    assert_trees_equal(updated, uneven)


def quick_update(belief: Belief, before: Observation, action: jax.Array, after: Observation, key: jax.Array):
    """In place of `belief_update`, which takes long to compile: it tells what is inconsistent and believes nothing."""
    del key
    return belief, plain_info(~history.belongs(before, action, after))


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_checked_update_raises(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not whole:
        monkeypatch.setattr("unojax.belief.particles.filter.belief_update", quick_update)
    views, happened = thin_lane(0, 0)
    belief = start(views[0], jax.random.key(0))
    checked = jax.jit(checkify.checkify(belief_update_checked))
    error, result = checked(belief, views[0], happened[0], views[1], jax.random.key(1))
    error.throw()
    if whole:
        assert_trees_equal(result, update(belief, views[0], happened[0], views[1], jax.random.key(1)))
    error, _ = checked(belief, views[0], np.int32(7), views[1], jax.random.key(1))
    with pytest.raises(checkify.JaxRuntimeError, match="observations around action 7 are not one micro-step apart"):
        error.throw()


# The modes of JAX.


@pytest.fixture
def step_of_a_game() -> tuple[Any, ...]:
    views, happened = thin_lane(0, 0)
    return start(views[0], jax.random.key(0)), views[0], happened[0], views[1], jax.random.key(1)


def test_strict_modes(step_of_a_game: tuple[Any, ...]) -> None:
    """Tracing is enough: that is when JAX complains."""
    belief, before, action, after, key = step_of_a_game
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        jax.make_jaxpr(partial(belief_init, num_particles=16, prior="deal"))(before, key)
        jax.make_jaxpr(history.infer_action)(before, after)
        several = jax.vmap(partial(belief_update, opponent=guard_opponent), (None, None, None, None, 0))
        jax.make_jaxpr(several)(belief, before, action, after, jax.random.split(key, 2))
        other = BootstrapFilter(16, guard_opponent)
        jax.make_jaxpr(other.update)(key, jax.eval_shape(other.init, key, before), before, action, after)
        closed = ClosedFormFilter()
        jax.make_jaxpr(closed.update)(key, jax.eval_shape(closed.init, key, before), before, action, after)
        exact = ExactFilter(guard_opponent)
        exact.update(key, exact.init(key, before), before, action, after)


@pytest.mark.slow
def test_64_bit_mode_changes_nothing() -> None:
    """Along a game, through events of all kinds: the same bits of the same types."""
    views, happened = thin_lane(0, 1)

    def along() -> list[Any]:
        begin = jax.jit(partial(belief_init, num_particles=64, **SMALL))
        belief, result = begin(views[0], jax.random.key(0)), []
        for t in range(8):
            belief, info = update(belief, views[t], happened[t], views[t + 1], jax.random.key(t))
            result.append(jax.device_get((belief, info)))
        return result

    assert {int(a) == cards.DRAW for a in happened[:8]} == {True, False}
    usual = along()
    with jax.enable_x64(True):
        wide = along()
        exact = ExactFilter()
        belief, _ = exact.update(None, exact.init(None, views[0]), views[0], happened[0], views[1])
    for one, two in zip(jax.tree.leaves(usual), jax.tree.leaves(wide), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    expected, _ = exact.update(None, exact.init(None, views[0]), views[0], happened[0], views[1])
    np.testing.assert_array_equal(belief.probs, expected.probs)

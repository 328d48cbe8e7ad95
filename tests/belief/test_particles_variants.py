"""The particle filter under rules that people play, against the exact filter in random games of small decks."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
from scipy import stats

from tests.belief.test_exact_variants import SMALL, VARIANTS
from tests.belief.test_particles import NUM_PARTICLES, NUM_RUNS, Comparison, advance_runs
from tests.helpers import ERROR_PROBABILITY, fold_in_all, play
from unojax.belief import belief_init, history, summary, uniform_opponent
from unojax.belief.bootstrap import bootstrap_init, bootstrap_update
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.opponents import OpponentModel, PolicyOpponent
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import POLICIES
from unojax.rules import Rules

CAPACITY = {"max_slots": 64, "max_plays": 48}


def callable_opponent(observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """Likes the actions of high numbers, and draws more gladly with many cards, or if the card drawn is of a low type."""
    number = jax.numpy.arange(legal_mask.shape[0]) / 20.0
    draws = 0.2 * observation.hand_count - 0.02 * observation.drawn
    return jax.nn.softmax(jax.numpy.where(legal_mask, number.at[60].set(draws), -jax.numpy.inf))


CASES: dict[str, tuple[Rules, OpponentModel]] = {
    **{name: (rules, uniform_opponent) for name, rules in VARIANTS.items()},
    "colour or not, forced": (Rules(wild_draw_four="no_color", draw_until_playable=True, **SMALL), uniform_opponent),
    "last, at will": (Rules(wild_draw_four="last", may_draw=True, play_drawn="may", **SMALL), uniform_opponent),
    "official against a policy": (Rules.official(**SMALL), PolicyOpponent(POLICIES["guard"], tremble=0.3)),
    "official against a callable": (Rules.official(**SMALL), callable_opponent),
}

NUM_GAMES, NUM_STEPS = 10, 32
# Likelihoods of hands that a policy or a callable computes take long; any others less time than compiling them better.
OF_MODELS = [name for name, (_, opponent) in CASES.items() if opponent is not uniform_opponent]

_observe = jax.jit(jax.vmap(observe, in_axes=(0, None)))
_infer = jax.jit(jax.vmap(history.infer_action))
_begin = jax.jit(jax.vmap(partial(belief_init, num_particles=NUM_PARTICLES, **CAPACITY), (None, 0)))


def steps_of(states, observer: int) -> list[tuple[Observation, int, Observation]]:
    """The steps of a game at which anything happened, as a player saw them."""
    views = jax.device_get(_observe(states, np.int32(observer)))
    view = [jax.tree.map(lambda x, t=t: x[t], views) for t in range(len(states.terminated))]
    before, after = jax.tree.map(lambda x: x[:-1], views), jax.tree.map(lambda x: x[1:], views)
    shown = np.asarray(_infer(before, after))
    steps = []
    for t, action in enumerate(shown.tolist()):
        if action >= 0:
            steps.append((view[t], action, view[t + 1]))
        elif states.step_count[t + 1] > states.step_count[t]:
            # Hardly ever: a Skip that is all there is in deck and pile, and comes up again.
            break
    return steps


def games_of(case: str) -> State:
    """The states of the games of a case, of two axes: one program for all tests."""
    return play(3, num_games=NUM_GAMES, num_steps=NUM_STEPS, rules=CASES[case][0]).states


# What a filter does differently is in it: draws and challenges at will.
SHORTER = ("official",)
MARKS = {c: ([pytest.mark.optimized] if c in OF_MODELS else []) + ([] if c in SHORTER else [pytest.mark.long]) for c in CASES}


@pytest.fixture(scope="module", params=[pytest.param(c, marks=MARKS[c]) for c in CASES])
def case(request: pytest.FixtureRequest) -> str:
    """The tests of a case follow each other; its games are played before anything is optimised."""
    games_of(request.param)
    return request.param


def comparisons(case: str, num_runs: int) -> list[Comparison]:
    opponent, games, result = CASES[case][1], games_of(case), []
    for index in range(NUM_GAMES):
        steps = steps_of(jax.tree.map(lambda x, i=index: x[i], games), index % 2)
        if not steps:
            continue
        keys = jax.random.split(jax.random.key(index), num_runs)
        exact, beliefs = exact_init(steps[0][0]), _begin(steps[0][0], keys)
        tracks, rows = [], []
        for t, (before, action, after) in enumerate(steps):
            keys_t = fold_in_all(keys, t)
            beliefs, track = advance_runs(beliefs, before, np.int32(action), after, keys_t, opponent=opponent)
            tracks.append(jax.device_get(track))
            exact, log_evidence = exact_update(exact, before, action, after, opponent=opponent)
            copies = np.arange(5)
            expected = exact.count_probs @ copies
            variance = np.maximum(exact.count_probs @ copies**2 - expected**2, 0.0)
            rows.append((expected, variance, exact.probs.ravel() > 0, log_evidence, int(after.deck_count)))
        expected, variance, possible, log_evidence, deck_count = zip(*rows, strict=True)
        track = jax.tree.map(lambda *xs: np.stack(xs, 1), *tracks)
        exactly = (np.array(expected), np.array(variance), list(possible), np.array(log_evidence), np.array(deck_count))
        result.append(Comparison(f"{case}, game {index}", track, *exactly))
    return result


def check(compared: list[Comparison], num_runs: int) -> None:
    """Each type after each update, and the evidence up to there: t-tests over independent runs.

    A right filter fails with probability 1e-6 in all of the former, and in all of the latter.
    """
    for c in compared:
        for t, possible in enumerate(c.possible):
            assert possible[c.track.hands[:, t]].all(), f"{c.name}: an impossible hand after update {t}"
        for name, held in c.track.holds.items():
            assert held.all(), f"{c.name}: {name}, first at update {np.argwhere(~held.all(0))[0]}"
        for name in ("depleted", "restarted", "inconsistent"):
            assert not getattr(c.track.info, name).any(), f"{c.name}: {name} in {np.argwhere(getattr(c.track.info, name))}"
    num_tests = sum(int((c.variance > 1e-12).sum()) for c in compared)
    threshold = stats.t.isf(ERROR_PROBABILITY / 2 / num_tests, num_runs - 1)
    for c in compared:
        mean, variance = c.track.expected.mean(0), c.track.expected.var(0, ddof=1)
        error = np.sqrt(np.maximum(variance, c.variance / NUM_PARTICLES) / num_runs)
        wrong = np.argwhere(np.abs(mean - c.expected) > threshold * error + 2e-5)
        assert not wrong.size, f"{c.name}: update and type {wrong[0]}"
    ratios = [np.exp((c.track.info.log_evidence - c.log_evidence).cumsum(1, dtype=np.float64)) for c in compared]
    threshold = stats.t.isf(ERROR_PROBABILITY / 2 / sum(r.shape[1] for r in ratios), num_runs - 1)
    for c, ratio in zip(compared, ratios, strict=True):
        error = ratio.std(0, ddof=1) / np.sqrt(num_runs)
        wrong = np.flatnonzero(np.abs(ratio.mean(0) - 1.0) > threshold * error + 1e-3)
        assert not wrong.size, f"{c.name}: evidence at update {wrong[0]}: {ratio.mean(0)[wrong[0]]} ± {error[wrong[0]]}"


@partial(jax.jit, static_argnames="opponent")
def _bootstrap_step(beliefs, before, action, after, keys, *, opponent: OpponentModel):
    update = partial(bootstrap_update, opponent=opponent)
    beliefs, info = jax.vmap(update, (0, None, None, None, 0))(beliefs, before, action, after, keys)
    return beliefs, (jax.vmap(summary.expected_counts)(beliefs), info)


def check_bootstrap(case: str, num_games: int, num_steps: int, num_runs: int, num_particles: int) -> int:
    """Evidence and expected counts of the bootstrap filter as far as no run is depleted; the number of steps compared."""
    opponent, compared = CASES[case][1], 0
    games = jax.tree.map(lambda x: x[:num_games, : num_steps + 1], games_of(case))
    begin = jax.jit(jax.vmap(partial(bootstrap_init, num_particles=num_particles), (None, 0)))
    threshold = stats.t.isf(ERROR_PROBABILITY / 2 / 5000, num_runs - 1)
    for index in range(num_games):
        steps = steps_of(jax.tree.map(lambda x, i=index: x[i], games), index % 2)
        keys = jax.random.split(jax.random.key(index), num_runs)
        exact, beliefs = exact_init(steps[0][0]), begin(steps[0][0], keys)
        log_ratio = np.zeros(num_runs)
        for t, (before, action, after) in enumerate(steps):
            keys_t = fold_in_all(keys, t)
            beliefs, (expected, info) = _bootstrap_step(beliefs, before, np.int32(action), after, keys_t, opponent=opponent)
            exact, log_evidence = exact_update(exact, before, action, after, opponent=opponent)
            assert not info.inconsistent.any()
            if info.depleted.any():
                break
            log_ratio += np.asarray(info.log_evidence, float) - log_evidence
            ratio = np.exp(log_ratio)
            name = f"{case}, game {index}, update {t}"
            assert abs(ratio.mean() - 1.0) <= threshold * ratio.std(ddof=1) / np.sqrt(num_runs) + 1e-3, name
            # The estimate of a count, not normalised, is unbiased as well.
            weighted = ratio[:, None] * np.asarray(expected)
            error = weighted.std(0, ddof=1) / np.sqrt(num_runs)
            spread = np.sqrt(np.maximum(exact.expected_counts, 0.0) / num_particles / num_runs)
            assert (np.abs(weighted.mean(0) - exact.expected_counts) <= threshold * np.maximum(error, spread) + 1e-4).all(), name
            compared += 1
    return compared


@pytest.mark.slow
def test_every_variant_agrees_with_the_exact_filter(case: str):
    compared = comparisons(case, NUM_RUNS)
    check(compared, NUM_RUNS)
    assert sum(len(c.expected) for c in compared) > 80


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.optimized
def test_the_bootstrap_filter_agrees_in_every_variant(case: str):
    assert check_bootstrap(case, 6, 24, 24, 4096) > 30

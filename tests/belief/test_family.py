"""Opponents of several types: P(hand, type) of the exact filter against plain Python, and of the particle filter against it."""

from __future__ import annotations

import dataclasses
import math
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.belief import oracle
from tests.belief.filtering import FILTER
from tests.belief.oracle import FORFEITING, THIN, play_games
from tests.belief.test_exact import choosy_opponent, choosy_policy
from tests.belief.test_exact_variants import VARIANTS
from tests.belief.test_particles import CAPACITY
from tests.belief.test_particles_variants import steps_of
from tests.helpers import ERROR_PROBABILITY, assert_trees_equal, fold_in_all, play, slow_but
from unojax import game
from unojax.analysis.calibration import calibrate
from unojax.belief import Family, belief_init, belief_update, history, summary, uniform_opponent
from unojax.belief.adaptive import resize
from unojax.belief.bootstrap import bootstrap_init, bootstrap_update
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.opponents import PolicyOpponent
from unojax.belief.particles import likelihood
from unojax.belief.tracking import track
from unojax.belief.updaters import ExactFilter, ParticleFilter
from unojax.observation import Observation, observe
from unojax.policies import POLICIES
from unojax.rules import Rules

NUM_STEPS = 25
NUM_RUNS = 40
NUM_PARTICLES = 512
FEW_PLAYS = 7
"""Room for one play more than most games of the small deck have."""


def first_opponent(observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """Plays the legal action of the lowest number: most hands that could have played make what it did impossible."""
    return (jnp.arange(len(legal_mask)) == jnp.argmax(legal_mask)).astype(jnp.float32)


def first_policy(hand: oracle.Hand, action: int, legal: list[int]) -> float:
    return float(action == min(legal))


Joint = dict[tuple[int, oracle.World], float]
THREE = Family((uniform_opponent, choosy_opponent, first_opponent), ("uniform", "choosy", "first"), (1.0, 2.0, 1.0))
POLICIES_OF_THREE = (oracle.uniform_policy, choosy_policy, first_policy)
TREMBLING = Family(
    (uniform_opponent, PolicyOpponent(POLICIES["scarcest-color"], 0.1), PolicyOpponent(POLICIES["linear"], 0.3)),
)


def steps_seen(lane: int, rules: Rules = FORFEITING, player: int = 0) -> list[tuple[Observation, int, Observation]]:
    """The steps of a random game at which anything happened, as a player saw them."""
    record = play_games(seed=3, num_games=300, num_steps=NUM_STEPS, rules=rules)
    happened = record.happened[:, lane].tolist()
    steps = np.flatnonzero(np.array(happened) != game.NO_ACTION).tolist()
    return [(record.view(player, t, lane), happened[t], record.view(player, t + 1, lane)) for t in steps]


def test_exact_filter_against_worlds_with_a_type() -> None:
    """The opponent's type is one more hidden thing of each world, and is never summed over before the comparison."""
    told, ruled_out = 0, 0
    for lane in (0, 1, 2, 3, 5, 8):
        steps = steps_seen(lane)
        belief = exact_init(steps[0][0], prior="deal", opponent=THREE)
        worlds = oracle.deal(steps[0][0], sees_start=True)
        joint = {(k, world): weight * p for k, weight in enumerate((0.25, 0.5, 0.25)) for world, p in worlds.items()}
        of_type = [0.25, 0.5, 0.25]
        for before, action, after in steps:
            belief, log_evidence = exact_update(belief, before, action, after, opponent=THREE)
            joint, evidence = follow_worlds(joint, action, after)
            assert log_evidence == pytest.approx(math.log(evidence), abs=1e-5)
            assert belief.log_type_probs is not None
            of_type = [sum(p for (k, _), p in joint.items() if k == which) for which in range(3)]
            np.testing.assert_allclose(np.exp(belief.log_type_probs), of_type, atol=1e-5)
            hands: dict[oracle.Hand, float] = {}
            for (_, world), p in joint.items():
                hands[world.hands[1]] = hands.get(world.hands[1], 0.0) + p
            counts, probs = belief.hands()
            listed = {tuple(np.repeat(np.arange(54), c).tolist()): float(p) for c, p in zip(counts, probs, strict=True)}
            for hand in hands.keys() | listed.keys():
                assert listed.get(hand, 0.0) == pytest.approx(hands.get(hand, 0.0), abs=1e-5), hand
        told += np.ptp(of_type) > 0.2
        ruled_out += of_type[2] == 0
    assert told
    assert ruled_out


def follow_worlds(joint: Joint, action: int, after: Observation) -> tuple[Joint, float]:
    """Condition worlds with a type on a step; and the probability of what was seen."""
    kept: Joint = {}
    for k, policy in enumerate(POLICIES_OF_THREE):
        mine = {world: p for (of, world), p in joint.items() if of == k}
        try:
            worlds, evidence = oracle.update(mine, action, after, policy=policy, rules=FORFEITING)
        except ZeroDivisionError:
            # The type would never have done this.
            continue
        kept |= {(k, world): p * evidence for world, p in worlds.items() if p * evidence > 0}
    total = sum(kept.values())
    return {key: p / total for key, p in kept.items()}, total


class Tracks(NamedTuple):
    """R runs of a filter over n steps: P(type), expected counts and log evidence; and the exact filter's."""

    type_probs: np.ndarray
    expected: np.ndarray
    log_evidence: np.ndarray
    exact_types: np.ndarray
    exact_expected: np.ndarray
    exact_evidence: np.ndarray
    restarted: np.ndarray


@partial(jax.jit, static_argnames=("family", "prior", "max_plays"))
def begin_runs(keys: jax.Array, seen: Observation, *, family: Family, prior: history.Prior, max_plays: int) -> Any:
    room = CAPACITY | {"max_plays": max_plays}
    start = partial(belief_init, num_particles=NUM_PARTICLES, prior=prior, opponent=family, **room)
    return jax.vmap(lambda key: start(seen, key))(keys)


@partial(jax.jit, static_argnames="family")
def advance_runs(beliefs: Any, before: Observation, action: jax.Array, after: Observation, keys: jax.Array, *, family: Family):
    update = partial(belief_update, opponent=family)
    beliefs, info = jax.vmap(update, (0, None, None, None, 0))(beliefs, before, action, after, keys)
    return beliefs, (info, jax.vmap(summary.expected_counts)(beliefs), jax.vmap(summary.type_probs)(beliefs))


Steps = list[tuple[Observation, int, Observation]]


def compare(family: Family, steps: Steps, prior: history.Prior, seed: int, max_plays: int = CAPACITY["max_plays"]) -> Tracks:
    keys = jax.random.split(jax.random.key(seed), NUM_RUNS)
    beliefs = begin_runs(keys, steps[0][0], family=family, prior=prior, max_plays=max_plays)
    exact, rows = exact_init(steps[0][0], prior=prior, opponent=family), []
    for t, (before, action, after) in enumerate(steps):
        keys_t = fold_in_all(keys, t)
        beliefs, told = advance_runs(beliefs, before, np.int32(action), after, keys_t, family=family)
        info, expected, type_probs = jax.device_get(told)
        np.testing.assert_array_equal(info.type_probs, type_probs)
        exact, log_evidence = exact_update(exact, before, action, after, opponent=family)
        assert exact.log_type_probs is not None
        exactly = np.exp(exact.log_type_probs), exact.expected_counts, log_evidence
        rows.append((type_probs, expected, info.log_evidence, *exactly, info.restarted))
    parts = [np.stack(column) for column in zip(*rows, strict=True)]
    return Tracks(*(np.swapaxes(part, 0, 1) if part.ndim > 1 and len(part[0]) == NUM_RUNS else part for part in parts))


@cache
def tracks(which: str) -> list[Tracks]:
    if which == "trembling":
        return [compare(TREMBLING, steps_seen(lane), "deal", lane, FEW_PLAYS) for lane in (0, 1, 4, 7)]
    if which == "not packed, thin":
        return [compare(THREE, steps_seen(lane, THIN, 1), "uniform", lane) for lane in (0, 3, 6)]
    rules = VARIANTS[which]
    models = (uniform_opponent, PolicyOpponent(POLICIES["guard"], 0.3), PolicyOpponent(POLICIES["linear"]))
    family = Family(models, weights=(1.0, 1.0, 2.0))
    games = play(3, num_games=4, num_steps=20, rules=rules)
    seen = [steps_of(jax.tree.map(lambda x, i=i: x[i], games.states), i % 2) for i in range(4)]
    return [compare(family, steps, "uniform", number) for number, steps in enumerate(seen) if steps]


CASES = pytest.mark.parametrize(
    "which",
    [
        "trembling",
        *(
            pytest.param(name, marks=[pytest.mark.optimized, pytest.mark.long])
            for name in ("not packed, thin", "official", "no wild+4 beside the colour")
        ),
    ],
)


@pytest.mark.slow
@CASES
def test_particles_agree_with_the_exact_filter(which: str) -> None:
    """P(type) and expected counts after each update: t-tests over independent runs; fails with probability 1e-6 in all.

    The bias of the filter, of order 1/N, is allowed for by 2 / N.
    """
    compared = tracks(which)
    num_tests = sum(c.exact_types.size + c.exact_expected.size for c in compared)
    threshold = stats.t.isf(ERROR_PROBABILITY / 2 / num_tests, NUM_RUNS - 1)
    told = 0
    for c in compared:
        assert not c.restarted.any()
        for got, exactly in ((c.type_probs, c.exact_types), (c.expected, c.exact_expected)):
            error = np.maximum(got.std(0, ddof=1), np.sqrt(exactly / NUM_PARTICLES) / 3) / np.sqrt(NUM_RUNS)
            wrong = np.argwhere(np.abs(got.mean(0) - exactly) > threshold * error + 2 / NUM_PARTICLES)
            assert not wrong.size, wrong[0]
        np.testing.assert_allclose(c.type_probs.sum(-1), 1.0, rtol=1e-5)
        told += np.ptp(c.exact_types[-1]) > 0.2
    assert told > 0


@pytest.mark.slow
@CASES
def test_evidence_is_unbiased(which: str) -> None:
    """The mean over runs of estimated / exact evidence up to each update; a right filter fails with probability 1e-6."""
    ratios = [np.exp((c.log_evidence - c.exact_evidence).cumsum(1, dtype=np.float64)) for c in tracks(which)]
    threshold = stats.t.isf(ERROR_PROBABILITY / 2 / sum(r.shape[1] for r in ratios), NUM_RUNS - 1)
    for ratio in ratios:
        error = ratio.std(0, ddof=1) / np.sqrt(NUM_RUNS)
        assert (np.abs(ratio.mean(0) - 1.0) <= threshold * error + 1e-3).all()


@pytest.mark.slow
def test_a_family_of_one_is_its_model() -> None:
    """The same particles, weights and diagnostics, to the bit."""
    steps = steps_seen(2)
    beliefs: list[Any] = []
    for filter in (FILTER, dataclasses.replace(FILTER, opponent=Family((FILTER.opponent,)))):
        views = [steps[0][0], *(after for _, _, after in steps[:8])]
        beliefs.append(list(track(filter, jax.random.key(1), views)))
    for (one, info), (of_family, told) in zip(*beliefs, strict=True):
        plain = dataclasses.replace(of_family, log_types=None, log_likelihood=of_family.log_likelihood[0])
        assert_trees_equal(plain, one)
        np.testing.assert_allclose(summary.type_probs(of_family), [1.0], rtol=1e-6)
        if info is not None:
            assert_trees_equal(told._replace(type_probs=None), info)


@pytest.mark.parametrize("lane", slow_but([170], [170, 299]))
def test_a_belief_begun_anew_keeps_the_types(lane: int) -> None:
    """With room for few plays the hand's history is dropped; what was learned of the type goes on as the prior."""
    steps, keys = steps_seen(lane), jax.random.split(jax.random.key(lane), NUM_RUNS)
    beliefs, restarts = begin_runs(keys, steps[0][0], family=TREMBLING, prior="deal", max_plays=FEW_PLAYS), 0
    learned: Any = np.full((NUM_RUNS, 3), 1 / 3)
    for t, (before, action, after) in enumerate(steps):
        keys_t = fold_in_all(keys, t)
        beliefs, (info, _, type_probs) = advance_runs(beliefs, before, np.int32(action), after, keys_t, family=TREMBLING)
        if np.asarray(info.restarted).any() and not after.terminated:
            restarts += 1
            assert np.asarray(info.restarted).all() and not np.asarray(info.depleted).any()
            np.testing.assert_allclose(np.exp(beliefs.log_types), type_probs, rtol=1e-4)
            # This step was the opponent's, and told of its type as well.
            assert np.abs(np.exp(beliefs.log_types) - learned).max() < 0.5
            assert (np.ptp(np.asarray(beliefs.log_types), axis=-1) > 0.01).all()
        learned = type_probs
    assert restarts == 1


@pytest.mark.slow
def test_what_was_learned_goes_on_in_the_next_game() -> None:
    """The posterior of one game as the prior of the next: the product of the evidence of both, as exactly as each filter is."""
    one, two = steps_seen(0), steps_seen(4)
    exact, cloud = ExactFilter(TREMBLING), ParticleFilter(NUM_PARTICLES, TREMBLING, **CAPACITY | {"max_plays": FEW_PLAYS})
    keys = jax.random.split(jax.random.key(5), NUM_RUNS)
    # The first game of each run is the same to the bit, and begins without anything learned.
    log_types = np.log(np.full((NUM_RUNS, 3), 1 / 3, np.float32))
    carried: Any = None
    beliefs: Any = None
    begin = jax.jit(jax.vmap(cloud.init, (0, None, 0)))
    for steps in (one, two):
        belief = exact.init(jax.random.key(5), steps[0][0], carried)
        beliefs = begin(keys, steps[0][0], log_types)
        for t, (before, action, after) in enumerate(steps):
            belief, _ = exact.update(jax.random.key(t), belief, before, jnp.int32(action), after)
            keys_t = fold_in_all(keys, t)
            beliefs, _ = advance_runs(beliefs, before, np.int32(action), after, keys_t, family=TREMBLING)
        carried, log_types = np.asarray(belief.log_type_probs), np.asarray(jax.vmap(lambda one: one.log_type_probs)(beliefs))
    alone = []
    for steps in (one, two):
        one_game = exact_init(steps[0][0], prior="deal", opponent=TREMBLING)
        for before, action, after in steps:
            one_game, _ = exact_update(one_game, before, action, after, opponent=TREMBLING)
        alone.append(one_game.log_type_probs)
    # A uniform prior, and independent games.
    product = np.exp(np.sum(alone, 0))
    np.testing.assert_allclose(np.exp(carried), product / product.sum(), rtol=1e-6)
    # The standard error of one run's probability is some 0.05.
    np.testing.assert_allclose(np.exp(log_types).mean(0), product / product.sum(), atol=0.03)
    of_one: Any = jax.tree.map(lambda x: x[0], beliefs)
    fewer = resize(of_one, jax.random.key(1), num_particles=300)
    assert fewer.log_likelihood.shape == (3, 300)
    np.testing.assert_allclose(summary.type_probs(fewer), summary.type_probs(of_one), atol=0.02)


def test_a_model_that_answers_nan_is_impossible_and_the_others_are_not() -> None:
    log_lik = likelihood.by_type(
        [jnp.log(jnp.array([0.5, 0.25])), jnp.full(2, jnp.nan)], Family((uniform_opponent, choosy_opponent))
    )
    log_types = jnp.log(jnp.array([0.25, 0.75]))
    np.testing.assert_allclose(jnp.exp(likelihood.mixed(log_lik, log_types)), [0.125, 0.0625], rtol=1e-6)
    told = likelihood.log_type_probs(likelihood.log_joint(jnp.log(jnp.array([1.0, 0.0])), log_lik, log_types))
    np.testing.assert_allclose(jnp.exp(told), [1.0, 0.0])


def test_each_particle_tells_the_types_apart_by_itself() -> None:
    log_lik = jnp.log(jnp.array([[0.5, 0.25], [0.1, 0.4]]))
    joint = likelihood.log_joint(jnp.log(jnp.array([0.6, 0.4])), log_lik, jnp.log(jnp.array([0.25, 0.75])))
    expected = np.array([[0.6 * 125 / 200, 0.4 * 625 / 3625], [0.6 * 75 / 200, 0.4 * 3000 / 3625]])
    np.testing.assert_allclose(jnp.exp(joint), expected, rtol=1e-6)
    np.testing.assert_allclose(jnp.exp(likelihood.log_type_probs(joint)), expected.sum(1), rtol=1e-6)


def test_beliefs_and_opponents_that_do_not_belong_together() -> None:
    before, action, after = steps_seen(0)[0]
    plain = belief_init(before, jax.random.key(0), num_particles=4, **CAPACITY)
    typed = belief_init(before, jax.random.key(0), num_particles=4, opponent=TREMBLING, **CAPACITY)
    arguments = before, jnp.int32(action), after, jax.random.key(1)
    family: Any = TREMBLING
    with pytest.raises(ValueError, match=r"tells no types of opponents apart, and this opponent has 3; begin with the same one"):
        belief_update(plain, *arguments, opponent=TREMBLING)
    with pytest.raises(ValueError, match=r"tells 3 types of opponents apart, and this opponent has none"):
        belief_update(typed, *arguments)
    with pytest.raises(ValueError, match="tracks no opponent types: begin it with a family"):
        summary.type_probs(plain)
    with pytest.raises(ValueError, match=r"log_types must be float\[3\], one for each type, got shape \(2,\)"):
        belief_init(before, jax.random.key(0), num_particles=4, opponent=TREMBLING, log_types=np.zeros(2))
    with pytest.raises(ValueError, match="log_types are given and the opponent is a single model"):
        belief_init(before, jax.random.key(0), num_particles=4, log_types=np.zeros(2))
    with pytest.raises(ValueError, match="tells no types of opponents apart, and this opponent has 3"):
        exact_update(exact_init(before), before, action, after, opponent=TREMBLING)
    with pytest.raises(ValueError, match="the bootstrap filter takes one opponent model, got a family"):
        bootstrap_update(bootstrap_init(before, jax.random.key(0), num_particles=4), *arguments, opponent=family)


def test_a_history_that_no_type_explains() -> None:
    never = Family((first_opponent,))

    def follow_all() -> None:
        for lane in range(10):
            steps = steps_seen(lane)
            belief = exact_init(steps[0][0], opponent=never)
            for before, action, after in steps:
                belief, _ = exact_update(belief, before, action, after, opponent=never)

    with pytest.raises(ValueError, match="no hand of the belief explains what happened"):
        follow_all()


@pytest.mark.slow
@pytest.mark.optimized
def test_types_are_calibrated() -> None:
    """Games of the full deck against opponents whose types are drawn from the prior: of what is said with 80 %, 80 % is so.

    Predictions after the 10th, 20th ... step, of each type, in bins; each bin's surplus within 4 standard errors.
    """
    num_games, num_steps, family = 400, 50, Family((*TREMBLING.models, PolicyOpponent(POLICIES["actions-first"], 0.1)))

    def one_game(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        key_type, key_game, key_belief, key_steps = jax.random.split(key, 4)
        which = jax.random.randint(key_type, (), 0, family.num_types)
        state = game.init(key_game)
        belief = belief_init(observe(state, 0), key_belief, num_particles=128, prior="deal", opponent=family)

        def one_step(carry: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            state, belief = carry
            key_action, key_draw, key_update = jax.random.split(key, 3)
            legal = game.legal_mask(state)
            view = observe(state, 1)
            probs = jnp.stack([model(view, legal) for model in family.models])[which]
            probs = jnp.where(state.current_player == 1, probs, legal.astype(jnp.float32))
            action = jax.random.categorical(key_action, jnp.log(probs)).astype(jnp.int32)
            after = game.step(state, action, key_draw)
            seen = observe(state, 0), observe(after, 0)
            belief, _ = belief_update(belief, seen[0], history.infer_action(*seen), seen[1], key_update, opponent=family)
            return (after, belief), summary.type_probs(belief)

        _, probs = jax.lax.scan(one_step, (state, belief), jax.random.split(key_steps, num_steps))
        return which, probs[9::10]

    keys = jax.random.split(jax.random.key(3), num_games)
    which, probs = jax.device_get(jax.jit(partial(jax.lax.map, one_game))(keys))
    happened = np.broadcast_to(which[:, None, None] == np.arange(family.num_types), probs.shape)
    told = calibrate(np.clip(probs, 0, 1), happened, np.ones(probs.shape, bool))
    assert len(told.number) == 10
    for surplus in told.surplus:
        assert abs(surplus.value) <= 4 * surplus.standard_error + 0.005, told
    # And it learns: the true type has more than its prior of a quarter.
    assert probs[np.arange(num_games), -1, which].mean() > 0.45

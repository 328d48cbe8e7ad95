"""Opponents of several types in the particle filter: evidence, restarts, calibration."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.games import games_of
from tests.belief.models import TREMBLING
from tests.belief.oracle import FORFEITING
from tests.helpers import assert_trees_equal, fold_in_all, refusals
from unojax import cards, game
from unojax.analysis.calibration import calibrate
from unojax.belief import Belief, Family, belief_init, belief_update, history, summary, uniform_opponent
from unojax.belief.adaptive import resize
from unojax.belief.bootstrap import bootstrap_init, bootstrap_update
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.opponents import PolicyOpponent
from unojax.belief.particles import likelihood
from unojax.belief.particles.belief import report
from unojax.belief.tracking import track
from unojax.belief.updaters import ParticleFilter
from unojax.observation import observe
from unojax.policies import POLICIES
from unojax.rules import Rules

PROGRAMS: Final = 150  # refusals build beliefs outside of jit


NUM_RUNS, NUM_PARTICLES = 16, 256
FILTER = ParticleFilter(NUM_PARTICLES, TREMBLING, max_slots=48, max_plays=5)
"""With room for few plays."""
begin = jax.jit(jax.vmap(FILTER.init, (0, None, 0)))
advance = jax.jit(jax.vmap(FILTER.update, (0, 0, None, None, None)))


def test_a_belief_that_begins_again_keeps_the_types() -> None:
    """A restart drops the hand's history; the posterior over types becomes the prior."""
    games = games_of(FORFEITING)
    theirs = (games.states.current_player[:, :-1] == 1) & (games.actions >= 0) & (games.actions < cards.DRAW)
    number = int(np.argmax(theirs.sum(1)))
    steps, keys = games.steps(0, number), jax.random.split(jax.random.key(number), NUM_RUNS)
    prior = np.log(np.full((NUM_RUNS, 3), 1 / 3, np.float32))
    beliefs, restarts = begin(keys, steps[0][0], prior), 0
    for t, (before, action, after) in enumerate(steps):
        beliefs, info = jax.device_get(advance(fold_in_all(keys, t), beliefs, before, np.int32(action), after))
        if info.restarted.any() and not after.terminated:
            restarts += 1
            assert info.restarted.all() and not info.depleted.any()
            np.testing.assert_allclose(np.exp(beliefs.log_types), info.type_probs, rtol=1e-4)
            assert (np.ptp(beliefs.log_types, axis=-1) > 0.01).all() and np.ptp(info.type_probs, axis=0).max() < 0.5
    assert restarts >= 1
    # Resampled to another size, it keeps them too.
    one = jax.tree.map(lambda x: x[0], beliefs)
    fewer = jax.jit(partial(resize, num_particles=200))(one, jax.random.key(1))
    assert fewer.log_likelihood.shape == (3, 200)
    np.testing.assert_allclose(summary.type_probs(fewer), summary.type_probs(one), atol=0.02)


@pytest.mark.slow
def test_a_family_of_one_is_its_model() -> None:
    """Particles, weights and diagnostics are bit-identical."""
    steps, beliefs = games_of(FORFEITING).steps(0, 2)[:8], []
    for opponent in (uniform_opponent, Family((uniform_opponent,))):
        views = [steps[0][0], *(after for _, _, after in steps)]
        beliefs.append(list(track(dataclasses.replace(FILTER, opponent=opponent), jax.random.key(1), views)))
    for (one, info), (of_family, typed) in zip(*beliefs, strict=True):
        plain = dataclasses.replace(of_family, log_types=None, log_likelihood=of_family.log_likelihood[0])
        assert_trees_equal(plain, one)
        np.testing.assert_allclose(summary.type_probs(of_family), [1.0], rtol=1e-6)
        if info is not None:
            assert_trees_equal(typed._replace(type_probs=None), info)


def test_evidence_about_types_by_hand() -> None:
    """Each particle has its own posterior; a model that returns NaN is impossible."""
    log_lik = np.log(np.array([[0.5, 0.25], [0.1, 0.4]], np.float32))
    log_types = np.log(np.array([0.25, 0.75], np.float32))
    joint = likelihood.log_joint(np.log(np.array([0.6, 0.4], np.float32)), log_lik, log_types)
    expected = np.array([[0.6 * 125 / 200, 0.4 * 625 / 3625], [0.6 * 75 / 200, 0.4 * 3000 / 3625]])
    np.testing.assert_allclose(np.exp(joint), expected, rtol=1e-6)
    np.testing.assert_allclose(np.exp(likelihood.log_type_probs(joint)), expected.sum(1), rtol=1e-6)
    log_lik = likelihood.by_type([jnp.log(jnp.array([0.5, 0.25])), jnp.full(2, jnp.nan)], TREMBLING)
    np.testing.assert_allclose(np.exp(likelihood.mixed(log_lik, log_types)), [0.125, 0.0625], rtol=1e-6)
    joint = likelihood.log_joint(jnp.array([0.0, -jnp.inf]), log_lik, log_types)
    np.testing.assert_allclose(np.exp(likelihood.log_type_probs(joint)), [1.0, 0.0])


def test_what_is_reported_of_impossible_trajectories_by_hand() -> None:
    """A trajectory may be impossible for all types, also before, or for one of them."""
    belief = jax.eval_shape(
        partial(belief_init, num_particles=3, opponent=TREMBLING),
        games_of(FORFEITING).view(0, 0, 0),
        jax.random.key(0),
    )
    with np.errstate(divide="ignore"):
        lenient = np.log(np.float32([[0.5, 0.2, 0.0], [0.5, 0.4, 0.0]]))
        strict = np.log(np.float32([[0.5, 0.2, 0.0], [0.5, 0.0, 0.0]]))
        log_weights, log_types = np.log(np.float32([0.4, 0.6, 0.0])), np.log(np.float32([0.25, 0.75]))
    belief = Belief.of(log_weights, lenient, belief.trajectories, belief.public, belief.seen, Rules.official(), log_types)
    reported = report(belief, strict)
    # The second trajectory keeps the share 0.25 * 0.2 of 0.25 * 0.2 + 0.75 * 0.4.
    kept = 0.6 * 0.05 / 0.35
    np.testing.assert_allclose(np.exp(reported.log_weights), np.array([0.4, kept, 0]) / (0.4 + kept), rtol=1e-5)
    np.testing.assert_allclose(np.exp(reported.target.log_possible), 0.4 + kept, rtol=1e-5)


def test_refusals() -> None:
    before, action, after = games_of(FORFEITING).steps(0, 0)[0]
    step, key, few = (before, np.int32(action), after, jax.random.key(1)), jax.random.key(0), {"num_particles": 4}
    plain, typed = belief_init(before, key, **few), belief_init(before, key, opponent=TREMBLING, **few)
    bootstrap, family = bootstrap_init(before, key, **few), dict[str, Any](opponent=TREMBLING)
    refusals(
        {
            "opponent has 3": lambda: belief_update(plain, *step, **family),
            "opponent has none": lambda: belief_update(typed, *step),
            "opponent has 3 (exact)": lambda: exact_update(exact_init(before), before, action, after, **family),
            "family": lambda: bootstrap_update(bootstrap, *step, **family),
            "opponent types": lambda: summary.type_probs(plain),
            "log_types": lambda: belief_init(before, key, log_types=np.zeros(2), **family, **few),
            "log_types (single model)": lambda: belief_init(before, key, log_types=np.zeros(2), **few),
        }
    )


@pytest.mark.slow
@pytest.mark.optimized
def test_types_are_calibrated() -> None:
    """Opponent types are drawn from the prior, so 80% of all 80% forecasts are right.

    Forecasts of each type after every 10th step; the surplus in each bin is within 4 standard errors.
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
            legal, view = game.legal_mask(state), observe(state, 1)
            probs = jnp.stack([model(view, legal) for model in family.models])[which]
            probs = jnp.where(state.current_player == 1, probs, legal.astype(jnp.float32))
            action = jax.random.categorical(key_action, jnp.log(probs)).astype(jnp.int32)
            after = game.step(state, action, key_draw)
            seen = observe(state, 0), observe(after, 0)
            belief, _ = belief_update(belief, seen[0], history.infer_action(*seen), seen[1], key_update, opponent=family)
            return (after, belief), summary.type_probs(belief)

        _, probs = jax.lax.scan(one_step, (state, belief), jax.random.split(key_steps, num_steps))
        return which, probs[9::10]

    which, probs = jax.device_get(jax.jit(partial(jax.lax.map, one_game))(jax.random.split(jax.random.key(3), num_games)))
    happened = np.broadcast_to(which[:, None, None] == np.arange(family.num_types), probs.shape)
    calibration = calibrate(np.clip(probs, 0, 1), happened, np.ones(probs.shape, bool))
    assert len(calibration.number) == 10
    for surplus in calibration.surplus:
        assert abs(surplus.value) <= 4 * surplus.standard_error + 0.005, calibration
    # And it learns: the true type has more than its prior of a quarter.
    assert probs[np.arange(num_games), -1, which].mean() > 0.45

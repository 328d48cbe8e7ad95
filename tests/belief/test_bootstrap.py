"""The bootstrap filter against the exact one before it collapses, and that it reports its collapse."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.filtering import follow, game_of
from tests.belief.oracle import FORFEITING, FULL, THIN, Record, play_games
from tests.helpers import counts_of
from unojax import bits, cards, game
from unojax.belief import history, opponents, summary
from unojax.belief.bootstrap import bootstrap_init, bootstrap_update
from unojax.belief.exact import exact_init, exact_update
from unojax.decks import small_deck
from unojax.observation import Observation, observe
from unojax.policies import get_policy
from unojax.rules import Rules

NUM_STEPS = 14
RUNS = 48
PARTICLES = 1024
Z = 5.7
"""Two-sided normal quantile for 1e-8; with some 4,000 comparisons a right filter fails with probability below 1e-4."""
MODELS = {
    "uniform": opponents.uniform_opponent,
    "scarcest": opponents.PolicyOpponent(get_policy("scarcest-color"), tremble=0.2),
}

# Made once, so that each is compiled once.
run_init = partial(bootstrap_init, num_particles=PARTICLES)
RUN_UPDATES = {name: partial(bootstrap_update, opponent=model) for name, model in MODELS.items()}
full_init = jax.jit(partial(bootstrap_init, num_particles=256))
full_update = jax.jit(bootstrap_update)
small_init = jax.jit(partial(bootstrap_init, num_particles=32))
small_update = full_update


def games(rules: Rules) -> Record:
    return play_games(seed=3, num_games=300, num_steps=25, rules=rules)


@pytest.mark.parametrize(
    ("rules", "model", "lanes"),
    [
        (FORFEITING, "uniform", 3),
        pytest.param(THIN, "uniform", 4, marks=pytest.mark.slow),
        pytest.param(FORFEITING, "scarcest", 3, marks=pytest.mark.slow),
    ],
)
def test_agrees_with_the_exact_filter(rules: Rules, model: str, lanes: int) -> None:
    """Expected counts of runs without a collapse so far, and the evidence over all runs, which is unbiased."""
    record, opponent = games(rules), MODELS[model]
    compared = informative = 0
    for lane in range(lanes):
        views = game_of(record, lane % 2, lane, NUM_STEPS)
        keys = jax.random.split(jax.random.key(lane), RUNS)
        means, infos = jax.device_get(follow(views, keys, init=run_init, update=RUN_UPDATES[model]))
        before = jax.tree.map(lambda x: x[0], views)
        belief = exact_init(before)
        log_evidence, log_likelihood = np.zeros(RUNS), 0.0
        for t in range(NUM_STEPS):
            after = jax.tree.map(lambda x, t=t: x[t + 1], views)
            action = int(history.infer_action(before, after))
            belief, log_step = exact_update(belief, before, action, after, opponent=opponent)
            log_likelihood += log_step
            log_evidence += infos.log_evidence[:, t]
            assert not infos.depleted[:, : t + 1].any(), "the decks of this test are too small for a collapse"
            errors = means[:, t + 1] - belief.expected_counts
            # 1e-3 covers the bias of a ratio estimate, which is of the order 1 / N.
            assert (np.abs(errors.mean(0)) <= Z * errors.std(0) / math.sqrt(RUNS) + 1e-3).all(), (lane, t)
            ratio = np.exp(log_evidence - log_likelihood)
            assert abs(ratio.mean() - 1) <= Z * ratio.std() / math.sqrt(RUNS) + 1e-4, (lane, t)
            compared += 1
            informative += log_step < -1e-3
            before = after
    assert compared == lanes * NUM_STEPS
    assert informative > 10


@pytest.mark.slow
def test_collapse_on_the_full_deck_is_reported() -> None:
    """After a collapse the belief is the uniform one of the present position: right counts, unseen cards alone, equal weights."""
    record = play_games(seed=1, num_games=100, num_steps=100, rules=FULL)
    depletions = 0
    for lane in range(2):
        views = game_of(record, 0, lane, 60)
        before = jax.tree.map(lambda x: x[0], views)
        belief = full_init(before, jax.random.key(lane))
        for t in range(60):
            after = jax.tree.map(lambda x, t=t: x[t + 1], views)
            key = jax.random.fold_in(jax.random.key(lane), t)
            belief, info = full_update(belief, before, record.happened[t, lane], after, key)
            assert info.restarted == info.depleted
            assert np.isfinite(belief.log_weights).all()
            assert np.exp(np.asarray(belief.log_weights)).sum() == pytest.approx(1.0, abs=1e-4)
            hands = np.asarray(belief.particles)
            assert (hands.sum(-1) == after.opponent_count).all()
            assert (counts_of(hands) <= Rules().deck - counts_of(after.hand) - counts_of(after.pile)).all()
            if info.depleted:
                depletions += 1
                assert info.ess == 0
                assert info.log_evidence == -math.inf
                assert np.ptp(belief.log_weights) == 0
            before = after
    assert depletions > 2


@pytest.mark.slow
def test_a_play_that_no_particle_explains_depletes() -> None:
    """The opponent plays the card that every particle lacks: reported, and begun anew with the right number of cards."""
    record = play_games(seed=1, num_games=100, num_steps=100, rules=FULL)
    s, happened = record.states, record.happened
    plays = (happened >= 0) & (happened < cards.DRAW) & (s.current_player[:-1] == 1) & ~s.terminated[1:]
    step, lane = np.argwhere(plays)[0]
    before, after = record.view(0, step, lane), record.view(0, step + 1, lane)
    belief = full_init(before, jax.random.key(0))
    # Hands of cards that the observer holds itself never include the one played, if it does not hold it too.
    played = int(history.played_type(after))
    lacking = np.asarray(before.unseen).copy()
    lacking[played] = 0
    hand = np.zeros(54, int)
    for card_type in np.flatnonzero(lacking)[: int(before.opponent_count)]:
        hand[card_type] = 1
    packed = bits.map_words(lambda w: jnp.broadcast_to(w, 256), bits.pack(cards.onehot(hand)))
    belief = dataclasses.replace(belief, packed=packed)
    action = happened[step, lane]
    updated, info = full_update(belief, before, action, after, jax.random.key(1))
    assert info.depleted
    assert info.ess == 0
    assert (updated.particles.sum(-1) == after.opponent_count).all()
    assert summary.num_distinct(updated) > 128


def test_nothing_happened() -> None:
    record = games(FORFEITING)
    view = record.view(0, 3, 0)
    belief = small_init(view, jax.random.key(0))
    same, info = small_update(belief, view, -1, view, jax.random.key(1))
    for a, b in zip(jax.tree.leaves(same), jax.tree.leaves(belief), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert info.log_evidence == pytest.approx(0.0, abs=1e-5)
    assert not info.resampled and not info.inconsistent


def test_what_does_not_belong_together_changes_nothing() -> None:
    """Above all an action that the observations do not show: it was conditioned on."""
    record = games(FORFEITING)
    happened, mover = record.happened, record.states.current_player[:-1]
    plays = (happened >= 0) & (happened < cards.DRAW) & (mover == 1) & ~record.states.terminated[1:]
    step, lane = np.argwhere(plays & (record.observations[0].opponent_count[:-1] > 1))[0]
    before, after = record.view(0, step, lane), record.view(0, step + 1, lane)
    belief = small_init(before, jax.random.key(0))
    action = happened[step, lane]
    _, info = small_update(belief, before, action, after, jax.random.key(1))
    assert not info.inconsistent
    elsewhere = small_init(replace_count(before), jax.random.key(0))
    for old, wrong, seen in (
        (belief, cards.DRAW, after),
        (belief, (action + 1) % 60, after),
        (belief, game.NO_ACTION, after),
        (belief, action, record.view(1, step + 1, lane)),
        (elsewhere, action, after),
    ):
        updated, info = small_update(old, before, np.int32(wrong), seen, jax.random.key(1))
        assert info.inconsistent
        assert not (info.depleted or info.resampled)
        for a, b in zip(jax.tree.leaves(updated), jax.tree.leaves(old), strict=True):
            np.testing.assert_array_equal(a, b)


def replace_count(seen: Observation) -> Observation:
    """The same with a card more in the opponent's hand."""
    return dataclasses.replace(seen, opponent_count=seen.opponent_count + np.int8(1), deck_count=seen.deck_count - np.int8(1))


def test_rules_are_checked() -> None:
    view = games(FORFEITING).view(0, 3, 0)
    belief = small_init(view, jax.random.key(0))
    other = dataclasses.replace(view, rules=THIN)
    for before, after in ((other, view), (view, other)):
        with pytest.raises(ValueError, match="rules differ"):
            bootstrap_update(belief, before, np.int32(-1), after, jax.random.key(1))


def test_deal_prior() -> None:
    """Expected counts against the exact prior, which differs visibly from the uniform one: 6 standard errors, below 1e-6."""
    rules = Rules(deck=small_deck(colors=1, ranks=(1, 2), wilds=3), hand_size=1)
    view = observe(game.init(jax.random.key(0), rules=rules), 0)
    n = 100_000
    belief = bootstrap_init(view, jax.random.key(1), num_particles=n, prior="deal")
    got = np.asarray(summary.expected_counts(belief))
    deal, flat = (exact_init(view, prior=prior).expected_counts for prior in ("deal", "uniform"))
    # Weights differ by a factor of at most 2, so the effective sample is above n / 2.
    tolerance = 6 * np.sqrt(0.25 / (n / 2))
    assert np.abs(got - deal).max() < tolerance < np.abs(flat - deal).max()


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="prior must be one of"):
        bootstrap_init(games(FORFEITING).view(0, 0, 0), jax.random.key(0), prior="flat")  # type: ignore[arg-type] the bad value is the test
    with pytest.raises(ValueError, match="num_particles must be an integer of at least 1, got 0"):
        bootstrap_init(games(FORFEITING).view(0, 0, 0), jax.random.key(0), num_particles=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ess_threshold": -3.0}, r"ess_threshold must be in \[0, 1\], got -3.0"),
        ({"action": 1.0}, "action"),
        ({"action": [1]}, "action"),
    ],
)
def test_bad_input_of_an_update(options: dict[str, Any], message: str) -> None:
    view = games(FORFEITING).view(0, 3, 0)
    belief = small_init(view, jax.random.key(0))
    action = np.asarray(options.pop("action", np.int32(-1)))
    with pytest.raises(ValueError, match=message):
        bootstrap_update(belief, view, action, view, jax.random.key(1), **options)

"""Beliefs along recorded games and decisions in them."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Final

import jax
import numpy as np
import pytest

from tests.helpers import counts_of, refusals, slow_but
from unojax import analysis, bits
from unojax.analysis import Decisions, Recorded, Tracks
from unojax.belief import closed_form, exact, summary
from unojax.belief.updaters import BootstrapFilter, ClosedFormFilter, ExactFilter, ParticleFilter, UniformFilter
from unojax.decks import small_deck
from unojax.observation import observe
from unojax.rules import Rules

PROGRAMS: Final = 110  # several for each updater


SMALL = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=3)
PLAYER, MAX_STEPS = 1, 24
"""So short that some games have no end in it."""
FILTERS = {f.name: f for f in (ParticleFilter(256), BootstrapFilter(32), ClosedFormFilter(), UniformFilter(32), ExactFilter())}


@cache
def games() -> Recorded:
    return analysis.record(jax.random.key(0), 24, max_steps=MAX_STEPS, rules=SMALL)


@cache
def tracks(name: str) -> Tracks:
    return analysis.track(jax.random.key(1), games(), FILTERS[name], player=PLAYER)


@cache
def decisions(name: str) -> Decisions:
    return analysis.decisions_of(jax.random.key(1), games(), FILTERS[name], player=PLAYER)


def is_tracked() -> np.ndarray:
    """Return the positions that have a belief, the start included, bool[G, T + 1]."""
    return np.arange(MAX_STEPS + 1) <= games().num_updates[:, None]


def test_recorded_games_end_where_they_say() -> None:
    over = games().states.is_over
    for g, number in enumerate(games().num_updates):
        assert not over[g, : number + 1].any()
        assert number == MAX_STEPS or over[g, number + 1 :].all()


@pytest.mark.parametrize("name", slow_but(["unseen cards", "exact"], FILTERS))
def test_columns_fit_the_games(name: str) -> None:
    result, here = tracks(name), is_tracked()
    held = counts_of(games().states.hands[:, :, 1 - PLAYER])
    assert np.array_equal(result.truth[here], held[here])
    # All beliefs know how many cards the opponent holds.
    assert np.allclose(result.expected.sum(2)[here], held.sum(2)[here], atol=2e-3)
    assert (result.prob_holds[here] <= result.expected[here] + 1e-4).all()
    assert not (result.expected[here] > 1e-4)[~result.is_unseen[here]].any()
    assert not any(rows[~here].any() for rows in result)
    # The closed forms start from the formula, and the exact filter from the deal.
    first = observe(jax.tree.map(lambda x: x[0, 0], games().states), PLAYER)
    if name == "exact":
        np.testing.assert_allclose(result.expected[0, 0], exact.exact_init(first, prior="deal").expected_counts, atol=1e-6)
    elif name in ("closed form", "unseen cards"):
        uniform = closed_form.uniform(first)
        np.testing.assert_allclose(result.expected[0, 0], uniform.expected_counts, atol=1e-6)
        score = summary.log_score(np.asarray(uniform.count_probs), held[0, 0])
        assert result.log_score[0, 0] == pytest.approx(score, rel=1e-5) and score < 0


@pytest.mark.slow
def test_filters_beside_the_exact_one() -> None:
    """With 256 particles a log score is off by 0.016 a type of this deck; uniform beliefs by much more.

    Contract: side by side and comparable on one scale (log score of the true hand's cards).
    """
    here, right = is_tracked(), tracks("exact")
    error = {name: np.abs(tracks(name).expected - right.expected)[here].mean() for name in FILTERS}
    assert error["particles 256"] < 0.004
    assert error["particles 256"] < 0.4 * error["closed form"] < 0.4 * error["unseen cards"]
    assert (
        right.log_score[here].mean()
        > tracks("closed form").log_score[here].mean()
        > tracks("unseen cards").log_score[here].mean()
    )
    assert not tracks("particles 256").depleted.any() and not right.depleted.any()
    bootstrap = tracks("bootstrap 32")
    assert bootstrap.depleted.any() and (bootstrap.ess_share[bootstrap.depleted] == 0).all()


def test_the_exact_belief_is_calibrated() -> None:
    """Six standard errors in each of ten bins: an error probability of 6e-7 each."""
    result = tracks("exact")
    counted = result.is_unseen & is_tracked()[..., None]
    calibration = analysis.calibrate(result.prob_holds, result.truth > 0, counted)
    assert calibration.number.sum() == counted.sum() and (calibration.number > 300).sum() > 2
    for number, surplus in zip(calibration.number, calibration.surplus, strict=True):
        assert number <= 300 or abs(surplus.value) < 6 * surplus.standard_error


def test_calibration_by_hand() -> None:
    predicted = np.array([[0.1, 0.15, 1.0], [0.12, 0.9, 0.95]])
    happened = np.array([[True, False, True], [False, True, False]])
    counted = np.array([[True, True, True], [True, False, True]])
    result = analysis.calibrate(predicted, happened, counted)
    assert result.number.tolist() == [3, 2]
    assert result.predicted == pytest.approx([0.37 / 3, 0.975])
    assert [o.value for o in result.observed] == pytest.approx([1 / 3, 0.5])
    assert [s.value for s in result.surplus] == pytest.approx([0.37 / 3 - 1 / 3, 0.475])
    assert result.mean_absolute_error == pytest.approx((3 * abs(0.37 - 1) / 3 + 2 * 0.475) / 5)


def decided_by_hand() -> list[tuple[int, int]]:
    """Return game and step of each decision, from the states alone."""
    states, found = games().states, []
    held = counts_of(states.hands[:, :, PLAYER])
    for g, t in np.ndindex(games().actions.shape):
        if not states.is_over[g, -1] or states.is_over[g, t] or states.current_player[g, t] != PLAYER or states.penalty[g, t]:
            continue
        fits = [
            k for k in np.flatnonzero(held[g, t]) if k >= 52 or k // 13 == states.color[g, t] or k % 13 == states.top_rank[g, t]
        ]
        # A wild card may declare any of four colours.
        if len(fits) > 1 or any(k >= 52 for k in fits):
            found.append((g, t))
    return found


@pytest.mark.parametrize("name", slow_but(["unseen cards"], ["unseen cards", "particles 256"]))
def test_decisions_are_all_choices_of_the_games_that_ended(name: str) -> None:
    """Results, true hands and particles belong to the decisions."""
    states, places, found = games().states, decided_by_hand(), decisions(name)
    assert 0 < states.is_over[:, -1].sum() < len(states.terminated)
    assert found.game.tolist() == [g for g, _ in places]
    assert found.action.tolist() == [games().actions[g, t] for g, t in places]
    assert found.legal[np.arange(len(places)), found.action].all() and (found.legal.sum(1) > 1).all()
    winner = states.winner[found.game, -1]
    assert {0, 1} <= set(winner.tolist())
    assert np.array_equal(found.points, np.where(winner == -1, 0.5, winner == PLAYER))
    hidden = np.stack([states.hands[g, t, 1 - PLAYER] for g, t in places])
    assert np.array_equal(bits.unpack(found.truth), hidden)
    believed = counts_of(bits.unpack(found.hands.packed))
    assert (believed.sum(-1) == found.observation.opponent_count[:, None]).all()
    assert (believed <= np.asarray(found.observation.unseen)[:, None]).all()
    weights = np.exp(found.hands.log_weights)
    assert np.allclose(weights.sum(1), 1, atol=1e-4)
    if name == "particles 256":
        # The filter's error is some 1 / sqrt(256) of a copy, or less; a belief of another position would be far off.
        expected = np.stack([tracks("exact").expected[g, t] for g, t in places])
        assert np.abs(np.einsum("dnt,dn->dt", believed, weights) - expected).mean() < 0.03


def test_refusals() -> None:
    states = games().states
    endless = games()._replace(states=dataclasses.replace(states, terminated=np.zeros_like(states.terminated)))

    def calibrate(predicted: float, counted: np.ndarray) -> object:
        return analysis.calibrate(np.full((2, 3), predicted), np.ones((2, 3), bool), counted)

    refusals(
        {
            "no decision": lambda: analysis.decisions_of(jax.random.key(4), endless, UniformFilter(32), player=PLAYER),
            "exact": lambda: decisions("exact"),
            "one shape": lambda: calibrate(0.5, np.ones((2, 2), bool)),
            "nothing to compare": lambda: calibrate(0.5, np.zeros((2, 3), bool)),
            "[0, 1], got 1.5": lambda: calibrate(1.5, np.ones((2, 3), bool)),
        }
    )

"""Beliefs along games: the columns fit the games, and the exact filter is calibrated and the best."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tests.helpers import slow_but
from unojax import analysis, cards
from unojax.analysis import Recorded, Tracks
from unojax.belief import closed_form, exact
from unojax.belief.updaters import BootstrapFilter, ClosedFormFilter, ExactFilter, ParticleFilter, UniformFilter
from unojax.decks import small_deck
from unojax.observation import observe
from unojax.rules import Rules

SMALL = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=3)
NUM_GAMES = 16


@pytest.fixture(scope="module")
def games() -> Recorded:
    return analysis.record(jax.random.key(0), NUM_GAMES, max_steps=40, rules=SMALL)


FILTERS = {f.name: f for f in (ParticleFilter(256), BootstrapFilter(32), ClosedFormFilter(), UniformFilter(), ExactFilter())}


class ByName(dict[str, Tracks]):
    """What each filter says of the games, followed when it is first asked for."""

    def __init__(self, games: Recorded):
        super().__init__()
        self.games = games

    def __missing__(self, name: str) -> Tracks:
        self[name] = analysis.track(jax.random.key(1), self.games, FILTERS[name], player=1)
        return self[name]


@pytest.fixture(scope="module")
def followed(games: Recorded) -> dict[str, Tracks]:
    return ByName(games)


def is_followed(games: Recorded) -> np.ndarray:
    """bool[G, T + 1]: positions that a belief follows, the start included."""
    return np.arange(games.actions.shape[1] + 1) <= games.num_updates[:, None]


def test_recorded_games_say_where_they_end(games: Recorded):
    over = games.states.is_over
    for g, number in enumerate(games.num_updates):
        assert not over[g, : number + 1].any()
        assert number == games.actions.shape[1] or over[g, number + 1 :].all()


# In the short part `test_decisions.py` has the particle filter, which takes long to compile.
@pytest.mark.parametrize("name", slow_but(["closed form", "unseen cards", "exact"], FILTERS))
def test_columns_fit_the_games(games: Recorded, followed: dict[str, Tracks], name: str):
    result, here = followed[name], is_followed(games)
    held = np.asarray(cards.counts(games.states.hands[:, :, 0]))
    assert np.array_equal(result.truth[here], held[here])
    # All beliefs know how many cards the opponent holds.
    assert np.allclose(result.expected.sum(2)[here], held.sum(2)[here], atol=2e-3)
    assert (result.prob_holds[here] <= result.expected[here] + 1e-4).all()
    assert not (result.expected[here] > 1e-4)[~result.is_unseen[here]].any()
    for rows in result:
        assert not rows[~here].any()


def test_start_of_the_closed_forms_is_the_formula(games: Recorded, followed: dict[str, Tracks]):
    first = jax.tree.map(lambda x: x[0, 0], games.states)
    expected = closed_form.uniform(observe(first, 1)).expected_counts
    for name in ("closed form", "unseen cards"):
        assert np.allclose(followed[name].expected[0, 0], expected, atol=1e-6)


def test_start_of_the_exact_filter_is_the_deal(games: Recorded, followed: dict[str, Tracks]):
    first = jax.tree.map(lambda x: x[0, 0], games.states)
    belief = exact.exact_init(observe(first, 1), prior="deal")
    assert np.allclose(followed["exact"].expected[0, 0], belief.expected_counts, atol=1e-6)


@pytest.mark.slow
def test_particles_follow_the_exact_filter(games: Recorded, followed: dict[str, Tracks]):
    here = is_followed(games)
    error = {name: np.abs(followed[name].expected - followed["exact"].expected)[here].mean() for name in FILTERS}
    # 256 particles leave about 0.016 a type with cards of this deck, over all 54 types a sixth of it; the uniform belief ten
    # times as much.
    assert not followed["particles 256"].depleted.any()
    assert error["particles 256"] < 0.01
    assert error["particles 256"] < 0.3 * error["closed form"] < 0.3 * error["unseen cards"]


@pytest.mark.slow
def test_depletion_is_noted(followed: dict[str, Tracks]):
    assert followed["bootstrap 32"].depleted.any()
    assert not followed["exact"].depleted.any()
    assert (followed["bootstrap 32"].ess_share[followed["bootstrap 32"].depleted] == 0).all()


def test_exact_belief_is_calibrated(games: Recorded, followed: dict[str, Tracks]):
    result = followed["exact"]
    calibration = analysis.calibrate(result.prob_holds, result.truth > 0, result.is_unseen & is_followed(games)[..., None])
    assert calibration.number.sum() == (result.is_unseen & is_followed(games)[..., None]).sum()
    # Five standard errors: 6e-7 for each of ten bins, if the errors were known; with 16 games they are not, hence bins with many.
    for number, surplus in zip(calibration.number, calibration.surplus, strict=True):
        if number > 300:
            assert abs(surplus.value) < 6 * surplus.standard_error


def test_calibration_by_hand():
    predicted = np.array([[0.1, 0.15, 1.0], [0.12, 0.9, 0.95]])
    happened = np.array([[True, False, True], [False, True, False]])
    counted = np.array([[True, True, True], [True, False, True]])
    result = analysis.calibrate(predicted, happened, counted)
    assert result.number.tolist() == [3, 2]
    assert result.predicted == pytest.approx([0.37 / 3, 0.975])
    assert [o.value for o in result.observed] == pytest.approx([1 / 3, 0.5])
    assert [s.value for s in result.surplus] == pytest.approx([0.37 / 3 - 1 / 3, 0.475])
    assert result.mean_absolute_error == pytest.approx((3 * abs(0.37 - 1) / 3 + 2 * 0.475) / 5)


@pytest.mark.parametrize(
    ("predicted", "counted", "message"),
    [
        (np.full((2, 3), 0.5), np.ones((2, 2), bool), "one shape"),
        (np.full((2, 3), 0.5), np.zeros((2, 3), bool), "nothing to compare"),
        (np.full((2, 3), 1.5), np.ones((2, 3), bool), r"in \[0, 1\], got 1.5"),
    ],
)
def test_bad_predictions(predicted: np.ndarray, counted: np.ndarray, message: str):
    with pytest.raises(ValueError, match=message):
        analysis.calibrate(predicted, np.ones((2, 3), bool), counted)

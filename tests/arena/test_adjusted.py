"""Variance-reduced scores: unbiased, with intervals that cover the truth."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.arena.players import SCARCEST
from tests.helpers import refusals
from unojax.agents import RESIGN, Agent, PolicyAgent
from unojax.arena import Pairs, adjusted, play_match
from unojax.arena.ratings import adjusted_score, paired_score
from unojax.arena.standings import standings_of
from unojax.policies import POLICIES, PackedPolicy
from unojax.rules import Rules
from unojax.simulation import count_games

pytestmark = pytest.mark.optimized

RULES = {
    "default": Rules(),
    "official": Rules.official(hand_size=4),
    "rlcard": Rules.rlcard(),
    "house": Rules.house(),
    "truncated": Rules(max_steps=30, step_penalty=0.01),
}
play = partial(play_match, jax.random.key(5))


@dataclass(frozen=True)
class Hidden:
    """A packed policy that is not recognized as one, so that a baseline replaces it."""

    policy: PackedPolicy

    def __call__(self, key, observation, legal_mask):
        return self.policy(key, observation, legal_mask)


def hidden(name: str) -> Agent:
    return PolicyAgent(f"hidden {name}", Hidden(POLICIES[name]))


@dataclass(frozen=True)
class Quitter:
    """Resigns at its first decision."""

    name: str = "quitter"

    def init(self, key, observation):
        return ()

    def update(self, key, memory, before, action, after):
        return memory

    def act(self, key, memory, observation, legal_mask):
        return jnp.int32(RESIGN)


def judged(
    first: Agent | str,
    second: Agent | str = SCARCEST,
    *,
    rules: Rules = RULES["default"],
    num_pairs: int = 192,
    rollouts: int = 64,
    baseline: str = adjusted.STAND_IN,
    batch_size: int = 384,
    workers: int = 1,
) -> Pairs:
    """Play a match with a baseline for agents that are not policies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adjusted, "STAND_IN", baseline)
        return play((first, second), num_pairs, rules=rules, adjust=rollouts, batch_size=batch_size, workers=workers)


QUICK = {"baseline": "keep-wilds", "num_pairs": 128, "rollouts": 32}
"""A baseline that compiles in a third of the time of `linear`."""


@pytest.fixture(scope="module")
def match() -> Pairs:
    """Guard often differs from its baseline."""
    return judged(hidden("guard"), **QUICK)


def test_the_mean_is_that_of_the_results_with_less_variance(match: Pairs):
    """The corrections average zero within 4.5 standard errors, an error probability of 7e-6."""
    removed = match.points.mean(1) - match.adjusted
    assert abs(removed.mean()) < 4.5 * removed.std() / np.sqrt(len(match))
    score, plain = adjusted_score(match.adjusted, match.points), paired_score(match.points)
    assert score.standard_error < plain.standard_error and score.variance_reduction > 1
    judge = adjusted.judge_of((hidden("guard"), SCARCEST), 32)
    assert judge.policies == (POLICIES["linear"], POLICIES["scarcest-color"]) and judge.differs == (True, False)


def test_resigning_costs_the_value_of_the_position():
    pairs = judged(Quitter(), **QUICK)
    assert (pairs.winner == 1).all()
    assert abs(pairs.adjusted.mean()) < 4.5 * pairs.adjusted.std() / np.sqrt(len(pairs))
    assert pairs.adjusted.std() > 0.02
    # Two agents with the same baseline, who play by it, are equal.
    equal = judged("keep-wilds", PolicyAgent("the same", POLICIES["keep-wilds"]), num_pairs=8)
    assert (equal.adjusted == 0.5).all()


def test_standings_show_the_score_from_both_sides(match: Pairs):
    found = standings_of(["a", "b"], {(0, 1): match})
    one, other = found.match("a", "b"), found.match("b", "a")
    assert one and other and one.adjusted and other.adjusted and one.shown is one.adjusted
    assert one.adjusted.value == pytest.approx(match.adjusted.mean())
    assert other.adjusted.value == pytest.approx(1 - one.adjusted.value)
    assert other.adjusted.interval == pytest.approx([1 - one.adjusted.interval[1], 1 - one.adjusted.interval[0]])
    plain = dataclasses.replace(match, adjusted=np.full(len(match), np.nan))
    assert standings_of(["a", "b"], {(0, 1): plain}).matches[0].adjusted is None
    refusals(
        {
            "two or more pairs": lambda: adjusted_score(np.zeros(1), np.zeros((1, 2))),
            "series": lambda: adjusted_score(np.zeros(4), np.zeros((4, 2)), series=4),
        }
    )


@pytest.mark.slow
def test_the_batch_size_changes_no_score(match: Pairs):
    plain = play((hidden("guard"), SCARCEST), len(match))
    assert np.isnan(plain.adjusted).all()
    other = judged(hidden("guard"), **QUICK, batch_size=32, workers=2)
    for pairs in (match, other):
        np.testing.assert_array_equal(pairs.winner, plain.winner)
        np.testing.assert_allclose(pairs.adjusted, match.adjusted, atol=1e-6)


@pytest.mark.slow
def test_resigning_and_playing_as_the_other_agent():
    """The second agent resigns; two baselines are compared from the deal alone."""
    pairs = judged(SCARCEST, Quitter())
    assert (pairs.winner == 0).all()
    assert abs(pairs.adjusted.mean() - 1) < 4.5 * pairs.adjusted.std() / np.sqrt(len(pairs))
    pairs = judged("linear", "uniform", num_pairs=64)
    truth, error = true_score("linear", "uniform", RULES["default"])
    score = adjusted_score(pairs.adjusted, pairs.points)
    assert abs(score.value - truth) < 4.5 * np.hypot(score.standard_error, error)
    # An agent that plays as its baseline: two plays of equal value to the policy differ for the rollouts, by 0 on average.
    pairs = judged(hidden("linear"), "linear")
    score = adjusted_score(pairs.adjusted, pairs.points)
    assert abs(score.value - 0.5) < 4.5 * score.standard_error
    assert score.variance_reduction > 10


def true_score(first: str, second: str, rules: Rules) -> tuple[float, float]:
    """Return the first policy's share of the points over both seats, and its standard error."""
    number, won = 2**13, 0.0
    for names in ((first, second), (second, first)):
        tally = count_games(jax.random.key(9), number, names, rules=rules)
        wins = tally.wins if names[0] == first else tally.wins[::-1]
        won += wins[0] + (number - sum(wins)) / 2
    return won / number / 2, 0.5 / np.sqrt(2 * number)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_the_mean_is_that_of_other_games(name: str):
    """Uniform draws, passes and challenges at will, which is costly and gives wide intervals."""
    rules, who = RULES[name], {"official": "uniform", "rlcard": "uniform"}.get(name, "guard")
    pairs = judged(hidden(who), rules=rules)
    score = adjusted_score(pairs.adjusted, pairs.points)
    truth, error = true_score(who, "scarcest-color", rules)
    assert abs(score.value - truth) < 4.5 * np.hypot(score.standard_error, error)
    if name == "default":
        assert score.standard_error < 0.9 * paired_score(pairs.points).standard_error
        assert score.variance_reduction > 2


@pytest.mark.slow
@pytest.mark.long
def test_intervals_cover_the_truth():
    """The number of covering intervals among 96 matches is in range, except once in ten thousand runs."""
    num_matches = 96
    pairs = judged(hidden("guard"), num_pairs=16 * num_matches)
    truth, _ = true_score("guard", "scarcest-color", RULES["default"])
    split = zip(np.split(pairs.adjusted, num_matches), np.split(pairs.points, num_matches), strict=True)
    held = sum(low < truth < high for low, high in (adjusted_score(*both).interval for both in split))
    low, high = stats.binom.ppf([5e-5, 1 - 5e-5], num_matches, 0.95)
    assert low <= held <= high

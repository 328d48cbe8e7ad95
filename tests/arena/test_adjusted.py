"""Scores with the luck taken out: their mean is that of the results, by games without any of it, and their intervals hold."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from unojax.agents import RESIGN, Agent, PolicyAgent
from unojax.arena import Pairs, play_match
from unojax.arena.ratings import adjusted_score, paired_score
from unojax.arena.standings import standings_of
from unojax.policies import POLICIES, PackedPolicy
from unojax.rules import Rules
from unojax.simulation import count_games

pytestmark = pytest.mark.optimized

NUM_PAIRS, ROLLOUTS = 192, 64
RULES = {
    "default": Rules(),
    "official": Rules.official(hand_size=4),
    "rlcard": Rules.rlcard(),
    "house": Rules.house(),
    "cut off": Rules(max_steps=30, step_penalty=0.01),
}


@dataclass(frozen=True)
class Hidden:
    """A packed policy that does not look like one, so that its decisions are judged."""

    policy: PackedPolicy

    def __call__(self, key, observation, legal_mask):
        return self.policy(key, observation, legal_mask)


def hidden(name: str) -> Agent:
    return PolicyAgent(f"hidden {name}", Hidden(POLICIES[name]))


def match(first: str, second: str, rules: Rules = RULES["default"], num_pairs: int = NUM_PAIRS) -> Pairs:
    # One size for all: they share programs.
    sizes = {"batch_size": 2 * NUM_PAIRS, "workers": 1}
    return play_match(jax.random.key(5), (hidden(first), second), num_pairs, rules=rules, adjust=ROLLOUTS, **sizes)


def true_score(first: str, second: str, rules: Rules) -> tuple[float, float]:
    """The share of the points of the first of two policies over both seats, and its standard error."""
    number, won = 2**13, 0.0
    for names in ((first, second), (second, first)):
        tally = count_games(jax.random.key(9), number, names, rules=rules)
        wins = tally.wins if names[0] == first else tally.wins[::-1]
        won += wins[0] + (number - sum(wins)) / 2
    return won / number / 2, 0.5 / np.sqrt(2 * number)


WHO = {"official": "uniform", "rlcard": "uniform"}
LONG = [pytest.param(name, marks=[pytest.mark.slow, pytest.mark.long]) for name in RULES if name != "default"]


@pytest.mark.parametrize("name", ["default", *LONG])
def test_the_mean_is_that_of_the_results(name: str):
    """Policies unlike the baselines: guard is judged by linear, which often plays otherwise; uniform draws, passes and challenges
    where it may, all of which costs it much and leaves wide intervals."""
    rules, who = RULES[name], WHO.get(name, "guard")
    pairs = match(who, "scarcest-color", rules)
    score = adjusted_score(pairs.adjusted, pairs.points)
    truth, error = true_score(who, "scarcest-color", rules)
    assert abs(score.value - truth) < 4.5 * np.hypot(score.standard_error, error)
    if name == "default":
        assert score.standard_error < 0.9 * paired_score(pairs.points).standard_error
        assert score.variance_reduction > 2


@pytest.mark.slow
@pytest.mark.long
def test_intervals_hold_the_truth():
    """Of 96 matches of 16 pairs as many as they say, within what chance leaves in one of ten thousand runs."""
    num_matches = 96
    pairs = match("guard", "scarcest-color", num_pairs=16 * num_matches)
    truth, _ = true_score("guard", "scarcest-color", RULES["default"])
    split = zip(np.split(pairs.adjusted, num_matches), np.split(pairs.points, num_matches), strict=True)
    held = sum(low < truth < high for low, high in (adjusted_score(*both).interval for both in split))
    low, high = stats.binom.ppf([5e-5, 1 - 5e-5], num_matches, 0.95)
    assert low <= held <= high


@pytest.mark.slow
def test_who_plays_as_the_baseline_does_has_nothing_but_ties_left():
    """Two plays that are as good to the policy are not quite so to the rollouts, and zero on average."""
    pairs = match("linear", "linear")
    score = adjusted_score(pairs.adjusted, pairs.points)
    assert abs(score.value - 0.5) < 4.5 * score.standard_error
    assert score.variance_reduction > 10


def test_two_policies_are_rollouts_from_the_deal():
    pairs = play_match(jax.random.key(5), ("linear", "uniform"), 64, adjust=64)
    truth, error = true_score("linear", "uniform", RULES["default"])
    score = adjusted_score(pairs.adjusted, pairs.points)
    assert abs(score.value - truth) < 4.5 * np.hypot(score.standard_error, error)
    of_equals = PolicyAgent("the same", POLICIES["linear"])
    assert (play_match(jax.random.key(5), ("linear", of_equals), 8, adjust=64).adjusted == 0.5).all()


@dataclass(frozen=True)
class Quitter:
    """Gives the game up at its first decision."""

    name: str = "quitter"

    def init(self, key, observation):
        return ()

    def update(self, key, memory, before, action, after):
        return memory

    def act(self, key, memory, observation, legal_mask):
        return jnp.int32(RESIGN)


def test_giving_up_costs_what_the_position_was_worth():
    pairs = play_match(jax.random.key(5), (Quitter(), "linear"), 128, adjust=ROLLOUTS)
    assert (pairs.winner == 1).all()
    assert abs(pairs.adjusted.mean()) < 4.5 * pairs.adjusted.std() / np.sqrt(len(pairs))
    other = play_match(jax.random.key(5), ("linear", Quitter()), 128, adjust=ROLLOUTS)
    assert abs(other.adjusted.mean() - 1) < 4.5 * other.adjusted.std() / np.sqrt(len(other))


@pytest.mark.slow
@pytest.mark.long
def test_the_games_are_the_same_and_no_size_changes_a_score():
    agents = (hidden("guard"), "scarcest-color")
    plain = play_match(jax.random.key(5), agents, 64)
    assert np.isnan(plain.adjusted).all()
    one = match("guard", "scarcest-color", num_pairs=64)
    other = play_match(jax.random.key(5), agents, 64, adjust=ROLLOUTS, batch_size=32, workers=2)
    for pairs in (one, other):
        np.testing.assert_array_equal(pairs.winner, plain.winner)
        np.testing.assert_allclose(pairs.adjusted, one.adjusted, atol=1e-6)


def test_standings_have_it_from_both_sides():
    pairs = match("guard", "scarcest-color", num_pairs=64)
    found = standings_of(["a", "b"], {(0, 1): pairs})
    one, other = found.match("a", "b"), found.match("b", "a")
    assert one and other and one.adjusted and other.adjusted
    assert one.shown is one.adjusted
    assert one.adjusted.score == pytest.approx(pairs.adjusted.mean())
    assert other.adjusted.score == pytest.approx(1 - one.adjusted.score)
    assert other.adjusted.interval == pytest.approx([1 - one.adjusted.interval[1], 1 - one.adjusted.interval[0]])
    not_asked = dataclasses.replace(pairs, adjusted=np.full(64, np.nan))
    assert standings_of(["a", "b"], {(0, 1): not_asked}).matches[0].adjusted is None


def test_bad_arguments():
    with pytest.raises(ValueError, match="adjust must be a number of rollouts, or 0 for none, got -1"):
        play_match(jax.random.key(0), ("linear", "guard"), 2, adjust=-1)
    with pytest.raises(ValueError, match="two or more pairs"):
        adjusted_score(np.zeros(1), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="two or more series, got 1"):
        adjusted_score(np.zeros(4), np.zeros((4, 2)), series=4)

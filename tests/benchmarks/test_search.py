"""The figures of the benchmarks of searches and networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import harness, search, value_quality
from benchmarks.harness import Config
from benchmarks.value_quality import Forecasts
from unojax.analysis import sigmoid
from unojax.search.agents import SearchAgent
from unojax.specs import parse_agent
from unojax.value import load_pretrained


@pytest.mark.slow
def test_problems_are_decisions_of_those_who_move():
    problems = jax.device_get(search.record_decisions(num_decisions=12, num_particles=8, max_steps=120, seed=3))
    seen = problems.observations
    assert (problems.legal.sum(1) > 1).all() and not seen.terminated.any()
    assert (seen.player == seen.current_player).all() and set(seen.player.tolist()) == {0, 1}
    held = np.sum([np.bitwise_count(word) for word in problems.hands.packed], 0)
    assert held.shape == (12, 8) and (held == seen.opponent_count[:, None]).all()
    assert len({bytes(hand) for hand in seen.hand}) == 12
    assert problems.first(5).legal.shape == (5, 61)


def test_shortfall_of_choices():
    """Two decisions, two runs, three plays, one of them illegal; the runs disagree about the first decision."""
    values = np.array([[[0.5, 0.25, 9.0], [0.125, 0.25, 9.0]], [[-1.0, 0.0, -0.5], [-1.0, 0.0, -0.25]]])
    legal = np.array([[True, True, False], [True, True, True]])
    found = search.shortfall(values, legal, np.array([[0, 1], [1, 2], [1, 0]]))
    # The second run values the best play of the first, 0.125, and the first that of the second, 0.25.
    first = [((0.125 - 0.125) + (0.25 - 0.5)) / 2, ((0.125 - 0.25) + (0.25 - 0.25)) / 2]
    assert found.tolist() == [[first[0], 0.0], [first[1], 0.375], [first[1], 1.0]]


def test_shortfall_of_noise_is_nothing_on_average():
    values = np.random.default_rng(5).normal(size=(20_000, 4, 3))
    legal, any_choice = np.ones((20_000, 3), bool), np.arange(20_000)[None] % 3
    found = search.shortfall(values, legal, any_choice)
    assert abs(found.mean()) < 4 * found.std() / np.sqrt(found.size)
    # By the same rollouts that found them the best plays look better by far.
    assert (values.mean(1).max(-1).mean() - values.mean()) > 0.3


@pytest.mark.slow  # compiles a dozen programs
@pytest.mark.long
def test_shortfall_finds_the_weaker_player():
    sizes = "--games 16 --seed 3 --particles 64 --rollouts 128 --runs 4 --cached".split()
    agents = ["--agents", "linear", "uniform", "--opponents", "scarcest-color"]
    (row,) = harness.main("search_shortfall", [*agents, *sizes])
    assert [one["agent"] for one in row.figures["rows"]] == ["linear", "uniform"]
    linear, uniform = (one["points"] for one in row.figures["rows"])
    assert 3 < row.figures["decisions_per_game"] < 20 and uniform > linear + 10


def test_shortfall_is_measured_for_each_opponent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    measured = []

    def fall_short(agents: Any, opponent: Any, judge: SearchAgent, *numbers: int) -> dict[str, Any]:
        measured.append(([agent.name for agent in agents], opponent.name, judge.name, numbers))
        return {"decisions_per_game": 7.0, "rows": []}

    monkeypatch.setattr(search, "fall_short", fall_short)
    options = ["--agents", "linear", "mc:model=OPPONENT", "--games", "6", "--seed", "3", "--json", str(tmp_path / "rows.json")]
    harness.main("search_shortfall", [*options, "--opponents", "guard"])
    judge = "mc:model=guard,opponent=guard,keep=0,particles=4096,rollouts=4096"
    assert measured == [(["linear", "mc:model=guard"], "guard", parse_agent(judge).name, (6, 3, 8))]
    harness.main("search_shortfall", [*options, "--opponents", "guard", "keep-wilds"])
    assert [opponent for _, opponent, _, _ in measured] == ["guard", "keep-wilds"]


@pytest.mark.slow  # compiles a dozen programs to run for a second
@pytest.mark.long
def test_speed():
    sizes = "--batch-sizes 3 --single 2 --rollouts 40 --particles 32 --repeats 2 --cached".split()
    flat, whole, tree = (row.figures for row in harness.main("search_speed", sizes))
    for figures in (flat, whole):
        # Every play of every decision gets its 40 rollouts.
        assert figures["batches"][3]["rollouts_per_decision"] == pytest.approx(40 * figures["legal_plays_mean"])
    assert tree["batches"][3]["rollouts_per_decision"] <= whole["batches"][3]["rollouts_per_decision"]


def made_up(seed: int, rollouts: int) -> Forecasts:
    """A thousand games of some ten decisions; the network knows the probability, the other forecasts less and less."""
    rng = np.random.default_rng(seed)
    shape = (1000, 12)
    sizes = rng.integers(1, 8, (*shape, 2))
    logit = 0.5 * (sizes[..., 1] - sizes[..., 0]) + rng.normal(0, 1, shape)
    result = rng.random(shape) < sigmoid(logit)
    unsure, few = sigmoid(0.5 * logit), rng.binomial(max(rollouts, 1), sigmoid(logit)) / max(rollouts, 1)
    return Forecasts(rng.random(shape) < 0.8, sizes, result.astype(float), sigmoid(logit), unsure, few)


def test_forecasts_are_compared(monkeypatch: pytest.MonkeyPatch):
    seeds = []

    def play(config: Config, network: object, unaware: object, seed: int, rollouts: int) -> Forecasts:
        seeds.append((seed, rollouts))
        return made_up(seed, rollouts)

    monkeypatch.setattr(value_quality, "play", play)
    (row,) = harness.main("value_quality", ["--rollouts", "20", "--seed", "3"])
    assert seeds == [(6, 0), (7, 20)], "the regression is fitted on other games"
    _, network, unaware, sizes, rollouts = row.figures.values()
    assert network["more_than_network"]["mean"] == 0 and network["mean_absolute_error"] < 0.02
    # An unsure one is off, and rollouts are noisy; hand sizes alone are honest and know less.
    assert unaware["mean_absolute_error"] > 0.05 > sizes["mean_absolute_error"]
    for one in (unaware, sizes, rollouts):
        more, error = one["more_than_network"].values()
        assert more > 2 * error > 0
        assert one["log_loss"]["mean"] == pytest.approx(network["log_loss"]["mean"] + more)


@pytest.mark.slow  # games with beliefs and searches
@pytest.mark.long
def test_forecasts_of_games(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(value_quality, "_BATCH", 16)
    network = load_pretrained()
    found = value_quality.play(Config(games=16, particles=(16,)), network, network, 5, 8)
    assert found.counted.shape[0] == 16 and found.counted.sum() > 100
    at = found.counted
    assert set(np.unique(found.result[at])) <= {0.0, 0.5, 1.0} and (found.sizes[at] >= 1).all()
    for forecast in (found.network, found.unaware, found.rollouts):
        assert ((forecast[at] >= 0) & (forecast[at] <= 1)).all()
        assert np.corrcoef(forecast[at], found.result[at])[0, 1] > 0.1
    assert np.abs(found.network - found.unaware)[at].max() > 0.01

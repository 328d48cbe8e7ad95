"""Estimated sizes of games, computed before enumeration.

Many random walks go down the tree together. A level with more nodes than walks is represented by a random sample (stochastic
enumeration, Rubinstein 2013), which is unbiased, as is Knuth's (1975) single walk, and varies much less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import scipy.stats

from unojax.decks import is_int
from unojax.rules import Rules
from unojax.solve.expansion import Expander, Lanes, meta_of
from unojax.solve.steps import begun_draws, deal_card, game_rules, num_steps_of, turn_up
from unojax.table import PLAY

NUM_RUNS: Final = 8
"""Number of independent estimates for the interval."""


@dataclass(frozen=True)
class Size:
    """Estimated number of histories of a game.

    Attributes:
        num_histories: Mean of the estimates; exact if the interval is a point.
        low, high: 95% interval of the mean (Student's t).
        num_steps: Number of steps of the game covered.
    """

    num_histories: float
    low: float
    high: float
    num_steps: int

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.num_histories:,.0f} histories"
        return f"about {self.num_histories:.2g} histories (95 % interval {self.low:.2g} to {self.high:.2g})"


def estimate_size(
    rules: Rules,
    max_steps: int | None = None,
    *,
    merge_colors: bool = True,
    samples: int = 1000,
    seed: int = 0,
    enough: float = math.inf,
) -> Size:
    """Estimate the number of histories of a game, as `enumerate_game` counts them.

    Args:
        rules, max_steps, merge_colors: As in `enumerate_game`.
        samples: Histories kept on each level, in each of `NUM_RUNS` runs.
        seed: Random seed.
        enough: Number of histories after which the first run stops.

    Raises:
        ValueError: If the game can be infinite, or an argument is out of range.
    """
    rules = game_rules(rules, max_steps)
    if not (is_int(samples) and samples >= 1):
        raise ValueError(f"samples must be a positive integer, got {samples!r}")
    expander = Expander(rules, merge_colors=merge_colors)
    num_steps, runs = num_steps_of(rules), []
    for rng in np.random.default_rng(seed).spawn(NUM_RUNS):
        run = _run(expander, rng, samples, num_steps, math.inf if runs else enough)
        if run.is_exact:
            return Size(run.num_histories, run.num_histories, run.num_histories, run.num_steps)
        runs.append(run.num_histories)
        num_steps = run.num_steps
    mean, error = float(np.mean(runs)), float(scipy.stats.sem(runs))
    margin = float(scipy.stats.t.ppf(0.975, NUM_RUNS - 1)) * error
    return Size(mean, max(mean - margin, 0.0), mean + margin, num_steps)


def check_size(rules: Rules, merge_colors: bool, limit: int | None) -> None:
    """Check that a game is small enough to be enumerated.

    Raises:
        ValueError: If the estimate is too large, or `limit` is neither None nor a positive integer.
    """
    if limit is None:
        return
    if not (is_int(limit) and limit >= 1):
        raise ValueError(f"limit must be None or a positive integer, got {limit!r}")
    size = estimate_size(rules, merge_colors=merge_colors, samples=100, enough=100 * limit)
    if size.num_histories > limit:
        raise ValueError(
            f"the game is too large to be enumerated: {size} after {size.num_steps} of {rules.max_steps} steps, with "
            f"limit={limit:,}; lower max_steps or hand_size={rules.hand_size}, or take fewer cards than {rules.num_cards}"
        )


class _Sample(NamedTuple):
    """N histories, with the number of histories that each represents, float64[N]."""

    lanes: Lanes
    weights: np.ndarray

    def resample(self, rng: np.random.Generator, size: int) -> _Sample:
        """Keep at most `size` histories, by systematic resampling."""
        if self.lanes.size <= size:
            return self
        ends = np.cumsum(self.weights)
        points = (rng.random() + np.arange(size)) / size * ends[-1]
        index = np.minimum(np.searchsorted(ends, points, side="right"), self.lanes.size - 1)
        return _Sample(self.lanes.take(index), np.full(size, ends[-1] / size))


class _Run(NamedTuple):
    """Estimated histories of the first `num_steps` steps; exact if nothing was sampled."""

    num_histories: float
    num_steps: int
    is_exact: bool


def _run(expander: Expander, rng: np.random.Generator, samples: int, num_steps: int, enough: float) -> _Run:
    """Return one estimate; stop once it exceeds `enough`."""
    is_exact = True

    def thin(sample: _Sample) -> _Sample:
        nonlocal is_exact
        is_exact &= sample.lanes.size <= samples
        return sample.resample(rng, samples)

    total, sample = 1.0, _Sample(expander.undealt(), np.ones(1))
    hand_size = expander.rules.hand_size
    for index in range(1, 2 * hand_size + 2):
        lanes = deal_card(expander, sample.lanes) if index <= 2 * hand_size else turn_up(expander, sample.lanes)
        sample = _Sample(lanes, sample.weights[lanes.origin])
        if index in (hand_size, 2 * hand_size, 2 * hand_size + 1):
            total += sample.weights.sum()
        sample = thin(sample)

    step = 0
    while step < num_steps and sample.lanes.size and total <= enough:
        step += 1
        sample = _Sample(Lanes.begin(sample.lanes.rows), sample.weights)
        done: list[_Sample] = []
        while sample.lanes.size:
            children, picks = expander.expand(sample.lanes, expander.look(sample.lanes)[0])
            weights = sample.weights[picks.parent]
            total += sample.weights[begun_draws(sample.lanes, picks)].sum() + weights[~picks.goes_on].sum()
            ended, goes_on = np.flatnonzero(~picks.goes_on), np.flatnonzero(picks.goes_on)
            done.append(_Sample(children.take(ended), weights[ended]))
            sample = thin(_Sample(children.take(goes_on), weights[goes_on]))
        lanes, weights = Lanes.join([part.lanes for part in done]), np.concatenate([part.weights for part in done])
        alive = np.flatnonzero(np.asarray(meta_of(lanes.rows).phase) == PLAY)
        sample = _Sample(lanes.take(alive), weights[alive])
        if step < num_steps:
            sample = thin(sample)
    return _Run(float(total), step, is_exact)

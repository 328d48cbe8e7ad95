"""Fit the weights of the scoring policies by playing: the cross-entropy method on win rates.

    python -m training.fit_scoring linear --json linear.json
    python -m training.fit_scoring lookahead --json lookahead.json

Each generation draws weights from a normal distribution, plays every candidate against a pool of opponents, both seats, the same
deals for all (`unojax.simulate`), and moves the distribution's mean and standard deviations to those of the best quarter
(Rubinstein 1999; the standard deviations keep a floor that shrinks, as in Szita and Lorincz 2006, so that the search doesn't
stall). The pool is uniform play, the best simple rule, and the mean of an earlier generation: a little self-play, so that the
policy does not merely exploit weak opponents. The result is the last mean.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.progress import track

from unojax.files import write_whole
from unojax.policies import POLICIES, Policy
from unojax.scoring import WEIGHT_NAMES, LinearPolicy, LookaheadPolicy
from unojax.simulation import simulate


@dataclass(frozen=True)
class Config:
    """What to fit, and how long.

    Attributes:
        policy: which scoring policy.
        generations: of candidates.
        candidates: weights tried in each generation.
        games: per candidate, opponent and seat.
        seed: of everything random.
        json: write the result here.
    """

    policy: Annotated[Literal["linear", "lookahead"], tyro.conf.Positional]
    generations: int = 60
    candidates: int = 48
    games: int = 4000
    seed: int = 0
    json: Path | None = None


_MAKERS: dict[str, tuple[Callable[[Sequence[float]], Policy], tuple[str, ...]]] = {
    "linear": (lambda w: LinearPolicy(tuple(map(float, w))), WEIGHT_NAMES),
    "lookahead": (lambda w: LookaheadPolicy(*map(float, w)), ("margin", "playable", "wilds")),
}


def win_rate(seed: int, policy: Policy, opponent: Policy, games: int) -> float:
    """Win rate of a policy over both seats, a drawn game counting half."""
    key = jax.random.key(seed)
    first = simulate(key, games, (policy, opponent)).winner
    second = simulate(key, games, (opponent, policy)).winner
    points = np.concatenate([first == 0, second == 1]) + 0.5 * np.concatenate([first < 0, second < 0])
    return float(points.mean())


def fit(config: Config, console: Console) -> tuple[np.ndarray, list[dict[str, float]]]:
    """The weights, and the course of the fit."""
    make, names = _MAKERS[config.policy]
    rng = np.random.default_rng(config.seed)
    mean, std = np.zeros(len(names)), np.ones(len(names))
    elite = max(2, config.candidates // 4)
    earlier = mean
    history = []
    for generation in track(range(config.generations), "Fitting", console=console):
        weights = mean + std * rng.standard_normal((config.candidates, len(names)))
        pool = [POLICIES["uniform"], POLICIES["scarcest-color"], make(earlier)]
        seeds = rng.integers(2**31, size=len(pool)).tolist()
        rates = np.array(
            [[win_rate(s, make(w), other, config.games) for s, other in zip(seeds, pool, strict=True)] for w in weights]
        )
        order = np.argsort(-rates.mean(1))[:elite]
        mean = weights[order].mean(0)
        floor = 0.2 * max(0.0, 1.0 - generation / (0.7 * config.generations))
        # Points are a scale without a unit: only their ratios matter, so the step is measured against their size.
        std = np.maximum(weights[order].std(0), floor * np.abs(mean).mean())
        history.append(dict(zip(("uniform", "scarcest-color", "earlier"), rates[order].mean(0).tolist(), strict=True)))
        if generation % 5 == 4:
            earlier = mean
            console.print(f"generation {generation + 1}: {history[-1]}")
    return mean, history


def main() -> int:
    """Fit, print, and write the weights."""
    config = tyro.cli(Config, description=__doc__)
    console = Console()
    weights, history = fit(config, console)
    make, names = _MAKERS[config.policy]
    # The scale is free; three digits are more than the fit knows.
    weights = np.round(weights / np.abs(weights).max(), 3)
    policy = make(weights)
    final = {name: win_rate(config.seed + 1, policy, POLICIES[name], 100_000) for name in ("uniform", "scarcest-color")}
    for name, weight in zip(names, weights, strict=True):
        console.print(f"{weight:7.3f}  {name}")
    console.print(f"win rate over 200,000 games: {final}")
    if config.json is not None:
        record = {"weights": dict(zip(names, weights.tolist(), strict=True)), "win_rate": final, "history": history}
        write_whole(config.json, json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Calibration of the predictive distribution on the full deck: predicted probabilities against what happened.

    python -m benchmarks.predictive --games 400 --json predictive.json

In games of two uniformly random players one of them tracks the other's hand with the particle filter. Before each choice of the
opponent and each own draw of one card, everything that the player may see next has a predicted probability, and one of these
comes. Of all that is predicted with some probability, that share should come.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from benchmarks import timing
from unojax import cards, game
from unojax.analysis.calibration import Calibration, calibrate
from unojax.belief.predictive import predict
from unojax.belief.updaters import ParticleFilter
from unojax.observation import observe
from unojax.rules import Rules


class Result(NamedTuple):
    """What `measure` found.

    Attributes:
        calibration: Of all predictions.
        transitions: Number of transitions predicted.
        missed: Number of these whose outcome was not among those listed, since no particle leads to it.
    """

    calibration: Calibration
    transitions: int
    missed: int


def measure(*, num_games: int, num_steps: int, num_particles: int, seed: int, rules: Rules = Rules()) -> Result:
    """Play games, predict every transition that is open, and compare.

    Args:
        num_games: G, independent games.
        num_steps: Longest part of a game.
        num_particles: N.
        seed: Seed of games and particles.
        rules: Rules of the games.
    """
    updater = ParticleFilter(num_particles)
    update, step, mask = jax.jit(updater.update), jax.jit(game.step), jax.jit(game.legal_mask)
    see, begin = jax.jit(observe), jax.jit(updater.init)
    predicted, happened, transitions, missed = [], [], 0, 0
    for number in range(num_games):
        key = jax.random.fold_in(jax.random.key(seed), number)
        rng = np.random.default_rng([seed, number])
        state, player = game.init(key, rules=rules), jnp.int8(number % 2)
        before = see(state, player)
        belief = begin(key, before)
        probs, hits = [], []
        for index in range(num_steps):
            if state.is_over:
                break
            action = int(rng.choice(np.flatnonzero(mask(state))))
            key_step, key_update = jax.random.split(jax.random.fold_in(key, index))
            state = step(state, action, key_step)
            after = see(state, player)
            # An own play and a penalty of the opponent's have one outcome; own draws of several cards have too many.
            if before.penalty == 0 and (action == cards.DRAW or not before.is_my_turn):
                told = predict(belief, before, action if before.is_my_turn else None)
                probs.append(told.probs)
                came = told.index_of(after)
                hits.append(np.arange(len(told)) == (-1 if came is None else came))
                transitions, missed = transitions + 1, missed + (came is None)
            belief, _ = update(key_update, belief, before, jnp.int32(action), after)
            before = after
        predicted.append(np.concatenate([*probs, np.zeros(0)]))
        happened.append(np.concatenate([*hits, np.zeros(0, bool)]))
    width = max(map(len, predicted))
    rows, outcomes, counted = (np.zeros((num_games, width), dtype) for dtype in (float, bool, bool))
    for number, (probs, hits) in enumerate(zip(predicted, happened, strict=True)):
        size = len(probs)
        rows[number, :size], outcomes[number, :size], counted[number, :size] = np.minimum(probs, 1), hits, True
    return Result(calibrate(rows, outcomes, counted), transitions, missed)


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print a table, and return the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predictive", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--steps", type=int, default=60, help="longest part of a game")
    parser.add_argument("--particles", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    if arguments.games < 2 or min(arguments.steps, arguments.particles) < 1:
        parser.error("--games must be at least 2, --steps and --particles at least 1")
    settings = {"games": arguments.games, "steps": arguments.steps, "particles": arguments.particles, "seed": arguments.seed}
    result = measure(**{f"num_{name}" if name != "seed" else name: value for name, value in settings.items()})
    calibration = result.calibration
    table = Table("predictions", "predicted", "observed", "difference")
    for i, number in enumerate(calibration.number.tolist()):
        surplus = calibration.surplus[i]
        table.add_row(
            f"{number:,}",
            f"{calibration.predicted[i]:.4f}",
            f"{calibration.observed[i].value:.4f}",
            f"{surplus.value:+.4f} ± {surplus.margin:.4f}",
        )
    timing.console().print(table)
    timing.console().print(
        f"{result.transitions:,} transitions predicted, {result.missed:,} of them without what came; "
        f"mean absolute error {calibration.mean_absolute_error:.4f}"
    )
    rows = {
        "number": calibration.number.tolist(),
        "predicted": calibration.predicted.tolist(),
        "observed": [share.value for share in calibration.observed],
        "surplus": [share.value for share in calibration.surplus],
        "error": [share.standard_error for share in calibration.surplus],
    }
    counts = {"transitions": result.transitions, "missed": result.missed}
    results = {"benchmark": "predictive", "environment": timing.environment(), **settings, **counts, **rows}
    timing.write_json(arguments.json, results)
    return results


if __name__ == "__main__":
    main()

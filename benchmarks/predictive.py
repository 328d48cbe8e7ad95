"""Calibration of the predictive distribution on the full deck: predicted probabilities against outcomes.

    python -m benchmarks predictive --games 60 --json predictive.json

In games of two uniformly random players, one of them tracks the other's hand with the particle filter. Before each choice of the
opponent and each own draw of one card, every possible next observation has a predicted probability, and one of them occurs. Of
all observations with a certain predicted probability, that share should occur.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Config, Task, benchmark, calibration
from unojax import cards, game
from unojax.belief.predictive import predict
from unojax.belief.updaters import ParticleFilter
from unojax.observation import observe


@benchmark("predictive", games=60, max_steps=60, particles=(1024,), seed=0)
def predictive(config: Config) -> Iterator[Task]:
    """Calibration of the predicted next observations, on the full deck."""
    for number in config.particles:
        settings = config.settings("games", "max_steps", "seed") | {"particles": number}
        yield Task(settings, partial(measure, **settings))


def measure(*, games: int, max_steps: int, particles: int, seed: int) -> dict[str, Any]:
    """Play games, predict every open transition, and compare.

    A transition is `missed` if no particle leads to its outcome, which then was not predicted.
    """
    updater = ParticleFilter(particles)
    update, step, mask = jax.jit(updater.update), jax.jit(game.step), jax.jit(game.legal_mask)
    see, begin = jax.jit(observe), jax.jit(updater.init)
    predicted, happened, transitions, missed = [], [], 0, 0
    for number in range(games):
        key = jax.random.fold_in(jax.random.key(seed), number)
        rng = np.random.default_rng([seed, number])
        state, player = game.init(key), jnp.int8(number % 2)
        before = see(state, player)
        belief = begin(key, before)
        probs, hits = [], []
        for index in range(max_steps):
            if state.is_over:
                break
            action = int(rng.choice(np.flatnonzero(mask(state))))
            key_step, key_update = jax.random.split(jax.random.fold_in(key, index))
            state = step(state, action, key_step)
            after = see(state, player)
            # An own play and a penalty of the opponent have one outcome; own draws of several cards have too many.
            if before.penalty == 0 and (action == cards.DRAW or not before.is_my_turn):
                told = predict(belief, before, action if before.is_my_turn else None)
                probs.append(told.probs)
                outcome = told.index_of(after)
                hits.append(np.arange(len(told)) == (-1 if outcome is None else outcome))
                transitions, missed = transitions + 1, missed + (outcome is None)
            belief, _ = update(key_update, belief, before, jnp.int32(action), after)
            before = after
        predicted.append(np.concatenate([*probs, np.zeros(0)]))
        happened.append(np.concatenate([*hits, np.zeros(0, bool)]))
    width = max(map(len, predicted))
    rows, outcomes, counted = (np.zeros((games, width), dtype) for dtype in (float, bool, bool))
    for number, (probs, hits) in enumerate(zip(predicted, happened, strict=True)):
        size = len(probs)
        rows[number, :size], outcomes[number, :size], counted[number, :size] = np.minimum(probs, 1), hits, True
    return {"transitions": transitions, "missed": missed, **calibration(rows, outcomes, counted)}

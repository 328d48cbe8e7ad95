"""Following recorded games with a filter, many seeds in one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from tests.belief.oracle import Record
from unojax.belief import history, summary
from unojax.belief.updaters import ParticleFilter

FILTER = ParticleFilter(1024, prior="uniform", max_slots=48, max_plays=24)
"""The particle filter where nothing is about its settings, so that files share its programs."""


@partial(jax.jit, static_argnames=("init", "update"))
def follow(views, keys: Array, *, init: Callable, update: Callable):
    """Run a filter over one game for each key.

    Args:
        views: the observer's `Observation` with a leading axis T + 1.
        keys: [R] one for each run.

    Returns:
        The expected counts at the start and after each step, float32[R, T + 1, 54], and the `Info` of each step, [R, T].
    """
    first = jax.tree.map(lambda x: x[0], views)
    befores, afters = jax.tree.map(lambda x: x[:-1], views), jax.tree.map(lambda x: x[1:], views)

    def one_run(key: Array):
        key_init, key_steps = jax.random.split(key)

        def one_step(belief, step):
            before, after, key = step
            belief, info = update(belief, before, history.infer_action(before, after), after, key)
            return belief, (summary.expected_counts(belief), info)

        start = init(first, key_init)
        steps = (befores, afters, jax.random.split(key_steps, befores.player.shape[0]))
        _, (means, infos) = jax.lax.scan(one_step, start, steps)
        return jnp.concatenate([summary.expected_counts(start)[None], means]), infos

    return jax.lax.map(one_run, keys)


def game_of(record: Record, player: int, lane: int, num_steps: int):
    """The first steps of one recorded game as `player` saw them."""
    return jax.tree.map(lambda x: jnp.asarray(x[: num_steps + 1, lane]), record.observations[player])

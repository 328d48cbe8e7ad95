"""Scores of filters along recorded games, for `benchmarks.belief`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from benchmarks import timing
from unojax import cards
from unojax.analysis.tracking import Recorded, in_parts, over_games
from unojax.belief.particles import Info
from unojax.belief.resample import effective_sample_size
from unojax.belief.tracking import run_filter, track
from unojax.belief.updaters import BootstrapFilter, ExactFilter, ParticleFilter, Updater
from unojax.game import State
from unojax.observation import Observation, observe

NUM_BINS: Final = 10
"""Bins of predicted probability in the calibration."""


class Scores(NamedTuple):
    """Scores of a belief along G games of at most T updates; zeros beyond a game's last update.

    Attributes:
        log_score: [G, T] nats, sum over the 54 types of ln P(count_t = true count).
        ess_before, ess_after: [G, T] effective sample size before and after resampling, as a share of N.
        depleted, restarted: bool[G, T] as in `Info`.
        bins: [G, NUM_BINS, 3] of P(holds t), over updates and types that are unseen: number, sum of predictions, number held.
    """

    log_score: Any
    ess_before: Any
    ess_after: Any
    depleted: Any
    restarted: Any
    bins: Any


@dataclass(frozen=True)
class Cost:
    """Seconds to compile, and microseconds per update of one game alone on one thread, without any scoring."""

    compile_seconds: float
    microseconds_per_update: float


def score(filter: Updater, games: Recorded, *, seat: int, seed: int) -> tuple[Scores, Cost]:
    """Let a filter follow the games from one seat, all cores at work."""
    case = filter, seat, games.states.rules, games.actions.shape
    given: list[tuple[State, np.ndarray, Array]] = []

    def run(*part: Any) -> Scores:
        given.append(part)
        if case not in _PROGRAMS:
            _PROGRAMS[case] = timing.compile_timed(_score_games, *part, jnp.bool_(True), filter=filter, seat=seat)
        return _PROGRAMS[case][1](*part, jnp.bool_(True))

    scores = in_parts(jax.random.key(seed), games, run)
    compile_seconds, program = _PROGRAMS[case]
    states, _, keys = given[0]
    num_updates = games.num_updates[: len(keys)] * (np.arange(len(keys)) < _TIMED).astype(np.int32)
    begin = time.perf_counter()
    jax.block_until_ready(program(states, num_updates, keys, jnp.bool_(False)))
    elapsed = time.perf_counter() - begin
    return scores, Cost(compile_seconds, 1e6 * elapsed / max(int(num_updates.sum()), 1))


_TIMED: Final = 256
"""Games, at most, over which an update is timed."""
_PROGRAMS: Final[dict[Any, tuple[float, Any]]] = {}
"""Seconds to compile and the program, for each filter and shape: who played the games has no part in it."""


@partial(jax.jit, static_argnames=("filter", "seat"))
def _score_games(states: State, num_updates: Array, keys: Array, is_scored: Array, *, filter: Updater, seat: int) -> Scores:
    def one_game(game: tuple[State, Array, Array]) -> Scores:
        states, num_updates, key = game
        truth = cards.counts(states.hands[:, 1 - seat])

        def note(out: Scores, t: Array, seen: Observation, belief: Any, info: Info) -> Scores:
            def score() -> tuple[Array, Array]:
                probs = jnp.asarray(filter.count_probs(belief, seen))
                return _log_score(probs, truth[t]), _bin(1.0 - probs[:, 0], truth[t] > 0, seen.unseen > 0)

            # The start is no update.
            log_score, bins = lax.cond(is_scored & (t > 0), score, lambda: (jnp.float32(0), jnp.zeros((NUM_BINS, 3))))
            ess_after = jnp.float32(1)
            if isinstance(filter, ParticleFilter | BootstrapFilter):
                ess_after = effective_sample_size(belief.log_weights) / filter.num_particles
            ess_before = info.ess / filter.num_particles
            row = log_score, ess_before, ess_after, info.depleted, info.restarted
            at = jnp.where(t > 0, t - 1, num_steps)
            added = [rows.at[at].set(value, mode="drop") for rows, value in zip(out[:-1], row, strict=True)]
            return Scores(*added, bins=out.bins + bins)

        num_steps = states.terminated.shape[0] - 1
        zeros, nowhere = jnp.zeros(num_steps), jnp.zeros(num_steps, bool)
        nothing = Scores(zeros, zeros, zeros, nowhere, nowhere, jnp.zeros((NUM_BINS, 3)))
        return run_filter(filter, key, jax.vmap(observe, (0, None))(states, seat), num_updates, note, nothing)

    return over_games(one_game, (states, num_updates, keys))


def score_exact(filter: ExactFilter, games: Recorded, *, seat: int) -> tuple[Scores, Cost]:
    """Let the exact filter follow the games, on the host, one after the other."""
    num_games, num_steps = games.actions.shape
    log_score, bins = np.zeros((num_games, num_steps)), np.zeros((num_games, NUM_BINS, 3))
    seen = jax.device_get(jax.jit(jax.vmap(jax.vmap(lambda state: observe(state, seat))))(games.states))
    truth = cards.count_types(np.asarray(games.states.hands[:, :, 1 - seat]))
    seconds = 0.0
    for g, number in enumerate(games.num_updates):
        followed = track(filter, jax.random.key(0), (jax.tree.map(lambda x, t=t, g=g: x[g, t], seen) for t in range(number + 1)))
        next(followed)
        for t in range(number):
            begin = time.perf_counter()
            belief, _ = next(followed)
            seconds += time.perf_counter() - begin
            held = truth[g, t + 1]
            log_score[g, t] = np.log(np.take_along_axis(belief.count_probs, held[:, None], 1)).sum()
            predicted, unseen = belief.count_probs[:, 1:].sum(1), belief.unseen > 0
            row = np.clip((predicted * NUM_BINS).astype(int), 0, NUM_BINS - 1)
            np.add.at(bins[g], row[unseen], np.stack([unseen, predicted, held > 0], 1)[unseen])
    ones, nowhere = np.ones((num_games, num_steps)), np.zeros((num_games, num_steps), bool)
    cost = Cost(0.0, 1e6 * seconds / max(int(games.num_updates.sum()), 1))
    return Scores(log_score, ones, ones, nowhere, nowhere, bins), cost


def _log_score(probs: Array, truth: Array) -> Array:
    """Add up ln P(count_t = truth_t) over the types, in nats."""
    return jnp.log(jnp.take_along_axis(probs, truth[:, None].astype(jnp.int32), 1)).sum()


def _bin(predicted: Array, happened: Array, counted: Array) -> Array:
    """Count predictions by bin: float32[NUM_BINS, 3], how many, their sum, and how many happened."""
    number = jnp.clip((predicted * NUM_BINS).astype(jnp.int32), 0, NUM_BINS - 1)
    in_bin = (number == jnp.arange(NUM_BINS)[:, None]) & counted
    return jnp.stack([in_bin.sum(1), jnp.where(in_bin, predicted, 0).sum(1), (in_bin & happened).sum(1)], 1)

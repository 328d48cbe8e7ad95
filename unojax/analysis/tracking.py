"""Beliefs along recorded games, compared with the opponent's true hand."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import arena, cards
from unojax.belief.particles import Info
from unojax.belief.tracking import run_filter
from unojax.belief.tracking import track as track_on_host
from unojax.belief.updaters import Updater
from unojax.device.platform import platform
from unojax.device.returned import numbers
from unojax.game import State
from unojax.games.record import play_game
from unojax.observation import Observation, observe
from unojax.policies import Policy, uniform
from unojax.rules import Rules

_Tree = TypeVar("_Tree")


class Recorded(NamedTuple):
    """G games of at most T steps, NumPy arrays.

    Attributes:
        states: `State` [G, T + 1].
        actions: int32[G, T], -1 after the end.
        num_updates: Number of belief updates, the steps to unfinished positions, int32[G].
    """

    states: State
    actions: np.ndarray
    num_updates: np.ndarray


def record(
    key: Array, num_games: int, policies: tuple[Policy, Policy] = (uniform, uniform), *, max_steps: int, rules: Rules = Rules()
) -> Recorded:
    """Play games with `unojax.play_game`, truncated after `max_steps`. Consumes `key`."""
    play = jax.jit(jax.vmap(partial(play_game, policies=policies, num_steps=max_steps, rules=rules)))
    games = jax.device_get(play(jax.random.split(key, num_games)))
    num_updates = (~games.states.is_over[:, 1:]).sum(1).astype(np.int32)
    return Recorded(games.states, games.actions, num_updates)


class Tracks(NamedTuple):
    """A belief along G games; index t is the position after t steps, 0 after the last update.

    Attributes:
        expected: Expected copies of each type in the opponent's hand, float32[G, T + 1, 54].
        prob_holds: Probability that it holds at least one, float32[G, T + 1, 54].
        truth: Copies in it, int8[G, T + 1, 54].
        is_unseen: Types with unseen copies, bool[G, T + 1, 54].
        log_score: Sum over types of ln P(true count), nats, float32[G, T + 1]; higher is better.
        ess_share: Effective sample size of the last update, divided by N, float32[G, T + 1]; 1 at the start and without
            particles.
        depleted: No particle was consistent, and the belief restarted, bool[G, T + 1].
    """

    expected: np.ndarray
    prob_holds: np.ndarray
    truth: np.ndarray
    is_unseen: np.ndarray
    log_score: np.ndarray
    ess_share: np.ndarray
    depleted: np.ndarray


def track(key: Array, games: Recorded, updater: Updater, *, player: int = 0) -> Tracks:
    """Run an updater along games, as player 0 or 1. Consumes `key`.

    Raises:
        ValueError: If the deck is too large for the exact filter.
    """
    if updater.on_host:
        return _track_on_host(key, games, updater, player)
    return in_parts(key, games, partial(_track_games, updater=updater, player=player))


def in_parts(key: Array, games: Recorded, program: Callable[..., _Tree]) -> _Tree:
    """Run a program on recorded games, divided among the cores. Consumes `key`.

    The arrays of `program(states, num_updates, keys)`, with a key for each game, have a leading axis of games, and are returned
    concatenated, NumPy.
    """
    num_games = len(games.num_updates)
    workers = min(arena.default_workers(), num_games)
    part = -(-num_games // workers)
    index = np.arange(part * workers) % num_games
    states, num_updates = jax.tree.map(lambda x: x[index], (games.states, games.num_updates))
    keys = jax.random.split(key, len(index))

    def run_part(start: int, num_updates: np.ndarray) -> _Tree:
        return jax.device_get(program(*jax.tree.map(lambda x: x[start : start + part], (states, num_updates, keys))))

    # Compiled in advance by a run without steps, because workers that start at the same time would each compile.
    run_part(0, np.zeros_like(num_updates))
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(lambda start: run_part(start, num_updates), range(0, len(index), part)))
    return jax.tree.map(lambda *xs: np.concatenate(xs)[:num_games], *parts)


def over_games(one_game: Callable[..., _Tree], games: Any) -> _Tree:
    """Map a function over a leading axis of games.

    A CPU runs game by game, because a batch would compute all branches of every update.
    """
    return lax.map(one_game, games) if platform() == "cpu" else jax.vmap(one_game)(games)


@partial(jax.jit, static_argnames=("updater", "player"))
def _track_games(states: State, num_updates: Array, keys: Array, *, updater: Updater, player: int) -> Tracks:
    def one_game(game: tuple[State, Array, Array]) -> Tracks:
        states, num_updates, key = game
        views = jax.vmap(observe, (0, None))(states, player)
        truth = cards.counts(states.hands[:, 1 - player])

        def note(out: Tracks, t: Array, seen: Observation, belief: Any, info: Info) -> Tracks:
            probs = numbers(
                updater.count_probs(belief, seen), f"{updater.name}.count_probs", (cards.NUM_TYPES, 5), "by type and copies"
            )
            row = _row(probs, truth[t], seen.unseen, info.ess / updater.num_particles, info.depleted)
            return jax.tree.map(lambda rows, value: rows.at[t].set(value), out, row)

        nothing = jax.tree.map(jnp.asarray, _no_rows(states.terminated.shape))
        return run_filter(updater, key, views, num_updates, note, nothing)

    return over_games(one_game, (states, num_updates, keys))


def _track_on_host(key: Array, games: Recorded, updater: Updater, player: int) -> Tracks:
    out = _no_rows(games.states.terminated.shape)
    seen = jax.device_get(_views(games.states, player))
    truth, unseen = cards.count_types(np.asarray(games.states.hands[:, :, 1 - player])), np.asarray(seen.unseen)
    for g, number in enumerate(games.num_updates):
        views = [jax.tree.map(lambda x, t=t, g=g: x[g, t], seen) for t in range(number + 1)]
        for t, (belief, info) in enumerate(track_on_host(updater, key, views)):
            ess_share, depleted = (1.0, False) if info is None else (info.ess / updater.num_particles, info.depleted)
            row = _row(np.asarray(updater.count_probs(belief, views[t])), truth[g, t], unseen[g, t], ess_share, depleted)
            for rows, value in zip(out, row, strict=True):
                rows[g, t] = value
    return out


_views = jax.jit(jax.vmap(jax.vmap(observe, (0, None)), (0, None)), static_argnums=1)


def _row(probs: Any, truth: Any, unseen: Any, ess_share: Any, depleted: Any) -> Tracks:
    """Compare probabilities, float[54, 5], with the truth, in the type of their arrays."""
    xp: Any = np if isinstance(probs, np.ndarray) else jnp
    return Tracks(
        expected=probs @ xp.arange(5, dtype=probs.dtype),
        prob_holds=xp.clip(1.0 - probs[:, 0], 0.0, 1.0),
        truth=truth,
        is_unseen=unseen > 0,
        log_score=xp.log(xp.take_along_axis(probs, truth[:, None].astype(np.int32), 1)).sum(),
        ess_share=ess_share,
        depleted=depleted,
    )


def _no_rows(shape: tuple[int, ...]) -> Tracks:
    types = (*shape, cards.NUM_TYPES)
    return Tracks(
        expected=np.zeros(types, np.float32),
        prob_holds=np.zeros(types, np.float32),
        truth=np.zeros(types, np.int8),
        is_unseen=np.zeros(types, bool),
        log_score=np.zeros(shape, np.float32),
        ess_share=np.zeros(shape, np.float32),
        depleted=np.zeros(shape, bool),
    )

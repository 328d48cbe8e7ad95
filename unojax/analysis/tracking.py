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

from unojax import cards
from unojax.belief.particles import Info
from unojax.belief.tracking import run_filter
from unojax.belief.tracking import track as track_on_host
from unojax.belief.updaters import Updater
from unojax.device.mesh import default_workers
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
    figures = rows_along(key, games, updater, _figures_of, player=player)
    is_tracked = np.arange(games.actions.shape[1] + 1) <= games.num_updates[:, None]
    here, probs = is_tracked[..., None], figures.count_probs
    truth, deck = (cards.count_types(np.asarray(held)) for held in (games.states.hands[:, :, 1 - player], games.states.deck))
    held = np.take_along_axis(probs, truth[..., None].astype(np.int64), -1)[..., 0]
    return Tracks(
        expected=probs @ np.arange(probs.shape[-1], dtype=probs.dtype),
        prob_holds=np.where(here, np.clip(1 - probs[..., 0], 0, 1), 0),
        truth=np.where(here, truth, 0).astype(np.int8),
        is_unseen=here & (truth + deck > 0),
        log_score=np.log(np.where(here, held, 1)).sum(-1),
        ess_share=figures.ess_share,
        depleted=figures.depleted,
    )


class _Figures(NamedTuple):
    """Figures of a belief: float32[54, 5] `Updater.count_probs`, and as in `Tracks`."""

    count_probs: Any
    ess_share: Any
    depleted: Any


def _figures_of(updater: Updater, key: Array, seen: Observation, belief: Any, info: Info) -> _Figures:
    del key
    probs, shape = updater.count_probs(belief, seen), (cards.NUM_TYPES, 5)
    probs = numbers(probs, f"{updater.name}.count_probs", shape, "by type and copies")
    return _Figures(probs, jnp.float32(info.ess / updater.num_particles), jnp.bool_(info.depleted))


Read = Callable[[Updater, Array, Observation, Any, Info], _Tree]
"""`read(updater, key, observation, belief, info)` returns a row of arrays about a belief. Pure; consumes `key`."""


def rows_along(key: Array, games: Recorded, updater: Updater, read: Read[_Tree], *, player: int) -> _Tree:
    """Run an updater along games, and read a row at each position. Consumes `key`.

    Returns the rows, [G, T + 1, ...], NumPy; 0 after the last update of a game. The first `Info` of a game is empty. The cores
    share the games, unless the updater runs on the host.
    """
    if updater.on_host:
        return _rows_on_host(key, games, updater, read, player)
    num_games = len(games.num_updates)
    workers = min(default_workers(), num_games)
    part = -(-num_games // workers)
    index = np.arange(part * workers) % num_games
    states, num_updates = jax.tree.map(lambda x: x[index], (games.states, games.num_updates))
    keys = jax.random.split(key, len(index))

    def run_part(start: int, num_updates: np.ndarray) -> _Tree:
        of_part = jax.tree.map(lambda x: x[start : start + part], (states, num_updates, keys))
        return jax.device_get(_rows(*of_part, updater=updater, read=read, player=player))

    # Compiled in advance by a run without steps, because workers that start at the same time would each compile.
    run_part(0, np.zeros_like(num_updates))
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(lambda start: run_part(start, num_updates), range(0, len(index), part)))
    return jax.tree.map(lambda *xs: np.concatenate(xs)[:num_games], *parts)


@partial(jax.jit, static_argnames=("updater", "read", "player"))
def _rows(states: State, num_updates: Array, keys: Array, *, updater: Updater, read: Read[_Tree], player: int) -> _Tree:
    def one_game(game: tuple[State, Array, Array]) -> _Tree:
        states, num_updates, key = game
        views = jax.vmap(observe, (0, None))(states, player)
        num_positions = len(states.terminated)
        # Independent of the streams of the updates and of the start.
        key_rows = jax.random.fold_in(key, num_positions + 1)

        def row(t: Array, seen: Observation, belief: Any, info: Info) -> _Tree:
            return read(updater, jax.random.fold_in(key_rows, t), seen, belief, info)

        def note(out: _Tree, t: Array, seen: Observation, belief: Any, info: Info) -> _Tree:
            return jax.tree.map(lambda rows, new: rows.at[t].set(new), out, row(t, seen, belief, info))

        first = jax.tree.map(lambda x: x[0], views)
        shapes = jax.eval_shape(lambda: row(jnp.int32(0), first, updater.init(key, first), Info()))
        nothing = jax.tree.map(lambda x: jnp.zeros((num_positions, *x.shape), x.dtype), shapes)
        return run_filter(updater, key, views, num_updates, note, nothing)

    return over_games(one_game, (states, num_updates, keys))


def _rows_on_host(key: Array, games: Recorded, updater: Updater, read: Read[_Tree], player: int) -> _Tree:
    seen = jax.device_get(_views(games.states, player))
    start, rows = Info(ess=jnp.float32(updater.num_particles)), {}
    for g, number in enumerate(games.num_updates):
        views = [jax.tree.map(lambda x, t=t, g=g: x[g, t], seen) for t in range(number + 1)]
        for t, (belief, info) in enumerate(track_on_host(updater, key, views)):
            rows[g, t] = read(updater, jax.random.fold_in(key, t), views[t], belief, start if info is None else info)

    def column(*values: Any) -> np.ndarray:
        stacked = np.stack(values)
        of_games = np.zeros((*games.states.terminated.shape, *stacked.shape[1:]), stacked.dtype)
        of_games[tuple(zip(*rows, strict=True))] = stacked
        return of_games

    return jax.tree.map(column, *rows.values())


_views = jax.jit(jax.vmap(jax.vmap(observe, (0, None)), (0, None)), static_argnums=1)


def over_games(one_game: Callable[..., _Tree], games: Any) -> _Tree:
    """Map a function over a leading axis of games.

    A CPU runs game by game, because a batch would compute all branches of every update.
    """
    return lax.map(one_game, games) if platform() == "cpu" else jax.vmap(one_game)(games)

"""One player's decisions in recorded games, with the belief at each of them."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, game
from unojax.analysis.tracking import Recorded, in_parts, over_games
from unojax.belief.hands import Hands
from unojax.belief.particles import Info
from unojax.belief.tracking import run_filter
from unojax.belief.updaters import ParticleFilter, Updater
from unojax.bits import Words
from unojax.game import State
from unojax.observation import Observation, observe

_SMALL_FILTER: Final = ParticleFilter(128)


class Decisions(NamedTuple):
    """D positions at which the player had several choices, in game order. NumPy.

    Attributes:
        game: Index among the recorded games, int32[D].
        observation: `Observation` [D] of the player, who is to move.
        legal: Two or more legal choices, bool[D, `Rules.num_choices`].
        action: Action taken, int32[D].
        hands: Particles of the opponent's hand, [D, N], with types under a type mixture.
        truth: The opponent's true hand, uint32[D] each.
        points: The player's final points, float64[D]: 1, 1/2 or 0.
    """

    game: np.ndarray
    observation: Observation
    legal: np.ndarray
    action: np.ndarray
    hands: Hands
    truth: Words
    points: np.ndarray


def decisions_of(key: Array, games: Recorded, updater: Updater = _SMALL_FILTER, *, player: int = 0) -> Decisions:
    """Run an updater of `player` along games and return its decisions. Consumes `key`.

    Unfinished games are omitted; a game truncated by `Rules.max_steps` is worth half a point.

    Raises:
        ValueError: If there is no decision, or the updater runs on the host only.
    """
    if updater.on_host:
        raise ValueError(f"decisions_of tracks many games at once, and {updater.name} runs on the host; use ParticleFilter")
    program = partial(_decisions_of_games, updater=updater, player=player)
    is_decision, columns = in_parts(key, games, program)
    ended = games.states.is_over[:, -1]
    which, step = np.nonzero(is_decision & ended[:, None])
    if not which.size:
        raise ValueError("there is no decision in these games: nobody had a choice, or none of them ended")
    observation, legal, hands, truth = jax.tree.map(lambda x: x[which, step], columns)
    winner = np.asarray(games.states.winner[which, -1])
    return Decisions(
        game=which.astype(np.int32),
        observation=observation,
        legal=legal,
        action=games.actions[which, step].astype(np.int32),
        hands=hands,
        truth=truth,
        points=np.where(winner == game.NO_WINNER, 0.5, winner == player),
    )


_Row = tuple[Observation, Array, Hands, Words]
"""Observation, legal choices, particles of the opponent's hand, and its true hand."""
_Rows = tuple[Array, _Row]


@partial(jax.jit, static_argnames=("updater", "player"))
def _decisions_of_games(states: State, num_updates: Array, keys: Array, *, updater: Updater, player: int) -> _Rows:
    """Return which positions are decisions, bool[G, T + 1], and a row for each position."""

    def one_game(args: tuple[State, Array, Array]) -> _Rows:
        states, num_updates, key = args
        views = jax.vmap(observe, (0, None))(states, player)
        # Independent of the streams of the updates and of the start.
        key_hands = jax.random.fold_in(key, len(states.terminated) + 1)

        def row(t: Array, seen: Observation, belief: Any) -> _Row:
            theirs = bits.pack(states.hands[t, 1 - player])
            hands = updater.hands(jax.random.fold_in(key_hands, t), belief, seen)
            return seen, seen.legal_mask[: seen.rules.num_choices], hands, theirs

        def note(out: _Rows, t: Array, seen: Observation, belief: Any, info: Info) -> _Rows:
            del info
            is_decision = seen.is_my_turn & ~seen.terminated & (seen.legal_mask.sum() > 1)

            def put(rows: Array, new: Array) -> Array:
                return rows.at[t].set(jnp.where(is_decision, new, rows[t]))

            return out[0].at[t].set(is_decision), jax.tree.map(put, out[1], row(t, seen, belief))

        num_positions, first = len(states.terminated), jax.tree.map(lambda x: x[0], views)
        shapes = jax.eval_shape(lambda: row(jnp.int32(0), first, updater.init(key, first)))
        nothing = jax.tree.map(lambda x: jnp.zeros((num_positions, *x.shape), x.dtype), shapes)
        return run_filter(updater, key, views, num_updates, note, (jnp.zeros(num_positions, bool), nothing))

    return over_games(one_game, (states, num_updates, keys))

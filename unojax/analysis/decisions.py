"""One player's decisions in recorded games, with the belief at each of them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax import Array

from unojax import bits, game
from unojax.analysis.tracking import Recorded, rows_along
from unojax.belief.hands import Hands
from unojax.belief.particles import Info
from unojax.belief.updaters import ParticleFilter, Updater
from unojax.bits import Words
from unojax.observation import Observation

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
    columns = rows_along(key, games, updater, _row_of, player=player)
    is_decision = columns.is_decision & games.states.is_over[:, -1:]
    which, step = np.nonzero(is_decision)
    if not which.size:
        raise ValueError("there is no decision in these games: nobody had a choice, or none of them ended")
    rows = jax.tree.map(lambda x: x[which, step], columns)
    winner = np.asarray(games.states.winner[which, -1])
    return Decisions(
        game=which.astype(np.int32),
        observation=rows.observation,
        legal=rows.legal,
        action=games.actions[which, step].astype(np.int32),
        hands=rows.hands,
        truth=jax.device_get(bits.pack(games.states.hands[which, step, 1 - player])),
        points=np.where(winner == game.NO_WINNER, 0.5, winner == player),
    )


class _Row(NamedTuple):
    """A position: whether the player has a choice there, and as in `Decisions`."""

    is_decision: Any
    observation: Observation
    legal: Any
    hands: Hands


def _row_of(updater: Updater, key: Array, seen: Observation, belief: Any, info: Info) -> _Row:
    del info
    is_decision = seen.is_my_turn & ~seen.terminated & (seen.legal_mask.sum() > 1)
    return _Row(is_decision, seen, seen.legal_mask[: seen.rules.num_choices], updater.hands(key, belief, seen))

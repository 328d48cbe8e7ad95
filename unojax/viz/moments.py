"""Whole games for pictures: a scene for each position, and the previous move in words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.typing import ArrayLike

from unojax.game import NO_ACTION, State
from unojax.games.record import Trajectory
from unojax.observation import Observation
from unojax.viz.scene import Scene, Viewer, drawn_types, read_scene
from unojax.viz.words import move_words, start_words

Record = Trajectory | Sequence[State] | Sequence[Observation]
"""Game of `unojax.games.record.play_game`, or a sequence of states or of one player's observations."""


@dataclass(frozen=True)
class Moment:
    """One position of a game, and the move that led there.

    Attributes:
        scene: The position.
        words: The move in words.
        drawn: Types of the visible cards that player 0 and player 1 drew in it.
    """

    scene: Scene
    words: str
    drawn: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())


def read_game(game: Record, actions: ArrayLike | None, view: Viewer | None) -> list[Moment]:
    """Return the moments of a game.

    Args:
        game, actions: As for `game_svg`.
        view: As for `read_scene`.

    Raises:
        ValueError: If there are no positions, positions and actions do not match, or a position can't be read.
    """
    if isinstance(game, Trajectory):
        if actions is not None:
            raise ValueError("a trajectory has actions of its own: leave actions out, or pass trajectory.states unstacked")
        states, taken = jax.device_get(game)
        if np.ndim(taken) != 1:
            raise ValueError(f"the trajectory must be of one game, got actions of shape {np.shape(taken)}; index one game first")
        actions = np.asarray(taken)[: int((np.asarray(taken) != NO_ACTION).sum())]
        positions = [jax.tree.map(lambda leaf, i=i: leaf[i], states) for i in range(len(actions) + 1)]
    elif isinstance(game, State | Observation) or not isinstance(game, Sequence):
        raise ValueError(f"game must be a Trajectory or a sequence of states or observations, got {type(game).__name__}")
    else:
        positions = list(game)
    if not positions:
        raise ValueError("game must have at least one position, got none")
    scenes = [read_scene(position, view) for position in positions]
    if actions is not None:
        _check_actions(np.asarray(actions), scenes)
    start = Moment(scenes[0], start_words(scenes[0]))
    return [start, *itertools.starmap(_moment, itertools.pairwise(scenes))]


def _moment(before: Scene, after: Scene) -> Moment:
    drawn = [frozenset(drawn_types(*hands)) for hands in zip(before.hands, after.hands, strict=True)]
    return Moment(after, move_words(before, after), (drawn[0], drawn[1]))


def _check_actions(actions: np.ndarray, scenes: list[Scene]) -> None:
    if actions.shape != (len(scenes) - 1,):
        raise ValueError(f"actions must be int[{len(scenes) - 1}], one between each two positions, got shape {actions.shape}")
    for step, (action, scene) in enumerate(zip(actions.tolist(), scenes[1:], strict=True), start=1):
        if action != scene.last_action:
            raise ValueError(f"actions[{step - 1}] is {action!r}, but position {step} says that {scene.last_action} led to it")

"""The public state of a game, outside of the engine."""

from __future__ import annotations

import enum
from typing import Final

import numpy as np
from jax import Array

from unojax import cards
from unojax.device import struct
from unojax.display import Displayed
from unojax.rules import Rules

NO_ACTION: Final = -1
"""`last_action` before the first step."""
NO_WINNER: Final = -1
"""`winner` of an unfinished, truncated or drawn game."""
NONE: Final = -1
"""`drawn` and `contested` without such a card or colour."""


class Error(enum.IntFlag):
    """Bits of `State.error`, which stay set."""

    ILLEGAL_ACTION = 1
    """The action exists but was not legal."""
    ACTION_OUT_OF_RANGE = 2
    """There is no such action: it was not in 0..60 (0..61 if a Wild+4 may be challenged)."""


@struct.dataclass(repr=False)
class State(Displayed):
    """One game. All sets of cards are canonical one-hots (see `unojax.cards`).

    Attributes:
        hands: bool[2, 108] cards held by each player. Each row is hidden from the other player.
        deck: bool[108] cards left to draw, a multiset without order. Hidden from both players.
        pile: bool[108] cards played, including the top card.
        top_rank: int8[] rank 0..14 of the top card.
        color: int8[] active colour 0..3: the top card's, or the one declared with it.
        current_player: int8[] player to move, 0 or 1. At the end of a game: the last mover.
        penalty: int8[] cards the mover must draw for a +2 or Wild+4: 0, 2 or 4; more after stacking or a failed challenge.
        terminated: bool[] the game is over.
        truncated: bool[] the game was cut off by `Rules.max_steps`.
        winner: int8[] 0 or 1; -1 without a winner.
        rewards: float32[2] each player's reward for the last step.
        step_count: int32[] steps so far: plays and draws; a draw of several cards counts once.
        error: uint8[] bits of `Error`; 0 = every action so far was legal.
        last_action: int8[] the last legal action, -1 at the start.
        rules: Rules of the game; static.
        drawn: int8[] type 0..53 of the card that the mover has drawn in the current turn, if it continues; else -1. Hidden from
            the other player.
        contested: int8[] the colour that was active before the pending Wild+4, if it may be challenged; else -1.
    """

    hands: Array
    deck: Array
    pile: Array
    top_rank: Array
    color: Array
    current_player: Array
    penalty: Array
    terminated: Array
    truncated: Array
    winner: Array
    rewards: Array
    step_count: Array
    error: Array
    last_action: Array
    rules: Rules = struct.field(pytree_node=False)
    drawn: Array = struct.field(default=np.int8(NONE))
    contested: Array = struct.field(default=np.int8(NONE))

    @property
    def top_type(self) -> Array:
        """int32[]: card type 0..53 of the top card."""
        return cards.type_of(self.color, self.top_rank)

    @property
    def is_over(self) -> Array:
        """bool[]: terminated or truncated."""
        return self.terminated | self.truncated


USE_VMAP: Final = "map over a batch with jax.vmap({name})"


def check_state(state: State, name: str) -> None:
    """Check the argument of function `name`; shapes are static, so this works while tracing too.

    Raises:
        ValueError: If it is a batch, or no state.
    """
    if not isinstance(state, State):
        raise ValueError(f"{name} takes a State, got {type(state).__name__}")
    shapes = np.shape(state.hands), np.shape(state.deck), np.shape(state.current_player)
    if shapes != ((2, cards.NUM_CARDS), (cards.NUM_CARDS,), ()):
        raise ValueError(f"{name} takes a single state, got hands of shape {shapes[0]}; {USE_VMAP.format(name=name)}")

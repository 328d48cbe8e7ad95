"""Positions for pictures and words, read on the host from states or observations.

A `Scene` stores a hidden hand as a number, so pictures can't reveal its cards.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Literal

import jax
import numpy as np

from unojax import cards
from unojax.decks import is_int
from unojax.game import NO_ACTION, NO_WINNER, State
from unojax.observation import Observation, winner_of

Viewer = Literal[0, 1, "public"]
"""Viewer of a picture: player 0, player 1, or the public, who sees neither hand."""

_VIEWER_HELP: Final = "view must be 0 or 1 (that player's knowledge), 'public' (both hands hidden) or None (both hands open)"


@dataclass(frozen=True)
class Hand:
    """Cards of one player. `types` lists them, sorted; None: hidden."""

    count: int
    types: tuple[int, ...] | None


@dataclass(frozen=True)
class Scene:
    """Position from its viewer's perspective.

    Attributes:
        hands: Hands of player 0 and player 1.
        near: Player at the bottom.
        deck, pile: Numbers of cards.
        top_type: Type of the top card.
        color: Active colour 0..3.
        player: Player to move; at the end, the last player to move.
        penalty: Cards that this player draws for a +2 or Wild+4.
        last_action: Last legal action; -1 at the start.
        result: Result of the game, in words; None before the end.
        winner: 0, 1 or -1.
        steps: Number of steps so far; None if unknown.
        has_drawn: The player has drawn a card in this unfinished turn.
        may_draw: The rules allow a draw despite a playable card.
        may_answer: A card or a challenge may answer the penalty.
        lays_drawn: The rules play a playable drawn card at once.
        is_cut_off: The game ended at the rules' step limit.
    """

    hands: tuple[Hand, Hand]
    near: int
    deck: int
    pile: int
    top_type: int
    color: int
    player: int
    penalty: int
    last_action: int
    result: str | None
    winner: int
    steps: int | None
    has_drawn: bool = False
    may_draw: bool = False
    may_answer: bool = False
    lays_drawn: bool = False
    is_cut_off: bool = False


def read_scene(position: State | Observation, view: Viewer | None = None) -> Scene:
    """Return one state, from the perspective of `view`, or one observation as a scene.

    Raises:
        ValueError: If it is neither, is a batch, or has a field out of range.
    """
    if isinstance(position, State):
        return _read_state(jax.device_get(position), view)
    if isinstance(position, Observation):
        if view is not None:
            raise ValueError(f"view is for states: an observation has one of its own, its player's; got view={view!r}")
        return _read_observation(jax.device_get(position))
    raise ValueError(f"position must be an unojax State or Observation, got {type(position).__name__}")


def _read_state(state: State, view: Viewer | None) -> Scene:
    if view is not None and not (view == "public" if isinstance(view, str) else is_int(view) and view in (0, 1)):
        raise ValueError(f"{_VIEWER_HELP}, got {view!r}")
    _check_single(np.shape(state.hands), (2, cards.NUM_CARDS), "state", "hands")
    first, second = (_hand(state.hands[p], f"hands[{p}]", is_hidden=view not in (None, p)) for p in (0, 1))
    winner = int(state.winner)
    return Scene(
        hands=(first, second),
        near=1 if view == 1 else 0,
        deck=len(_types(state.deck, "deck")),
        result="the game is cut off" if state.truncated else _result(winner) if state.terminated else None,
        winner=winner,
        steps=int(state.step_count),
        is_cut_off=bool(state.truncated),
        **_public(state),
    )


def _read_observation(seen: Observation) -> Scene:
    _check_single(np.shape(seen.hand), (cards.NUM_CARDS,), "observation", "hand")
    near = _in_range(seen.player, 0, 1, "player")
    own, other = _hand(seen.hand, "hand", is_hidden=False), Hand(int(seen.opponent_count), None)
    winner = winner_of(seen) if seen.terminated else NO_WINNER
    return Scene(
        hands=(own, other) if near == 0 else (other, own),
        near=near,
        deck=int(seen.deck_count),
        result=_result(winner) if seen.terminated else None,
        winner=winner,
        steps=None,
        **_public(seen),
    )


def _public(position: State | Observation) -> dict[str, Any]:
    """Return the public part of a position."""
    color = _in_range(position.color, 0, cards.NUM_COLORS - 1, "color")
    rank = _in_range(position.top_rank, 0, cards.NUM_RANKS - 1, "top_rank")
    return {
        "pile": len(_types(position.pile, "pile")),
        "top_type": cards.card_type(color, rank),
        "color": color,
        "player": _in_range(position.current_player, 0, 1, "current_player"),
        "penalty": int(position.penalty),
        "last_action": _in_range(position.last_action, NO_ACTION, cards.CHALLENGE, "last_action"),
        "has_drawn": bool(position.drawn >= 0 if isinstance(position, State) else position.has_drawn),
        "may_draw": position.rules.may_draw,
        "lays_drawn": position.rules.play_drawn == "auto",
        "may_answer": bool(position.penalty > 0 and (_can_stack(position) or position.contested >= 0)),
    }


def _can_stack(position: State | Observation) -> bool:
    """Return whether a card may be played on the penalty."""
    rules = position.rules
    return rules.stacking and not (rules.wild_draw_four == "challenge" and position.top_rank == cards.WILD_DRAW_FOUR)


def drawn_types(before: Hand, after: Hand) -> list[int]:
    """Return the types of the cards added to a hand, sorted; empty if it is hidden."""
    if before.types is None or after.types is None:
        return []
    return sorted((Counter(after.types) - Counter(before.types)).elements())


def _result(winner: int) -> str:
    return "the game is drawn" if winner == NO_WINNER else f"player {winner} wins"


def _hand(onehot: Any, what: str, *, is_hidden: bool) -> Hand:
    types = _types(onehot, what)
    return Hand(len(types), None if is_hidden else types)


def _types(onehot: Any, what: str) -> tuple[int, ...]:
    """Return the types of a set of cards, bool[108], sorted."""
    array = np.asarray(onehot)
    if array.shape != (cards.NUM_CARDS,) or array.dtype != bool:
        raise ValueError(f"{what} must be bool[{cards.NUM_CARDS}], got {array.dtype}{list(array.shape)}")
    return tuple(sorted(cards.TYPE_OF_SLOT[array].tolist()))


def _check_single(shape: tuple[int, ...], wanted: tuple[int, ...], what: str, field: str) -> None:
    if shape != wanted:
        raise ValueError(
            f"{what} must be a single one, with {field} of shape {wanted}, got {shape}; "
            f"take one out of a batch with jax.tree.map(lambda x: x[i], {what}s)"
        )


def _in_range(value: Any, low: int, high: int, what: str) -> int:
    if np.shape(value) != () or not low <= int(value) <= high:
        raise ValueError(f"{what} must be a number in [{low}, {high}], got {value!r}")
    return int(value)

"""What a picture may show: positions read from states or observations, on the host, without what the view hides.

The drawing code sees `Scene` only. A hidden hand is a number there, so it can't get into a picture.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import jax
import numpy as np
from jax.typing import ArrayLike

from unojax import cards
from unojax.game import NO_ACTION, NO_WINNER, State
from unojax.games.record import Trajectory
from unojax.observation import Observation
from unojax.rules import is_int
from unojax.viz.card import card_words

View = Literal[0, 1, "public"]
"""Whose knowledge a picture is limited to: player 0's, player 1's, or what both know."""

_VIEW_HELP: Final = "view must be 0 or 1 (that player's knowledge), 'public' (both hands hidden) or None (both hands open)"


@dataclass(frozen=True)
class Hand:
    """One player's cards. `types` lists them, sorted; None: hidden."""

    count: int
    types: tuple[int, ...] | None


@dataclass(frozen=True)
class Scene:
    """One position as a picture shows it.

    Attributes:
        hands: of player 0 and player 1.
        near: the player who sits at the bottom.
        deck, pile: how many cards they hold.
        top_type: card type of the top card.
        color: active colour 0..3.
        player: who moves next; at the end, who moved last.
        penalty: cards that this player must draw: 0, 2 or 4.
        last_action: the last legal action; -1 at the start.
        result: how the game ended, in words; None while it goes on.
        winner: 0, 1 or -1.
        steps: so far; None if not known.
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


@dataclass(frozen=True)
class Moment:
    """A position of a game, and in words the move that led there. `drawn`: types of the cards drawn in it, by player, if open."""

    scene: Scene
    words: str
    drawn: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())


def read_scene(position: State | Observation, view: View | None = None) -> Scene:
    """Read one state (as `view` sees it) or one observation.

    Raises:
        ValueError: it is neither, it is a batch, or a field is out of its range.
    """
    if isinstance(position, State):
        return _read_state(jax.device_get(position), view)
    if isinstance(position, Observation):
        if view is not None:
            raise ValueError(f"view is for states: an observation has one of its own, its player's; got view={view!r}")
        return _read_observation(jax.device_get(position))
    raise ValueError(f"position must be an unojax State or Observation, got {type(position).__name__}")


def _read_state(state: State, view: View | None) -> Scene:
    if view is not None and not (view == "public" if isinstance(view, str) else is_int(view) and view in (0, 1)):
        raise ValueError(f"{_VIEW_HELP}, got {view!r}")
    _check_single(np.shape(state.hands), (2, cards.NUM_CARDS), "state", "hands")
    hands = [_hand(state.hands[p], f"hands[{p}]", is_hidden=view not in (None, p)) for p in (0, 1)]
    result, winner = None, int(state.winner)
    if state.truncated:
        result = "the game is cut off"
    elif state.terminated:
        result = _result(winner)
    return Scene(
        hands=(hands[0], hands[1]),
        near=1 if view == 1 else 0,
        deck=len(_types(state.deck, "deck")),
        result=result,
        winner=winner,
        steps=int(state.step_count),
        **_public(state),
    )


def _read_observation(seen: Observation) -> Scene:
    _check_single(np.shape(seen.hand), (cards.NUM_CARDS,), "observation", "hand")
    near = _in_range(seen.player, 0, 1, "player")
    own, other = _hand(seen.hand, "hand", is_hidden=False), Hand(int(seen.opponent_count), None)
    # A game ends with an empty hand or by the count, and either way fewer cards win.
    by_count = NO_WINNER if own.count == other.count else near if own.count < other.count else 1 - near
    winner = by_count if seen.terminated else NO_WINNER
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
    """What both players know of a position."""
    color = _in_range(position.color, 0, cards.NUM_COLORS - 1, "color")
    rank = _in_range(position.top_rank, 0, cards.NUM_RANKS - 1, "top_rank")
    return {
        "pile": len(_types(position.pile, "pile")),
        "top_type": rank + 39 if rank >= cards.WILD else color * cards.NUM_COLORED_RANKS + rank,
        "color": color,
        "player": _in_range(position.current_player, 0, 1, "current_player"),
        "penalty": int(position.penalty),
        "last_action": _in_range(position.last_action, NO_ACTION, cards.DRAW, "last_action"),
    }


def read_game(
    game: Trajectory | Sequence[State] | Sequence[Observation], actions: ArrayLike | None, view: View | None
) -> list[Moment]:
    """Read a whole game: a trajectory, or the positions in their order.

    Args:
        game: of `unojax.games.record.play_game`, or a sequence of states or of one player's observations.
        actions: int[T] of T + 1 positions, to be checked against them; None: what the positions say.
        view: as for `read_scene`.

    Raises:
        ValueError: there are no positions, they or the actions don't fit each other, or one can't be read.
    """
    if isinstance(game, Trajectory):
        if actions is not None:
            raise ValueError("a trajectory has actions of its own: leave actions out, or pass trajectory.states unstacked")
        states, taken = jax.device_get(game)
        if np.ndim(taken) != 1:
            raise ValueError(f"the trajectory must be of one game, got actions of shape {np.shape(taken)}; index one game first")
        num_steps = int((np.asarray(taken) != NO_ACTION).sum())
        positions = [jax.tree.map(lambda leaf, i=i: leaf[i], states) for i in range(num_steps + 1)]
        actions = np.asarray(taken)[:num_steps]
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
    return [start] + [_moment(before, after) for before, after in itertools.pairwise(scenes)]


def _moment(before: Scene, after: Scene) -> Moment:
    drawn = [frozenset(_drawn(a, b)) for a, b in zip(before.hands, after.hands, strict=True)]
    return Moment(after, move_words(before, after), (drawn[0], drawn[1]))


def _check_actions(actions: np.ndarray, scenes: list[Scene]) -> None:
    if actions.shape != (len(scenes) - 1,):
        raise ValueError(f"actions must be int[{len(scenes) - 1}], one between each two positions, got shape {actions.shape}")
    for step, (action, scene) in enumerate(zip(actions.tolist(), scenes[1:], strict=True), start=1):
        if action != scene.last_action:
            raise ValueError(f"actions[{step - 1}] is {action!r}, but position {step} says that {scene.last_action} led to it")


PLAYERS: Final = ("player 0", "player 1")
YOU: Final = "you"
"""The name of a player who is spoken to."""


def start_words(scene: Scene, names: tuple[str, str] = PLAYERS) -> str:
    """The first position of a record. `names` as for `move_words`."""
    return f"{capitalized(card_words(scene.top_type))} is on top. {capitalized(turn_words(scene, names))}."


def turn_words(scene: Scene, names: tuple[str, str] = PLAYERS) -> str:
    """Whose turn it is, or how the game ended. `names` as for `move_words`."""
    if scene.result is not None:
        return result_words(scene, names)
    due = f"must draw {scene.penalty}" if scene.penalty else "to move"
    return f"{names[scene.player]} {due}"


def action_words(action: int, *, second_person: bool = False) -> str:
    """An action without who did it: `red 5`, `Wild, declares green` (or `declare`), `draw`."""
    if action == NO_ACTION:
        return "none yet"
    if action == cards.DRAW:
        return "draw"
    color, rank = divmod(action, cards.NUM_RANKS)
    if rank >= cards.WILD:
        return f"{card_words(rank + 39)}, {'declare' if second_person else 'declares'} {cards.COLOR_NAMES[color]}"
    return card_words(color * cards.NUM_COLORED_RANKS + rank)


def move_words(before: Scene, after: Scene, names: tuple[str, str] = PLAYERS) -> str:
    """The move between two positions, and what it brought about. Drawn cards are named where they may be seen.

    Args:
        before, after: the positions.
        names: of player 0 and player 1; `YOU` is spoken to.
    """
    mover, action = before.player, after.last_action
    who = names[mover]

    def verb(stem: str, ending: str = "s") -> str:
        return stem if who == YOU else stem + ending

    said = []
    if action == cards.DRAW:
        drawn = after.hands[mover].count - before.hands[mover].count
        cards_drawn = ", ".join(card_words(t) for t in _drawn(before.hands[mover], after.hands[mover]))
        what = f"{verb('draw')} {drawn} card{'s' if drawn > 1 else ''}" if drawn else "can't draw"
        said.append(f"{who} {what}" + (f": {cards_drawn}" if cards_drawn else ""))
    else:
        said.append(f"{who} {verb('play')} {action_words(action, second_person=who == YOU)}")
    if after.pile < before.pile:
        said.append("the pile goes back into the deck")
    if after.result is not None:
        said.append(result_words(after, names))
    elif action != cards.DRAW:
        if after.hands[mover].count == 1:
            said.append(f"{who} {'have' if who == YOU else 'has'} one card left")
        if after.player == mover:
            said.append(f"{who} {verb('move')} again")
    return capitalized("; ".join(said)) + "."


def result_words(scene: Scene, names: tuple[str, str] = PLAYERS) -> str:
    """How the game ended. `names` as for `move_words`.

    Raises:
        ValueError: it goes on.
    """
    if scene.result is None:
        raise ValueError("the game goes on")
    if scene.winner == NO_WINNER:
        return scene.result
    winner = names[scene.winner]
    return f"{winner} {'win' if winner == YOU else 'wins'}"


def capitalized(words: str) -> str:
    """The first letter large, the others as they are."""
    return words[:1].upper() + words[1:]


def _drawn(before: Hand, after: Hand) -> list[int]:
    """Types of the cards that came to an open hand."""
    if before.types is None or after.types is None:
        return []
    return sorted((Counter(after.types) - Counter(before.types)).elements())


def _result(winner: int) -> str:
    return "the game is drawn" if winner == NO_WINNER else f"player {winner} wins"


def _hand(onehot: Any, what: str, *, is_hidden: bool) -> Hand:
    types = _types(onehot, what)
    return Hand(len(types), None if is_hidden else types)


def _types(onehot: Any, what: str) -> tuple[int, ...]:
    """The sorted types of a set of cards, bool[108]."""
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

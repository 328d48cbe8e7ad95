"""Pictures of one position: cards, active colour, player to move, last move."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Final

import numpy as np
from jax.typing import ArrayLike

from unojax import cards
from unojax.game import State
from unojax.observation import Observation
from unojax.viz.card import BACK, CORNER_HEIGHT, HEIGHT, WIDTH, definitions, outline, place
from unojax.viz.scene import Hand, Scene, Viewer, read_scene
from unojax.viz.svg import Picture, at, document, element, finish, mark, text, text_width
from unojax.viz.theme import COLOR_PAINTS, Theme, ThemeName, get_theme
from unojax.viz.words import action_words, capitalized, count_words, due_words, top_words, turn_words

PICTURE_WIDTH: Final = 700.0

_PAD: Final = 22.0
_GAP: Final = 6.0
_MAX_IN_ROW: Final = 27
"""Most cards that fit side by side with readable corners."""
_FAN_RADIUS: Final = 2600.0
_LIFT: Final = 9.0
"""Distance by which lifted cards stand out of the hand."""
_LABEL: Final = 34.0
_MIDDLE: Final = 158.0

Lifted = tuple[frozenset[int], frozenset[int]]
"""Card types lifted out of the hands of player 0 and player 1."""


def position_svg(
    position: State | Observation,
    *,
    view: Viewer | None = None,
    theme: ThemeName = "light",
    legal: ArrayLike | None = None,
    width: float = PICTURE_WIDTH,
    path: str | os.PathLike[str] | None = None,
) -> Picture:
    """Draw a position as SVG.

    Each card is a group with its notation (`data-card="R5"`), in a group for its place (`data-place`: `hand-0`, `hand-1`, `pile`,
    `deck`).

    Args:
        position: A single state or observation. An observation's player is at the bottom; the other hand is hidden.
        view: For a state: 0 or 1 shows that player's knowledge, with this player at the bottom; "public" hides both hands;
            None shows both.
        theme: "light" or "dark".
        legal: Mask of `unojax.legal_mask`. Legal cards are lifted out of the hand of the player to move, if it is visible.
        width: Width in pixels.
        path: File to write as well.

    Raises:
        ValueError: If an argument is out of range, or the position is a batch.
        OSError: If the file can't be written.
    """
    paints = get_theme(theme)
    scene = read_scene(position, view)
    # Every action of a finished game is legal.
    types = _legal_types(legal, position.rules.num_actions) if scene.result is None else frozenset()
    lifted = (types, frozenset()) if scene.player == 0 else (frozenset(), types)
    layout = Layout.of([scene])
    content = definitions(used_types(scene)) + draw_scene(scene, layout, paints, lifted=lifted)
    size = {"width": PICTURE_WIDTH, "height": layout.height, "shown_width": width}
    return finish(document(content, **size, title=scene_words(scene), theme=paints), path)


@dataclass(frozen=True)
class Layout:
    """Rows of cards, `far` and `near`, for the hands of all positions of a game."""

    far: int
    near: int

    @classmethod
    def of(cls, scenes: list[Scene]) -> Layout:
        """Return a layout with room for these scenes."""
        return cls(
            far=max(_num_rows(scene.hands[1 - scene.near].count) for scene in scenes),
            near=max(_num_rows(scene.hands[scene.near].count) for scene in scenes),
        )

    @property
    def middle(self) -> float:
        """Top of deck and pile."""
        return _LABEL + _hand_height(self.far)

    @property
    def height(self) -> float:
        """Height of the picture."""
        return self.middle + _MIDDLE + _hand_height(self.near) + _LABEL


def draw_scene(scene: Scene, layout: Layout, theme: Theme, *, lifted: Lifted = (frozenset(), frozenset())) -> str:
    """Draw a position without its panel and the definitions of its cards."""
    near, far = scene.near, 1 - scene.near
    near_top = layout.middle + _MIDDLE
    parts = [
        _hand_label(scene, far, 23.0, theme),
        _draw_hand(scene.hands[far], far, _LABEL, layout.far, is_near=False, lifted=lifted[far]),
        at(0, layout.middle, _middle(scene, theme)),
        _draw_hand(scene.hands[near], near, near_top, layout.near, is_near=True, lifted=lifted[near]),
        _hand_label(scene, near, near_top + _hand_height(layout.near) + 21, theme),
    ]
    return "".join(parts)


def used_types(scene: Scene) -> set[int]:
    """Return the cards for which a picture needs definitions."""
    types = {scene.top_type}
    for hand in scene.hands:
        types |= set(hand.types) if hand.types is not None else {BACK} if hand.count else set()
    return types | {BACK} if scene.deck else types


def scene_words(scene: Scene) -> str:
    """Return a description of the picture."""
    counts = ", ".join(f"player {p} holds {count_words(hand.count)}" for p, hand in enumerate(scene.hands))
    return f"UNO: {top_words(scene, notation=True)} on top, {turn_words(scene)}, {counts}"


def _num_rows(count: int) -> int:
    return max(1, math.ceil(count / _MAX_IN_ROW))


def _hand_height(rows: int) -> float:
    """Return the height of a hand, with room for the fan's sag and for lifted cards."""
    return HEIGHT + (rows - 1) * CORNER_HEIGHT + 30


def _draw_hand(hand: Hand, player: int, top: float, rows: int, *, is_near: bool, lifted: frozenset[int]) -> str:
    types = (BACK,) * hand.count if hand.types is None else hand.types
    used_rows = _num_rows(hand.count)
    # The remaining room stays on the side of the table's edge.
    top += 17 if is_near else 11 + (rows - used_rows) * CORNER_HEIGHT
    per_row = math.ceil(hand.count / used_rows)
    placed = []
    for row in range(used_rows):
        in_row = types[row * per_row : (row + 1) * per_row]
        step = min(WIDTH + _GAP, (PICTURE_WIDTH - 2 * _PAD - WIDTH) / max(1, per_row - 1))
        start = PICTURE_WIDTH / 2 - step * (len(in_row) - 1) / 2
        for column, card_type in enumerate(in_row):
            x, y = start + column * step, top + HEIGHT / 2 + row * CORNER_HEIGHT
            offset = x - PICTURE_WIDTH / 2
            sag = offset * offset / (2 * _FAN_RADIUS) if used_rows == 1 else 0.0
            angle = math.degrees(offset / _FAN_RADIUS) if used_rows == 1 else 0.0
            lift = _LIFT if card_type in lifted else 0.0
            sign = 1 if is_near else -1
            placed.append(place(card_type, x, y + sign * (sag - 5 - lift), angle=sign * angle))
    return element("g", *placed, data_place=f"hand-{player}") if placed else ""


def _hand_label(scene: Scene, player: int, y: float, theme: Theme) -> str:
    name = f"Player {player}"
    x = _PAD
    parts = [text(name, x, y, 15, theme.text, bold=True)]
    x += text_width(name, 15, bold=True) + 8
    count = count_words(scene.hands[player].count)
    parts.append(text(count, x, y, 14, theme.dim))
    x += text_width(count, 14) + 10
    if scene.result is None and scene.player == player:
        paints = (theme.alarm, theme.on_alarm) if scene.penalty else (theme.accent, theme.on_accent)
        parts.append(_pill(due_words(scene), x, y, *paints))
    elif scene.winner == player:
        parts.append(_pill("wins", x, y, theme.accent, theme.on_accent))
    return "".join(parts)


def _pill(content: str, x: float, y: float, fill: str, ink: str) -> str:
    width = text_width(content, 13, bold=True) + 18.0
    box = element("rect", x=x, y=y - 15, width=width, height=20.0, rx=10.0, fill=fill)
    return box + text(content, x + width / 2, y - 0.5, 13, ink, bold=True, anchor="middle")


_DECK_X: Final = 196.0
_PILE_X: Final = 312.0
_SAID_X: Final = 408.0
_CARDS_Y: Final = 66.0


def _middle(scene: Scene, theme: Theme) -> str:
    band = element("rect", x=_PAD, y=0.0, width=PICTURE_WIDTH - 2 * _PAD, height=_MIDDLE, rx=12.0, fill=theme.field)
    return band + _deck(scene, theme) + _pile(scene, theme) + _said(scene, theme)


def _deck(scene: Scene, theme: Theme) -> str:
    depth = min(3, scene.deck)
    placed = [place(BACK, _DECK_X - 2.5 * i, _CARDS_Y - 2.5 * i) for i in range(depth)]
    if not placed:
        line = {"fill": "none", "stroke": theme.dim, "stroke_width": 1.5, "stroke_dasharray": "5 5"}
        placed = [outline(_DECK_X, _CARDS_Y, **line)]
    caption = text(f"deck {scene.deck}", _DECK_X, _MIDDLE - 16, 14, theme.text, anchor="middle")
    return element("g", *placed, data_place="deck", data_count=scene.deck) + caption


def _pile(scene: Scene, theme: Theme) -> str:
    paint = COLOR_PAINTS[scene.color]
    # The order of the cards under the top one is unknown, so they are not drawn as cards.
    edges = [
        outline(fill="#fffdf8", stroke="#9aa39e", stroke_width=1, transform=f"translate({_PILE_X} {_CARDS_Y}) rotate({angle})")
        for angle in (-15, 11)[: min(2, scene.pile - 1)]
    ]
    line = {"stroke": theme.field, "stroke_width": 1.5, "data_color": cards.COLOR_NAMES[scene.color]}
    frame = outline(_PILE_X, _CARDS_Y, margin=5, rx=12.0, fill=paint.body, **line)
    top = element("g", place(scene.top_type, _PILE_X, _CARDS_Y), data_place="pile", data_count=scene.pile)
    return "".join(edges) + frame + top + text(f"pile {scene.pile}", _PILE_X, _MIDDLE - 16, 14, theme.text, anchor="middle")


def _said(scene: Scene, theme: Theme) -> str:
    """Return the lines beside the pile."""
    paint, name = COLOR_PAINTS[scene.color], cards.COLOR_NAMES[scene.color]
    lines = [text(capitalized(turn_words(scene)), _SAID_X, 36, 20 if scene.result else 17, theme.text, bold=True)]
    lines.append(mark(scene.color, _SAID_X + 10, 62, 9, paint.body, letter=paint.ink, stroke=theme.panel, stroke_width=1))
    declared = " declared" if scene.top_type >= cards.WILD_TYPE else ""
    lines.append(text(f"{name}{declared}", _SAID_X + 28, 67, 15, theme.text))
    lines.append(text(f"last move: {action_words(scene.last_action)}", _SAID_X, 96, 14, theme.dim))
    if scene.steps is not None:
        lines.append(text(f"step {scene.steps}", _SAID_X, 120, 14, theme.dim))
    return "".join(lines)


def _legal_types(legal: ArrayLike | None, num_actions: int) -> frozenset[int]:
    """Return the card types of a mask's plays."""
    if legal is None:
        return frozenset()
    mask = np.asarray(legal)
    if mask.shape != (num_actions,) or mask.dtype != bool:
        raise ValueError(f"legal must be bool[{num_actions}], as of unojax.legal_mask, got {mask.dtype}{list(mask.shape)}")
    return frozenset(cards.TYPE_OF_PLAY[mask[: cards.DRAW]].tolist())

"""Heat maps of a belief over the opponent's hand."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np
from jax.typing import ArrayLike

from unojax import cards
from unojax.belief.hands import Hands
from unojax.belief.summary import prob_holds
from unojax.viz.svg import Picture, at, document, element, finish, mark, text
from unojax.viz.theme import COLOR_PAINTS, Theme, ThemeName, get_theme
from unojax.viz.words import capitalized, card_words, plays_like

TITLE: Final = "Probability that the opponent holds the card, in %"

_TOP: Final = 72.0
_GAP: Final = 12.0
"""Space between the coloured cards and the wild ones."""
SAID: Final = 26.0
"""Height of the line about the opponent."""


@dataclass(frozen=True)
class Grid:
    """Places of the 54 cells.

    Attributes:
        width, height: Size of the picture.
        cell_width, cell_height: Size of a coloured card.
        left: Left edge of the cells.
        is_tall: Ranks are rows, with wild cards below. False: ranks are columns, with wild cards to the right.
    """

    width: float
    height: float
    cell_width: float
    cell_height: float
    left: float
    is_tall: bool

    def box(self, card_type: int) -> tuple[float, float, float, float]:
        """Return the left, top, width and height of a cell. A wild card takes two places."""
        width, height = self.cell_width, self.cell_height
        if card_type >= cards.WILD_TYPE:
            number = card_type - cards.WILD_TYPE
            if self.is_tall:
                return self.left + 2 * width * number, _TOP + 13 * height + _GAP, 2 * width, height
            return self.left + 13 * width + _GAP, _TOP + 2 * height * number, width, 2 * height
        color, rank = divmod(card_type, cards.NUM_COLORED_RANKS)
        across, down = (color, rank) if self.is_tall else (rank, color)
        return self.left + across * width, _TOP + down * height, width, height

    @property
    def legend_top(self) -> float:
        """Top of the legend."""
        return _TOP + (14 * self.cell_height + _GAP if self.is_tall else 4 * self.cell_height) + 18


WIDE: Final = Grid(width=700.0, height=300.0, cell_width=43.0, cell_height=43.0, left=48.0, is_tall=False)
TALL: Final = Grid(width=340.0, height=504.0, cell_width=70.0, cell_height=26.0, left=48.0, is_tall=True)
_TOLERANCE: Final = 1e-4
"""Largest distance out of [0, 1] by which float32 rounding of a sum of weights may move a probability."""


def belief_svg(
    belief: Any,
    *,
    truth: ArrayLike | None = None,
    types: Mapping[str, float] | None = None,
    title: str | None = None,
    theme: ThemeName = "light",
    tall: bool = False,
    width: float | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Picture:
    """Draw the probability that the opponent holds at least one card of each type.

    Each cell is a group with the card's name and the probability (`data-card="R5" data-prob="0.123"`).

    Args:
        belief: Probabilities, float[54], or a belief of `unojax.belief`.
        truth: Opponent's hand, drawn as outlines: bool[108] canonical one-hot or int[54] counts.
        types: P(type) of the opponent by name, see `unojax.belief.summary.types_by_name`, written below.
        title: Text above the map; None: a description.
        tall: Ranks from top to bottom, for a narrow place.
        width: Width in pixels; None: 700, or 340 if tall.
        theme, path: As for `position_svg`.

    Raises:
        ValueError: If an argument has another shape or is out of range.
        OSError: If the file can't be written.
    """
    paints = get_theme(theme)
    probs = read_probs(belief)
    counts = None if truth is None else _read_truth(truth)
    grid = TALL if tall else WIDE
    if title is None:
        title = "Held by the opponent, in %" if tall else TITLE
    said = plays_like(types or {})
    content = heat_map(probs, counts, title, paints, grid, said)
    size = {"width": grid.width, "height": grid.height + (SAID if said else 0.0), "shown_width": width}
    words = f"{title}: {_likeliest(probs)}" + (f"; the opponent {said}" if said else "")
    return finish(document(content, **size, title=words, theme=paints), path)


def read_probs(belief: Any) -> np.ndarray:
    """Return a belief as float64[54] in [0, 1]. Raises ValueError for other values."""
    if hasattr(belief, "packed") and hasattr(belief, "log_weights"):
        if np.ndim(belief.log_weights) != 1:
            raise ValueError(f"belief must be a single one, got log_weights of shape {np.shape(belief.log_weights)}")
        # Compiled, because separate operations would take a second for the first picture.
        belief = jax.jit(prob_holds)(Hands(belief.packed, belief.log_weights))
    elif hasattr(belief, "prob_holds"):
        belief = belief.prob_holds
    try:
        probs = np.asarray(jax.device_get(belief), np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"belief must be float[{cards.NUM_TYPES}] or a belief of unojax.belief, got {belief!r}") from error
    if probs.shape != (cards.NUM_TYPES,):
        raise ValueError(f"belief must be float[{cards.NUM_TYPES}] or a belief of unojax.belief, got shape {probs.shape}")
    if not ((probs >= -_TOLERANCE) & (probs <= 1 + _TOLERANCE)).all():
        raise ValueError(f"belief must hold probabilities in [0, 1], got values from {probs.min()} to {probs.max()}")
    return np.clip(probs, 0.0, 1.0)


def _read_truth(truth: ArrayLike) -> np.ndarray:
    """Return a one-hot or counts as int[54] copies."""
    array = np.asarray(truth)
    if array.shape == (cards.NUM_CARDS,) and array.dtype == bool:
        return cards.count_types(array)
    if array.shape != (cards.NUM_TYPES,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"truth must be a hand, bool[{cards.NUM_CARDS}] or int[{cards.NUM_TYPES}], got {array.dtype}{list(array.shape)}"
        )
    if ((array < 0) | (array > cards.COPIES)).any():
        raise ValueError(
            f"truth must hold 0 to {cards.COPIES.max()} copies of each type, no more than the full deck; got {array.tolist()}"
        )
    return array


def heat_map(probs: np.ndarray, truth: np.ndarray | None, title: str, theme: Theme, grid: Grid = WIDE, said: str = "") -> str:
    """Draw the map of probabilities, float[54], without its panel.

    Copies, int[54], are outlined; `said` is a text about the opponent.
    """
    parts = [text(title, 22.0, 30.0, 16, theme.text, bold=True)]
    for rank, name in enumerate(cards.RANK_NAMES[: cards.WILD]):
        x, y, width, height = grid.box(rank)
        spot = (grid.left - 19, y + height / 2 + 5) if grid.is_tall else (x + width / 2, _TOP - 9)
        parts.append(text(name, *spot, 14, theme.dim, bold=True, anchor="middle"))
    for color, paint in enumerate(COLOR_PAINTS):
        x, y, width, height = grid.box(color * cards.NUM_COLORED_RANKS)
        spot = (x + width / 2, _TOP - 16) if grid.is_tall else (grid.left - 19, y + height / 2)
        parts.append(mark(color, *spot, 9.5, paint.body, letter=paint.ink))
    # Outlines overlap the neighbours' edges, so they come last.
    order = np.argsort(truth > 0, kind="stable") if truth is not None else np.arange(cards.NUM_TYPES)
    parts += [_cell(int(t), float(probs[t]), 0 if truth is None else int(truth[t]), theme, grid) for t in order]
    if not grid.is_tall:
        x, _, width, _ = grid.box(cards.WILD_TYPE)
        parts.append(text("wild", x + width / 2, _TOP - 9, 14, theme.dim, bold=True, anchor="middle"))
    parts.append(_legend(theme, grid, shows_truth=truth is not None))
    if said:
        parts.append(text(capitalized(said), grid.left, grid.legend_top + 51, 14, theme.text))
    return "".join(parts)


def _cell(card_type: int, prob: float, copies: int, theme: Theme, grid: Grid) -> str:
    name = cards.TYPE_NAMES[card_type]
    x, y, width, height = grid.box(card_type)
    is_wild = card_type >= cards.WILD_TYPE
    fill = scale_color(prob, theme)
    ink = max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, fill))
    words = f"{card_words(card_type)}: {100 * prob:.1f} %" + (f", holds {copies}" if copies else "")
    parts = [
        element("title", words),
        element("rect", x=1.0, y=1.0, width=width - 2, height=height - 2, rx=5.0, fill=fill, stroke=theme.line, stroke_width=0.6),
    ]
    across, down = width / 2, height / 2
    if is_wild:
        # The card's name is beside the number in a wide cell, above it in a high one.
        across, down = (0.68 * width, height / 2) if grid.is_tall else (width / 2, 51.0)
        label = name if grid.is_tall else name.removeprefix("W") or "W"
        spot = (0.3 * width, height / 2 + 5.5) if grid.is_tall else (width / 2, 24.0)
        parts.append(text(label, *spot, 15, ink, bold=True, anchor="middle"))
    parts.append(text(percent(prob), across, down + 5.5, 15, ink, bold=prob >= 0.005, anchor="middle"))
    if copies:
        outline = {"fill": "none", "stroke": theme.truth, "stroke_width": 3.5}
        parts.append(element("rect", x=1.5, y=1.5, width=width - 3, height=height - 3, rx=5.0, **outline))
    if copies > 1:
        badge = element("rect", x=width - 21, y=-5.0, width=24.0, height=15.0, rx=7.5, fill=theme.truth)
        parts.append(badge + text(f"×{copies}", width - 9, 6.5, 11.5, theme.panel, bold=True, anchor="middle"))
    return at(x, y, *parts, data_card=name, data_prob=f"{prob:.4f}", data_held=copies or None)


def percent(prob: float) -> str:
    """Return a short percentage. Only 0 and 1 themselves look like 0 and 1."""
    if prob == 0:
        return "–"
    value = 100 * prob
    if value < 0.5:
        return "<1"
    return ">99" if 99.5 <= value < 100 else f"{value:.0f}"


def scale_color(prob: float, theme: Theme) -> str:
    """Return the scale's paint at a probability: `#rrggbb`.

    The scale is even in the square root, because most probabilities lie between 1 and 20 per cent.
    """
    place = math.sqrt(prob) * (len(theme.scale) - 1)
    low = min(int(place), len(theme.scale) - 2)
    a, b = (np.array(_channels(theme.scale[i])) for i in (low, low + 1))
    return "#" + "".join(f"{round(v):02x}" for v in a + (place - low) * (b - a))


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two paints, 1 to 21 (WCAG 2.1)."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(paint: str) -> float:
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in _channels(paint))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _channels(paint: str) -> tuple[int, int, int]:
    return int(paint[1:3], 16), int(paint[3:5], 16), int(paint[5:7], 16)


def _legend(theme: Theme, grid: Grid, *, shows_truth: bool) -> str:
    left, y, steps = grid.left, grid.legend_top, 52
    width = 176.0 if grid.is_tall else 260.0
    bar = [
        element("rect", x=left + i * width / steps, y=y, width=width / steps + 0.5, height=12.0, fill=paint)
        for i, paint in enumerate(scale_color(((i + 0.5) / steps) ** 2, theme) for i in range(steps))
    ]
    frame = element("rect", x=left, y=y, width=width, height=12.0, fill="none", stroke=theme.line)
    shown = (0, 5, 20, 50, 100)
    ticks = [text(f"{p} %", left + width * math.sqrt(p / 100), y + 27, 12, theme.dim, anchor="middle") for p in shown]
    # A narrow picture explains the outline instead of the dash, which is clear enough.
    x = left + width + (24 if grid.is_tall else 32)
    parts = [*bar, frame, *ticks]
    if not (grid.is_tall and shows_truth):
        parts.append(text("– exactly 0", x, y + 11, 13, theme.dim))
    if shows_truth:
        x += 0 if grid.is_tall else 102
        outline = {"fill": "none", "stroke": theme.truth, "stroke_width": 3}
        parts.append(element("rect", x=x, y=y - 2, width=16.0, height=16.0, rx=3.0, **outline))
        parts.append(text("held" if grid.is_tall else "in the opponent's hand", x + 24, y + 11, 13, theme.dim))
    return "".join(parts)


def _likeliest(probs: np.ndarray) -> str:
    best = np.argsort(-probs, kind="stable")[:3]
    return ", ".join(f"{cards.TYPE_NAMES[t]} {percent(float(probs[t]))}" for t in best)

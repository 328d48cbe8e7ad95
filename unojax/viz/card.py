"""Single cards: 54 faces and the back, drawn once (`definitions`) and placed (`place`).

A face is the same in every picture, so ids may repeat on a page. Overlapping cards show the upper left corner, which names the
card.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from unojax import cards
from unojax.viz.svg import NAMESPACE, at, element, mark, sector, text
from unojax.viz.theme import COLOR_PAINTS, FONT
from unojax.viz.words import card_words

WIDTH: Final = 64.0
HEIGHT: Final = 96.0
CORNER_WIDTH: Final = 21.0
"""Width of a card's left side that must stay uncovered for reading."""
CORNER_HEIGHT: Final = 41.0
"""Height of a card's upper side that must stay uncovered for reading."""
BACK: Final = -1
"""Stands for a type: a hidden card."""

_PAPER: Final = "#fffdf8"
_EDGE: Final = "#20262455"
_BLACK: Final = "#25282d"
_BACK_BODY: Final = "#34495a"
_BACK_LINE: Final = "#8fa9b8"
_TILT: Final = 24.0


def place(card_type: int, x: float, y: float, *, angle: float = 0.0, scale: float = 1.0, **attributes: Any) -> str:
    """Place a card of `definitions` with its centre at (x, y)."""
    name = "a hidden card" if card_type == BACK else card_words(card_type)
    data = None if card_type == BACK else cards.TYPE_NAMES[card_type]
    use = element("use", href=f"#{_id(card_type)}")
    return at(x, y, element("title", name), use, angle=angle, scale=scale, data_card=data, **attributes)


def definitions(card_types: Iterable[int]) -> str:
    """Draw these types (or `BACK`), each once, for references by `place`."""
    distinct = sorted(set(card_types))
    return element("defs", *(element("g", _face(t), id=_id(t)) for t in distinct)) if distinct else ""


def card_svg(card_type: int) -> str:
    """Draw a card (or `BACK`) as a separate SVG without name or size."""
    margin = 1.0
    box = f"{-WIDTH / 2 - margin:g} {-HEIGHT / 2 - margin:g} {WIDTH + 2 * margin:g} {HEIGHT + 2 * margin:g}"
    return element("svg", _face(card_type), xmlns=NAMESPACE, viewBox=box, font_family=FONT)


def outline(x: float = 0.0, y: float = 0.0, *, margin: float = 0.0, rx: float = 8.0, **attributes: Any) -> str:
    """Draw a card's edge about (x, y), or a frame at distance `margin` outside it."""
    width, height = WIDTH + 2 * margin, HEIGHT + 2 * margin
    return element("rect", x=x - width / 2, y=y - height / 2, width=width, height=height, rx=rx, **attributes)


def _id(card_type: int) -> str:
    return "unojax-card-back" if card_type == BACK else f"unojax-card-{card_type}"


def _face(card_type: int) -> str:
    """Draw a card about the origin."""
    if card_type == BACK:
        return _back()
    if card_type >= cards.WILD_TYPE:
        return _wild(card_type)
    color, rank = divmod(card_type, cards.NUM_COLORED_RANKS)
    paint = COLOR_PAINTS[color]
    ring = element("ellipse", rx=16.3, ry=28.8, fill="none", stroke=paint.body, stroke_width=1.0)
    ovals = at(0, 0, element("ellipse", rx=18.5, ry=31.0, fill=paint.tint), ring, angle=_TILT)
    corner = _rank_sign(rank, 0, 0, 15, paint.ink) + mark(color, 0, 16, 6.0, paint.tint, letter=paint.deep)
    centre = _rank_sign(rank, 0, 0, 30 if rank == cards.DRAW_TWO else 33, paint.deep)
    return _blank(paint.body) + ovals + centre + _corners(corner)


def _wild(card_type: int) -> str:
    is_four = card_type == cards.WILD_DRAW_FOUR_TYPE
    order = (cards.RED, cards.BLUE, cards.GREEN, cards.YELLOW)
    quarters = [sector(18.5, 31.0, quarter, COLOR_PAINTS[color].body) for quarter, color in enumerate(order)]
    oval = at(0, 0, element("ellipse", rx=20.0, ry=32.5, fill=_PAPER), *quarters, angle=_TILT)
    if is_four:
        plate = element("rect", x=-18.0, y=-12.0, width=36.0, height=24.0, rx=6.0, fill=_BLACK, stroke=_PAPER, stroke_width=2.0)
        centre = plate + _label("+4", 0, 0, 20, "#ffffff")
    else:
        # Each mark stands upright on the quarter of its colour, which follows the tilt.
        spots = (_tilted(sx * 7.6, sy * 12.2) for sx, sy in ((-1, -1), (1, -1), (1, 1), (-1, 1)))
        centre = "".join(mark(c, x, y, 4.6, COLOR_PAINTS[c].tint) for c, (x, y) in zip(order, spots, strict=True))
    pinwheel = at(0, 16, *(sector(6.5, 6.5, quarter, COLOR_PAINTS[color].body) for quarter, color in enumerate(order)), angle=45)
    corner = _label("+4" if is_four else "W", 0, 0, 12 if is_four else 14, "#ffffff") + pinwheel
    return _blank(_BLACK) + oval + centre + _corners(corner)


def _back() -> str:
    line = {"fill": "none", "stroke": _BACK_LINE}
    rings = (element("ellipse", rx=rx, ry=ry, **line, stroke_width=1.5) for rx, ry in ((20.0, 34.0), (14.0, 25.0)))
    spots = ((-5.5, -6.5), (5.5, -6.5), (5.5, 6.5), (-5.5, 6.5))
    order = (cards.RED, cards.YELLOW, cards.BLUE, cards.GREEN)
    marks = "".join(mark(c, x, y, 3.6, _BACK_LINE) for c, (x, y) in zip(order, spots, strict=True))
    inner = element("rect", x=-26.0, y=-42.0, width=52.0, height=84.0, rx=4.5, **line, stroke_width=0.8)
    return _blank(_BACK_BODY) + inner + at(0, 0, *rings, angle=_TILT) + marks


def _blank(body: str) -> str:
    return outline(fill=_PAPER, stroke=_EDGE, stroke_width=1.0) + outline(margin=-4, rx=5.0, fill=body)


def _corners(sign: str) -> str:
    """Put a sign, drawn about the origin, in the upper left and lower right corners."""
    return at(-18.8, -34.0, sign) + at(18.8, 34.0, sign, angle=180)


def _rank_sign(rank: int, x: float, y: float, size: float, fill: str) -> str:
    """Draw a rank, `size` high, about (x, y)."""
    if rank == cards.SKIP:
        return at(x, y, _skip(fill), scale=size / 16)
    if rank == cards.REVERSE:
        return at(x, y, _reverse(fill), scale=size / 16)
    if rank == cards.DRAW_TWO:
        return _label("+2", x, y, 0.8 * size, fill)
    sign = _label(str(rank), x, y, size, fill)
    # Distinguish a 6 from a 9 upside down.
    if rank in (6, 9):
        half, height = 0.26 * size, 0.085 * size
        sign += element("rect", x=x - half, y=y + 0.41 * size, width=2 * half, height=height, fill=fill)
    return sign


def _label(content: str, x: float, y: float, size: float, fill: str) -> str:
    """Write bold text centred on (x, y)."""
    return text(content, float(x), y + 0.358 * size, size, fill, bold=True, anchor="middle")


def _tilted(x: float, y: float) -> tuple[float, float]:
    """Apply an oval's tilt to a point."""
    cosine, sine = math.cos(math.radians(_TILT)), math.sin(math.radians(_TILT))
    return x * cosine - y * sine, x * sine + y * cosine


def _skip(stroke: str) -> str:
    """Draw a barred circle, about 13 by 13."""
    line = {"stroke": stroke, "stroke_width": 2.1, "fill": "none"}
    return element("circle", r=5.4, **line) + element("path", d="M-3.8 3.8L3.8 -3.8", **line)


def _reverse(fill: str) -> str:
    """Draw two arrows past each other, about 13 by 13."""
    arrow = element("path", d="M-3.5 -6.8L0 -2.4H-2.2V6.4H-4.8V-2.4H-7Z", fill=fill)
    return at(0, 0, arrow, at(0, 0, arrow, angle=180), angle=32, scale=0.95)

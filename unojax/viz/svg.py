"""SVG as text: elements, marks of colours, and pictures for notebooks."""

from __future__ import annotations

import html
import math
import os
import re
from numbers import Real
from typing import Any, Final, TypeVar

from unojax import cards
from unojax.files import write_whole
from unojax.viz.theme import FONT, Theme

NAMESPACE: Final = "http://www.w3.org/2000/svg"
"""Attribute `xmlns` of SVG files."""


class Picture(str):
    """Text of an SVG picture, displayed in notebooks."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


class Page(str):
    """Text of an HTML page, displayed in a frame in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        style = "width:100%;height:760px;border:0"
        return f'<iframe srcdoc="{html.escape(self)}" style="{style}"></iframe>'


_Text = TypeVar("_Text", bound=str)


def finish(text: _Text, path: str | os.PathLike[str] | None) -> _Text:
    """Write a picture or page to `path`, unless it is None, and return it."""
    if path is not None:
        write_whole(path, text)
    return text


def check_positive(value: float, what: str) -> None:
    """Raise `ValueError` unless the value is a positive, finite number."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ValueError(f"{what} must be a positive number, got {value!r}")


def escape(content: str) -> str:
    """Escape text for XML or HTML; control characters become the replacement character."""
    return html.escape(_NOT_IN_XML.sub("\ufffd", content))


# https://www.w3.org/TR/xml/#charsets
_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def element(name: str, *children: str, **attributes: Any) -> str:
    """Return `<name key="value">children</name>`, without attributes that are None.

    Children are SVG. An underscore in a key becomes a hyphen, one at its end is dropped (`class_`).
    """
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(_format(value))}"')
    start = " ".join(parts)
    return f"<{start}>{''.join(children)}</{name}>" if children else f"<{start}/>"


def _format(value: Any) -> str:
    """Return a number with at most two decimals."""
    if not isinstance(value, float):
        return str(value)
    # Adding 0.0 turns -0.0 into 0.0.
    return f"{round(value, 2) + 0.0:g}" if abs(value) < 1000 else f"{value:.0f}"


def text(
    content: str, x: float, y: float, size: float, fill: str, *, bold: bool = False, anchor: str = "start", **more: Any
) -> str:
    """Return one line of text with its baseline at y."""
    weight = "bold" if bold else None
    attributes = {"x": x, "y": y, "font_size": size, "fill": fill, "font_weight": weight}
    return element("text", escape(content), **attributes, text_anchor=None if anchor == "start" else anchor, **more)


def at(x: float, y: float, *children: str, angle: float = 0.0, scale: float = 1.0, **attributes: Any) -> str:
    """Move children to (x, y), rotate them by `angle` degrees, and scale them."""
    moves = [f"translate({_format(float(x))} {_format(float(y))})"]
    if angle:
        moves.append(f"rotate({_format(float(angle))})")
    if scale != 1:
        moves.append(f"scale({_format(float(scale))})")
    return element("g", *children, transform=" ".join(moves), **attributes)


def document(*children: str, width: float, height: float, title: str, theme: Theme, shown_width: float | None = None) -> Picture:
    """Put a picture on a rounded panel.

    Args:
        children: Parts of the picture, as SVG.
        width, height: Size of the picture in its own units.
        title: Description for screen readers.
        theme: Colours of panel and text.
        shown_width: Width in pixels; None: one for each unit.

    Raises:
        ValueError: If `shown_width` is not positive.
    """
    shown_width = width if shown_width is None else shown_width
    check_positive(shown_width, "width")
    panel = element(
        "rect", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=14, fill=theme.panel, stroke=theme.line, stroke_width=1
    )
    return Picture(
        element(
            "svg",
            element("title", escape(title)),
            panel,
            *children,
            xmlns=NAMESPACE,
            viewBox=f"0 0 {_format(float(width))} {_format(float(height))}",
            width=float(shown_width),
            height=float(height * shown_width / width),
            font_family=FONT,
            role="img",
            style="max-width:100%;height:auto",
        )
    )


def mark(color: int, x: float, y: float, radius: float, fill: str, *, letter: str | None = None, **more: Any) -> str:
    """Draw the mark of a colour: circle, triangle, square, diamond for R, Y, B, G.

    `letter`: paint of the colour's letter inside; None: no letter.
    """
    r = radius
    if color == cards.RED:
        shape = element("circle", cx=float(x), cy=float(y), r=float(r), fill=fill, **more)
    elif color == cards.BLUE:
        a = 0.89 * r
        shape = element("rect", x=x - a, y=y - a, width=2 * a, height=2 * a, rx=0.15 * r, fill=fill, **more)
    else:
        is_triangle = color == cards.YELLOW
        a = 1.18 * r if is_triangle else 1.25 * r
        triangle = [(0, -1.15 * a), (1.1 * a, 0.78 * a), (-1.1 * a, 0.78 * a)]
        corners = triangle if is_triangle else [(0, -a), (a, 0), (0, a), (-a, 0)]
        points = " ".join(f"{_format(float(x + dx))},{_format(float(y + dy))}" for dx, dy in corners)
        shape = element("polygon", points=points, fill=fill, **more)
    if letter is None:
        return shape
    size = 1.3 * r
    drop = 0.36 * size + (0.16 * r if color == cards.YELLOW else 0)
    return shape + text(cards.COLOR_LETTERS[color], float(x), y + drop, size, letter, bold=True, anchor="middle")


def sector(rx: float, ry: float, quarter: int, fill: str) -> str:
    """Draw a quarter of an ellipse about the origin; 0 is the upper left one, then clockwise."""
    ends = [(-rx, 0.0), (0.0, -ry), (rx, 0.0), (0.0, ry)]
    (x0, y0), (x1, y1) = ends[quarter], ends[(quarter + 1) % 4]
    numbers = [_format(float(v)) for v in (x0, y0, rx, ry, x1, y1)]
    return element("path", d="M0 0L{} {}A{} {} 0 0 1 {} {}Z".format(*numbers), fill=fill)


def text_width(content: str, size: float, *, bold: bool = False) -> float:
    """Return a generous estimate of the width of a line of text."""
    return math.ceil(len(content) * size * (0.6 if bold else 0.56))

"""Curves along a game: one panel for probabilities, one for entropies."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import jax
import numpy as np
from jax.typing import ArrayLike

from unojax.viz.svg import Picture, document, element, finish, text, text_width
from unojax.viz.theme import Theme, ThemeName, get_theme

Series = ArrayLike | Mapping[str, ArrayLike]
"""One curve, float[T], or several by name. NaN is a gap."""

WIDTH: Final = 700.0
_LEFT: Final = 62.0
_RIGHT: Final = 24.0
_PANEL: Final = 120.0
_HEAD: Final = 44.0
_FOOT: Final = 40.0
_DASHES: Final = (None, "7 4", "2 4", "10 4 2 4")
_TICKS_WANTED: Final = 10


def game_plot_svg(
    *,
    win_probability: Series | None = None,
    entropy: Series | None = None,
    theme: ThemeName = "light",
    width: float = WIDTH,
    path: str | os.PathLike[str] | None = None,
) -> Picture:
    """Plot numbers along a game; index 0 is the start, index t the position after step t.

    Args:
        win_probability: Values in [0, 1].
        entropy: Entropies of a belief in nats, see `unojax.belief.summary.entropy`.
        theme, width, path: As for `position_svg`.

    Raises:
        ValueError: If there are no values, lengths differ, a value is out of range or infinite, or a panel has more than four
            curves.
        OSError: If the file can't be written.
    """
    paints = get_theme(theme)
    panels = read_panels(win_probability, entropy)
    if not panels:
        raise ValueError("nothing to plot: pass win_probability, entropy, or both")
    return finish(draw_plot(panels, paints, width=width), path)


@dataclass(frozen=True)
class Panel:
    """Curves of the same kind. `top`: upper end of the axis. `lines`: values with a grid line."""

    title: str
    series: dict[str, np.ndarray]
    top: float
    lines: tuple[float, ...]

    @property
    def length(self) -> int:
        """Number of positions on the axis."""
        return len(next(iter(self.series.values())))


def read_panels(win_probability: Series | None, entropy: Series | None) -> list[Panel]:
    """Return the panels for the arguments of `game_plot_svg`; empty without values."""
    panels = []
    if win_probability is not None:
        series = _read_series(win_probability, "win_probability", 1.0)
        panels.append(Panel("win probability", series, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0)))
    if entropy is not None:
        series = _read_series(entropy, "entropy", math.inf)
        highest = max((np.nanmax(v) for v in series.values() if not np.isnan(v).all()), default=0.0)
        lines = _round_lines(float(highest))
        panels.append(Panel("belief entropy (nats)", series, lines[-1], lines))
    lengths = {panel.title: panel.length for panel in panels}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"all curves must be of one length, got {lengths}")
    return panels


def _read_series(values: Series, what: str, high: float) -> dict[str, np.ndarray]:
    named = dict(values) if isinstance(values, Mapping) else {"": values}
    if not 1 <= len(named) <= len(_DASHES):
        raise ValueError(f"{what} must be one to {len(_DASHES)} curves, got {len(named)}")
    result = {}
    for name, curve in named.items():
        try:
            array = np.asarray(jax.device_get(curve), np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{what} must be float[T] or a mapping of names to float[T], got {curve!r}") from error
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"{what} must be float[T] with T at least 1, got shape {array.shape}")
        if np.isinf(array).any() or (array < 0).any() or (array > high).any():
            bound = "at least 0 and finite" if math.isinf(high) else f"in [0, {high:g}]"
            raise ValueError(f"{what} must be {bound} or NaN, got values from {np.nanmin(array)} to {np.nanmax(array)}")
        result[str(name)] = array
    if len({array.size for array in result.values()}) > 1:
        raise ValueError(f"{what}: all curves must be of one length, got { {n: a.size for n, a in result.items()} }")
    return result


def _round_lines(highest: float) -> tuple[float, ...]:
    """Return grid lines at round values from 0 to `highest` or a little above."""
    step = _round_step(highest / 3 if highest > 0 else 1 / 3)
    return tuple(step * i for i in range(max(1, math.ceil(highest / step - 1e-9)) + 1))


def _round_step(least: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least * (1 - 1e-9))


def x_at(step: float, length: int) -> float:
    """Return the x coordinate of a step on the axis of `length` positions."""
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * step / max(1, length - 1)


def draw_plot(panels: list[Panel], theme: Theme, *, has_cursor: bool = False, width: float | None = None) -> Picture:
    """Draw the curves of panels. The cursor is a line of the class `cursor` at step 0."""
    length = panels[0].length
    parts = [_draw_panel(panel, i * (_HEAD + _PANEL) + _HEAD, theme) for i, panel in enumerate(panels)]
    bottom = len(panels) * (_HEAD + _PANEL)
    stride = max(1, int(_round_step((length - 1) / _TICKS_WANTED))) if length > 1 else 1
    ticks = range(0, length, stride)
    parts += [text(str(step), x_at(step, length), bottom + 18, 12, theme.dim, anchor="middle") for step in ticks]
    parts.append(text("step", (_LEFT + WIDTH - _RIGHT) / 2, bottom + 33, 12, theme.dim, anchor="middle"))
    if has_cursor:
        x = x_at(0, length)
        ends = {"x1": x, "x2": x, "y1": _HEAD - 6, "y2": bottom + 4, "data_x0": x, "data_x1": x_at(length - 1, length)}
        parts.append(element("line", **ends, stroke=theme.text, stroke_width=1.5, class_="cursor"))
    title = " and ".join(panel.title for panel in panels) + " along the game"
    return document(*parts, width=WIDTH, height=bottom + _FOOT, title=title, theme=theme, shown_width=width)


def _draw_panel(panel: Panel, top: float, theme: Theme) -> str:
    def y_at(value: float) -> float:
        return top + _PANEL * (1 - value / panel.top)

    right = WIDTH - _RIGHT
    parts = [text(panel.title[0].upper() + panel.title[1:], 22.0, top - 18, 14, theme.text, bold=True)]
    for value in panel.lines:
        is_even = panel.top == 1.0 and value == 0.5
        line = {"stroke": theme.dim if is_even else theme.line, "stroke_width": 1, "stroke_dasharray": "4 4" if is_even else None}
        parts.append(element("line", x1=_LEFT, x2=right, y1=y_at(value), y2=y_at(value), **line))
        parts.append(text(f"{value:g}", _LEFT - 8, y_at(value) + 4, 12, theme.dim, anchor="end"))
    key_x = right
    for index, (name, values) in reversed(list(enumerate(panel.series.items()))):
        paint, dash = theme.series[index], _DASHES[index]
        points = [(x_at(step, values.size), y_at(value)) for step, value in enumerate(values.tolist())]
        parts.append(_curve(points, paint, dash, name or panel.title))
        if name:
            key_x -= text_width(name, 13)
            parts.append(text(name, key_x, top - 18, 13, theme.text))
            ends = {"x1": key_x - 34, "x2": key_x - 6, "y1": top - 22, "y2": top - 22}
            parts.append(element("line", **ends, stroke=paint, stroke_width=2.5, stroke_dasharray=dash))
            key_x -= 46
    return "".join(parts)


def _curve(points: list[tuple[float, float]], paint: str, dash: str | None, name: str) -> str:
    """Draw a line through the points; NaN interrupts it, and an isolated point is a dot."""
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if math.isnan(y):
            runs.append([])
        else:
            runs[-1].append((x, y))
    parts = []
    for run in filter(None, runs):
        if len(run) == 1:
            parts.append(element("circle", cx=run[0][0], cy=run[0][1], r=3.0, fill=paint))
        else:
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run)
            line = {"stroke": paint, "stroke_width": 2.2, "stroke_dasharray": dash, "stroke_linejoin": "round"}
            parts.append(element("path", d=path, fill="none", **line))
    return element("g", *parts, data_series=name)

"""Colours of the light and the dark theme, and of the cards, which are the same in both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

ThemeName = Literal["light", "dark"]

FONT: Final = "'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Paint:
    """Paints of one card colour.

    Attributes:
        body: Card's field.
        deep: Signs on a pale ground.
        tint: Pale ground.
        ink: Signs on the field.
    """

    body: str
    deep: str
    tint: str
    ink: str


# Distinguishable by lightness too, as far as four familiar card colours allow; the marks do the rest.
COLOR_PAINTS: Final = (
    Paint(body="#cf2f3c", deep="#a3182a", tint="#fdeceb", ink="#ffffff"),
    Paint(body="#f4bd1c", deep="#7d5600", tint="#fff8df", ink="#3f2c00"),
    Paint(body="#2468c4", deep="#154a94", tint="#e9f1fd", ink="#ffffff"),
    Paint(body="#2c9550", deep="#17673a", tint="#e8f6ec", ink="#ffffff"),
)
"""Paints of red, yellow, blue, green."""


@dataclass(frozen=True)
class Theme:
    """Paints around the cards.

    Attributes:
        name: Name of the theme in arguments.
        panel: Ground of the picture.
        field: Ground of parts on the panel.
        line: Faint lines and borders.
        text, dim: Main and secondary text, with contrasts of at least 7:1 and 4.5:1.
        accent, on_accent: Marker of the player to move, and text on it.
        alarm, on_alarm: Penalty, and text on it.
        truth: Outline of the true cards in a belief.
        scale: Sequential scale, even in lightness, from probability 0 to 1.
        series: Lines of a plot, distinguishable without colour vision.
    """

    name: ThemeName
    panel: str
    field: str
    line: str
    text: str
    dim: str
    accent: str
    on_accent: str
    alarm: str
    on_alarm: str
    truth: str
    scale: tuple[str, ...]
    series: tuple[str, ...]


LIGHT: Final = Theme(
    name="light",
    panel="#f7f8f6",
    field="#ecefeb",
    line="#cdd3cc",
    text="#1d2421",
    dim="#56605b",
    accent="#1f6f54",
    on_accent="#ffffff",
    alarm="#b3261e",
    on_alarm="#ffffff",
    truth="#d9480f",
    scale=("#f4f7fb", "#d5e3f2", "#a9c8e4", "#74a6d2", "#4280ba", "#1f5a9a", "#0b3470"),
    series=("#0b5fa5", "#c2500a", "#0a7d5c", "#8a3f86"),
)
DARK: Final = Theme(
    name="dark",
    panel="#161b1a",
    field="#212827",
    line="#3a4442",
    text="#eef2f0",
    dim="#a9b4b0",
    accent="#5fd0a5",
    on_accent="#0c1f18",
    alarm="#ff8a7d",
    on_alarm="#300905",
    truth="#ff9f4a",
    scale=("#1b2226", "#1d3a56", "#1f5680", "#2c77a8", "#4b9bcb", "#82c1e6", "#cfeafc"),
    series=("#6cb6f0", "#ffab66", "#5fd0a5", "#dba3d8"),
)
_THEMES: Final = {theme.name: theme for theme in (LIGHT, DARK)}


def get_theme(name: ThemeName) -> Theme:
    """Return a theme by name. Raises ValueError if it does not exist."""
    if not isinstance(name, str) or name not in _THEMES:
        raise ValueError(f"theme must be one of {', '.join(map(repr, get_args(ThemeName)))}, got {name!r}")
    return _THEMES[name]


def css_variables(theme: Theme, names: Iterable[str]) -> str:
    """Return the font and paints of a theme as CSS custom properties: `--on-accent:#ffffff`."""
    return ";".join([f"--font:{FONT}", *(f"--{name.replace('_', '-')}:{getattr(theme, name)}" for name in names)])

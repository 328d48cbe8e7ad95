"""HTML pages for stepping through whole games, offline. Without scripts they are lists."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final

import numpy as np
from jax.typing import ArrayLike

from unojax import cards
from unojax.viz.belief import SAID, TITLE, WIDE, heat_map, read_probs
from unojax.viz.card import definitions
from unojax.viz.moments import Moment, Record, read_game
from unojax.viz.plot import Series, draw_plot, read_panels
from unojax.viz.position import PICTURE_WIDTH, Layout, draw_scene, scene_words, used_types
from unojax.viz.scene import Viewer
from unojax.viz.svg import NAMESPACE, Page, document, element, escape, finish
from unojax.viz.theme import Theme, ThemeName, css_variables, get_theme
from unojax.viz.words import plays_like

_SPEEDS: Final = {"slow": 2500, "normal": 1200, "fast": 500}
"""Milliseconds for each position."""


def game_html(
    game: Record,
    actions: ArrayLike | None = None,
    *,
    view: Viewer | None = None,
    win_probability: Series | None = None,
    entropy: Series | None = None,
    beliefs: ArrayLike | Sequence[object] | None = None,
    truths: ArrayLike | None = None,
    types: Sequence[Mapping[str, float]] | None = None,
    notes: Sequence[str] | None = None,
    title: str = "A game of UNO",
    theme: ThemeName = "light",
    path: str | os.PathLike[str] | None = None,
) -> Page:
    """Return a game as a page of pictures, moves in words, curves and beliefs.

    Arrow keys, Home and End, the slider, a move in the list or a click on the curves select the position; the space bar plays.
    `#12` at the end of the address opens step 12.

    Args:
        game, actions: As for `game_svg`, with T + 1 positions.
        win_probability, entropy: As for `game_plot_svg`, with a value for each position.
        beliefs: A belief for each position, as for `belief_svg`.
        truths: True hands for the beliefs, bool[T + 1, 108].
        types: P(type) of the opponent by name for each position, as for `belief_svg`.
        notes: Text after the words of each move, one for each position; may be empty.
        title: Text above the game.
        view, theme, path: As for `position_svg`.

    Raises:
        ValueError: If an argument is out of range, or positions, actions and values do not match.
        OSError: If the file can't be written.
    """
    paints = get_theme(theme)
    moments = read_game(game, actions, view)
    num = len(moments)
    panels = read_panels(win_probability, entropy)
    if panels and panels[0].length != num:
        raise ValueError(f"curves must have {num} values, one for each position, got {panels[0].length}")
    if notes is not None and len(notes) != num:
        raise ValueError(f"notes must be {num}, one for each position, got {len(notes)}")
    maps = _belief_maps(beliefs, truths, types, num, paints)
    layout = Layout.of([moment.scene for moment in moments])
    stage = "".join(_frame(index, moment, layout, paints, maps[index]) for index, moment in enumerate(moments))
    plot = element("div", draw_plot(panels, paints, has_cursor=True), class_="plot") if panels else ""
    shown = set().union(*(used_types(moment.scene) for moment in moments))
    # One drawing of each card for all pictures. Not `display: none`, because some browsers then lose references.
    faces = element("svg", definitions(shown), xmlns=NAMESPACE, class_="faces", aria_hidden="true")
    said = element("p", " ", class_="said", aria_live="polite")
    left = element("section", _controls(num), said, element("div", stage, class_="stage"), plot)
    said_of = notes or [""] * num
    moves = "".join(_move(index, moment, said_of[index]) for index, moment in enumerate(moments))
    right = element("section", element("ol", moves, class_="moves"), element("p", _help(has_curves=bool(panels)), class_="help"))
    body = element("main", element("h1", escape(title)), element("div", left, right, class_="desk"))
    return finish(_page(title, faces + body, paints), path)


def _help(*, has_curves: bool) -> str:
    where = "a move or the curves" if has_curves else "a move"
    return f"Keys: ← and → step, Home and End jump, space plays. Click {where} to go there."


def _belief_maps(
    beliefs: ArrayLike | Sequence[object] | None,
    truths: ArrayLike | None,
    types: Sequence[Mapping[str, float]] | None,
    num: int,
    theme: Theme,
) -> list[str]:
    """Draw a heat map for each position; empty texts if there are no beliefs."""
    if beliefs is None:
        if truths is not None or types is not None:
            raise ValueError("truths are outlined in the beliefs, and types said under them: pass beliefs too")
        return [""] * num
    each = beliefs if isinstance(beliefs, Sequence) else np.atleast_1d(np.asarray(beliefs))
    if len(each) != num:
        raise ValueError(f"beliefs must be {num}, one for each position, as a sequence or float[{num}, 54]; got {beliefs!r}")
    hands = None if truths is None else np.asarray(truths)
    if hands is not None and (hands.shape != (num, cards.NUM_CARDS) or hands.dtype != bool):
        raise ValueError(f"truths must be bool[{num}, {cards.NUM_CARDS}], got {hands.dtype}{list(hands.shape)}")
    if types is not None and len(types) != num:
        raise ValueError(f"types must be {num}, one for each position, got {len(types)}")
    said = [plays_like(of_position) for of_position in types or [{}] * num]
    size = {"width": WIDE.width, "height": WIDE.height + (SAID if any(said) else 0.0)}
    held = [None] * num if hands is None else list(cards.count_types(hands))
    maps = (heat_map(read_probs(each[i]), held[i], TITLE, theme, said=said[i]) for i in range(num))
    return [document(content, **size, title=TITLE, theme=theme) for content in maps]


def _frame(index: int, moment: Moment, layout: Layout, theme: Theme, belief_map: str) -> str:
    content = draw_scene(moment.scene, layout, theme, lifted=moment.drawn)
    size = {"width": PICTURE_WIDTH, "height": layout.height}
    picture = document(content, **size, title=scene_words(moment.scene), theme=theme)
    # Hidden at once, so that a long list of pictures does not appear before the script runs.
    return element("div", picture, belief_map, data_step=index, hidden="" if index else None)


def _move(index: int, moment: Moment, note: str) -> str:
    words = escape(f"{moment.words} {note}".rstrip())
    button = element("button", element("span", str(index)), element("span", words), type="button")
    return element("li", button)


def _controls(num: int) -> str:
    speeds = [
        element("option", name, value=value, selected="selected" if name == "normal" else None) for name, value in _SPEEDS.items()
    ]
    return element(
        "div",
        element("button", "Play", type="button", class_="play"),
        element("button", "←", type="button", class_="back", aria_label="one step back"),
        element("button", "→", type="button", class_="forth", aria_label="one step forward"),
        element("input", type="range", min=0, max=num - 1, value=0, aria_label="step"),
        element("span", f"0 of {num - 1}", class_="count"),
        element("select", *speeds, class_="speed", aria_label="speed"),
        class_="controls",
    )


def _page(title: str, body: str, theme: Theme) -> Page:
    names = ("panel", "field", "line", "text", "dim", "accent", "on_accent")
    variables = f":root{{--scheme:{theme.name};{css_variables(theme, names)}}}"
    files = resources.files("unojax.viz")
    style, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    head = (
        '<meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title><style>{variables}\n{style}</style>"
        "<noscript><style>.controls,.said,.help{display:none}.stage>[hidden]{display:block}</style></noscript>"
    )
    return Page(f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}<script>\n{script}</script></body></html>\n')

"""A whole game as one animated picture."""

from __future__ import annotations

import os
from typing import Final

from jax.typing import ArrayLike

from unojax.viz.card import definitions
from unojax.viz.moments import Moment, Record, read_game
from unojax.viz.position import PICTURE_WIDTH, Layout, draw_scene, used_types
from unojax.viz.scene import Viewer
from unojax.viz.svg import Picture, at, check_positive, document, element, finish, text, text_width
from unojax.viz.theme import Theme, ThemeName, get_theme

_CAPTION: Final = 44.0
_LAST_LASTS: Final = 4
"""Duration of the last position, in positions."""


def game_svg(
    game: Record,
    actions: ArrayLike | None = None,
    *,
    view: Viewer | None = None,
    theme: ThemeName = "light",
    seconds: float = 1.5,
    width: float = PICTURE_WIDTH,
    path: str | os.PathLike[str] | None = None,
) -> Picture:
    """Draw a game as an SVG animation in a loop. Viewers without animation show the start.

    Args:
        game: Trajectory of `unojax.games.record.play_game`, or a sequence of states or of one player's observations.
        actions: Actions between T + 1 positions, int[T], which are checked; None: read from the positions.
        seconds: Duration of each position.
        view, theme, width, path: As for `position_svg`.

    Raises:
        ValueError: If an argument is out of range, or positions and actions do not match.
        OSError: If the file can't be written.
    """
    paints = get_theme(theme)
    moments = read_game(game, actions, view)
    check_positive(seconds, "seconds")
    scenes = [moment.scene for moment in moments]
    layout = Layout.of(scenes)
    height = layout.height + _CAPTION
    ticks = len(moments) - 1 + _LAST_LASTS
    duration = f"{ticks * seconds:g}s"
    frames = []
    for index, moment in enumerate(moments):
        caption = _caption(index, moment, layout.height + 12, paints)
        animation = _shown_between(index / ticks, 1.0 if index == len(moments) - 1 else (index + 1) / ticks, duration)
        picture = draw_scene(moment.scene, layout, paints, lifted=moment.drawn)
        frame = element("g", picture, caption, animation if len(moments) > 1 else "", data_step=index)
        frames.append(frame if index == 0 else frame.replace("<g", '<g visibility="hidden"', 1))
    track = {"x": 22.0, "y": 0.0, "height": 4.0, "rx": 2.0}
    grows = element("animate", attributeName="width", values=f"0;{PICTURE_WIDTH - 44:g}", dur=duration, repeatCount="indefinite")
    rail = element("rect", **track, width=PICTURE_WIDTH - 44, fill=paints.line)
    bar = at(0, height - 16, rail, element("rect", grows, **track, width=0, fill=paints.accent))
    faces = definitions(set().union(*(used_types(scene) for scene in scenes)))
    title = f"A game of UNO in {len(moments) - 1} steps"
    content = (faces, *frames, bar)
    return finish(document(*content, width=PICTURE_WIDTH, height=height, title=title, theme=paints, shown_width=width), path)


def _caption(index: int, moment: Moment, y: float, theme: Theme) -> str:
    """Return the move in words, smaller if the text is long."""
    words = f"{index}. {moment.words}"
    size = min(15.0, 15.0 * (PICTURE_WIDTH - 44) / text_width(words, 15))
    return text(words, PICTURE_WIDTH / 2, y, size, theme.text, anchor="middle")


def _shown_between(start: float, end: float, duration: str) -> str:
    """Show the parent element from `start` to `end` of each cycle, 0 to 1."""
    stages = [("hidden", 0.0)] * (start > 0) + [("visible", start)] + [("hidden", end)] * (end < 1)
    return element(
        "animate",
        attributeName="visibility",
        values=";".join(value for value, _ in stages),
        keyTimes=";".join(f"{time:.5f}" for _, time in stages),
        calcMode="discrete",
        dur=duration,
        repeatCount="indefinite",
    )

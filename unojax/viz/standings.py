"""Picture of an arena: scores as a heat map with numbers, ratings with their intervals."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unojax.arena.standings import Standings

_LONGEST_NAME: Final = 28
"""Longest line of a name. Longer names are broken after a comma or colon, or else at this length."""
_INK, _MUTED, _EMPTY = "#1f2430", "#6b7280", "#eef0f3"


def standings_picture(standings: Standings, kind: str) -> bytes:
    """Return the picture as the content of a file of a kind, `svg` or `png`."""
    import matplotlib as mpl

    content = io.BytesIO()
    # Text stays text, for a small, searchable picture; no date, so that equal results give equal files.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "unojax", "font.size": 9, "text.color": _INK}):
        about = {"Date": None} if kind == "svg" else None
        draw(standings).savefig(content, format=kind, dpi=160, bbox_inches="tight", metadata=about)
    return content.getvalue()


def draw(standings: Standings) -> Figure:
    """Draw scores and ratings, the best agent at the top."""
    from matplotlib.figure import Figure

    num_agents = len(standings.agents)
    names = [break_name(row.name) for row in standings.agents]
    # Inches: cells that fit their numbers, names beside them.
    cell_width, cell_height = 0.86, 0.46
    name_width = 0.085 * max(len(line) for name in names for line in name.split("\n")) + 0.25
    widths = [cell_width * num_agents, 3.0]
    height = cell_height * num_agents
    total_width, total_height = name_width + sum(widths) + 0.75, height + 1.0
    figure = Figure(figsize=(total_width, total_height), facecolor="white")
    left, bottom = name_width / total_width, 0.5 / total_height
    scores = figure.add_axes((left, bottom, widths[0] / total_width, height / total_height))
    left += (widths[0] + 0.35) / total_width
    strengths = figure.add_axes((left, bottom, widths[1] / total_width, height / total_height))
    _draw_scores(scores, standings, names)
    _draw_ratings(strengths, standings)
    return figure


def break_name(name: str) -> str:
    """Break a name into lines of at most 28 characters, after a colon or comma if possible."""
    lines, line = [], ""
    for part in name.replace(":", ":\0").replace(",", ",\0").split("\0"):
        if line and len(line + part) > _LONGEST_NAME:
            lines.append(line)
            line = ""
        line += part
        while len(line) > _LONGEST_NAME:
            lines.append(line[:_LONGEST_NAME])
            line = line[_LONGEST_NAME:]
    return "\n".join([*lines, line] if line else lines)


def _draw_scores(axes: Axes, standings: Standings, names: list[str]) -> None:
    num_agents = len(names)
    values = np.full((num_agents, num_agents), np.nan)
    for i, row in enumerate(standings.agents):
        for j, other in enumerate(standings.agents):
            match = standings.match(row.name, other.name)
            if match is not None:
                score, interval = match.shown.value, match.shown.interval
                values[i, j] = score
                half = (interval[1] - interval[0]) / 2
                # The colours are dark at both ends.
                ink = "white" if abs(score - 0.5) > 0.3 else _INK
                axes.text(j, i - 0.12, f"{100 * score:.1f}", ha="center", va="center", color=ink, fontsize=10)
                axes.text(j, i + 0.24, f"± {100 * half:.1f}", ha="center", va="center", color=ink, fontsize=7)
    axes.set_facecolor(_EMPTY)
    axes.imshow(np.ma.masked_invalid(values), cmap="RdBu", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(num_agents), [str(place) for place in range(1, num_agents + 1)])
    axes.set_yticks(range(num_agents), [f"{name}  {place}" for place, name in enumerate(names, 1)])
    axes.set_xticks(np.arange(num_agents - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(num_agents - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(f"Score of row against column, {standings.unit}", loc="left", fontsize=10, fontweight="bold")


def _draw_ratings(axes: Axes, standings: Standings) -> None:
    num_agents = len(standings.agents)
    ratings = [row.rating for row in standings.agents]
    margins = [row.rating_margin for row in standings.agents]
    axes.axvline(0, color=_MUTED, linewidth=0.8, zorder=0)
    axes.errorbar(ratings, range(num_agents), xerr=margins, fmt="o", color="#2166ac", markersize=5, capsize=3, linewidth=1.5)
    axes.set_ylim(num_agents - 0.5, -0.5)
    axes.set_yticks([])
    # Numbers in a separate column at the right, so that no bar crosses them.
    for place, row in enumerate(standings.agents):
        axes.annotate(
            f"{row.rating:+.0f}", (1, place), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
            va="center", annotation_clip=False,
        )  # fmt: skip
    axes.grid(axis="x", color=_EMPTY)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_MUTED)
    axes.tick_params(length=0)
    axes.set_title("Rating, Elo points (95 %)", loc="left", fontsize=10, fontweight="bold")

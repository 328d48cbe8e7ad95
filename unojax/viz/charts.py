"""Settings for matplotlib charts, in the colours of the other pictures."""

from __future__ import annotations

from typing import Any

from unojax.viz.theme import FONT, ThemeName, get_theme


def chart_style(theme: ThemeName = "light") -> dict[str, Any]:
    """Return settings for `matplotlib.rcParams.update` or `matplotlib.rc_context`.

    Raises:
        ValueError: If the theme does not exist.
    """
    paints = get_theme(theme)
    return {
        "figure.figsize": (8.0, 3.6),
        "figure.dpi": 110,
        "figure.facecolor": paints.panel,
        "figure.constrained_layout.use": True,
        "savefig.facecolor": paints.panel,
        "axes.facecolor": paints.panel,
        "axes.edgecolor": paints.dim,
        "axes.labelcolor": paints.text,
        "axes.titlecolor": paints.text,
        "axes.titlelocation": "left",
        "axes.titlesize": 11.5,
        "axes.titleweight": "bold",
        "axes.labelsize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.prop_cycle": f"cycler('color', {list(paints.series)!r})",
        "grid.color": paints.line,
        "grid.linewidth": 0.7,
        "text.color": paints.text,
        "xtick.color": paints.dim,
        "ytick.color": paints.dim,
        "xtick.labelcolor": paints.text,
        "ytick.labelcolor": paints.text,
        "font.family": "sans-serif",
        "font.sans-serif": [name.strip(" '") for name in FONT.split(",")][:-1],
        "font.size": 10,
        "legend.frameon": False,
        "lines.linewidth": 2.0,
        "lines.markersize": 6.0,
    }

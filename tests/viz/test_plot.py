"""Curves along a game, and the style of charts."""

from __future__ import annotations

import io
import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.helpers import refusals
from tests.viz.reading import SVG, lines, parse
from unojax.viz import game_plot_svg
from unojax.viz.charts import chart_style
from unojax.viz.plot import _round_lines, x_at
from unojax.viz.theme import get_theme

WIN, ENTROPY = "win probability", "belief entropy (nats)"


def curve(root, name):
    """Return the points of a curve, in runs."""
    (group,) = (e for e in root.iter(f"{SVG}g") if e.get("data-series") == name)
    return [
        [(float(e.get("cx")), float(e.get("cy")))]
        if e.tag == f"{SVG}circle"
        else [tuple(map(float, point.split())) for point in re.split("[ML]", e.get("d"))[1:]]
        for e in group
    ]


def test_points_lie_where_the_values_are_with_gaps_for_nan(tmp_path):
    values, path = np.array([0.0, 0.25, 1.0, 0.5]), tmp_path / "plot.svg"
    root = parse(game_plot_svg(win_probability=values, path=path))
    assert root.attrib == parse(path.read_text(encoding="utf-8")).attrib
    x, y = np.array(curve(root, WIN)[0]).T
    np.testing.assert_allclose(x, [x_at(i, 4) for i in range(4)], atol=0.1)
    np.testing.assert_allclose((y[0] - y) / (y[0] - y[2]), values, atol=1e-3)
    assert (np.diff(x) > 0).all() and y[0] > y[2]
    assert {"Win probability", "0", "1", "2", "3", "step", "0.5"} <= set(lines(root))
    nan = np.nan
    root = parse(game_plot_svg(entropy=[nan, 9.0, 8.5, nan, 7.0, nan, 3.0, 2.0, 1.0, nan], theme="dark"))
    assert [len(run) for run in curve(root, ENTROPY)] == [2, 1, 3]
    assert curve(parse(game_plot_svg(entropy=[nan, nan])), ENTROPY) == []


def test_several_curves_have_paints_and_panels_of_their_own():
    curves = {"search": np.linspace(0.5, 1, 30), "linear policy": np.linspace(0.5, 0, 30)}
    root = parse(game_plot_svg(win_probability=curves, entropy=np.arange(30.0)))
    assert set(curves) | {"Win probability", "Belief entropy (nats)"} <= set(lines(root))
    paints = {e.get("stroke") for name in curves for g in root.iter(f"{SVG}g") if g.get("data-series") == name for e in g}
    assert len(paints) == 2
    above, also_above, below = (np.array(curve(root, name)[0])[:, 1] for name in (*curves, ENTROPY))
    assert max(above.max(), also_above.max()) < below.min()


def test_grid_lines_are_round_and_reach_the_top():
    for highest in (0.0, 0.013, 0.9, 1.0, 3.0, 7.7, 20.0, 31.2, 1000.0):
        grid = _round_lines(highest)
        step = grid[1]
        assert grid[0] == 0 and grid[-1] >= highest and 2 <= len(grid) <= 4 and grid[-1] - step < max(highest, step), highest
        assert float(f"{step:.0e}") == pytest.approx(step) and f"{step:.0e}"[0] in "125"


def test_charts_have_the_paints_of_the_theme():
    for theme in ("light", "dark"):
        paints = get_theme(theme)
        with mpl.rc_context(chart_style(theme)):
            figure = Figure()
            axes = figure.subplots()
            drawn = [axes.plot([0, 1], [0, n])[0] for n in range(len(paints.series))]
            figure.savefig(io.BytesIO(), format="png")
        assert [line.get_color() for line in drawn] == list(paints.series)
        assert mpl.colors.to_hex(figure.get_facecolor()) == mpl.colors.to_hex(axes.get_facecolor()) == paints.panel


def test_refusals():
    even = {"win_probability": [0.5]}
    bad = {
        "nothing to plot": {},
        "win_probability must be in [0, 1]": {"win_probability": [0.5, 1.5]},
        "win_probability (shape)": {"win_probability": np.zeros((2, 3))},
        "win_probability (no curve)": {"win_probability": {}},
        "win_probability (five curves)": {"win_probability": {str(i): [0.5] for i in range(5)}},
        "win_probability (lengths)": {"win_probability": {"a": [0.5], "b": [0.5, 0.5]}},
        "entropy (infinite)": {"entropy": [1.0, np.inf]},
        "entropy (negative)": {"entropy": [-1.0]},
        "entropy (empty)": {"entropy": []},
        "entropy (text)": {"entropy": "high"},
        "all curves must be of one length": even | {"entropy": [1.0, 2.0]},
        "theme": even | {"theme": "x"},
        "width": even | {"width": 0},
    }
    refusals({name: lambda arguments=arguments: game_plot_svg(**arguments) for name, arguments in bad.items()})
    refusals({"theme": lambda: chart_style("pink")})

"""Curves along a game."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest

from tests.viz.reading import SVG, lines, parse
from unojax.viz import game_plot_svg
from unojax.viz.plot import _round_lines, x_at


def curve(root, name):
    """The points of a curve, in runs."""
    (group,) = (e for e in root.iter(f"{SVG}g") if e.get("data-series") == name)
    runs = []
    for e in group:
        if e.tag == f"{SVG}circle":
            runs.append([(float(e.get("cx")), float(e.get("cy")))])
        else:
            runs.append([tuple(map(float, point.split())) for point in re.split("[ML]", e.get("d"))[1:]])
    return runs


def test_points_lie_where_the_values_are():
    values = np.array([0.0, 0.25, 1.0, 0.5])
    root = parse(game_plot_svg(win_probability=values))
    (run,) = curve(root, "win probability")
    x, y = np.array(run).T
    np.testing.assert_allclose(x, [x_at(i, 4) for i in range(4)], atol=0.1)
    np.testing.assert_allclose((y[0] - y) / (y[0] - y[2]), values, atol=1e-3)
    assert (np.diff(x) > 0).all() and y[0] > y[2]
    assert {"Win probability", "0", "1", "2", "3", "step", "0.5"} <= set(lines(root))


def test_gaps_and_lonely_points():
    nan = np.nan
    root = parse(game_plot_svg(entropy=[nan, 9.0, 8.5, nan, 7.0, nan, 3.0, 2.0, 1.0, nan], theme="dark"))
    assert [len(run) for run in curve(root, "belief entropy (nats)")] == [2, 1, 3]
    assert curve(parse(game_plot_svg(entropy=[nan, nan])), "belief entropy (nats)") == []


def test_several_curves_and_both_panels():
    curves = {"search": jnp.linspace(0.5, 1, 30), "linear policy": jnp.linspace(0.5, 0, 30)}
    root = parse(game_plot_svg(win_probability=curves, entropy=np.arange(30.0)))
    assert set(curves) | {"Win probability", "Belief entropy (nats)"} <= set(lines(root))
    paints = {e.get("stroke") for name in curves for g in root.iter(f"{SVG}g") if g.get("data-series") == name for e in g}
    assert len(paints) == 2
    ys = [np.array(curve(root, name)[0])[:, 1] for name in (*curves, "belief entropy (nats)")]
    # One panel above the other.
    assert max(ys[0].max(), ys[1].max()) < ys[2].min()


@pytest.mark.parametrize("highest", [0.0, 0.013, 0.9, 1.0, 3.0, 7.7, 20.0, 31.2, 1000.0])
def test_grid_lines_are_round_and_reach_the_top(highest):
    grid = _round_lines(highest)
    step = grid[1]
    assert grid[0] == 0 and grid[-1] >= highest and 2 <= len(grid) <= 4 and grid[-1] - step < max(highest, step)
    assert float(f"{step:.0e}") == pytest.approx(step) and f"{step:.0e}"[0] in "125"


def test_file(tmp_path):
    path = tmp_path / "plot.svg"
    assert game_plot_svg(win_probability=[0.5], path=path) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "nothing to plot"),
        ({"win_probability": [0.5, 1.5]}, r"win_probability must be in \[0, 1\] or NaN, got values from 0.5 to 1.5"),
        ({"entropy": [1.0, np.inf]}, "entropy must be at least 0 and finite or NaN"),
        ({"entropy": [-1.0]}, "entropy must be at least 0"),
        ({"entropy": []}, "T at least 1"),
        ({"entropy": "high"}, r"entropy must be float\[T\]"),
        ({"win_probability": np.zeros((2, 3))}, r"got shape \(2, 3\)"),
        ({"win_probability": [0.5], "entropy": [1.0, 2.0]}, "all curves must be of one length"),
        ({"win_probability": {"a": [0.5], "b": [0.5, 0.5]}}, "all curves must be of one length"),
        ({"win_probability": {}}, "one to 4 curves, got 0"),
        ({"win_probability": {str(i): [0.5] for i in range(5)}}, "one to 4 curves, got 5"),
        ({"win_probability": [0.5], "theme": "x"}, "theme must be one of"),
        ({"win_probability": [0.5], "width": 0}, "width must be a positive number"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        game_plot_svg(**arguments)

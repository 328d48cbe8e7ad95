"""The look of charts."""

from __future__ import annotations

import io

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from unojax.viz.charts import chart_style
from unojax.viz.theme import get_theme


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_have_the_paints_of_the_theme(theme):
    paints = get_theme(theme)
    with mpl.rc_context(chart_style(theme)):
        figure = Figure()
        axes = figure.subplots()
        lines = [axes.plot([0, 1], [0, n])[0] for n in range(len(paints.series))]
        figure.savefig(io.BytesIO(), format="png")
    assert [line.get_color() for line in lines] == list(paints.series)
    assert mpl.colors.to_hex(figure.get_facecolor()) == mpl.colors.to_hex(axes.get_facecolor()) == paints.panel


def test_unknown_theme():
    with pytest.raises(ValueError, match="theme must be one of"):
        chart_style("pink")  # type: ignore[arg-type] what a user may type

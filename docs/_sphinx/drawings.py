"""Charts on pages: `.. chart:: NAME` draws one of `charts`, once for a light page and once for a dark one.

What notebooks drew gets words for those who can't see it.
"""

from __future__ import annotations

import html
import io
import re
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

THEMES = ("light", "dark")


def draw(name: str, theme: str) -> str:
    """Draw a chart as SVG that is part of a page: letters are text, and ids are its own."""
    import matplotlib as mpl
    from charts import CHARTS
    from matplotlib.figure import Figure

    from unojax.viz.charts import chart_style

    # Fonts are the reader's; none is looked for here.
    fonts = {"svg.fonttype": "none", "svg.hashsalt": name, "font.sans-serif": ["DejaVu Sans"]}
    with mpl.rc_context(chart_style(theme) | fonts):
        figure = Figure()
        CHARTS[name](figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-{theme}-", svg)
    return re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)


class Chart(SphinxDirective):
    """A chart by its name; the content says what it shows, to those who can't see it."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        from charts import RESULTS

        name = self.arguments[0]
        said = html.escape(" ".join(self.content))
        for path in sorted(RESULTS.glob("*.json")):
            self.env.note_dependency(str(path))
        drawn = []
        for theme in THEMES:
            picture = draw(name, theme).replace("<svg", f'<svg role="img" aria-label="{said}"', 1)
            drawn.append(nodes.raw("", f'<div class="chart only-{theme}">{picture}</div>', format="html"))
        return drawn


class Drawn(SphinxPostTransform):
    """A picture without words of its own is named by the section whose code drew it."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for image in self.document.findall(nodes.image):
            if image.get("alt"):
                continue
            section: Any = image
            while not isinstance(section, nodes.section):
                section = section.parent
            title = section[section.first_child_matching_class(nodes.title)].astext()
            image["alt"] = f"Output of the code above: {title}"


def setup(app: Any) -> dict[str, bool]:
    """Add the directive and the words."""
    app.add_directive("chart", Chart)
    app.add_post_transform(Drawn)
    return {"parallel_read_safe": True}

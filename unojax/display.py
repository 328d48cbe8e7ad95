"""Display of positions and games: a picture in a notebook, a line of text elsewhere.

The drawings and the notation stand on higher floors; they are found by name, when something is to be shown.
"""

from __future__ import annotations

from importlib import import_module


class Displayed:
    """Mixin that shows an object through `unojax.viz.notebook` and `unojax.text`."""

    def __repr__(self) -> str:
        return import_module("unojax.text").describe(self)

    def _repr_svg_(self) -> str | None:
        return import_module("unojax.viz.notebook").repr_svg(self)

    def _repr_html_(self) -> str | None:
        return import_module("unojax.viz.notebook").repr_html(self)

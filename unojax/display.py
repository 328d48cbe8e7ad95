"""Display of objects as pictures in notebooks and as text elsewhere.

`unojax` registers drawings and notation, which belong to higher layers, in `SHOWN_BY`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

SHOWN_BY: Final[dict[str, str]] = {}
"""Modules that show an object: "line" as text, "picture" as SVG and HTML. Imported on first use."""


class Displayed:
    """Mixin that shows an object through the modules of `SHOWN_BY`."""

    def __repr__(self) -> str:
        return import_module(SHOWN_BY["line"]).describe(self)

    def _repr_svg_(self) -> str | None:
        return import_module(SHOWN_BY["picture"]).repr_svg(self)

    def _repr_html_(self) -> str | None:
        return import_module(SHOWN_BY["picture"]).repr_html(self)

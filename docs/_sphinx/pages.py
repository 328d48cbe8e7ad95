"""What the theme's pages lack: formulas without scripts, words for pictures, and what keyboards and screen readers need."""

from __future__ import annotations

import re
from typing import Any, Final

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

_log = logging.getLogger(__name__)
_MENDED: Final = (
    # Captions over lists of pages are headings of no level.
    (re.compile(r'<p class="caption" role="heading">'), '<p class="caption" role="heading" aria-level="2">'),
    # Blocks of code scroll sideways; the keyboard must get there.
    (re.compile(r"<pre>(?=<span></span>)"), '<pre tabindex="0">'),
    # Parameters on lines of their own are a list without terms.
    (re.compile(r'(<span class="sig-paren">\(</span>\s*)<dl>'), r'\1<dl role="presentation">'),
)


def _mend(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    for name in ("body", "furo_navigation_tree"):
        for found, mended in _MENDED:
            context[name] = found.sub(mended, context.get(name, ""))


class Drawn(SphinxPostTransform):
    """A picture without words of its own is named by the section whose code drew it."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for image in self.document.findall(nodes.image):
            if not image.get("alt"):
                section: Any = image
                while not isinstance(section, nodes.section):
                    section = section.parent
                image["alt"] = f"Output of the code above: {section[section.first_child_matching_class(nodes.title)].astext()}"


def _math(self: Any, node: nodes.Element) -> None:
    """Draw a formula as MathML, which browsers do by themselves: no script, no font, no other host."""
    is_block = isinstance(node, nodes.math_block)
    try:
        drawn = tex2mathml(node.astext(), as_block=is_block)
    except MathError as error:
        _log.warning("this formula can't be drawn: %s", error, location=node)
        drawn = ""
    self.body.append(f'<div class="math-block" tabindex="0">{drawn}</div>' if is_block else drawn)
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Mend the pages after the theme has written its parts, name pictures, draw formulas."""
    app.connect("html-page-context", _mend, priority=900)
    app.add_post_transform(Drawn)
    app.add_html_math_renderer("mathml", (_math, None), (_math, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}

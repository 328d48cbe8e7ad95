"""What the theme's pages lack for keyboards and screen readers (found by axe)."""

from __future__ import annotations

import re
from typing import Any, Final

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
        text = context.get(name, "")
        for found, mended in _MENDED:
            text = found.sub(mended, text)
        context[name] = text


def setup(app: Any) -> dict[str, bool]:
    """Mend the pages after the theme has written its parts."""
    app.connect("html-page-context", _mend, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

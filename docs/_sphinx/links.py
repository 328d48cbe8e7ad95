"""Links to the reference: `names` in docstrings and on pages, by any of the names that a thing has."""

from __future__ import annotations

import re
from typing import Any

import names
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms.post_transforms import SphinxPostTransform

_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


def find(env: Any, target: str, module: str = "") -> Any:
    """The object that a name means: its full name, perhaps less `unojax.`, or its home."""
    objects = env.get_domain("py").objects
    homes = {f"{name.home}.{name.attribute}": name.shown for found in names.shown().values() for name in found}
    for full in (
        target,
        f"unojax.{target}",
        f"{module}.{target}",
        f"unojax.{module.split('.')[1] if '.' in module else ''}.{target}",
    ):
        head, _, last = full.rpartition(".")
        for one in (full, homes.get(full, ""), f"{homes.get(head, '')}.{last}"):
            if one in objects:
                return one
    return None


def _resolve(app: Any, env: Any, node: pending_xref, content: nodes.Element) -> nodes.Element | None:
    if node.get("refdomain") != "py":
        return None
    found = find(env, node["reftarget"].removesuffix("()"), node.get("py:module") or "")
    return None if found is None else _link(app, node["refdoc"], found, content)


def _link(app: Any, page: str, name: str, content: nodes.Element) -> nodes.reference:
    entry = app.env.get_domain("py").objects[name]
    address = app.builder.get_relative_uri(page, entry.docname)
    return nodes.reference("", "", content, internal=True, refuri=f"{address}#{entry.node_id}", reftitle=name)


class Names(SphinxPostTransform):
    """Code in the text of a page that is a full name of the package leads to the reference."""

    default_priority = 20
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for node in list(self.document.findall(nodes.literal)):
            text = node.astext().removesuffix("()")
            in_link = isinstance(node.parent, nodes.reference | pending_xref | nodes.title)
            if in_link or not text.startswith("unojax.") or not _NAME.fullmatch(text):
                continue
            if (found := find(self.env, text)) is not None:
                node.replace_self(_link(self.app, self.env.docname, found, node.deepcopy()))


def setup(app: Any) -> dict[str, bool]:
    """Resolve what the domain does not."""
    app.connect("missing-reference", _resolve)
    app.add_post_transform(Names)
    return {"parallel_read_safe": True}

"""Readers of SVG and HTML."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

SVG = "{http://www.w3.org/2000/svg}"
_VOID = {"meta", "input"}


def parse(svg: str) -> Element:
    """Return the picture's root, after `check_references`."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    check_references(root)
    return root


def check_references(*roots: Element) -> None:
    """Check that every reference has a target, every target is used, and no id occurs twice."""
    used = {use.get("href") for root in roots for use in root.iter(f"{SVG}use")}
    ids = Counter(f"#{e.get('id')}" for root in roots for e in root.iter() if e.get("id"))
    assert used == set(ids) and set(ids.values()) <= {1}


def part(root: Element, name: str) -> Element | None:
    """Return the group with that `data-place`."""
    return next((e for e in root.iter(f"{SVG}g") if e.get("data-place") == name), None)


def cards_in(group: Element | None) -> Counter[str]:
    """Return the names of the open cards in a group."""
    return Counter(e.get("data-card") for e in group.iter() if e.get("data-card")) if group is not None else Counter()


def backs_in(group: Element | None) -> int:
    """Return the number of hidden cards in a group."""
    return 0 if group is None else sum(use.get("href", "").endswith("-back") for use in group.iter(f"{SVG}use"))


def lines(picture: str | Element) -> list[str]:
    """Return all texts of a picture except tooltips."""
    root = parse(picture) if isinstance(picture, str) else picture
    return [e.text or "" for e in root.iter(f"{SVG}text")]


def centre(card: Element) -> tuple[float, float]:
    """Return the place of a card."""
    match = re.match(r"translate\(([-\d.]+) ([-\d.]+)\)", card.get("transform", ""))
    assert match
    return float(match[1]), float(match[2])


class Reader(HTMLParser):
    """Attributes and texts of a page, whose elements must close in order."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.said: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes.append({"": tag, **dict(attrs)})

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.said.append(data)

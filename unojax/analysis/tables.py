"""Small tables for display in notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_FIGURE: Final = re.compile(r"[-+−<>≈~]?[\d.].*|-?")


class TextTable:
    """Rows of text under headings. Numeric columns except the first are right-aligned.

    Raises:
        ValueError: If a row and the headings differ in length.
    """

    def __init__(self, headings: Sequence[str], rows: Iterable[Sequence[object]]):
        self.headings = tuple(headings)
        self.rows = tuple(tuple(str(entry) for entry in row) for row in rows)
        if bad := [row for row in self.rows if len(row) != len(self.headings)]:
            raise ValueError(f"a row must have {len(self.headings)} entries like the headings {self.headings}, got {bad[0]}")

        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.headings)
        self._are_figures = tuple(i > 0 and all(map(_FIGURE.fullmatch, column)) for i, column in enumerate(columns))

    def __repr__(self) -> str:
        lines = [self.headings, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.headings))]
        set_all = [str.rjust if right else str.ljust for right in self._are_figures]
        return "\n".join(
            "  ".join(justify(entry, width) for justify, entry, width in zip(set_all, line, widths, strict=True)).rstrip()
            for line in lines
        )

    def _repr_markdown_(self) -> str:
        rule = ["---:" if right else "---" for right in self._are_figures]
        lines = [self.headings, rule, *self.rows]
        return "\n".join("| " + " | ".join(entry.replace("|", "\\|") for entry in line) + " |" for line in lines)

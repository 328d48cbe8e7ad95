"""Small tables that show themselves in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class TextTable:
    """Rows of text under headings. The first column is set to the left, the others to the right.

    Raises:
        ValueError: a row has not as many entries as there are headings.
    """

    def __init__(self, headings: Sequence[str], rows: Iterable[Sequence[object]]):
        self.headings = tuple(headings)
        self.rows = tuple(tuple(str(entry) for entry in row) for row in rows)
        if bad := [row for row in self.rows if len(row) != len(self.headings)]:
            raise ValueError(f"a row must have {len(self.headings)} entries like the headings {self.headings}, got {bad[0]}")

    def __repr__(self) -> str:
        lines = [self.headings, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.headings))]
        first, *others = widths
        return "\n".join("  ".join([line[0].ljust(first), *map(str.rjust, line[1:], others)]) for line in lines)

    def _repr_markdown_(self) -> str:
        rule = ["---", *["---:"] * (len(self.headings) - 1)]
        lines = [self.headings, rule, *self.rows]
        return "\n".join("| " + " | ".join(entry.replace("|", "\\|") for entry in line) + " |" for line in lines)

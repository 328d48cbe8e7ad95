"""Tables, and numbers with their errors. Imports no JAX."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from unojax.rules import Rules

WIDTH: Final = 80
"""Columns of a terminal of unknown width, and of running text."""
_FOLDED: Final = 14
"""Minimum columns of a folded name."""
_SKEWED: Final = 0.2
"""Largest distance of an interval's middle from the value, as a share of half the interval."""
_FINE: Final = 0.0015
"""Errors below this share have a second decimal of per cent."""


def show(*parts: RenderableType) -> None:
    """Print results; numbers stay uncoloured, brackets are literal."""
    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    # A narrow terminal wraps the lines of a table; rich would omit columns.
    console.width = max(console.width or WIDTH, _FOLDED, *map(least_width, parts))
    with console.capture() as capture:
        console.print(*parts, sep="\n")
    sys.stdout.write(without_trailing_blanks(capture.get()))


def columns() -> int:
    """Return the columns of the terminal, at most those of running text."""
    return min(Console(file=sys.stdout).width or WIDTH, WIDTH)


def wrapped(words: str, indent: int) -> Text:
    """Return text whose further lines on the terminal are indented."""
    return Text("\n".join(textwrap.wrap(words, columns(), subsequent_indent=" " * indent)))


def without_trailing_blanks(text: str) -> str:
    return re.sub(r"[ ]+$", "", text, flags=re.MULTILINE)


def least_width(part: RenderableType) -> int:
    """Return the width that a table needs, with foldable columns at their narrowest."""
    if isinstance(part, Group):
        return max(map(least_width, part.renderables), default=0)
    if not isinstance(part, Table):
        return 0
    measuring = Console(width=10_000)
    width = 0
    for column in part.columns:
        measured = [measuring.measure(cell) for cell in (column.header, *column.cells)]
        width += max(m.maximum if column.no_wrap else min(m.maximum, _FOLDED) for m in measured)
    return width + (part.padding[1] + part.padding[3] + 1) * len(part.columns)


def grid(title: str, texts: Sequence[str] = (), numbers: Sequence[str] = ()) -> Table:
    """Return a table with a rule under its header and nothing else.

    Args:
        title: Title above the table.
        texts: Headings of the first columns, whose cells may be folded.
        numbers: Headings of the other columns, right-aligned and never folded.
    """
    # The box adds a blank of its own between columns.
    options: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "padding": (0, 1, 0, 0)}
    table = Table(title=title, title_justify="left", title_style="bold", **options)
    for heading in texts:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def facts(rows: dict[str, str]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, what in rows.items():
        table.add_row(name, what)
    return table


def plus_minus() -> str:
    """Return ± in the encoding of stdout."""
    return "±" if (sys.stdout.encoding or "").lower().startswith("utf") else "+-"


def legend(meanings: Mapping[str, str], width: int) -> list[str]:
    """Return lines that explain what may be typed, the meanings in a column of their own."""
    indent = max(map(len, meanings)) + 1
    rows = [
        textwrap.wrap(f"{name:{indent}}{meaning}", width, subsequent_indent=" " * indent) for name, meaning in meanings.items()
    ]
    return [line for row in rows for line in row]


def count(number: int, one: str, many: str | None = None) -> str:
    """Return `1 game`, `2,000 games`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(value: float, error: float, *, sign: bool = False) -> str:
    """Return `63.2 ± 0.4` in per cent, with a second decimal if the error is small."""
    decimals = 1 if error == 0 or error > _FINE else 2
    return f"{100 * value:{'+' if sign else ''}z.{decimals}f} {plus_minus()} {100 * error:.{decimals}f}"


def percent_between(value: float, interval: tuple[float, float]) -> str:
    """Return a share and its interval in per cent: `68.2 (67.8-68.6)`."""
    low, high = interval
    decimals = 1 if high - low > 2 * _FINE else 2
    return f"{100 * value:.{decimals}f} ({100 * low:.{decimals}f}-{100 * high:.{decimals}f})"


def percent_within(value: float, interval: tuple[float, float]) -> str:
    """Return `percent`, or `percent_between` if the interval is asymmetric, as after few games."""
    half = (interval[1] - interval[0]) / 2
    is_skewed = abs(sum(interval) / 2 - value) > _SKEWED * half
    return percent_between(value, interval) if is_skewed else percent(value, half)


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def rate(games_per_second: float) -> str:
    return f"{games_per_second:,.0f} games/s" if games_per_second >= 10 else f"{games_per_second:.2g} games/s"


def rules_text(rules: Rules) -> str:
    """Return rules as text: a preset's name, or the fields that differ from the defaults."""
    if rules.name is not None:
        return rules.name
    named = (f"deck of {rules.num_cards} cards" if name == "deck" else f"{name}={value}" for name, value in rules.changes.items())
    return ", ".join(named) or "default"


def player_0_begins(rules: Rules) -> bool:
    """Return whether the rules draw no lot, and no start card skips a player."""
    return rules.first_player == "zero" and rules.start_effects == "none"


def seats(rules: Rules) -> tuple[str, str]:
    """Return the headings of the columns of the two seats."""
    return ("moving first", "moving second") if player_0_begins(rules) else ("as player 0", "as player 1")

"""Standings on a terminal."""

from __future__ import annotations

import sys
from itertools import combinations
from typing import Final

from rich.console import Console
from rich.table import Table

from unojax.arena.standings import Standings
from unojax.cli import output

_SKEWED: Final = 0.2
"""Share of half an interval that its middle may lie beside the value."""


def fitting(standings: Standings) -> list[Table | str]:
    """Lay out ratings and scores, as widely as the terminal allows."""
    width = Console(file=sys.stdout).width
    # A console measures nothing as wider than itself.
    measuring = Console(width=10_000)
    # The names can be left out of the table of scores, since the ratings have them.
    wide = (score_table(standings), score_table(standings, names=False))
    fitting = [table for table in wide if measuring.measure(table).maximum <= width]
    return [rating_table(standings), "", fitting[0] if fitting else match_table(standings), ""]


def rating_table(standings: Standings) -> Table:
    """List the agents, the best first."""
    table = output.grid(title=f"Ratings in Elo points ({output.plus_minus()} 95 % interval), mean 0")
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("agent", overflow="fold")
    for heading in ("rating", "score, %", "games", "decisions", "each"):
        table.add_column(heading, justify="right", no_wrap=True)
    for place, row in enumerate(standings.agents, 1):
        table.add_row(
            str(place),
            row.name,
            f"{row.rating:+.0f} {output.plus_minus()} {row.rating_margin:.0f}",
            "-" if row.score is None else f"{100 * row.score:.1f}",
            f"{row.games:,}",
            f"{row.decisions:,}",
            "-" if row.seconds_per_decision is None else duration(row.seconds_per_decision),
        )
    return table


def score_table(standings: Standings, *, names: bool = True) -> Table:
    """Set every agent against every other one, the columns numbered as the rows are, which may have their names too."""
    table = output.grid(title=_title("Score of row against column", standings))
    table.add_column("", justify="right", no_wrap=True)
    if names:
        table.add_column("agent", no_wrap=True)
    for place, _ in enumerate(standings.agents, 1):
        table.add_column(str(place), justify="right", no_wrap=True)
    for place, row in enumerate(standings.agents, 1):
        cells = []
        for other in standings.agents:
            match = standings.match(row.name, other.name)
            cells.append("" if row is other else "-" if match is None else percent(match.shown.score, match.shown.interval))
        table.add_row(str(place), *([row.name] if names else []), *cells)
    return table


def match_table(standings: Standings) -> Table:
    """List the same scores one match a line, for many agents."""
    table = output.grid(title=_title("Score of the first against the second", standings))
    table.add_column("first", overflow="fold")
    table.add_column("second", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    for row, other in combinations(standings.agents, 2):
        match = standings.match(row.name, other.name)
        table.add_row(row.name, other.name, "-" if match is None else percent(match.shown.score, match.shown.interval))
    return table


def _title(of: str, standings: Standings) -> str:
    return f"{of}, {unit(standings)} ({output.plus_minus()} 95 % interval)"


def unit(standings: Standings) -> str:
    """Say what the scores that are shown are."""
    return "%" if standings.has_luck else "%, the luck taken out"


def percent(value: float, interval: tuple[float, float]) -> str:
    """Write a share and half its interval in per cent, with a second decimal where the interval is narrow; an interval that lies
    more on one side, as of a few games, by its ends."""
    half = 50 * (interval[1] - interval[0])
    decimals = 1 if half > 0.15 else 2
    if abs(50 * sum(interval) - 100 * value) > _SKEWED * half:
        return f"{100 * value:.{decimals}f} ({100 * interval[0]:.{decimals}f}-{100 * interval[1]:.{decimals}f})"
    return f"{100 * value:.{decimals}f} {output.plus_minus()} {half:.{decimals}f}"


def duration(seconds: float) -> str:
    """Write a time in a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def rate(games_per_second: float) -> str:
    """Write games per second."""
    return f"{games_per_second:,.0f} games/s" if games_per_second >= 10 else f"{games_per_second:.2g} games/s"

"""Standings on a terminal."""

from __future__ import annotations

import sys
from itertools import combinations

from rich.console import Console
from rich.table import Table

from unojax.arena.standings import Standings
from unojax.terminal import tables
from unojax.terminal.tables import duration, percent_within


def fitting(standings: Standings) -> list[Table | str]:
    """Return ratings and scores, as wide as the terminal allows."""
    width = Console(file=sys.stdout).width

    def widest(*made: Table) -> Table:
        return next((table for table in made[:-1] if tables.least_width(table) <= width), made[-1])

    # The table of scores can omit the names, because the ratings have them.
    scores = (score_table(standings), score_table(standings, names=False), match_table(standings))
    return [widest(rating_table(standings), rating_table(standings, counts=False)), "", widest(*scores), ""]


def rating_table(standings: Standings, *, counts: bool = True) -> Table:
    """Return each agent's rating, score and time, optionally with the numbers of games and decisions."""
    title = f"Ratings in Elo points ({tables.plus_minus()} 95 % interval), mean 0"
    numbers = ("games", "decisions") if counts else ()
    table = tables.grid(title, ("", "agent"), ("rating", "score, %", *numbers, "each" if counts else "each decision"))
    for place, row in enumerate(standings.agents, 1):
        table.add_row(
            str(place),
            row.name,
            f"{row.rating:+.0f} {tables.plus_minus()} {row.rating_margin:.0f}",
            "-" if row.score is None else f"{100 * row.score:.1f}",
            *([f"{row.games:,}", f"{row.decisions:,}"] if counts else []),
            "-" if row.seconds_per_decision is None else duration(row.seconds_per_decision),
        )
    return table


def score_table(standings: Standings, *, names: bool = True) -> Table:
    """Return each agent's scores against the others, numbered as the rows."""
    table = tables.grid(title=_title("Score of row against column", standings))
    table.add_column("", justify="right", no_wrap=True)
    if names:
        table.add_column("agent", no_wrap=True)
    for place, _ in enumerate(standings.agents, 1):
        table.add_column(str(place), justify="right", no_wrap=True)
    for place, row in enumerate(standings.agents, 1):
        cells = []
        for other in standings.agents:
            match = standings.match(row.name, other.name)
            cells.append(
                "" if row is other else "-" if match is None else percent_within(match.shown.value, match.shown.interval)
            )
        table.add_row(str(place), *([row.name] if names else []), *cells)
    return table


def match_table(standings: Standings) -> Table:
    """Return the same scores with one match a line, for many agents."""
    table = tables.grid(_title("Score of the first against the second", standings), ("first", "second"), ("score",))
    for row, other in combinations(standings.agents, 2):
        match = standings.match(row.name, other.name)
        table.add_row(row.name, other.name, "-" if match is None else percent_within(match.shown.value, match.shown.interval))
    return table


def _title(of: str, standings: Standings) -> str:
    return f"{of}, {standings.unit} ({tables.plus_minus()} 95 % interval)"

"""What a search can gain at best, exactly: a best response on small decks, and how near some steps of policy improvement come.

    python -m benchmarks.improvement_steps --json improvement_steps.json

For each game and each opponent that stays as it is: what the policy `linear` earns from it; what it earns after one, two and
three steps of policy improvement, each with the exact belief and the opponent itself in the rollouts (`solve.improve`); and what
a best response earns. One step is what flat Monte Carlo comes to with no end of rollouts if it is told whom it plays. The share
is that of the way from `linear` to the best response.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tyro
from rich.table import Table

from benchmarks import timing
from benchmarks.optimal_play import best_earned, earned
from unojax import solve

_BASE: Final = "linear"


@dataclass(frozen=True)
class Config:
    """Options of the measurement.

    Attributes:
        games: of `solve.DECKS`.
        opponents: named policies.
        steps: of improvement.
        json: write the results here.
    """

    games: tuple[str, ...] = tuple(solve.DECKS)
    opponents: tuple[str, ...] = ("uniform", "scarcest-color", _BASE)
    steps: int = 3
    json: Path | None = None


def main(config: Config) -> None:
    """Measure and print all games."""
    found = {name: measure(solve.enumerate_game(solve.DECKS[name]), config.opponents, config.steps) for name in config.games}
    what = {"benchmark": "improvement_steps", "environment": timing.environment(), "base": _BASE, "games": found}
    timing.write_json(config.json, what)
    for name, rows in found.items():
        report(name, rows, config.steps)


def measure(tree: solve.Tree, opponents: tuple[str, ...], steps: int) -> list[dict[str, Any]]:
    """Compute mean returns against each opponent, both seats averaged: after 0, 1, 2, ... steps, and of a best response."""
    rows = []
    for name in opponents:
        other = solve.of_policy(tree, name)
        best, strategies = best_earned(tree, other), solve.of_policy(tree, _BASE)
        returns = [earned(tree, strategies, other)]
        for _ in range(steps):
            strategies = solve.improve(tree, strategies, against=other)
            returns.append(earned(tree, strategies, other))
        share = [(each - returns[0]) / (best - returns[0]) for each in returns]
        rows.append({"opponent": name, "earned": returns, "best_response": best, "share": share})
    return rows


def report(name: str, rows: list[dict[str, Any]], steps: int) -> None:
    """Print a game's rows."""
    table = Table(title=name)
    for heading in ("opponent", _BASE, *(f"{n} step{'s' * (n > 1)}" for n in range(1, steps + 1)), "best response"):
        table.add_column(heading, justify="left" if heading == "opponent" else "right")
    for row in rows:
        told = [f"{each:+.4f}  {share:.1%}" for each, share in zip(row["earned"], row["share"], strict=True)]
        table.add_row(row["opponent"], f"{row['earned'][0]:+.4f}", *told[1:], f"{row['best_response']:+.4f}")
    timing.console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))

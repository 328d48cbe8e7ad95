"""Games of two policies in figures: as JSON, and on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table

from unojax.arena.ratings import wilson_interval
from unojax.cli import output
from unojax.cli.simulate.command import Simulate
from unojax.rules import Rules
from unojax.simulation.tally import Tally

QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Played:
    """Sums over the games with A, and with B, as player 0 (None where there are none), played in `seconds` after compiling.

    `complete` if these are all that were asked for.
    """

    tallies: tuple[Tally | None, Tally | None]
    complete: bool
    batch_size: int
    compile_seconds: float
    seconds: float

    @property
    def total(self) -> Tally:
        return sum((t for t in self.tallies if t), Tally())

    @property
    def num_games(self) -> int:
        return self.total.games


@dataclass(frozen=True)
class Rate:
    """A share of games with its 95 % Wilson interval."""

    wins: int
    games: int

    @property
    def value(self) -> float:
        return self.wins / self.games

    @property
    def interval(self) -> tuple[float, float]:
        return wilson_interval(self.wins, self.games)

    def text(self) -> str:
        """Write it in per cent, `68.2 (67.8-68.6)`, with a second decimal where the interval is narrower than 0.3 points."""
        low, high = self.interval
        decimals = 1 if high - low > 0.003 else 2
        return f"{100 * self.value:.{decimals}f} ({100 * low:.{decimals}f}-{100 * high:.{decimals}f})"

    def to_json(self) -> dict[str, float]:
        low, high = self.interval
        return {"wins": self.wins, "games": self.games, "rate": self.value, "low": low, "high": high}


def _rates(played: Played, policy: int) -> tuple[Rate | None, Rate | None, Rate]:
    """Give a policy's wins (0 for A, 1 for B) as player 0, as player 1 and in all."""
    seats = []
    for player in (0, 1):
        tally = played.tallies[policy ^ player]
        seats.append(None if tally is None else Rate(tally.wins[player], tally.games))
    known = [rate for rate in seats if rate is not None]
    return seats[0], seats[1], Rate(sum(rate.wins for rate in known), sum(rate.games for rate in known))


def results_of(played: Played, names: tuple[str, str], rules: Rules) -> dict[str, Any]:
    """Sum up all games, for JSON."""
    total = played.total
    wins = []
    for policy, name in enumerate(names):
        rates = [rate and rate.to_json() for rate in _rates(played, policy)]
        wins.append({"policy": name, "as_player_0": rates[0], "as_player_1": rates[1], "total": rates[2]})
    # Every step that does not end the game costs the penalty; the last step of a truncated game does not end it.
    penalty = rules.step_penalty * (total.steps - (total.games - total.truncated)) / total.games
    advantage = [
        (row["total"]["wins"] - other["total"]["wins"]) / total.games for row, other in zip(wins, wins[::-1], strict=True)
    ]
    return {
        "wins": wins,
        "wins_of_player": [Rate(n, total.games).to_json() for n in total.wins],
        # Who wins gets the points of the other hand, which are not kept.
        "mean_return": None if rules.points else [a - penalty for a in advantage],
        "stalemates": total.stalemates,
        "drawn": total.drawn,
        "truncated": total.truncated,
        "reshuffles_per_game": total.reshuffles / total.games,
        "steps_per_game": {
            "mean": total.steps / total.games,
            "quantiles": {str(q): total.length_quantile(q) for q in QUANTILES},
            "max": total.longest,
        },
        "choice_share": total.choices / max(total.steps, 1),
        "compile_seconds": played.compile_seconds,
        "seconds": played.seconds,
        "games_per_second": total.games / played.seconds,
        "steps_per_second": total.steps / played.seconds,
    }


def win_table(played: Played, names: tuple[str, str], rules: Rules) -> Table:
    """Draw the table of games won."""
    total = played.total
    table = output.grid(title=f"Games won, % (95 % interval), of {output.count(total.games, 'game')}")
    table.add_column("")
    for heading in (*output.seats(rules), "in all"):
        table.add_column(heading, justify="right", no_wrap=True)

    for policy, name in enumerate(names):
        # Two policies of one name need another.
        label = f"{name} {'AB'[policy]}" if names[0] == names[1] else name
        table.add_row(label, *("-" if rate is None else rate.text() for rate in _rates(played, policy)))
    if None not in played.tallies:
        table.add_row("either", *(Rate(n, total.games).text() for n in total.wins), "")
    return table


def facts(request: Simulate, played: Played, results: dict[str, Any], rules: Rules) -> dict[str, str]:
    """Say all else that is to be said of the games."""
    total, steps = played.total, results["steps_per_game"]
    quantiles = ", ".join(f"{100 * float(q):g} %: {n}" for q, n in steps["quantiles"].items())
    facts = {
        "Stalemates": f"{total.stalemates:,} ({100 * (total.stalemates / total.games):.2f} %), {total.drawn:,} of them drawn",
        "Truncated": f"{total.truncated:,} ({100 * (total.truncated / total.games):.2f} %)",
        "Steps per game": f"mean {steps['mean']:.1f}; {quantiles}, longest {steps['max']}",
        "With a choice": f"{100 * results['choice_share']:.1f} % of the steps",
        "Reshuffles": f"{results['reshuffles_per_game']:.3f} per game",
    }
    if rules.step_penalty and results["mean_return"] is not None:
        facts["Mean return"] = ", ".join(
            f"{name} {value:+.4f}" for name, value in zip(request.policies, results["mean_return"], strict=True)
        )
    seats = f"each policy {'moves first' if output.player_0_begins(rules) else 'is player 0'} in half of them"
    asked = "" if played.complete else f" of {request.games:,}"
    return facts | {
        "Rules": output.rules_text(rules),
        "Games": f"{played.num_games:,}{asked}, seed {request.seed}" + (f"; {seats}" if request.seats == "balanced" else ""),
        "Speed": (
            f"{results['steps_per_second'] / 1e6:.2f} million steps/s of complete games, "
            f"{results['games_per_second']:,.0f} games/s; {played.batch_size:,} games at a time"
        ),
        "Time": f"{played.seconds:.2f} s, after {played.compile_seconds:.2f} s to compile and run once",
    }

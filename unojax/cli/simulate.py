"""`unojax simulate`: win rates of two policies over many games, or a file of steps."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Optional

from unojax.cli import output, together
from unojax.cli.options import Count, CountOrNone, JsonTarget, Quiet, RuleFields, RuleOptions, Seed, TwoPolicies, command, option
from unojax.cli.together import Distributed
from unojax.device.process import EXIT_INTERRUPTED
from unojax.specs import check_policy_names, load_policies
from unojax.terminal import tables
from unojax.terminal.tables import count

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from unojax.arena.win_rates import Rate, SimulationReport, WinRates
    from unojax.cli.output import Setting

_STEP_BATCH = 256
"""Games at a time with all steps in memory."""


@command
class Simulate:
    """Play many games of two policies: who wins how often, and how fast games are."""

    games: Count = option(100_000, "Number of games; 1e6 is 1000000. Ctrl-C stops, and shows those that are complete.")
    policies: TwoPolicies = ("scarcest-color", "uniform")
    seats: Literal["balanced", "as-given"] = option(
        "balanced",
        "balanced: A is player 0 in half of the games and B in the other half, with random numbers of its own. "
        "as-given: A is player 0 in all games, which are those of unojax.simulate(jax.random.key(SEED), N, (A, B)).",
    )
    seed: Seed = option(0, "The same seed gives the same games, for any batch size and device.")
    batch_size: CountOrNone = option(None, "Games in progress at a time. none: what suits the device.")
    out: Optional[str] = option(None, "Write the games as rows too, for data frames.", "FILE.parquet|npz")
    rows: Literal["games", "steps"] = option(
        "games",
        "Content of a row of --out. games: seats, winner, steps, choices, reshuffles, cards left, in the order in which games "
        "end. steps: observation, legal actions and action, for offline training; A is player 0. "
        "unojax.games.trajectories describes the columns.",
    )
    json: JsonTarget = None
    distributed: Distributed = None
    quiet: Quiet = False
    rules: RuleFields = RuleOptions()

    def run(self) -> int:
        check_policy_names(self.policies)
        if self.rows == "steps" and (self.out is None or self.json is not None):
            raise ValueError("--rows steps writes games to a file and counts nothing: add --out, and remove --json")
        rules = self.rules.build()
        setting = output.setting_of(rules)
        if self.rows == "steps":
            return self._write_steps(setting)
        from unojax.arena.win_rates import SimulationReport, win_rates
        from unojax.device.shares import this_share

        share = this_share()
        writing = nullcontext() if self.out is None else output.writing("--out", share.file_of(self.out))
        with writing as file, output.progress(quiet=self.quiet) as show:
            found = win_rates(
                self.policies, self.games, rules=rules, seed=self.seed, balanced=self.seats == "balanced",
                batch_size=self.batch_size, share=share, finish_on_interrupt=True, on_rows=file and file.add,
                on_progress=lambda done, asked: show(done, f"{done:,} of {asked:,}", asked),
            )  # fmt: skip
        if not found.complete:
            output.note("simulate", f"stopped after {found.seconds:.1f} s; the results are those of the games begun by then")
        shares, all_there = together.collect("simulate", (found.tallies, found.complete))
        found = found.join(shares)
        if not together.is_first():
            return 0 if found.complete else EXIT_INTERRUPTED
        if not all_there:
            found = replace(found, complete=False)
        report = SimulationReport(
            complete=found.complete,
            games=found.total.games,
            games_asked=self.games,
            policies=found.policies,
            seats=self.seats,
            seed=self.seed,
            batch_size=found.batch_size,
            results=found.statistics,
        )
        output.report("simulate", self.json, lambda: _tables(report, found, setting), lambda: report, setting)
        return 0 if found.complete else EXIT_INTERRUPTED

    def _write_steps(self, setting: Setting) -> int:
        """Write every step of the games to the file."""
        import jax

        from unojax.device.shares import this_share
        from unojax.games.trajectories import stream_trajectories

        assert self.out is not None
        share = this_share()
        asked, out = share.size(self.games), share.file_of(self.out)
        num_games = num_rows = 0
        stopped = False
        key = jax.random.key(self.seed, impl="threefry2x32")
        pair, _ = load_policies(self.policies)
        batch_size, began = min(self.batch_size or _STEP_BATCH, self.games), time.perf_counter()
        with output.writing("--out", out) as file, output.progress(quiet=self.quiet, total=asked) as show:
            try:
                options = {"rules": setting.rules, "batch_size": batch_size, "share": share}
                for rows in stream_trajectories(key, self.games, pair, **options):
                    file.add(rows)
                    num_games, num_rows = num_games + int(rows["done"].sum()), num_rows + len(rows["game"])
                    show(num_games, f"{num_games:,} of {asked:,}")
            except KeyboardInterrupt:
                if not num_rows:
                    raise
                stopped = True
        if stopped:
            output.note("simulate", "stopped; the file has the games that are complete")
        facts = {
            "File": f"{out}: {count(num_rows, 'step')} of {count(num_games, 'game')}",
            "Policies": f"{self.policies[0]} as player 0, {self.policies[1]} as player 1; seed {self.seed}",
            "Rules": tables.rules_text(setting.rules),
            "Time": f"{time.perf_counter() - began:.1f} s, compiling included",
        }
        tables.show(tables.facts(facts | output.setting_facts(setting)))
        return EXIT_INTERRUPTED if stopped else 0


def _tables(report: SimulationReport, played: WinRates, setting: Setting) -> list[RenderableType]:
    found, rules, steps = report.results, setting.rules, report.results.steps_per_game
    quantiles = ", ".join(f"{100 * float(q):g}%: {n}" for q, n in steps.quantiles.items())

    def share(games: int) -> str:
        return f"{games:,} ({100 * (games / report.games):.2f} %)"

    facts = {
        "Stalemates": f"{share(found.stalemates)}, {found.drawn:,} of them drawn",
        "Truncated": share(found.truncated),
        "Steps per game": f"mean {steps.mean:.1f}; {quantiles}, longest {steps.max}",
        "With a choice": f"{100 * found.choice_share:.1f} % of the steps",
        "Reshuffles": f"{found.reshuffles_per_game:.3f} per game",
    }
    if rules.step_penalty and found.mean_return is not None:
        returns = zip(report.policies, found.mean_return, strict=True)
        facts["Mean return"] = ", ".join(f"{name} {value:+.4f}" for name, value in returns)
    seats = f"; each policy {'moves first' if tables.player_0_begins(rules) else 'is player 0'} in half of them"
    asked = "" if report.complete else f" of {report.games_asked:,}"
    facts |= {
        "Rules": tables.rules_text(rules),
        "Games": f"{report.games:,}{asked}, seed {report.seed}{seats if report.seats == 'balanced' else ''}",
        "Speed": f"{found.steps_per_second / 1e6:.2f} million steps/s of complete games, "
        f"{found.games_per_second:,.0f} games/s; {report.batch_size:,} games at a time",
        "Time": f"{found.seconds:.2f} s, after {found.compile_seconds:.2f} s to compile and run once",
    }
    return [win_table(played), "", tables.facts(facts | output.setting_facts(setting))]


def win_table(played: WinRates) -> Table:
    """Return the table of games won, by policy and seat."""
    title = f"Games won, % ({tables.plus_minus()} 95 % interval), of {count(played.total.games, 'game')}"
    table = tables.grid(title, ("",), (*tables.seats(played.rules), "in all"))

    def cells(*rates: Rate | None) -> list[str]:
        return ["-" if rate is None else tables.percent_within(rate.rate, (rate.low, rate.high)) for rate in rates]

    for letter, won in zip("AB", played.wins, strict=True):
        # A suffix distinguishes two policies of the same name.
        name = f"{won.policy} {letter}" if len(set(played.policies)) == 1 else won.policy
        table.add_row(name, *cells(won.as_player_0, won.as_player_1, won.total))
    if None not in played.tallies:
        table.add_row("either", *cells(*played.wins_of_player), "")
    return table

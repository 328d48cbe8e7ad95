"""`unojax solve`: the equilibrium of a game with a small deck, to any precision."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import tyro

from unojax.cli import output
from unojax.cli.options import (
    Count,
    JsonTarget,
    Number,
    Quiet,
    RuleFields,
    RuleOptions,
    blaming,
    command,
    given,
    naming_options,
    option,
)
from unojax.device.process import EXIT_INTERRUPTED
from unojax.terminal import tables

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unojax.cli.output import Setting
    from unojax.solve import Solution, Tree
    from unojax.solve.runs import SolveReport

Game = Annotated[
    Literal["tiny", "small", "medium", "rules"],
    tyro.conf.arg(
        help="A game of 8, 9 or 11 cards, with a thousand, 170 thousand or 2.5 million information states, or that of --deck, "
        "--hand-size and --max-steps."
    ),
]


@command
class Solve:
    """Find optimal play of a game with a small deck, and what it is worth."""

    game: tyro.conf.Positional[Game] = "small"
    variant: Literal["cfr+", "dcfr", "cfr"] = option("cfr+", "Of counterfactual regret minimisation.")
    iterations: Count = option(1000, "Iterations at most, those of --state included.")
    tolerance: Number = option(1e-4, "Stop at this exploitability: what both players could gain by better play, on average.")
    state: Optional[str] = option(
        None, "Keep the run in a file, strategies included, and resume it from there. Ctrl-C stops and keeps it too.", "FILE.npz"
    )
    json: JsonTarget = None
    quiet: Quiet = False
    rules: RuleFields = RuleOptions()

    def run(self) -> int:
        if not 0 <= self.tolerance < float("inf"):
            raise ValueError(f"--tolerance must be a number of at least 0, got {self.tolerance}")
        check_game(self.game, self.rules)
        rules = self.rules.build()
        from unojax import solve
        from unojax.solve.decks import rules_of
        from unojax.solve.runs import SolveReport

        rules = rules_of(self.game, rules)
        setting = output.setting_of(rules)
        began = time.perf_counter()
        with output.status("enumerating the game", quiet=self.quiet), naming_options(self):
            tree = solve.enumerate_game(rules)
        enumerated = time.perf_counter() - began
        solution, complete = self._iterate(tree)
        seconds = time.perf_counter() - began - enumerated
        if not complete:
            done = tables.count(solution.state.iteration, "iteration")
            output.note("solve", f"stopped after {done}; the strategies are those so far")
        report = SolveReport(
            complete=complete,
            game=self.game,
            variant=self.variant,
            num_histories=tree.num_histories,
            num_infosets=tree.num_infosets,
            enumerate_seconds=enumerated,
            seconds=seconds,
            iterations=solution.state.iteration,
            value=solution.value,
            exploitability=solution.exploitability,
            history=solution.history,
        )
        output.report("solve", self.json, lambda: _tables(report, setting), lambda: report, setting)
        return 0 if complete else EXIT_INTERRUPTED

    def _iterate(self, tree: Tree) -> tuple[Solution, bool]:
        """Return the best solution, and whether it finished without Ctrl-C."""
        from unojax.solve.runs import improve_solution

        solution = None
        with output.progress(quiet=self.quiet, verb="solving", total=self.iterations) as show, blaming("--state"):
            try:
                for solution in improve_solution(
                    tree, iterations=self.iterations, variant=self.variant, tolerance=self.tolerance, path=self.state
                ):
                    done = solution.state.iteration
                    show(done, f"{done:,} iterations, exploitability {solution.exploitability:.2g}")
            except KeyboardInterrupt:
                if solution is None:
                    raise
                return solution, False
        assert solution is not None
        return solution, True


def _tables(report: SolveReport, setting: Setting) -> list[RenderableType]:
    table = tables.grid(f"Exploitability of the average strategies, {report.variant}", (), ("iterations", "exploitability"))
    # About one line per doubling, and the last one.
    least = 1
    for row in report.history:
        if row.iteration >= least or row is report.history[-1]:
            table.add_row(f"{row.iteration:,}", f"{row.exploitability:.3g}")
            least = 2 * row.iteration
    # A player's return differs from the equilibrium value by at most the sum of both players' gains.
    sign, error = tables.plus_minus(), 2 * report.exploitability
    won, (first, second) = (1 + report.value) / 2, report.num_infosets
    facts = {
        "Value": f"{report.value:+.6f} {sign} {error:.2g} to player 0, who wins {won:.2%} if a draw is half a win",
        "Game": f"{report.num_histories:,} histories; information states of the players: {first:,} and {second:,}",
        "Rules": tables.rules_text(setting.rules),
        "Time": f"{report.enumerate_seconds:.1f} s to enumerate, {report.seconds:.1f} s to solve",
    }
    return [*([table] if report.history else []), tables.facts(facts | output.setting_facts(setting))]


def check_game(game: str, rules: RuleOptions) -> None:
    """Check that a game with its own cards is given no others."""
    if game != "rules" and (others := given(rules, "deck", "hand_size")):
        raise ValueError(f"the game {game!r} has a deck and hands of its own; remove {others[0]}, or name the game rules")

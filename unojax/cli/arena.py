"""`unojax arena`: matches of agents on duplicate deals, and the agents' ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import tyro

from unojax.cli import output, together
from unojax.cli.options import (
    AGENT_HELP,
    Count,
    CountOrNone,
    JsonTarget,
    Quiet,
    RuleFields,
    RuleOptions,
    Seed,
    command,
    naming_options,
    option,
)
from unojax.cli.together import Distributed
from unojax.device.process import EXIT_INTERRUPTED
from unojax.rules import Rules
from unojax.terminal import tables

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unojax.arena.tournaments import ArenaReport, Tournament
    from unojax.cli.output import Setting


@command
class Arena:
    """Let agents play each other: who wins how often, and how strong each is."""

    agents: tyro.conf.Positional[tuple[str, ...]] = option(MISSING, f"Two or more of: {AGENT_HELP}", "AGENT AGENT [AGENT ...]")
    games: Count = option(
        4000,
        "Games of each pair of agents, an even number: two with each deal, the seats swapped. Ctrl-C stops and shows the "
        "complete batches.",
    )
    to: CountOrNone = option(
        None,
        "Play matches of several rounds to so many points, such as 500, under rules with --points, such as official; "
        "--games counts matches then. none: single games.",
        "POINTS",
    )
    series: Count = option(
        1,
        "Deals in a row through which agents with several opponent types, such as mc and value, remember what they inferred "
        "about each other. 1: each game begins without memory.",
    )
    adjust: CountOrNone = option(
        None,
        "Reduce the variance of the scores (AIVAT-style) by so many rollouts for each estimate, such as 256: intervals of "
        "strong agents become half as wide. none: only results count.",
        "ROLLOUTS",
    )
    seed: Seed = option(
        0, "The same seed gives the same games, for any number of workers, batch size (except for tree) and device."
    )
    batch_size: CountOrNone = option(
        None, "Games in progress at a time for each worker, an even number. none: what suits the device."
    )
    workers: CountOrNone = option(None, "Batches in progress at a time. none: one for each CPU core, or 1 with a GPU.")
    results: Optional[str] = option(
        None,
        "Append each complete batch to a file. Batches in the file are not played again, so the same command resumes a "
        "stopped run, and can add games or agents to a finished one.",
        "FILE.jsonl",
    )
    plot: Optional[str] = option(None, "Draw the scores and the ratings; needs matplotlib.", "FILE.svg|png")
    json: JsonTarget = None
    distributed: Distributed = None
    quiet: Quiet = False
    rules: RuleFields = RuleOptions()

    def run(self) -> int:
        rules = self.rules.build()
        from unojax.specs import parse_agent

        agents = [parse_agent(spec, rules=rules) for spec in self.agents]
        setting = output.setting_of(rules)
        output.note_agents("arena", agents)
        played, stopped = self._play(rules)
        if played is None:
            raise KeyboardInterrupt
        if stopped:
            output.note("arena", f"stopped after {played.seconds:.1f} s; the results are those of the batches that are complete")
        shares, _ = together.collect("arena", played.results, self.results)
        played = played.join(shares, self.games // 2)
        if not together.is_first():
            return 0 if played.complete else EXIT_INTERRUPTED
        faults = output.note_faults("arena", agents)
        if not any(map(len, played.matches.values())):
            output.note("arena", "no batch was complete")
            return EXIT_INTERRUPTED
        if self.plot is not None:
            from unojax.viz.standings import standings_picture

            output.write_file("--plot", self.plot, standings_picture(played.standings, Path(self.plot).suffix[1:]))
        output.report("arena", self.json, lambda: _tables(self, played, setting), lambda: _report(self, played, faults), setting)
        return 0 if played.complete else EXIT_INTERRUPTED

    def _play(self, rules: Rules) -> tuple[Tournament | None, bool]:
        """Play; return the games so far (None: still compiling), and whether Ctrl-C ended them."""
        from unojax.arena import tournament
        from unojax.device.shares import this_share

        latest = None
        with output.progress(quiet=self.quiet) as show, naming_options(self, target="to"):

            def note(played: Tournament) -> None:
                nonlocal latest
                latest = played
                pace = tables.rate(played.num_finished / played.seconds) if played.seconds else ""
                show(played.num_finished, f"{played.num_finished:,} of {played.num_asked:,}, {pace}", played.num_asked)

            try:
                played = tournament(
                    self.agents, self.games, rules=rules, seed=self.seed, series=self.series, adjust=self.adjust or 0,
                    target=self.to, batch_size=self.batch_size, workers=self.workers, results=self.results, share=this_share(),
                    on_progress=note,
                )  # fmt: skip
            except KeyboardInterrupt:
                return latest, True
        return played, False


def _report(request: Arena, played: Tournament, faults: dict[str, list[str]]) -> ArenaReport:
    from unojax.arena.tournaments import ArenaReport

    return ArenaReport(
        complete=played.complete,
        agents=[agent.name for agent in played.agents],
        games_asked=request.games,
        to=request.to,
        series=request.series,
        adjust=request.adjust,
        seed=request.seed,
        batch_size=played.batch_size,
        workers=played.workers,
        compile_seconds=played.compile_seconds,
        seconds=played.seconds,
        games_per_second=played.num_finished / played.seconds if played.num_finished else None,
        faults=faults,
        results=played.standings,
    )


def _tables(request: Arena, played: Tournament, setting: Setting) -> list[RenderableType]:
    from unojax.terminal.standings import fitting

    standings = played.standings
    asked = f"{request.games:,} of each two agents"
    if request.to is not None:
        rounds = f", {played.rounds_per_match:.1f} rounds long on average" if played.num_finished else ""
        asked += f", each a match to {request.to} points{rounds}"
    if request.series > 1:
        asked += f", in series of {request.series} deals"
    if not played.complete:
        fewest, most = (2 * bound(map(len, played.matches.values())) for bound in (min, max))
        asked = f"{fewest:,} to {most:,} of {asked}"
    gains = sorted(match.score.variance_reduction for match in standings.matches)
    facts = {
        "Rules": tables.rules_text(setting.rules),
        "Games": f"{asked}, seed {request.seed}; with every deal two, the seats swapped",
        "Same deals": f"worth {_span(gains)} times as many games with deals of their own",
        "Each decision": f"time of calls for many games at once; {tables.count(played.workers, 'worker')} at a time",
    }
    if worth := sorted(match.adjusted.variance_reduction for match in standings.matches if match.adjusted is not None):
        how = f"reduced by {request.adjust:,} rollouts of each estimate"
        facts["Variance"] = f"{how}; a game is worth {_span(worth)} independent ones; ratings are of the results"
    if played.num_found:
        facts["Found"] = f"{tables.count(played.num_found, 'game')} in {request.results}, not played again"
    if played.num_finished:
        pace = tables.rate(played.num_finished / played.seconds)
        facts["Speed"] = f"{pace}; {played.batch_size:,} in each worker's batch"
        facts["Time"] = f"{played.seconds:.2f} s, after {played.compile_seconds:.2f} s to compile"
    return [*fitting(standings), tables.facts(facts | output.setting_facts(setting))]


def _span(ascending: Sequence[float]) -> str:
    first, last = f"{ascending[0]:.2f}", f"{ascending[-1]:.2f}"
    return first if len(ascending) == 1 else f"{first} to {last}"

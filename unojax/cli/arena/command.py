"""`unojax arena`: agents against each other in pairs of games with the same deal, and how strong each is."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from unojax.cli.options import POLICY_NAMES, Count, CountOrNone, Flag, JsonTarget, RuleOptions, Seed
from unojax.specs import AGENTS

if TYPE_CHECKING:
    from rich.table import Table

    from unojax.agents import Agent
    from unojax.arena import Pairs
    from unojax.cli.arena.file import ResultsFile
    from unojax.cli.arena.summary import Standings
    from unojax.rules import Rules


@dataclass(frozen=True)
class Arena:
    """Let agents play each other: who wins how often, and how strong each is."""

    agents: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(
            metavar="AGENT AGENT [AGENT ...]",
            help_behavior_hint="",
            help=f"Two or more of: {', '.join((*POLICY_NAMES, *AGENTS))}. Parameters follow a colon: NAME:KEY=VALUE,KEY=VALUE.",
        ),
    ]
    games: Annotated[
        Count,
        tyro.conf.arg(
            help="Games of each two agents, an even number: with every deal they play two, the seats swapped. Ctrl-C stops and "
            "shows what is complete."
        ),
    ] = 4000
    seed: Annotated[
        Seed, tyro.conf.arg(help="The same seed gives the same games, whatever the batch size, the workers and the device.")
    ] = 0
    batch_size: Annotated[
        CountOrNone,
        tyro.conf.arg(help="Games in progress at a time for each worker, an even number. none: what suits the device."),
    ] = None
    workers: Annotated[
        CountOrNone, tyro.conf.arg(help="Batches in progress at a time. none: one for each CPU core, or 1 with a GPU.")
    ] = None
    results: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="FILE.jsonl",
            help="Append each complete batch to a file, as a line. What is in the file already is not played again, so that a "
            "stopped run can go on and a finished one can be given more games or agents.",
        ),
    ] = None
    plot: Annotated[
        str | None, tyro.conf.arg(metavar="FILE.svg|png", help="Draw the scores and the ratings; needs matplotlib.")
    ] = None
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No progress bar.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def run(self) -> int:
        """Play and report; the exit status is 130 after Ctrl-C."""
        self._check()
        rules = self.rules.build()
        from unojax.agents import parse_agent
        from unojax.cli import EXIT_INTERRUPTED, output
        from unojax.cli.arena.file import ResultsFile
        from unojax.cli.arena.summary import summarize

        agents = [parse_agent(spec, rules=rules) for spec in self.agents]
        names = [agent.name for agent in agents]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"agent {twice[0]} is given twice")
        output.check_json_target(self.json)
        if self.plot is not None:
            from unojax.cli.arena.plot import check_plot_target

            check_plot_target(self.plot)
        about = output.machine()
        file = None
        if self.results is not None:
            file = ResultsFile(self.results, seed=self.seed, rules=rules, names=names)
        played = _play(self, agents, rules, file)
        if not played.complete:
            stopped = f"stopped after {played.seconds:.1f} s; the results are those of the batches that are complete"
            output.error_console().print(f"unojax arena: {stopped}", soft_wrap=True)
        if not any(len(pairs) for pairs in played.matches.values()):
            output.error_console().print("unojax arena: no batch was complete", soft_wrap=True)
            return EXIT_INTERRUPTED
        standings = summarize(names, played.matches)
        if self.json != output.STDOUT:
            facts = _facts(self, played, standings, rules) | output.machine_facts(about)
            output.show(*_tables(standings), output.facts(facts))
        if self.plot is not None:
            from unojax.cli.arena.plot import write_plot

            write_plot(self.plot, standings)
        if self.json is not None:
            output.write_json(self.json, self._request(played, names, rules) | {"results": standings.to_json()} | about)
        return 0 if played.complete else EXIT_INTERRUPTED

    def _check(self) -> None:
        if len(self.agents) < 2:
            raise ValueError(f"give two or more agents, got {' '.join(self.agents) or 'none'}")
        if self.games % 2:
            raise ValueError(f"--games must be an even number, since every deal is played twice, got {self.games}")
        if self.batch_size is not None and self.batch_size % 2:
            raise ValueError(f"--batch-size must be an even number, since every deal is played twice, got {self.batch_size}")

    def _request(self, played: Played, names: Sequence[str], rules: Rules) -> dict[str, Any]:
        from unojax.cli import output

        return {
            "command": "arena",
            "complete": played.complete,
            "agents": list(names),
            "games_asked": self.games,
            "seed": self.seed,
            "batch_size": played.batch_size,
            "workers": played.workers,
            "rules": output.rules_json(rules),
            "compile_seconds": played.compile_seconds,
            "seconds": played.seconds,
            "games_per_second": played.games_per_second,
        }


@dataclass(frozen=True)
class Played:
    """What came out.

    Attributes:
        matches: results by the numbers of two agents, the smaller first.
        complete: all games asked for were played.
        batch_size, workers: as used.
        compile_seconds: until the programs were compiled.
        seconds: what the games took after that.
        num_finished: games finished in that time, counted or not.
        num_found: games that the results file had.
    """

    matches: dict[tuple[int, int], Pairs]
    complete: bool
    batch_size: int
    workers: int
    compile_seconds: float
    seconds: float
    num_finished: int
    num_found: int

    @property
    def games_per_second(self) -> float | None:
        return self.num_finished / self.seconds if self.num_finished else None


def _play(request: Arena, agents: Sequence[Agent], rules: Rules, file: ResultsFile | None) -> Played:
    import jax
    import numpy as np

    from unojax import arena
    from unojax.cli import output

    num_pairs = request.games // 2
    parts: dict[tuple[int, int], list[Pairs]] = {match: [] for match in combinations(range(len(agents)), 2)}
    if file is not None:
        parts = {(i, j): file.find(agents[i].name, agents[j].name, num_pairs) for i, j in parts}
    num_found = sum(2 * len(pairs) for found in parts.values() for pairs in found)
    missing = {m: np.setdiff1d(np.arange(num_pairs), arena.Pairs.join(found).index) for m, found in parts.items()}

    workers = request.workers or arena.default_workers()
    num_missing = 2 * sum(map(len, missing.values()))
    batch_size = request.batch_size or arena.default_batch_size(min(request.games, max(2, num_missing)), workers)
    # The matches take turns, so that stopping leaves about as many games of each.
    batches = [
        (number, match, arena.Batch((agents[match[0]], agents[match[1]]), pairs))
        for match, left in missing.items()
        for number, pairs in enumerate(arena.split_pairs(left, batch_size))
    ]
    batches.sort(key=lambda batch: batch[0])
    match_of = {id(batch): match for _, match, batch in batches}

    done = 0
    with output.progress(quiet=request.quiet) as progress:
        task = progress.add_task("compiling", total=None, done="")
        compile_began = time.perf_counter()
        for match in dict.fromkeys(match for _, match, _ in batches):
            arena.compile_match((agents[match[0]], agents[match[1]]), rules=rules, batch_size=batch_size)
        began = time.perf_counter()
        progress.reset(task, description="playing", total=num_missing)
        lock = threading.Lock()

        def count(finished: int) -> None:
            nonlocal done
            with lock:
                done += finished
                rate = done / (time.perf_counter() - began)
                progress.update(task, completed=done, done=f"{done:,} of {num_missing:,}, {_rate(rate)}")

        # After Ctrl-C what has been played still counts. While compiling there is nothing to save, and it ends the command.
        with contextlib.suppress(KeyboardInterrupt):
            key = jax.random.key(request.seed, impl="threefry2x32")
            work = [batch for _, _, batch in batches]
            playing = arena.play_batches(key, work, rules=rules, batch_size=batch_size, workers=workers, on_games=count)
            with contextlib.closing(playing):
                for batch, pairs in playing:
                    if file is not None:
                        file.append(batch.agents[0].name, batch.agents[1].name, pairs)
                    parts[match_of[id(batch)]].append(pairs)
        seconds = time.perf_counter() - began
    matches = {match: arena.Pairs.join(found) for match, found in parts.items()}
    return Played(
        matches=matches,
        complete=all(len(pairs) == num_pairs for pairs in matches.values()),
        batch_size=batch_size,
        workers=workers,
        compile_seconds=began - compile_began,
        seconds=seconds,
        num_finished=done,
        num_found=num_found,
    )


def _tables(standings: Standings) -> list[Table | str]:
    import sys

    from rich.console import Console

    width = Console(file=sys.stdout).width
    # A console measures nothing as wider than itself.
    measuring = Console(width=10_000)
    # The names can be left out of the table of scores, since the ratings have them.
    wide = (_score_table(standings), _score_table(standings, names=False))
    fitting = [table for table in wide if measuring.measure(table).maximum <= width]
    return [_rating_table(standings), "", fitting[0] if fitting else _match_table(standings), ""]


def _rating_table(standings: Standings) -> Table:
    from unojax.cli import output

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
            "-" if row.seconds_per_decision is None else _duration(row.seconds_per_decision),
        )
    return table


def _score_table(standings: Standings, *, names: bool = True) -> Table:
    """Every agent against every other one, the columns numbered as the rows are, which may have their names too."""
    from unojax.cli import output

    table = output.grid(title=f"Score of row against column, % ({output.plus_minus()} 95 % interval)")
    table.add_column("", justify="right", no_wrap=True)
    if names:
        table.add_column("agent", no_wrap=True)
    for place, _ in enumerate(standings.agents, 1):
        table.add_column(str(place), justify="right", no_wrap=True)
    for place, row in enumerate(standings.agents, 1):
        cells = []
        for other in standings.agents:
            match = standings.match(row.name, other.name)
            cells.append("" if row is other else "-" if match is None else _percent(match.score, match.interval))
        table.add_row(str(place), *([row.name] if names else []), *cells)
    return table


def _match_table(standings: Standings) -> Table:
    """The same one match a line, for many agents."""
    from unojax.cli import output

    table = output.grid(title=f"Score of the first against the second, % ({output.plus_minus()} 95 % interval)")
    table.add_column("first", overflow="fold")
    table.add_column("second", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    for row, other in combinations(standings.agents, 2):
        match = standings.match(row.name, other.name)
        table.add_row(row.name, other.name, "-" if match is None else _percent(match.score, match.interval))
    return table


def _percent(value: float, interval: tuple[float, float]) -> str:
    from unojax.cli import output

    half = 50 * (interval[1] - interval[0])
    decimals = 1 if half > 0.15 else 2
    return f"{100 * value:.{decimals}f} {output.plus_minus()} {half:.{decimals}f}"


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def _rate(games_per_second: float) -> str:
    return f"{games_per_second:,.0f} games/s" if games_per_second >= 10 else f"{games_per_second:.2g} games/s"


def _facts(request: Arena, played: Played, standings: Standings, rules: Rules) -> dict[str, str]:
    from unojax.cli import output

    gains = sorted(match.variance_reduction for match in standings.matches)
    span = f"{gains[0]:.2f}" if len(gains) == 1 else f"{gains[0]:.2f} to {gains[-1]:.2f}"
    asked = f"{request.games:,} of each two agents"
    if not played.complete:
        fewest, most = (2 * bound(map(len, played.matches.values())) for bound in (min, max))
        asked = f"{fewest:,} to {most:,} of {asked}"
    facts = {
        "Rules": output.rules_text(rules),
        "Games": f"{asked}, seed {request.seed}; with every deal two, the seats swapped",
        "Same deals": f"worth {span} times as many games with deals of their own",
        "Each decision": f"time of calls for many games at once; {output.count(played.workers, 'worker')} at a time",
    }
    if played.num_found:
        facts["Found"] = f"{output.count(played.num_found, 'game')} in {request.results}, not played again"
    if played.num_finished:
        facts["Speed"] = f"{_rate(played.num_finished / played.seconds)}; {played.batch_size:,} in each worker's batch"
        facts["Time"] = f"{played.seconds:.2f} s, after {played.compile_seconds:.2f} s to compile"
    return facts

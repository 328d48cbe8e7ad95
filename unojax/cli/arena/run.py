"""A tournament: play it, and report."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import jax
import numpy as np

from unojax import arena
from unojax.agents import Agent
from unojax.arena import Pairs
from unojax.arena.results import ResultsFile
from unojax.arena.standings import Standings, standings_of
from unojax.cli import output, players, targets
from unojax.cli.arena import plot, tables
from unojax.cli.arena.command import Arena
from unojax.cli.arena.fingerprint import fingerprint
from unojax.device.process import EXIT_INTERRUPTED
from unojax.rules import Rules
from unojax.specs import parse_agent


def run(request: Arena, rules: Rules) -> int:
    agents = [parse_agent(spec, rules=rules) for spec in request.agents]
    names = [agent.name for agent in agents]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"agent {twice[0]} is given twice")
    targets.check_json_target(request.json)
    if request.plot is not None:
        plot.check_plot_target(request.plot)
    about = output.machine()
    file = None
    if request.results is not None:
        try:
            known = {agent.name: fingerprint(spec, agent) for agent, spec in zip(agents, request.agents, strict=True)}
            file = ResultsFile(request.results, seed=request.seed, rules=rules, agents=known)
        except ValueError as error:
            raise ValueError(f"--results: {error}") from None
    players.tell_who_sees("arena", agents)
    played = _play(request, agents, rules, file) if request.to is None else _play_rounds(request, agents, rules)
    if not played.complete:
        stopped = f"stopped after {played.seconds:.1f} s; the results are those of the batches that are complete"
        output.note("arena", stopped)
    faults = players.tell_faults("arena", agents)
    if not any(len(pairs) for pairs in played.matches.values()):
        output.note("arena", "no batch was complete")
        return EXIT_INTERRUPTED
    standings = standings_of(names, played.matches, series=request.series)
    if request.json != output.STDOUT:
        facts = _facts(request, played, standings, rules) | output.machine_facts(about)
        output.show(*tables.fitting(standings), output.facts(facts))
    if request.plot is not None:
        plot.write_plot(request.plot, standings)
    if request.json is not None:
        found = {"faults": faults, "results": standings.to_json()}
        output.write_json(request.json, _request(request, played, names, rules) | found | about)
    return 0 if played.complete else EXIT_INTERRUPTED


def _request(request: Arena, played: Played, names: Sequence[str], rules: Rules) -> dict[str, Any]:
    return {
        "command": "arena",
        "complete": played.complete,
        "agents": list(names),
        "games_asked": request.games,
        "to": request.to,
        "series": request.series,
        "adjust": request.adjust,
        "seed": request.seed,
        "batch_size": played.batch_size,
        "workers": played.workers,
        "rules": asdict(rules),
        "compile_seconds": played.compile_seconds,
        "seconds": played.seconds,
        "games_per_second": played.num_finished / played.seconds if played.num_finished else None,
    }


@dataclass(frozen=True)
class Played:
    """The games of all matches, by the numbers of two agents, the smaller first. `num_found` of them were in the results file;
    `num_finished` were played in `seconds`, after compiling."""

    matches: dict[tuple[int, int], Pairs]
    complete: bool
    batch_size: int
    workers: int
    compile_seconds: float
    seconds: float
    num_finished: int
    num_found: int


def _play(request: Arena, agents: Sequence[Agent], rules: Rules, file: ResultsFile | None) -> Played:
    num_pairs = request.games // 2
    parts: dict[tuple[int, int], list[Pairs]] = {match: [] for match in combinations(range(len(agents)), 2)}
    if file is not None:
        parts = {(i, j): file.find(agents[i].name, agents[j].name, num_pairs) for i, j in parts}
    num_found = sum(2 * len(pairs) for found in parts.values() for pairs in found)
    missing = {m: np.setdiff1d(np.arange(num_pairs), arena.Pairs.join(found).index) for m, found in parts.items()}

    workers = request.workers or arena.default_workers()
    num_missing, adjust = 2 * sum(map(len, missing.values())), request.adjust or 0
    at_a_time = min(request.games, max(2, num_missing)) // request.series
    batch_size = request.batch_size or arena.default_batch_size(at_a_time, workers)
    # The matches take turns, so that stopping leaves about as many games of each.
    batches = [
        (number, match, arena.Batch((agents[match[0]], agents[match[1]]), pairs, request.series, adjust))
        for match, left in missing.items()
        for number, pairs in enumerate(arena.split_pairs(left, batch_size, request.series))
    ]
    batches.sort(key=lambda batch: batch[0])
    match_of = {id(batch): match for _, match, batch in batches}

    done = 0
    with output.progress(quiet=request.quiet) as progress:
        task = progress.add_task("compiling", total=None, done="")
        compile_began = time.perf_counter()
        for match in dict.fromkeys(match for _, match, _ in batches):
            both = agents[match[0]], agents[match[1]]
            arena.compile_match(both, rules=rules, batch_size=batch_size, series=request.series, adjust=adjust)
        began = time.perf_counter()
        progress.reset(task, description="playing", total=num_missing)
        lock = threading.Lock()

        def count(finished: int) -> None:
            nonlocal done
            with lock:
                done += finished
                rate = done / (time.perf_counter() - began)
                progress.update(task, completed=done, done=f"{done:,} of {num_missing:,}, {tables.rate(rate)}")

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


def _play_rounds(request: Arena, agents: Sequence[Agent], rules: Rules) -> Played:
    """Play matches to so many points, each two agents' in one go: one that Ctrl-C cuts off is lost."""
    assert request.to is not None
    num_pairs, workers = request.games // 2, request.workers or arena.default_workers()
    batch_size = request.batch_size or arena.default_batch_size(request.games, workers)
    key, began = jax.random.key(request.seed, impl="threefry2x32"), time.perf_counter()
    both = list(combinations(range(len(agents)), 2))
    matches: dict[tuple[int, int], Pairs] = {match: Pairs.join([]) for match in both}
    sizes = {"batch_size": batch_size, "workers": workers}
    with output.status("compiling", quiet=request.quiet) as status, contextlib.suppress(KeyboardInterrupt):
        for i, j in both:
            status.update(f"playing {agents[i].name} against {agents[j].name}")
            matches[i, j] = arena.play_rounds(key, (agents[i], agents[j]), num_pairs, rules=rules, target=request.to, **sizes)
    num_finished = 2 * sum(map(len, matches.values()))
    complete = all(len(pairs) == num_pairs for pairs in matches.values())
    return Played(matches, complete, batch_size, workers, 0.0, time.perf_counter() - began, num_finished, 0)


def _facts(request: Arena, played: Played, standings: Standings, rules: Rules) -> dict[str, str]:
    gains = sorted(match.variance_reduction for match in standings.matches)
    asked = f"{request.games:,} of each two agents"
    if request.to is not None:
        rounds = [pairs.num_rounds.mean() for pairs in played.matches.values() if isinstance(pairs, arena.Matches)]
        asked += f", each a match to {request.to} points" + (f", {np.mean(rounds):.1f} rounds long on average" if rounds else "")
    if request.series > 1:
        asked += f", in series of {request.series} deals"
    if not played.complete:
        fewest, most = (2 * bound(map(len, played.matches.values())) for bound in (min, max))
        asked = f"{fewest:,} to {most:,} of {asked}"
    facts = {
        "Rules": output.rules_text(rules),
        "Games": f"{asked}, seed {request.seed}; with every deal two, the seats swapped",
        "Same deals": f"worth {_span(gains)} times as many games with deals of their own",
        "Each decision": f"time of calls for many games at once; {output.count(played.workers, 'worker')} at a time",
    }
    if worth := sorted(match.adjusted.variance_reduction for match in standings.matches if match.adjusted is not None):
        how = f"taken out of the scores by {request.adjust:,} rollouts of each estimate"
        facts["Luck"] = f"{how}; a game is worth {_span(worth)} independent ones; ratings are of the results"
    if played.num_found:
        facts["Found"] = f"{output.count(played.num_found, 'game')} in {request.results}, not played again"
    if played.num_finished:
        facts["Speed"] = f"{tables.rate(played.num_finished / played.seconds)}; {played.batch_size:,} in each worker's batch"
        facts["Time"] = f"{played.seconds:.2f} s, after {played.compile_seconds:.2f} s to compile"
    return facts


def _span(ascending: Sequence[float]) -> str:
    first, last = f"{ascending[0]:.2f}", f"{ascending[-1]:.2f}"
    return first if len(ascending) == 1 else f"{first} to {last}"

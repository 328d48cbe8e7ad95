"""Strength of the searches: matches of each against simple policies, with the time that a decision takes.

    python -m benchmarks.search strength --games 4000 --json search_strength.json
    python -m benchmarks.search strength --games 4000 --agents mc tree --equal-time --json search_equal_time.json

All rows of a seed have the same deals. Each row is written when it is finished, and a run with the same `--json` goes on with the
rows that are missing; Ctrl-C loses the row in progress. With `--equal-time` every search, of the opponents too, gets as many
rollouts as fit into the time that the first agent takes for a decision, measured over recorded decisions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jax
from rich.console import Console
from rich.table import Table

from benchmarks import timing
from benchmarks.search_speed import measure_batch, record_decisions
from unojax.agents import Agent
from unojax.arena import default_workers, play_match, ratings
from unojax.search.agents import SearchAgent
from unojax.search.monte_carlo import ROUNDS
from unojax.specs import parse_agent, settings_of

AGENTS: Final = (
    "mc",
    "mc:model=linear+0.5",
    "mc:model=uniform",
    "mc:belief=unseen",
    "mc:belief=truth",
    "tree",
)
OPPONENTS: Final = ("uniform", "scarcest-color", "linear")
_OPPONENT: Final = "OPPONENT"
"""In an agent's spec, stands for the name of the opponent, which so becomes known to it: mc:model=OPPONENT."""
_TIMED_DECISIONS: Final = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `strength`."""
    parser.add_argument("--agents", nargs="+", default=AGENTS, metavar="SPEC", help=f"default: {' '.join(AGENTS)}")
    parser.add_argument("--opponents", nargs="+", default=OPPONENTS, metavar="SPEC", help=f"default: {' '.join(OPPONENTS)}")
    parser.add_argument("--games", type=int, default=4000, help="in each row, an even number")
    parser.add_argument("--batch-size", type=int, help="games in progress at a time; changes no result, but of tree")
    parser.add_argument(
        "--workers", type=int, help="batches in progress at a time; changes no result, but of tree without --batch-size"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--equal-time", action="store_true", help="give every search as many rollouts as the first agent has time for"
    )
    parser.add_argument("--repeats", type=int, default=3, help="of the measurement for --equal-time")
    parser.add_argument("--json", type=Path, help="also goes on with the rows of this file")


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Play the rows that are missing, print all, and return them."""
    if arguments.games < 2 or arguments.games % 2:
        parser.error("--games must be an even number of at least 2: games come in pairs")
    if arguments.repeats < 1:
        parser.error("--repeats must be at least 1")
    try:
        matches = _matches(arguments.agents, arguments.opponents)
    except ValueError as error:
        parser.error(str(error))
    console = timing.console()
    setting = {"seed": arguments.seed, "games": arguments.games}
    fresh = {"benchmark": "search_strength", "environment": timing.environment(), **setting, "equal_time": None, "rows": []}
    results = timing.resume(arguments.json, fresh, setting)
    if arguments.equal_time:
        if results["equal_time"] is None:
            try:
                every = [agent for pair in zip(*matches, strict=True) for agent in pair]
                measured = equal_time(every, seed=arguments.seed, repeats=arguments.repeats)
            except ValueError as error:
                parser.error(str(error))
            results["equal_time"] = measured
            timing.write_json(arguments.json, results)
        searches = {a.name for pair in matches for a in pair if isinstance(a, SearchAgent)}
        if searches != {results["equal_time"]["first"], *results["equal_time"]["others"]}:
            parser.error(f"{arguments.json} has the times of other searches than these; choose another file or remove it")
        _report_times(results["equal_time"], console)
        agents, opponents = ([in_time(a, results["equal_time"]) for a in side] for side in zip(*matches, strict=True))
        matches = list(zip(agents, opponents, strict=True))
    try:
        for agent, opponent in matches:
            if not any((row["agent"], row["opponent"]) == (agent.name, opponent.name) for row in results["rows"]):
                results["rows"].append(play_row(agent, opponent, arguments))
                timing.write_json(arguments.json, results)
    except KeyboardInterrupt:
        console.print("stopped; the finished rows are kept")
    report(results, console)
    return results


def play_row(agent: Agent, opponent: Agent, arguments: argparse.Namespace) -> dict[str, Any]:
    """Play one match, and sum it up in numbers."""
    workers = default_workers() if arguments.workers is None else arguments.workers
    began = time.perf_counter()
    pairs = play_match(
        jax.random.key(arguments.seed),
        (agent, opponent),
        arguments.games // 2,
        batch_size=arguments.batch_size,
        workers=workers,
    )
    wall_seconds = time.perf_counter() - began
    score = ratings.paired_score(pairs.points)
    decisions = pairs.num_choices.sum((0, 1))
    return {
        "agent": agent.name,
        "opponent": opponent.name,
        "games": arguments.games,
        "score": score.value,
        "standard_error": score.standard_error,
        "interval_95": list(score.interval),
        "variance_reduction": score.variance_reduction,
        "drawn": int((pairs.winner < 0).sum()),
        "steps": int(pairs.num_steps.sum()),
        "decisions": int(decisions[0]),
        "seconds": float(pairs.seconds[0]),
        "seconds_per_decision": float(pairs.seconds[0] / max(decisions[0], 1)),
        "opponent_decisions": int(decisions[1]),
        "opponent_seconds": float(pairs.seconds[1]),
        "wall_seconds_with_compilation": wall_seconds,
        "workers": workers,
        **{name: timing.environment()[name] for name in ("date", "commit", "load_average")},
    }


def equal_time(agents: Sequence[Agent], *, seed: int, repeats: int) -> dict[str, Any]:
    """Measure seconds per decision of the first agent and of every other search, and find the rollouts that make them equal.

    The belief is not timed: compare searches with equal `particles`.

    Raises:
        ValueError: the first agent is no search, or there is no other.
    """
    searches = list(dict.fromkeys(agent for agent in agents if isinstance(agent, SearchAgent)))
    if len(searches) < 2 or searches[0] != agents[0]:
        raise ValueError("equal time needs a search as the first agent, and another search among the agents and opponents")
    first, *others = searches
    num_particles = settings_of(first.name)["particles"]
    decisions = record_decisions(num_decisions=_TIMED_DECISIONS, num_particles=num_particles, max_steps=300, seed=seed)

    def seconds(agent: SearchAgent) -> float:
        measured = measure_batch(agent, decisions, 0.0, repeats=repeats)
        return 1 / measured["decisions_per_second"]["median"]

    target = seconds(first)
    measured = {}
    for agent in others:
        at_first = seconds(agent)
        # Time is not quite proportional to rollouts, as plays that fall behind may be given up: once more from there.
        near = agent.with_budget(_round(agent.budget * target / at_first))
        fitted = agent.with_budget(_round(near.budget * target / seconds(near)))
        measured[agent.name] = {
            "seconds_per_decision": at_first,
            "equal": {"rollouts": fitted.budget, "seconds_per_decision": seconds(fitted)},
        }
    return {"first": first.name, "seconds_per_decision": target, "batch": _TIMED_DECISIONS, "others": measured}


def in_time(agent: Agent, measured: dict[str, Any]) -> Agent:
    """Give a search the rollouts that were found for it; any other agent is left as it is."""
    if not isinstance(agent, SearchAgent) or agent.name not in measured["others"]:
        return agent
    return agent.with_budget(measured["others"][agent.name]["equal"]["rollouts"])


def report(results: dict[str, Any], console: Console) -> None:
    """Print all rows."""
    table = Table(title=f"{results['games']} games in each row, seats swapped")
    for name in ("agent", "opponent", "score", "95 %", "decisions", "ms per decision"):
        table.add_column(name, justify="left" if name in ("agent", "opponent") else "right")
    for row in results["rows"]:
        low, high = row["interval_95"]
        table.add_row(
            row["agent"],
            row["opponent"],
            f"{100 * row['score']:.1f} %",
            f"{100 * low:.1f} - {100 * high:.1f}",
            str(row["decisions"]),
            f"{1e3 * row['seconds_per_decision']:.3g}",
        )
    console.print(table)


def _report_times(measured: dict[str, Any], console: Console) -> None:
    console.print(f"{measured['first']}: {1e3 * measured['seconds_per_decision']:.3g} ms per decision")
    for name, row in measured["others"].items():
        equal = row["equal"]
        console.print(
            f"{name}: {1e3 * row['seconds_per_decision']:.3g} ms per decision; "
            f"with {equal['rollouts']} rollouts {1e3 * equal['seconds_per_decision']:.3g} ms"
        )


def parse_against(spec: str, opponent: str) -> Agent:
    """Make an agent whose spec may name its opponent. Raises ValueError as `parse_agent` does."""
    return parse_agent(spec.replace(_OPPONENT, opponent))


def _matches(agents: Sequence[str], opponents: Sequence[str]) -> list[tuple[Agent, Agent]]:
    return [(parse_against(agent, opponent), parse_agent(opponent)) for opponent in opponents for agent in agents]


def _round(rollouts: float) -> int:
    return max(1, round(rollouts / ROUNDS)) * ROUNDS

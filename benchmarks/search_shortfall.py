"""What agents' choices fall short of the best that a search could find, decision by decision.

    python -m benchmarks.search shortfall --games 400 --json search_shortfall.json

The first agent plays against each opponent, a policy that stays as it is. At every decision of its all agents choose, each with a
belief of its own from the game so far, and a judge values all plays: a search that is told whom it plays (up to the tremble that
a belief leaves any policy), with many particles and many times their rollouts. It comes to one step of policy improvement on the
policy of its rollouts, told everything and with next to no noise, and no search of this kind, whatever it spends, chooses better.
What an agent's plays are valued less than the best ones, summed over a game, is what it wins less than that step would, but for
the positions: they are those of the first agent's games, and not of each one's own (the performance difference lemma, Kakade and
Langford 2002, lemma 6.1). With rollouts in common this tells agents apart that thousands of games would not.

The best play is found by half of the judge's rollouts and valued by the other half, and the other way round, so that no play
looks better for the noise that it was found by. The errors are those of a mean over deals, each of two games. Each opponent is
written when it is finished, and a run with the same `--json` goes on with those that are missing.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from rich.console import Console
from rich.table import Table

from benchmarks import timing
from benchmarks.search_strength import OPPONENTS, parse_against
from unojax import game
from unojax.agents import Agent, Memory
from unojax.arena.lanes import MatchLanes, Seats, advance, begin, deal, decide, find_waiting, remember
from unojax.device import static
from unojax.device.batching import for_chosen
from unojax.observation import observe
from unojax.rules import Rules
from unojax.search.agents import SearchAgent, monte_carlo
from unojax.specs import parse_agent

AGENTS: Final = (
    "mc",
    "mc:model=OPPONENT,opponent=OPPONENT",
    "value",
    "linear",
)
_CHUNK: Final = 32
"""Games at a time in each part of the work."""
_POINTS: Final = 50.0
"""Of win rate, for a return of 1."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `shortfall`."""
    parser.add_argument(
        "--agents", nargs="+", default=AGENTS, metavar="SPEC", help=f"the first one plays; default: {' '.join(AGENTS)}"
    )
    parser.add_argument("--opponents", nargs="+", default=OPPONENTS, metavar="POLICY", help=f"default: {' '.join(OPPONENTS)}")
    parser.add_argument("--games", type=int, default=400, help="against each opponent, an even number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--particles", type=int, default=4096, help="of the judge")
    parser.add_argument("--rollouts", type=int, default=4096, help="of the judge, of each play in each of its runs")
    parser.add_argument("--runs", type=int, default=8, help="of the judge at each decision, an even number")
    parser.add_argument("--json", type=Path, help="also goes on with the opponents of this file")


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Measure the opponents that are missing, print all, and return them."""
    for name, least in (("games", 4), ("runs", 2)):
        if getattr(arguments, name) < least or getattr(arguments, name) % 2:
            parser.error(f"--{name} must be an even number of at least {least}")
    setting = {name: getattr(arguments, name) for name in ("seed", "games", "particles", "rollouts", "runs")}
    setting["agents"] = list(arguments.agents)
    fresh = {"benchmark": "search_shortfall", "environment": timing.environment(), **setting, "opponents": {}}
    results = timing.resume(arguments.json, fresh, setting)
    for name in arguments.opponents:
        if name in results["opponents"]:
            continue
        try:
            agents, opponent = [parse_against(spec, name) for spec in arguments.agents], parse_agent(name)
            sizes = {"particles": arguments.particles, "rollouts": arguments.rollouts}
            judge = monte_carlo(model=name, opponent=name, keep=0.0, **sizes)
        except ValueError as error:
            parser.error(str(error))
        results["opponents"][name] = measure(agents, opponent, judge, arguments.games, arguments.seed, arguments.runs)
        timing.write_json(arguments.json, results)
    report(results, timing.console())
    return results


class Player(NamedTuple):
    """Somebody who follows the games: agent A or B of `unojax.arena.lanes`, int32[], and the two parts of an agent."""

    who: Array
    numbers: list[Array]
    skeleton: static.Skeleton


def measure(agents: list[Agent], opponent: Agent, judge: SearchAgent, num_games: int, seed: int, num_runs: int) -> dict[str, Any]:
    """Play games of the first agent against an opponent, and sum up what the choices of each agent fall short of."""
    index = jnp.arange(num_games)
    seats, lanes = deal(jax.random.key(seed), index // 2, index % 2, jnp.ones(num_games, bool), rules=Rules())
    seated = [*((0, agent) for agent in agents), (1, opponent), (0, judge)]
    players = [Player(jnp.int32(who), *static.split(agent)) for who, agent in seated]
    memories = [begin(p.numbers, p.who, seats, lanes, skeleton=p.skeleton) for p in players]
    short = np.zeros((len(agents), num_games))
    num_decisions, num_left = 0, num_games
    while num_left:
        values, legal = jax.device_get(judge_plays(memories[-1], seats, lanes, judge=judge, num_runs=num_runs))
        *chosen, theirs = [
            decide(p.numbers, p.who, memory, seats, lanes, skeleton=p.skeleton, chunk=_CHUNK)
            for p, memory in zip(players[:-1], memories[:-1], strict=True)
        ]
        at = np.flatnonzero(legal.any(-1))
        num_decisions += len(at)
        short[:, at] += shortfall(values[at], legal[at], np.stack(jax.device_get(chosen))[:, at])
        before = lanes
        lanes, action, counts = advance(seats, before, [chosen[0], theirs], chunk=_CHUNK)
        num_left, num_wrong = np.asarray(counts)[0]
        assert not num_wrong
        memories = [
            remember(p.numbers, p.who, memory, seats, before, lanes, action, skeleton=p.skeleton, chunk=_CHUNK)
            for p, memory in zip(players, memories, strict=True)
        ]
    of_deal = _POINTS * short.reshape(len(agents), -1, 2).mean(-1)
    points, error = of_deal.mean(1), of_deal.std(1, ddof=1) / np.sqrt(of_deal.shape[1])
    rows = [
        {"agent": agent.name, "points": float(p), "standard_error": float(e)}
        for agent, p, e in zip(agents, points, error, strict=True)
    ]
    return {"decisions_per_game": num_decisions / num_games, "rows": rows}


@partial(jax.jit, static_argnames=("judge", "num_runs"))
def judge_plays(memory: Memory, seats: Seats, lanes: MatchLanes, *, judge: SearchAgent, num_runs: int) -> tuple[Array, Array]:
    """Value the plays of agent A where it has a choice, some times each: float32[G, runs, 60]; bool[G, 60] what they are of."""

    def one(seats: Seats, lanes: MatchLanes, memory: Memory) -> tuple[Array, Array]:
        state, player = lanes.state, seats.game
        seen, key = observe(state, player), jax.random.fold_in(jax.random.fold_in(seats.key, player), state.step_count)

        def once(key: Array) -> tuple[Array, Array]:
            estimate, legal = judge.think(key, memory, seen, game.legal_mask(state))
            return estimate.value, legal

        values, legal = lax.map(once, jax.random.split(key, num_runs))
        return values, legal[0]

    num_games, num_choices = len(lanes.forced), Rules().num_choices
    waits = find_waiting(seats, lanes, 0)
    nothing = jnp.zeros((num_games, num_runs, num_choices)), jnp.zeros((num_games, num_choices), bool)
    return for_chosen(waits, _CHUNK, lambda _, *chunk: jax.vmap(one)(*chunk), (seats, lanes, memory), nothing)


def shortfall(values: np.ndarray, legal: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Compute what choices fall short of the best play, by values that some runs gave: float[K, D], in expectation not too much.

    Args:
        values: float[D, R, A] of R independent runs, an even number.
        legal: bool[D, A].
        chosen: int[K, D] the choices of K agents.
    """
    halves = values[:, ::2].mean(1), values[:, 1::2].mean(1)
    found = np.zeros(chosen.shape)
    for finds, tells in (halves, halves[::-1]):
        best = np.where(legal, finds, -np.inf).argmax(-1)
        told = np.take_along_axis(tells, np.concatenate([best[None], chosen]).T, axis=-1).T
        found += (told[0] - told[1:]) / 2
    return found


def report(results: dict[str, Any], console: Console) -> None:
    """Print all opponents."""
    for name, found in results["opponents"].items():
        title = f"against {name}: {found['decisions_per_game']:.1f} decisions a game"
        table = Table("agent", "short of the best, points a game", title=title)
        for row in found["rows"]:
            table.add_row(row["agent"], f"{row['points']:.2f} ± {1.96 * row['standard_error']:.2f}")
        console.print(table)

"""Exact distance of agents from optimal play on solved small decks; and the solver beside OpenSpiel's.

* `optimal_play`: Exploitability of each agent; its mean return, both seats averaged, against itself, against the equilibrium and
  against uniform play of the tree's actions (colours that the deck lacks are merged); and its three most expensive mistakes
  against the equilibrium. Agents with memory are frozen by one key. Rows `... exact belief` have the exact probabilities of the
  hidden hand against `linear`. `limit` is flat Monte Carlo with that belief and infinitely many rollouts (`solve.improve`).
* `improvement_steps`: Mean return against a fixed opponent of the policy `linear`, of policy improvement, and of a best response.
  Each improvement step has the exact belief and the opponent itself in the rollouts. The share is the part of the way from
  `linear` to the best response.
* `solver_openspiel`: CFR+ beside OpenSpiel's in C++. *C++ throughout*: the game comes from an extensive-form file, written from a
  tree that plain Python built by its own rules (`tests/oracle`). *The bridge*: the game is `unojax_uno` of
  `unojax.adapters.openspiel`, with states in Python. Loading, enumerating and compiling are not timed. A unojax run takes
  milliseconds, so it is repeated for a fifth of a second.
"""

from __future__ import annotations

import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import numpy as np

from benchmarks import harness
from benchmarks.harness import Config, Program, Task
from tests.helpers import variant
from tests.solve import oracle
from tests.solve.openspiel_game import to_efg
from unojax import cards, solve
from unojax.rules import Rules
from unojax.specs import POLICY_NAMES
from unojax.text import format_action

AGENTS: Final = ("value:belief=unseen", "mc:belief=unseen", "value", "mc:model=linear+0.5", "tree:model=linear+0.5")
EXACT: Final = "mc:rollouts=200,keep=0,model=linear+0"
"""Search whose belief and rollouts know an opponent that follows `linear`."""
KNOWN: Final = "linear"
_TOLERANCE: Final = 1e-6
"""Exploitability of the equilibrium."""


# -- Every agent on small decks --------------------------------------------------------------------------------------------------


class Solved(NamedTuple):
    """A game with its equilibrium."""

    tree: solve.Tree
    optimum: Any


@cache
def solved(name: str) -> Solved:
    """Solve a game of `solve.DECKS`."""
    tree = solve.enumerate_game(solve.DECKS[name])
    return Solved(tree, solve.cfr(tree, iterations=20_000, tolerance=_TOLERANCE, check_every=50))


@harness.benchmark("optimal_play", decks=("tiny", "small"), agents=AGENTS, known=True, seed=0)
def optimal_play(config: Config) -> Iterator[Task]:
    """Exploitability of every agent on small decks, what it loses, and its worst mistakes (`--decks` of `solve.DECKS`)."""
    unseen = f"{EXACT},belief=unseen"
    searches = (unseen, EXACT) if config.known else ()
    exact = (f"{EXACT}, exact belief",) if config.known else ()
    for deck in config.decks:
        yield Task({"deck": deck, "program": "solve"}, partial(describe_game, deck))
        for agent in ("equilibrium", "limit", *POLICY_NAMES, *searches, *config.agents, *exact):
            yield Task({"deck": deck, "agent": agent, "seed": config.seed}, partial(judge_agent, deck, agent, config.seed))


def describe_game(deck: str) -> dict[str, Any]:
    """Return the size of a game, its value, and what a best response earns from uniform play."""
    tree, optimum = solved(deck)
    return {
        "num_infosets": list(tree.num_infosets),
        "num_choices": [treeplex.num_choices for treeplex in tree.players],
        "value": optimum.value,
        "exploitability": optimum.exploitability,
        "best_response_to_uniform": best_earned(tree, solve.uniform(tree)),
    }


def judge_agent(deck: str, agent: str, seed: int) -> dict[str, Any]:
    """Return the figures of an agent."""
    tree, optimum = solved(deck)
    base, began = solve.of_policy(tree, KNOWN), time.perf_counter()

    def of_agent(spec: str, against: solve.Strategies | None = None) -> solve.Strategies:
        return solve.of_agent(tree, spec, key=jax.random.key(seed), against=against)

    makers: dict[str, Callable[[], solve.Strategies]] = {
        "equilibrium": lambda: optimum.strategies,
        "limit": lambda: solve.improve(tree, base),
        f"{EXACT}, exact belief": lambda: of_agent(f"{EXACT},belief=unseen", base),
    }
    strategies = makers.get(agent, lambda: of_agent(agent))()
    return judge(tree, strategies, optimum.strategies, solve.uniform(tree), base) | {"seconds": time.perf_counter() - began}


def earned(tree: solve.Tree, strategies: solve.Strategies, other: solve.Strategies) -> float:
    """Return the mean return of strategies against others, both seats averaged."""
    return (solve.value(tree, (strategies[0], other[1])) - solve.value(tree, (other[0], strategies[1]))) / 2


def best_earned(tree: solve.Tree, other: solve.Strategies) -> float:
    """Return the mean return of a best response to strategies, both seats averaged."""
    return float(np.mean([solve.best_response(tree, player, other[1 - player])[0] for player in (0, 1)]))


def judge(
    tree: solve.Tree,
    strategies: solve.Strategies,
    optimum: solve.Strategies,
    uniform: solve.Strategies,
    known: solve.Strategies,
) -> dict[str, Any]:
    """Return a row's figures."""
    lost = [solve.mistakes(tree, player, strategies[player], optimum[1 - player]) for player in (0, 1)]
    worst = sorted(((cost, player, i) for player in (0, 1) for i, cost in _largest(lost[player])), reverse=True)[:3]
    return {
        "exploitability": solve.exploitability(tree, strategies),
        "against_equilibrium": earned(tree, strategies, optimum),
        "against_uniform": earned(tree, strategies, uniform),
        f"against_{KNOWN}": earned(tree, strategies, known),
        "against_itself": solve.value(tree, strategies),
        "lost_to_mistakes": float(sum(of_player.sum() for of_player in lost) / 2),
        "mistakes": [describe(tree, player, i, cost, strategies, optimum) for cost, player, i in worst if cost > 1e-6],
    }


def _largest(costs: np.ndarray) -> list[tuple[int, float]]:
    return [(int(i), float(costs[i])) for i in np.argsort(-costs)[:3]]


def describe(
    tree: solve.Tree, player: int, state: int, cost: float, strategies: solve.Strategies, optimum: solve.Strategies
) -> dict[str, Any]:
    """Describe a mistake in words: the position from the player's view, its action and an optimal player's action."""
    treeplex = tree.players[player]
    seen = jax.tree.map(lambda leaf: leaf[state], solve.observations(tree, player))
    here = slice(int(treeplex.first[state]), int(treeplex.first[state]) + int(treeplex.num_actions[state]))

    def plays(behavior: np.ndarray) -> dict[str, float]:
        told = zip(treeplex.actions[here].tolist(), behavior[here].tolist(), strict=True)
        return {format_action(action): round(prob, 4) for action, prob in told if prob > 5e-5}

    gains = tree.gains(player, tree.plan(1 - player, optimum[1 - player]))
    values, _ = treeplex.values(gains, treeplex.best(gains)[1])
    actions = [format_action(action) for action in treeplex.actions[here].tolist()]
    reach = tree.plan(player, strategies[player])[treeplex.parent[state]]
    return {
        "cost": cost,
        "player": player,
        "step": int(treeplex.steps[state]),
        "hand": _names(seen.hand),
        "pile": _names(seen.pile),
        "top": f"{cards.COLOR_NAMES[int(seen.color)]} {cards.RANK_NAMES[int(seen.top_rank)]}",
        "opponent_count": int(seen.opponent_count),
        "deck_count": int(seen.deck_count),
        "plays": plays(strategies[player]),
        "optimal": plays(optimum[player]),
        "best": actions[int(np.argmax(values[here]))],
        "own_reach": float(reach),
    }


def _names(onehot: Any) -> str:
    counts = np.asarray(cards.counts(onehot))
    return " ".join(cards.TYPE_NAMES[t] for t in np.repeat(np.arange(cards.NUM_TYPES), counts))


# -- Steps of policy improvement -------------------------------------------------------------------------------------------------


@harness.benchmark("improvement_steps", decks=tuple(solve.DECKS), opponents=("uniform", "scarcest-color", KNOWN), steps=3)
def improvement_steps(config: Config) -> Iterator[Task]:
    """Most that a search can gain on small decks: some steps of policy improvement, and a best response."""
    for deck in config.decks:
        for opponent in config.opponents:
            settings = {"deck": deck, "opponent": opponent, "steps": config.steps, "base": KNOWN}
            yield Task(settings, partial(improve, deck, opponent, config.steps))


def improve(deck: str, opponent: str, steps: int) -> dict[str, Any]:
    """Return mean returns against an opponent, both seats averaged: after 0, 1, 2, ... steps, and of a best response."""
    tree = solve.enumerate_game(solve.DECKS[deck])
    other, strategies = solve.of_policy(tree, opponent), solve.of_policy(tree, KNOWN)
    best, returns = best_earned(tree, other), [earned(tree, strategies, other)]
    for _ in range(steps):
        strategies = solve.improve(tree, strategies, against=other)
        returns.append(earned(tree, strategies, other))
    share = [(each - returns[0]) / (best - returns[0]) for each in returns]
    return {"earned": dict(enumerate(returns)), "share": dict(enumerate(share)), "best_response": best}


# -- Beside OpenSpiel ------------------------------------------------------------------------------------------------------------

FILE: Final = "C++ throughout"
BRIDGE: Final = "the bridge"
GAMES: Final = (("tiny", 16, 100, FILE), ("tiny", 16, 1000, FILE), ("small", 8, 10, FILE), ("tiny", 16, 5, BRIDGE))
"""Deck, steps, iterations, form: OpenSpiel walks through every history twice an iteration."""


@harness.benchmark("solver_openspiel", repeats=5)
def solver_openspiel(config: Config) -> Iterator[Task]:
    """CFR+ on small decks beside OpenSpiel's in C++, which must be installed, in turns."""
    for deck, max_steps, iterations, form in GAMES:
        settings = {"deck": deck, "max_steps": max_steps, "iterations": iterations, "form": form, "repeats": config.repeats}
        yield Task(settings, partial(race, deck, max_steps, iterations, form, config.repeats))


def load(rules: Rules, form: str) -> Any:
    """Load the game into OpenSpiel."""
    import pyspiel  # pyright: ignore[reportMissingImports]

    if form == BRIDGE:
        from unojax.adapters import openspiel

        return openspiel.load_game(rules)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "uno.efg"
        path.write_text(to_efg(oracle.grow(variant(rules), merge_colors=True)))
        return pyspiel.load_game(f"efg_game(filename={path})")


def race(deck: str, max_steps: int, iterations: int, form: str, repeats: int) -> dict[str, Any]:
    """Time both on one game."""
    import pyspiel  # pyright: ignore[reportMissingImports]

    rules = replace(solve.DECKS[deck], max_steps=max_steps)
    tree, game = solve.enumerate_game(rules), load(rules, form)
    # Without intermediate measurements: the one after the last iteration is timed.
    solve_it = partial(solve.cfr, tree, iterations=iterations, check_every=iterations)
    solution = solve_it()
    runs, _ = timeit.Timer(solve_it).autorange()

    def theirs(solver: Any) -> Any:
        for _ in range(iterations):
            solver.evaluate_and_update_policy()
        return solver

    def ours(_: object) -> None:
        for _ in range(runs):
            solve_it()

    # An untimed run loads the caches again after OpenSpiel's.
    programs = {"theirs": Program(theirs, lambda: pyspiel.CFRPlusSolver(game)), "ours": Program(ours, solve_it)}
    times, results = harness.time_in_turns(programs, repeats)
    wall, cpu = (np.array(seconds) / runs for seconds in (times["ours"].seconds, times["ours"].cpu_seconds))
    their_wall, their_cpu = np.array(times["theirs"].seconds), np.array(times["theirs"].cpu_seconds)
    return {
        "num_histories": tree.num_histories,
        "num_infosets": list(tree.num_infosets),
        "unojax_seconds": harness.spread(wall),
        "openspiel_seconds": harness.spread(their_wall),
        "times_as_fast": harness.spread(their_wall / wall),
        "times_as_fast_by_cpu": harness.spread(their_cpu / cpu),
        "unojax_exploitability": solution.exploitability,
        "openspiel_exploitability": pyspiel.exploitability(game, results["theirs"].average_policy()),
    }

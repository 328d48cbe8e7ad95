"""How far from optimal: every agent on the small decks, exactly.

    python -m benchmarks.optimal_play --games tiny small --json optimal_play.json

For each game: its equilibrium; then for each agent its exploitability, what it earns (mean return, both seats averaged) against
itself, against the equilibrium and against uniform play of the tree's actions, where the colours that the deck lacks are one, and
its three most expensive mistakes against the equilibrium. Agents with memory are frozen by one key. Rows `... exact belief` are
told the exact probabilities of the hidden hand against `linear`; `limit` is what flat Monte Carlo comes to with that belief and
no end of rollouts (`solve.improve`). Each row is written when it is finished, and a run with the same `--json` goes on with the
rows that are missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
import tyro
from rich.table import Table

from benchmarks import timing
from unojax import cards, solve
from unojax.specs import POLICY_NAMES
from unojax.text import format_action

AGENTS: Final = ("value:belief=unseen", "mc:belief=unseen", "value", "mc:model=linear+0.5", "tree:model=linear+0.5")
EXACT: Final = "mc:rollouts=200,keep=0,model=linear+0"
"""The search whose belief and rollouts know an opponent that follows `linear`."""
_KNOWN: Final = "linear"


@dataclass(frozen=True)
class Config:
    """Options of the measurement.

    Attributes:
        games: of `solve.DECKS`.
        agents: with memory, beside all named policies.
        tolerance: exploitability of the equilibrium.
        seed: of everything random in the agents.
        num_keys: plays of the agents are averaged over so many keys.
        known: take the searches that know `linear` too.
        json: write the results here, and go on with the rows that are there.
    """

    games: tuple[str, ...] = ("tiny", "small")
    agents: tuple[str, ...] = AGENTS
    tolerance: float = 1e-6
    seed: int = 0
    num_keys: int = 1
    known: bool = True
    json: Path | None = None


def main(config: Config) -> None:
    """Measure what is missing, and print all rows."""
    setting = {"seed": config.seed, "num_keys": config.num_keys}
    fresh = {"benchmark": "optimal_play", "environment": timing.environment(), **setting, "games": {}}
    results = timing.resume(config.json, fresh, setting)
    for name in config.games:
        found = results["games"].setdefault(name, {"rows": []})
        measure_game(name, config, found, partial(timing.write_json, config.json, results))
        report(name, results["games"][name])


def measure_game(name: str, config: Config, found: dict[str, Any], save: Callable[[], None]) -> None:
    """Add the rows of a game that are missing."""
    key = jax.random.key(config.seed)
    tree = solve.enumerate_game(solve.DECKS[name])
    optimum = solve.cfr(tree, iterations=20_000, tolerance=config.tolerance, check_every=50)
    uniform = solve.uniform(tree)
    base = solve.of_policy(tree, _KNOWN)
    found |= {
        "num_infosets": list(tree.num_infosets),
        "num_choices": [treeplex.num_choices for treeplex in tree.players],
        "value": optimum.value,
        "exploitability": optimum.exploitability,
        "best_response_to_uniform": best_earned(tree, uniform),
    }

    def of_agent(spec: str, against: solve.Strategies | None = None) -> solve.Strategies:
        return solve.of_agent(tree, spec, key=key, num_keys=config.num_keys, against=against)

    unseen = f"{EXACT},belief=unseen"
    searches = (unseen, EXACT) if config.known else ()
    makers: dict[str, Callable[[], solve.Strategies]] = {
        "equilibrium": lambda: optimum.strategies,
        "limit": lambda: solve.improve(tree, base),
        **{spec: (lambda spec=spec: of_agent(spec)) for spec in (*POLICY_NAMES, *searches, *config.agents)},
    }
    if config.known:
        makers[f"{EXACT}, exact belief"] = lambda: of_agent(unseen, base)
    for row, make in makers.items():
        if not any(have["agent"] == row for have in found["rows"]):
            began = time.perf_counter()
            strategies = make()
            measured = judge(tree, strategies, optimum.strategies, uniform, base)
            seconds = time.perf_counter() - began
            load = timing.environment()["load_average"]
            found["rows"].append({"agent": row} | measured | {"seconds": seconds, "load_average": load})
            save()
    save()


def earned(tree: solve.Tree, strategies: solve.Strategies, other: solve.Strategies) -> float:
    """Compute the mean return of strategies against others, both seats averaged."""
    return (solve.value(tree, (strategies[0], other[1])) - solve.value(tree, (other[0], strategies[1]))) / 2


def best_earned(tree: solve.Tree, other: solve.Strategies) -> float:
    """Compute the mean return of a best response to strategies, both seats averaged."""
    return float(np.mean([solve.best_response(tree, player, other[1 - player])[0] for player in (0, 1)]))


def judge(
    tree: solve.Tree,
    strategies: solve.Strategies,
    optimum: solve.Strategies,
    uniform: solve.Strategies,
    known: solve.Strategies,
) -> dict[str, Any]:
    """Compute a row's figures."""
    lost = [solve.mistakes(tree, player, strategies[player], optimum[1 - player]) for player in (0, 1)]
    worst = sorted(((cost, player, i) for player in (0, 1) for i, cost in _largest(lost[player])), reverse=True)[:3]
    return {
        "exploitability": solve.exploitability(tree, strategies),
        "against_equilibrium": earned(tree, strategies, optimum),
        "against_uniform": earned(tree, strategies, uniform),
        f"against_{_KNOWN}": earned(tree, strategies, known),
        "against_itself": solve.value(tree, strategies),
        "lost_to_mistakes": float(sum(of_player.sum() for of_player in lost) / 2),
        "mistakes": [describe(tree, player, i, cost, strategies, optimum) for cost, player, i in worst if cost > 1e-6],
    }


def _largest(costs: np.ndarray) -> list[tuple[int, float]]:
    return [(int(i), float(costs[i])) for i in np.argsort(-costs)[:3]]


def describe(
    tree: solve.Tree, player: int, state: int, cost: float, strategies: solve.Strategies, optimum: solve.Strategies
) -> dict[str, Any]:
    """Put a mistake into words: the position as the player sees it, what it does and what an optimal player does."""
    treeplex = tree.players[player]
    seen = jax.tree.map(lambda leaf: leaf[state], solve.observations(tree, player))
    here = slice(int(treeplex.first[state]), int(treeplex.first[state]) + int(treeplex.num_actions[state]))

    def plays(behavior: np.ndarray) -> dict[str, float]:
        told = zip(treeplex.actions[here].tolist(), behavior[here].tolist(), strict=True)
        return {format_action(action): round(prob, 4) for action, prob in told if prob > 5e-5}

    other = tree.players[1 - player].plan(optimum[1 - player])
    gains = tree.gains(player, other)
    values, _ = treeplex.values(gains, treeplex.best(gains)[1])
    actions = [format_action(action) for action in treeplex.actions[here].tolist()]
    reach = treeplex.plan(strategies[player])[treeplex.parent[state]]
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


def report(name: str, found: dict[str, Any]) -> None:
    """Print a game's rows, the least exploitable first."""
    table = Table(title=f"{name}: {sum(found['num_infosets']):,} information states, value {found['value']:+.6f}")
    headings = ("exploitability", "against_equilibrium", "against_uniform", f"against_{_KNOWN}", "against_itself")
    table.add_column("agent")
    for heading in headings:
        table.add_column(heading.replace("_", " "), justify="right")
    for row in sorted(found["rows"], key=lambda row: row["exploitability"]):
        table.add_row(row["agent"], *(f"{row[heading]:+.4f}" for heading in headings))
    timing.console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))

"""Evaluation matches of a network in the arena, without search."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import jax
from rich.table import Table

from training.config import RunConfig
from unojax.arena import play_match
from unojax.arena.match import compile_match, default_batch_size
from unojax.arena.ratings import Score, paired_score
from unojax.device.mesh import default_workers
from unojax.specs import parse_agent
from unojax.value.network import Network

_DEALS: Final = 20_000
"""Seed of the deals, the same in every evaluation."""


class Standing(NamedTuple):
    """The network's score against one opponent."""

    opponent: str
    score: Score

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for a file: mean result (a win 1, a draw 0.5), its 95% interval, number of games."""
        score = self.score
        return {
            "opponent": self.opponent,
            "mean": score.value,
            "interval_95": list(score.interval),
            "games": 2 * score.num_pairs,
        }


def evaluate(network: Network, config: RunConfig, num_games: int) -> list[Standing]:
    """Play a network against the configured opponents, seats swapped, on the same deals every time."""
    agent, rules, batch_size = config.agent_of(network), config.game_rules, _batch_size(config)
    standings = []
    for spec in config.evaluation.opponents:
        players = agent, parse_agent(spec, rules=rules)
        pairs = play_match(jax.random.key(_DEALS), players, -(-num_games // 2), rules=rules, batch_size=batch_size)
        standings.append(Standing(spec, paired_score(pairs.points)))
    return standings


def prepare_evaluation(network: Network, config: RunConfig) -> Callable[[Network, int], list[Standing]]:
    """Return `evaluate(network, num_games)` of a run, for networks of this shape.

    A thread compiles its programs while the run compiles its first iteration; the first call waits for it.
    """

    def compile_all() -> None:
        agent, rules = config.agent_of(network), config.game_rules
        for spec in config.evaluation.opponents:
            compile_match((agent, parse_agent(spec, rules=rules)), rules=rules, batch_size=_batch_size(config))

    pool = ThreadPoolExecutor(1, "compiling")
    compiling = pool.submit(compile_all)
    pool.shutdown(wait=False)

    def when_compiled(network: Network, num_games: int) -> list[Standing]:
        compiling.result()
        return evaluate(network, config, num_games)

    return when_compiled


def _batch_size(config: RunConfig) -> int:
    """Return the batch size of all evaluations, which thereby share their programs."""
    most = max(config.evaluation.games, config.evaluation.final_games)
    return default_batch_size(2 * -(-most // 2), default_workers())


def mean_score(standings: list[Standing]) -> float:
    """Return the mean score over all opponents."""
    return sum(standing.score.value for standing in standings) / len(standings)


def table_of(standings: list[Standing], title: str, judged_by: str) -> Table:
    """Return a table for a terminal; its title includes `RunConfig.judged_by`."""
    table = Table(title=title, title_justify="left")
    table.add_column(f"{judged_by}, against")
    for heading in ("win rate", "95 % interval", "games"):
        table.add_column(heading, justify="right")
    for opponent, score in standings:
        low, high = score.interval
        interval = f"{100 * low:.1f} .. {100 * high:.1f} %"
        table.add_row(opponent, f"{100 * score.value:.1f} %", interval, f"{2 * score.num_pairs:,}")
    return table

"""How well a network plays: games in the arena, greedy and without search."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import jax
import numpy as np
from rich.table import Table

from training.config import Config
from unojax.agents import parse_agent
from unojax.arena import play_match
from unojax.value.agent import ValueAgent
from unojax.value.network import Network

_DEALS: Final = 20_000
"""Seed of the deals, the same in every evaluation."""


class Score(NamedTuple):
    """Against one opponent: the mean result (a win 1, a drawn game 0.5), half its 95 % interval, and the number of games."""

    opponent: str
    mean: float
    margin: float
    games: int


def evaluate(network: Network, config: Config, num_games: int) -> list[Score]:
    """Scores of a network against the configured opponents, seats balanced on duplicate deals."""
    agent = ValueAgent(network="trained", belief=config.play.belief, particles=config.evaluation.particles, loaded=network)
    scores = []
    for spec in config.evaluation.opponents:
        winner = play_match(jax.random.key(_DEALS), (agent, parse_agent(spec)), -(-num_games // 2)).winner
        # Games of a pair share their deals, so the pairs are what is independent.
        of_pair = np.where(winner < 0, 0.5, winner == 0).mean(-1)
        margin = 1.96 * of_pair.std(ddof=1) / math.sqrt(len(of_pair)) if len(of_pair) > 1 else math.inf
        scores.append(Score(spec, float(of_pair.mean()), margin, winner.size))
    return scores


def mean_score(scores: list[Score]) -> float:
    """One figure for all opponents."""
    return sum(score.mean for score in scores) / len(scores)


def table_of(scores: list[Score], title: str) -> Table:
    """For a terminal."""
    table = Table(title=title, title_justify="left")
    table.add_column("greedy, no search, against")
    for heading in ("win rate", "95 % interval", "games"):
        table.add_column(heading, justify="right")
    for score in scores:
        low, high = 100 * (score.mean - score.margin), 100 * (score.mean + score.margin)
        table.add_row(score.opponent, f"{100 * score.mean:.1f} %", f"{low:.1f} .. {high:.1f} %", f"{score.games:,}")
    return table

"""Standings of many agents: scores of matches and ratings of agents. NumPy on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unojax.arena import ratings
from unojax.arena.pairs import Pairs
from unojax.arena.ratings import Score


@dataclass(frozen=True)
class AgentRow:
    """An agent's row in the standings.

    Attributes:
        name: Name of the agent.
        rating: Rating by Bradley and Terry, Elo points, mean 0 over the agents.
        rating_margin: Half the width of the rating's interval, Elo points.
        score: Share of the points in all its games, 1 for a win and 1/2 for a drawn game; None without games.
        games: Number of games played.
        decisions: Number of its actions with more than one legal action.
        seconds_per_decision: Time in its functions, s, divided by its decisions; None without decisions. One call serves many
            games.
    """

    name: str
    rating: float
    rating_margin: float
    score: float | None
    games: int
    decisions: int
    seconds_per_decision: float | None


@dataclass(frozen=True)
class MatchRow:
    """A match of two agents, from the first agent's side.

    Attributes:
        first: First agent, whose perspective the match takes.
        second: Second agent.
        games: Number of games played, two for every deal with the seats swapped.
        wins: Wins of the first and of the second agent.
        drawn: Games without a winner, including truncated ones.
        score: Score of the first agent.
        steps_per_game: Mean number of steps.
        adjusted: Variance-reduced score (AIVAT-style) of the same games; None if not requested, or for a single duplicate deal or
            series. Tables and plots show it instead of the score; ratings use the results.
    """

    first: str
    second: str
    games: int
    wins: tuple[int, int]
    drawn: int
    score: Score
    steps_per_game: float
    adjusted: Score | None = None

    @property
    def shown(self) -> Score:
        """Return the score for tables: variance-reduced if available."""
        return self.adjusted or self.score

    def swapped(self) -> MatchRow:
        """Return the same match from the second agent's side."""
        score, adjusted = self.score.swapped(), None if self.adjusted is None else self.adjusted.swapped()
        return replace(self, first=self.second, second=self.first, wins=self.wins[::-1], score=score, adjusted=adjusted)


@dataclass(frozen=True)
class Standings:
    """Standings of a round robin.

    Attributes:
        agents: Agents, the highest rating first.
        matches: Pairs of agents that have played.
    """

    agents: tuple[AgentRow, ...]
    matches: tuple[MatchRow, ...]

    @property
    def has_luck(self) -> bool:
        """Return whether all scores shown are plain results, without variance reduction."""
        return all(match.adjusted is None for match in self.matches)

    @property
    def unit(self) -> str:
        """Return the unit of the scores in tables."""
        return "%" if self.has_luck else "%, variance-reduced"

    def match(self, first: str, second: str) -> MatchRow | None:
        """Return a match from the first agent's side; None if the two have not played."""
        for row in self.matches:
            if (row.first, row.second) == (first, second):
                return row
            if (row.second, row.first) == (first, second):
                return row.swapped()
        return None


def standings_of(names: Sequence[str], matches: Mapping[tuple[int, int], Pairs], *, series: int = 1) -> Standings:
    """Return the standings of agents from their matches.

    Args:
        names: Names of the agents.
        matches: Matches by the indices of both agents; those without pairs are skipped.
        series: As in `unojax.play_match`.
    """
    matches = {match: pairs for match, pairs in matches.items() if len(pairs)}
    rated = [ratings.Match(i, j, pairs.index // series, pairs.points) for (i, j), pairs in matches.items()]
    strength = ratings.bradley_terry(len(names), rated)
    rows = []
    for i, name in enumerate(names):
        played = [(pairs, match.index(i)) for match, pairs in matches.items() if i in match]
        rows.append(_agent_row(name, float(strength.elo[i]), float(strength.elo_margin[i]), played))
    return Standings(
        agents=tuple(sorted(rows, key=lambda row: -row.rating)),
        matches=tuple(match_row(names[i], names[j], pairs, series) for (i, j), pairs in matches.items()),
    )


def _agent_row(name: str, rating: float, rating_margin: float, played: Sequence[tuple[Pairs, int]]) -> AgentRow:
    """Summarize an agent's matches, in each of which it is the first (0) or the second agent (1)."""
    games = sum(2 * len(pairs) for pairs, _ in played)
    points = sum(float((pairs.points if side == 0 else 1 - pairs.points).sum()) for pairs, side in played)
    decisions = sum(int(pairs.num_choices[..., side].sum(dtype=np.int64)) for pairs, side in played)
    seconds = sum(float(pairs.seconds[side]) for pairs, side in played)
    score, pace = points / games if games else None, seconds / decisions if decisions else None
    return AgentRow(name, rating, rating_margin, score, games, decisions, pace)


def match_row(first: str, second: str, pairs: Pairs, series: int = 1) -> MatchRow:
    """Summarize a match; `series` as in `unojax.play_match`."""
    has_adjusted = len(pairs) >= 2 * series and not np.isnan(pairs.adjusted).any()
    return MatchRow(
        first=first,
        second=second,
        games=pairs.winner.size,
        wins=(int((pairs.winner == 0).sum()), int((pairs.winner == 1).sum())),
        drawn=int((pairs.winner < 0).sum()),
        score=ratings.paired_score(pairs.points, series=series),
        steps_per_game=float(pairs.num_steps.mean()),
        adjusted=ratings.adjusted_score(pairs.adjusted, pairs.points, series=series) if has_adjusted else None,
    )

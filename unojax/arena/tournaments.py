"""A round robin of many agents, stored in a file and resumable: `tournament`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, cast

import jax
import numpy as np

from unojax.agents import Agent
from unojax.arena.fingerprint import fingerprint
from unojax.arena.match import Batch, compile_match, default_batch_size, play_batches
from unojax.arena.pairs import Pairs, pairs_of, split_pairs
from unojax.arena.results import ResultsFile
from unojax.arena.rounds import Matches, play_rounds
from unojax.arena.standings import Standings, standings_of
from unojax.decks import is_int
from unojax.device.mesh import default_workers
from unojax.device.shares import ALL, Share, check_share
from unojax.rules import Rules, as_rules
from unojax.specs import as_agent

Results = tuple[dict[tuple[int, int], Pairs], int, int]
"""Pairs of games by the two agents' numbers, and numbers of games finished and found."""


@dataclass
class Tournament:
    """A round robin, complete or in progress.

    Attributes:
        agents: Players, in the order given.
        parts: Batches of pairs of games, by the two agents' numbers, the smaller first.
        num_pairs: Pairs of games per match.
        series: Consecutive deals that share agent memory, as in `play_match`.
        target: Points of a match; None: single games.
        batch_size, workers: As in `play_match`.
        num_asked, num_finished: Games to play in this run, and games finished in it.
        num_found: Games that the results file already held.
        compile_seconds, seconds: Compile time and playing time of this run.
    """

    agents: Sequence[Agent]
    parts: dict[tuple[int, int], list[Pairs]]
    num_pairs: int
    series: int
    target: int | None
    batch_size: int
    workers: int
    num_asked: int
    num_found: int = 0
    num_finished: int = 0
    compile_seconds: float = 0.0
    seconds: float = field(default=0.0)

    @property
    def matches(self) -> dict[tuple[int, int], Pairs]:
        """Return the pairs of games of each match."""
        kind = cast(type[Pairs], Pairs if self.target is None else Matches)
        return {match: kind.join(parts) for match, parts in self.parts.items()}

    @property
    def complete(self) -> bool:
        """Return whether all games have been played."""
        return all(sum(map(len, parts)) == self.num_pairs for parts in self.parts.values())

    @property
    def results(self) -> Results:
        """Return the matches and the numbers of games finished and found, for other processes."""
        return self.matches, self.num_finished, self.num_found

    def join(self, shares: Sequence[Results], num_pairs: int) -> Tournament:
        """Combine the `results` of several shares into a tournament of `num_pairs` pairs per match."""
        matches, finished, found = zip(*shares, strict=True)
        parts = {match: [of_share[match] for of_share in matches] for match in self.parts}
        return replace(self, parts=parts, num_pairs=num_pairs, num_finished=sum(finished), num_found=sum(found))

    @property
    def rounds_per_match(self) -> float:
        """Return the mean number of rounds of matches played to a target; 1 for single games."""
        rounds = [pairs.num_rounds.mean() for pairs in self.matches.values() if isinstance(pairs, Matches) and len(pairs)]
        return float(np.mean(rounds)) if rounds else 1.0

    @property
    def standings(self) -> Standings:
        """Return ratings of the agents and scores of their matches; there must be some games."""
        return standings_of([agent.name for agent in self.agents], self.matches, series=self.series)


@dataclass(frozen=True)
class ArenaReport:
    """Results of `unojax arena`.

    Attributes:
        complete: False after Ctrl-C; the results then cover the completed batches.
        agents: Names of the agents, as given.
        games_asked: Games of each pair of agents; with `--to`, matches.
        to: Card points of a match, from `--to`; None: single games.
        series: Number of consecutive deals that share agent memory; 1: no sharing.
        adjust: Number of rollouts per estimate for variance reduction, from `--adjust`; None: none.
        seed: Random seed of the deals.
        batch_size: Number of parallel games for each worker.
        workers: Number of parallel batches.
        compile_seconds: Time before the first game, s.
        seconds: Playing time after compilation, s.
        games_per_second: Games played per second of that time; None if `--results` contained all of them.
        faults: Faults in this run, by agent, a line for each kind. Only programs that play (`process:COMMAND`) have faults.
        results: Ratings of the agents and scores of their matches.
    """

    complete: bool
    agents: list[str]
    games_asked: int
    to: int | None
    series: int
    adjust: int | None
    seed: int
    batch_size: int
    workers: int
    compile_seconds: float
    seconds: float
    games_per_second: float | None
    faults: dict[str, list[str]]
    results: Standings


def tournament(
    agents: Sequence[str | Agent],
    games: int = 4000,
    *,
    rules: Rules | str = Rules(),
    seed: int = 0,
    series: int = 1,
    adjust: int = 0,
    target: int | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    results: str | None = None,
    share: tuple[int, int] = ALL,
    on_progress: Callable[[Tournament], None] = lambda played: None,
) -> Tournament:
    """Play a match between each two agents, on the same duplicate deals with swapped seats.

    An interrupt (Ctrl-C) raises KeyboardInterrupt. Complete batches are then in `results`, and in the argument of the last
    `on_progress` call.

    Args:
        agents: Two or more specs, or agents with distinct names.
        games: Games per match, an even number.
        rules: Rules of the games, or the name of a preset.
        seed: Random seed. Games depend on it, not on batch size or workers.
        series, adjust, batch_size, workers: As in `unojax.play_match`; None: chosen for the device.
        target: Points to which matches of several rounds are played, as in `unojax.play_rounds`. None: single games.
        results: File to which each complete batch is appended, as a line of JSON. Stored games are not played again. Requires
            agents given as specs and single games, without `series` or `adjust`.
        share: (part, parts). Play only the series with number % parts == part; with `target`, only that share of the matches.
            Each share has its own part of `results`, and all parts are read.
        on_progress: Called with the tournament so far, after compilation and after games, from any thread.

    Raises:
        ValueError: If an argument is out of range, or the file holds other games.
        AgentError: If an agent raises, or chooses an illegal action.
    """
    rules = as_rules(rules)
    _check(agents, games, series=series, adjust=adjust, target=target, batch_size=batch_size, results=results)
    players = [as_agent(agent, rules=rules) for agent in agents]
    names = [player.name for player in players]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"agent {twice[0]} is given twice")
    share = check_share(share)
    file = None
    if results is not None:
        known = {player.name: fingerprint(str(spec), player) for player, spec in zip(players, agents, strict=True)}
        try:
            file = ResultsFile(results, seed=seed, rules=rules, agents=known, share=share)
        except ValueError as error:
            raise ValueError(f"results: {error}") from None
    asked = pairs_of(share if target is None else ALL, games // 2, series)
    workers = workers or default_workers()
    parts: dict[tuple[int, int], list[Pairs]] = {match: [] for match in combinations(range(len(players)), 2)}
    if file is not None:
        parts = {(i, j): file.find(names[i], names[j], asked) for i, j in parts}
    missing = {match: np.setdiff1d(asked, Pairs.join(found).index) for match, found in parts.items()}
    num_missing = 2 * sum(map(len, missing.values()))
    batch_size = batch_size or default_batch_size(min(2 * len(asked), max(2, num_missing)) // series, workers)
    num_found = sum(2 * len(pairs) for found in parts.values() for pairs in found)
    played = Tournament(players, parts, len(asked), series, target, batch_size, workers, num_missing, num_found)
    key = jax.random.key(seed, impl="threefry2x32")
    if target is None:
        _play_games(key, played, missing, rules=rules, adjust=adjust, file=file, on_progress=on_progress)
    else:
        _play_to(key, played, share, rules=rules, on_progress=on_progress)
    return played


def _check(agents: Sequence[Any], games: int, **options: Any) -> None:
    if isinstance(agents, str) or len(agents) < 2:
        got = agents if isinstance(agents, str) else " ".join(map(str, agents))
        raise ValueError(f"give two or more agents, got {got or 'none'}")
    if not (is_int(games) and games >= 2) or games % 2:
        raise ValueError(f"games must be an even number, since every deal is played twice, got {games}")
    if games % (2 * options["series"]):
        raise ValueError(f"games must be a multiple of {2 * options['series']}, two for each deal of a series, got {games}")
    for name, is_used in (("series", options["series"] > 1), ("adjust", options["adjust"])):
        if is_used and (options["target"] is not None or options["results"] is not None):
            raise ValueError(f"{name} is about single games, and they are not kept: remove `target` and `results`")
    if options["target"] is not None and options["results"] is not None:
        raise ValueError("results keeps single games: remove it, or `target`")
    if options["batch_size"] is not None and options["batch_size"] % 2:
        raise ValueError(f"batch_size must be an even number, since every deal is played twice, got {options['batch_size']}")
    if options["results"] is not None and not all(isinstance(agent, str) for agent in agents):
        raise ValueError("results names agents by their specs: give specs as agents, or remove `results`")


def _play_games(
    key: jax.Array,
    played: Tournament,
    missing: dict[tuple[int, int], np.ndarray],
    *,
    rules: Rules,
    adjust: int,
    file: ResultsFile | None,
    on_progress: Callable[[Tournament], None],
) -> None:
    agents, batch_size = played.agents, played.batch_size
    # The matches take turns, so that an interrupted run has about as many games of each.
    batches = [
        (number, match, Batch((agents[match[0]], agents[match[1]]), pairs, played.series, adjust))
        for match, left in missing.items()
        for number, pairs in enumerate(split_pairs(left, batch_size, played.series))
    ]
    batches.sort(key=lambda batch: batch[0])
    match_of = {id(batch): match for _, match, batch in batches}
    compile_began = time.perf_counter()
    for i, j in dict.fromkeys(match for _, match, _ in batches):
        compile_match((agents[i], agents[j]), rules=rules, batch_size=batch_size, series=played.series, adjust=adjust)
    began, lock = time.perf_counter(), threading.Lock()
    played.compile_seconds = began - compile_began
    on_progress(played)

    def count(finished: int) -> None:
        with lock:
            played.num_finished += finished
            played.seconds = time.perf_counter() - began
            on_progress(played)

    work = [batch for _, _, batch in batches]
    playing = play_batches(key, work, rules=rules, batch_size=batch_size, workers=played.workers, on_games=count)
    with closing(playing):
        for batch, pairs in playing:
            if file is not None:
                file.append(batch.agents[0].name, batch.agents[1].name, pairs)
            played.parts[match_of[id(batch)]].append(pairs)
    played.seconds = time.perf_counter() - began


def _play_to(
    key: jax.Array,
    played: Tournament,
    share: Share,
    *,
    rules: Rules,
    on_progress: Callable[[Tournament], None],
) -> None:
    """Play matches to a target, each in one batch; an interrupted match is lost."""
    began = time.perf_counter()
    on_progress(played)
    assert played.target is not None, "of matches"
    options = {"target": played.target, "batch_size": played.batch_size, "workers": played.workers}
    for i, j in list(played.parts)[share.part :: share.parts]:
        both = played.agents[i], played.agents[j]
        played.parts[i, j].append(play_rounds(key, both, played.num_pairs, rules=rules, **options))
        played.num_finished += 2 * played.num_pairs
        played.seconds = time.perf_counter() - began
        on_progress(played)

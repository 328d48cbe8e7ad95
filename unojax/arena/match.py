"""Matches of two agents, played in batches on the host, in sequence and in parallel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

import jax
import numpy as np
from jax import Array

from unojax.agents import Agent
from unojax.arena.adjusted import judge_of
from unojax.arena.lanes import MatchLanes, Side, play_steps, results
from unojax.arena.pairs import Pairs, check_series, pairs_of, split_pairs
from unojax.decks import is_int
from unojax.device.mesh import default_workers, local_mesh, size_of
from unojax.device.platform import platform
from unojax.device.random_bits import check_key
from unojax.device.shares import ALL, check_share
from unojax.policies import Policy
from unojax.rules import Rules, as_rules
from unojax.specs import as_agent

MAX_PAIRS: Final = 2**30
"""Number of pairs that one key can number."""
MOST_GAMES: Final = {"cpu": 1024, "gpu": 4096}
"""Games in progress at a time on a device, per batch."""

Agents = tuple[Agent, Agent]
Players = tuple[str | Policy | Agent, str | Policy | Agent]


def play_match(
    key: Array,
    agents: Players,
    num_pairs: int,
    *,
    rules: Rules | str = Rules(),
    series: int = 1,
    adjust: int = 0,
    batch_size: int | None = None,
    workers: int | None = None,
    share: tuple[int, int] = ALL,
) -> Pairs:
    """Play pairs 0 .. num_pairs - 1 of a match.

    All local devices share the games if they can divide the batch size equally; results do not depend on their number.

    Args:
        key: Source of all randomness. The same key gives the same deals to any agents.
        agents: A and B: agents, specs such as "linear" or "mc:rollouts=64", or policies.
        num_pairs: 1 .. 2^30.
        rules: Static rules, or the name of a preset.
        series: Number of consecutive pairs that share agent memory (`agents.next_game`). Each game continues from the game in
            the same seat of the previous pair. 1: no sharing. Must divide `num_pairs`.
        adjust: Rollouts per estimate of the variance-reduced points (`Pairs.adjusted`). 0: no variance reduction.
        batch_size: Games in progress at a time in a batch, an even number. None: chosen for the device. Changes no result,
            except of `tree`, which looks further ahead in smaller batches.
        workers: Batches in progress at a time. None: one per CPU core of a device, or 1 with a GPU. Changes results only
            through the default batch size.
        share: (part, parts). Play only the series with number % parts == part.

    Raises:
        ValueError: If an argument is out of range, or the key or an agent is invalid.
        AgentError: If an agent raises, or chooses an illegal action.
    """
    check_key(key, "play_match")
    rules = as_rules(rules)
    if not (is_int(num_pairs) and 1 <= num_pairs <= MAX_PAIRS):
        raise ValueError(f"num_pairs must be an integer in [1, {MAX_PAIRS}], got {num_pairs!r}")
    both = seated(agents, rules)
    check_series(series, num_pairs)
    if not (is_int(adjust) and adjust >= 0):
        raise ValueError(f"adjust must be a number of rollouts, or 0 for none, got {adjust!r}")
    share = check_share(share, num_pairs // series)
    asked = pairs_of(share, num_pairs, series)
    workers = checked_workers(workers)
    batch_size = default_batch_size(2 * len(asked) // series, workers) if batch_size is None else batch_size
    compile_match(both, rules=rules, batch_size=batch_size, series=series, adjust=adjust)
    sizes = {"batch_size": batch_size, "workers": workers}
    return play_pairs(key, both, asked, rules=rules, series=series, adjust=adjust, **sizes)


def play_pairs(
    key: Array,
    agents: Agents,
    pairs: np.ndarray,
    *,
    rules: Rules,
    series: int = 1,
    adjust: int = 0,
    batch_size: int,
    workers: int,
) -> Pairs:
    """Play the pairs with given numbers, int64[P], by compiled programs; other arguments as in `play_match`."""
    batches = [Batch(agents, some, series, adjust) for some in split_pairs(pairs, batch_size, series)]
    with closing(play_batches(key, batches, rules=rules, batch_size=batch_size, workers=workers)) as playing:
        return Pairs.join([played for _, played in playing])


def seated(agents: Players, rules: Rules) -> Agents:
    """Return A and B as agents; raise ValueError unless they are two."""
    if isinstance(agents, str) or len(agents) != 2:
        raise ValueError(f"agents must be two, A and B, got {agents!r}")
    return as_agent(agents[0], rules=rules), as_agent(agents[1], rules=rules)


def checked_workers(workers: int | None) -> int:
    """Return the number of batches in progress at a time; raise ValueError if it is invalid."""
    workers = default_workers() if workers is None else workers
    if not (is_int(workers) and workers >= 1):
        raise ValueError(f"workers must be None or an integer of at least 1, got {workers!r}")
    return workers


def default_batch_size(num_games: int, workers: int) -> int:
    """Return the number of games in progress at a time in a batch, given the games of a match.

    The number is a power of two per device, so that matches of similar size share compiled programs, and leaves work for
    every worker.
    """
    num_devices = size_of(local_mesh())
    share = max(2, -(-num_games // (workers * num_devices)))
    return num_devices * min(MOST_GAMES[platform()], 1 << (share - 1).bit_length())


class Batch(NamedTuple):
    """Games that are played together.

    Attributes:
        agents: A and B.
        pairs: int64[P]. Numbers of pairs, in whole series; at most half as many series as the batch size.
        series: Consecutive pairs that share agent memory, see `play_match`.
        adjust: Rollouts per estimate of the variance-reduced points, see `play_match`.
    """

    agents: Agents
    pairs: np.ndarray
    series: int = 1
    adjust: int = 0


def play_batches(
    key: Array,
    batches: Sequence[Batch],
    *,
    rules: Rules = Rules(),
    batch_size: int,
    workers: int,
    on_games: Callable[[int], None] = lambda finished: None,
) -> Generator[tuple[Batch, Pairs], None, None]:
    """Play batches, `workers` at a time, and yield each with its results when it is complete.

    Closing the generator stops the work: unfinished batches end after their next step, and their games are lost.

    Args:
        key, rules, batch_size, workers: As in `play_match`.
        batches: Batches in playing order. Programs not compiled yet (see `compile_match`) are compiled first, and that time
            counts.
        on_games: Called now and then, from any thread, with the number of games that have ended since the last call.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(workers, thread_name_prefix="unojax-arena") as pool:

        def start(batch: Batch) -> Future[Pairs]:
            return pool.submit(_play, key, batch, rules, batch_size, stop, on_games)

        try:
            waiting = iter(batches)
            running = {start(batch): batch for batch in islice(waiting, workers)}
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda f: int(running[f].pairs[0])):
                    batch = running.pop(future)
                    pairs = future.result()
                    running |= {start(batch): batch for batch in islice(waiting, 1)}
                    yield batch, pairs
        finally:
            stop.set()


def compile_match(agents: Agents, *, rules: Rules = Rules(), batch_size: int, series: int = 1, adjust: int = 0) -> None:
    """Compile the programs of a match by a batch without games. An agent's programs serve all its opponents.

    Then `Pairs.seconds` contain no compilation, and batches in parallel do not each compile the same programs.

    Raises:
        ValueError: If `batch_size` is not an even number of games.
    """
    if not (is_int(batch_size) and batch_size >= 2 and batch_size % 2 == 0):
        raise ValueError(f"batch_size must be None or an even number of games, since they come in pairs, got {batch_size!r}")
    batch = Batch(agents, np.zeros(0, np.int64), series, adjust)
    _play(jax.random.key(0, impl="threefry2x32"), batch, rules, batch_size, threading.Event(), lambda finished: None)


def _play(
    key: Array, batch: Batch, rules: Rules, batch_size: int, stop: threading.Event, on_games: Callable[[int], None]
) -> Pairs:
    """Play a batch in rounds, or until stopped: the first pair of each series, then the second, and so on."""
    pairs, series = batch.pairs, batch.series
    # Play one round even without games, to compile the programs, and a second one if memory can carry over to it.
    rounds = pairs.reshape(-1, series).T if len(pairs) else np.zeros((min(series, 2), 0), np.int64)
    sides = [Side(agent, index) for index, agent in enumerate(batch.agents)]
    judge = judge_of(batch.agents, batch.adjust) if batch.adjust else None
    parts = []
    for of_round in rounds:
        adjusted, ended = None if judge else np.full(batch_size, np.nan), None
        for step in play_steps(key, sides, of_round, rules=rules, batch_size=batch_size):
            if judge is not None:
                adjusted = judge.deals(step.seats, step.before) if adjusted is None else adjusted
                adjusted += judge.decisions(step)
            if step.num_ended:
                on_games(step.num_ended)
            ended = step.after
            if stop.is_set():
                break
        assert ended is not None, "after one step at least"
        parts.append(_pairs_of(of_round, ended, np.asarray(adjusted, np.float64)))
        if stop.is_set():
            break
    return replace(Pairs.join(parts), seconds=np.array([side.seconds for side in sides]))


def _pairs_of(index: np.ndarray, ended: MatchLanes, adjusted: np.ndarray) -> Pairs:
    """Return the results of pairs, int64[P], in the first 2 P env slots."""
    num_games = 2 * len(index)
    winner, card_points = (np.asarray(each)[:num_games].reshape(-1, 2) for each in results(ended))
    return Pairs(
        index=np.asarray(index, np.int64),
        # In the second game A is player 1.
        winner=np.where(winner < 0, winner, winner ^ np.arange(2)).astype(np.int8),
        num_steps=np.asarray(ended.state.step_count)[:num_games].reshape(-1, 2),
        num_choices=np.asarray(ended.num_choices)[:num_games].reshape(-1, 2, 2),
        seconds=np.zeros(2),
        card_points=card_points,
        adjusted=adjusted[:num_games].reshape(-1, 2).mean(1),
    )

"""Games of two policies: play them, and report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

import jax
import numpy as np

from unojax.cli import output, targets
from unojax.cli.options import get_policies
from unojax.cli.simulate import tables
from unojax.cli.simulate.command import Simulate
from unojax.cli.simulate.tables import Played
from unojax.cli.status import EXIT_INTERRUPTED
from unojax.files.columns import Columns
from unojax.rules import Rules
from unojax.simulation import Collector, Finished, default_batch_size, stream
from unojax.simulation.tally import Tally


def run(request: Simulate, rules: Rules) -> int:
    targets.check_json_target(request.json)
    about = output.machine()
    if request.out is None:
        played = _play(request, rules, lambda swapped, finished: None)
    else:
        with output.writing("--out", request.out) as rows:
            played = _play(request, rules, lambda swapped, finished: rows.add(_rows(request, swapped, finished)))
    if not played.complete:
        stopped = f"stopped after {played.seconds:.1f} s; the results are those of the games before the first unfinished one"
        output.error_console().print(f"unojax simulate: {stopped}", soft_wrap=True)
    if not played.num_games:
        output.error_console().print("unojax simulate: no game was complete", soft_wrap=True)
        return EXIT_INTERRUPTED
    results = tables.results_of(played, request.policies, rules)
    if request.json != output.STDOUT:
        facts = tables.facts(request, played, results, rules) | output.machine_facts(about)
        output.show(tables.win_table(played, request.policies, rules), "", output.facts(facts))
    if request.json is not None:
        output.write_json(request.json, _request(request, played, rules) | {"results": results} | about)
    return 0 if played.complete else EXIT_INTERRUPTED


def _rows(request: Simulate, swapped: int, finished: Finished) -> Columns:
    """Lay out finished games as rows; a game is named by its seating and its number there."""
    games, names = finished.games, request.policies
    columns = {field.name: getattr(games, field.name) for field in fields(games)}
    # As wide as the longer name, in all parts.
    texts = np.array(names)
    seated = {f"player_{seat}": np.full(len(games), texts[seat ^ swapped], texts.dtype) for seat in (0, 1)}
    return (
        {"game": finished.index, "swapped": np.full(len(games), bool(swapped))}
        | seated
        | columns
        | {"stalemate": games.stalemate}
    )


def _play(request: Simulate, rules: Rules, keep: Callable[[int, Finished], None]) -> Played:
    pair = get_policies(request.policies)
    key = jax.random.key(request.seed, impl="threefry2x32")
    num_second = request.games // 2 if request.seats == "balanced" else 0
    num_each = (request.games - num_second, num_second)
    batch_size = default_batch_size(num_each[0]) if request.batch_size is None else request.batch_size

    def start(swapped: int) -> Iterator[Finished]:
        seated = (pair[1], pair[0]) if swapped else pair
        seat_key = jax.random.fold_in(key, 1) if swapped else key
        return stream(seat_key, num_each[swapped], seated, rules=rules, batch_size=batch_size)

    seatings = [Seating(swapped, n, start, Collector(n)) for swapped, n in enumerate(num_each) if n]
    return _play_all(seatings, batch_size, keep, quiet=request.quiet)


def _request(request: Simulate, played: Played, rules: Rules) -> dict[str, Any]:
    return {
        "command": "simulate",
        "complete": played.complete,
        "games": played.num_games,
        "games_asked": request.games,
        "policies": request.policies,
        "seats": request.seats,
        "seed": request.seed,
        "batch_size": played.batch_size,
        "rules": asdict(rules),
    }


@dataclass
class Seating:
    """The games in which A (`swapped` is 0) or B (1) is player 0; `start(swapped)` begins them."""

    swapped: int
    num_games: int
    start: Callable[[int], Iterator[Finished]]
    results: Collector
    num_done: int = 0


def _play_all(seatings: list[Seating], batch_size: int, keep: Callable[[int, Finished], None], *, quiet: bool) -> Played:
    num_games = sum(s.num_games for s in seatings)
    num_steps = 0
    with output.progress(quiet=quiet) as progress:
        task = progress.add_task("compiling", total=None, done="")
        compile_began = time.perf_counter()
        for seating in seatings:
            next(seating.start(seating.swapped))
        began = time.perf_counter()
        progress.reset(task, description="playing", total=num_games)
        running = {seating.swapped: seating.start(seating.swapped) for seating in seatings}
        # After Ctrl-C what has been played still counts. While compiling there is nothing to save, and it ends the command.
        with contextlib.suppress(KeyboardInterrupt):
            # The seatings take turns, so that stopping leaves about as many games of each.
            while behind := [s for s in seatings if s.num_done < s.num_games]:
                seating = min(behind, key=lambda s: s.num_done)
                finished = next(running[seating.swapped])
                seating.results.add(finished)
                keep(seating.swapped, finished)
                seating.num_done += len(finished.index)
                num_steps += int(finished.games.num_steps.sum(dtype="int64"))
                num_done = sum(s.num_done for s in seatings)
                progress.update(task, completed=num_done, done=f"{num_done:,} of {num_games:,}")
        seconds = time.perf_counter() - began
    complete = all(s.num_done == s.num_games for s in seatings)
    games = [seating.results.prefix() for seating in seatings]
    if not complete:
        # As many games of each seating, so that the shares in total stay balanced.
        games = [g[: min(map(len, games))] for g in games]
    tallies = {seating.swapped: Tally.of(g) for seating, g in zip(seatings, games, strict=True)}
    return Played(
        tallies=(tallies.get(0), tallies.get(1)),
        complete=complete,
        num_games=sum(map(len, games)),
        batch_size=batch_size,
        compile_seconds=began - compile_began,
        seconds=seconds,
        num_finished=sum(s.num_done for s in seatings),
        num_steps=num_steps,
    )

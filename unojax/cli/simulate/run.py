"""Games of two policies: play them, and report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any

import jax
import numpy as np

from unojax.cli import output, targets
from unojax.cli.options import get_policies
from unojax.cli.simulate import tables
from unojax.cli.simulate.command import Simulate
from unojax.cli.simulate.tables import Played
from unojax.device.process import EXIT_INTERRUPTED, noted_interrupts
from unojax.files.columns import Columns
from unojax.rules import Rules
from unojax.simulation import Counting, Finished, LongGameError, Stream, default_batch_size
from unojax.simulation.tally import Tally


def run(request: Simulate, rules: Rules) -> int:
    targets.check_json_target(request.json)
    about = output.machine()
    if request.out is None:
        played = _play(request, rules, None)
    else:
        with output.writing("--out", request.out) as rows:
            played = _play(request, rules, lambda swapped, finished: rows.add(_rows(request, swapped, finished)))
    if not played.complete:
        stopped = f"stopped after {played.seconds:.1f} s; the results are those of the games begun by then"
        output.note("simulate", stopped)
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
    columns = {column.name: getattr(games, column.name) for column in fields(games)}
    # As wide as the longer name, in all parts.
    texts = np.array(names)
    seated = {f"player_{seat}": np.full(len(games), texts[seat ^ swapped], texts.dtype) for seat in (0, 1)}
    return (
        {"game": finished.index, "swapped": np.full(len(games), bool(swapped))}
        | seated
        | columns
        | {"stalemate": games.stalemate}
    )


def _play(request: Simulate, rules: Rules, keep: Callable[[int, Finished], None] | None) -> Played:
    """Play the games; count them on the device, or `keep` the rows of those that finish, with their seating."""
    pair = get_policies(request.policies)
    key = jax.random.key(request.seed, impl="threefry2x32")
    num_second = request.games // 2 if request.seats == "balanced" else 0
    num_each = (request.games - num_second, num_second)
    batch_size = default_batch_size(num_each[0]) if request.batch_size is None else request.batch_size

    def start(swapped: int, by_rows: bool) -> Seating:
        seated = (pair[1], pair[0]) if swapped else pair
        seat_key = jax.random.fold_in(key, 1) if swapped else key
        play = Stream if by_rows else Counting
        return Seating(swapped, play(seat_key, num_each[swapped], seated, rules=rules, batch_size=batch_size), keep)

    def play_all(by_rows: bool) -> Played:
        starts = [partial(start, swapped, by_rows) for swapped, number in enumerate(num_each) if number]
        return _play_all(starts, batch_size, quiet=request.quiet)

    if keep is not None:
        return play_all(by_rows=True)
    try:
        return play_all(by_rows=False)
    except LongGameError:
        return play_all(by_rows=True)


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
    """The games in which A (`swapped` is 0) or B (1) is player 0, as they are played; `keep` gets the rows, if there are any."""

    swapped: int
    games: Stream | Counting
    keep: Callable[[int, Finished], None] | None
    tally: Tally = field(default_factory=Tally)

    def advance(self) -> None:
        """Play on for some milliseconds."""
        more = next(self.games)
        if isinstance(more, Finished):
            if self.keep is not None:
                self.keep(self.swapped, more)
            more = Tally.of(more.games)
        self.tally += more


def _play_all(starts: list[Callable[[], Seating]], batch_size: int, *, quiet: bool) -> Played:
    with output.progress(quiet=quiet) as progress:
        task = progress.add_task("compiling", total=None, done="")
        compile_began = time.perf_counter()
        for start in starts:
            next(start().games)
        began = time.perf_counter()
        seatings = [start() for start in starts]
        num_games = sum(s.games.num_games for s in seatings)
        progress.reset(task, description="playing", total=num_games)

        # Ctrl-C while compiling ends the command: there is nothing to save.
        with noted_interrupts() as interrupted:
            # The seatings take turns, so that stopping leaves about as many games of each.
            while behind := [s for s in seatings if s.tally.games < s.games.num_games]:
                min(behind, key=lambda s: s.tally.games).advance()
                num_done = sum(s.tally.games for s in seatings)
                progress.update(task, completed=num_done, done=f"{num_done:,} of {num_games:,}")
                if interrupted.is_set():
                    # Games that are begun are finished: without them, short games would be favoured. As many of each seating,
                    # so that the shares in total stay balanced.
                    most = max(s.games.num_begun for s in seatings)
                    for seating in seatings:
                        seating.games.end_at(min(most, seating.games.num_games))
                    progress.update(task, description="finishing")
        seconds = time.perf_counter() - began
    tallies = {seating.swapped: seating.tally for seating in seatings}
    total = sum(tallies.values(), Tally())
    return Played(
        tallies=(tallies.get(0), tallies.get(1)),
        complete=total.games == num_games,
        batch_size=batch_size,
        compile_seconds=began - compile_began,
        seconds=seconds,
    )

"""`unojax simulate`: who wins how often, over many games of two policies."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from unojax.cli.options import (
    POLICY_NAMES,
    Count,
    CountOrNone,
    Flag,
    JsonTarget,
    RuleOptions,
    Seed,
    check_policy_names,
    get_policies,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from unojax.cli.simulate.summary import Tally
    from unojax.rules import Rules
    from unojax.simulation import Collector, Finished


@dataclass(frozen=True)
class Simulate:
    """Play many games of two policies: who wins how often, how long they take."""

    games: Annotated[
        Count,
        tyro.conf.arg(
            help="How many games, every one of them played to its end. 1e6 is 1000000. Ctrl-C stops and shows what is complete."
        ),
    ] = 100_000
    policies: Annotated[tuple[str, str], tyro.conf.arg(metavar="A B", help=f"Two of: {', '.join(POLICY_NAMES)}.")] = (
        "scarcest-color",
        "uniform",
    )
    seats: Annotated[
        Literal["balanced", "as-given"],
        tyro.conf.arg(
            help="balanced: A is player 0 in half of the games and B in the other half, with random numbers of its own. "
            "as-given: A is player 0 in all games, which are those of unojax.simulate(jax.random.key(SEED), N, (A, B))."
        ),
    ] = "balanced"
    seed: Annotated[Seed, tyro.conf.arg(help="The same seed gives the same games, whatever the batch size and the device.")] = 0
    batch_size: Annotated[CountOrNone, tyro.conf.arg(help="Games in progress at a time. none: what suits the device.")] = None
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No progress bar.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def run(self) -> int:
        """Play and report; the exit status is 130 after Ctrl-C."""
        check_policy_names(self.policies)
        # Everything slow comes after the names have been looked at: the next line imports JAX.
        rules = self.rules.build()
        from unojax.cli import EXIT_INTERRUPTED, output

        output.check_json_target(self.json)
        about = output.machine()
        played = self._play(rules)
        if not played.complete:
            stopped = f"stopped after {played.seconds:.1f} s; the results are those of the games before the first unfinished one"
            output.error_console().print(f"unojax simulate: {stopped}", soft_wrap=True)
        if not played.num_games:
            output.error_console().print("unojax simulate: no game was complete", soft_wrap=True)
            return EXIT_INTERRUPTED
        results = _results(played, self.policies, rules)
        if self.json != output.STDOUT:
            facts = _facts(self, played, results, rules) | output.machine_facts(about)
            output.show(_win_table(played, self.policies, rules), "", output.facts(facts))
        if self.json is not None:
            output.write_json(self.json, self._request(played, rules) | {"results": results} | about)
        return 0 if played.complete else EXIT_INTERRUPTED

    def _play(self, rules: Rules) -> Played:
        import jax

        from unojax.simulation import Collector, default_batch_size, stream

        pair = get_policies(self.policies)
        key = jax.random.key(self.seed, impl="threefry2x32")
        num_second = self.games // 2 if self.seats == "balanced" else 0
        num_each = (self.games - num_second, num_second)
        batch_size = default_batch_size(num_each[0]) if self.batch_size is None else self.batch_size

        def start(swapped: int) -> Iterator[Finished]:
            seated = (pair[1], pair[0]) if swapped else pair
            seat_key = jax.random.fold_in(key, 1) if swapped else key
            return stream(seat_key, num_each[swapped], seated, rules=rules, batch_size=batch_size)

        seatings = [Seating(swapped, n, start, Collector(n)) for swapped, n in enumerate(num_each) if n]
        return _play_all(seatings, batch_size, quiet=self.quiet)

    def _request(self, played: Played, rules: Rules) -> dict[str, Any]:
        from unojax.cli import output

        return {
            "command": "simulate",
            "complete": played.complete,
            "games": played.num_games,
            "games_asked": self.games,
            "policies": self.policies,
            "seats": self.seats,
            "seed": self.seed,
            "batch_size": played.batch_size,
            "rules": output.rules_json(rules),
        }


@dataclass
class Seating:
    """The games in which one and the same policy is player 0.

    Attributes:
        swapped: 0 if that is policy A, 1 if it is B.
        num_games: how many there are.
        start: begins them, given `swapped`.
        results: what has been finished.
        num_done: games finished so far.
    """

    swapped: int
    num_games: int
    start: Callable[[int], Iterator[Finished]]
    results: Collector
    num_done: int = 0


@dataclass(frozen=True)
class Played:
    """What came out.

    Attributes:
        tallies: sums over the games with A, and with B, as player 0; None where there are none.
        complete: all games asked for were played.
        num_games: games in the tallies.
        batch_size: games in progress at a time, in each seating.
        compile_seconds: until the programs were compiled and had run once.
        seconds: what the games took after that.
        num_finished: games finished in that time, counted or not, and `num_steps` their steps.
    """

    tallies: tuple[Tally | None, Tally | None]
    complete: bool
    num_games: int
    batch_size: int
    compile_seconds: float
    seconds: float
    num_finished: int
    num_steps: int

    @property
    def total(self) -> Tally:
        """Both seatings."""
        from unojax.cli.simulate.summary import Tally

        return sum((t for t in self.tallies if t), Tally())


def _play_all(seatings: list[Seating], batch_size: int, *, quiet: bool) -> Played:
    from unojax.cli import output
    from unojax.cli.simulate.summary import Tally

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
    tallies: list[Tally | None] = [None, None]
    for seating, g in zip(seatings, games, strict=True):
        tallies[seating.swapped] = Tally.of(g)
    return Played(
        tallies=(tallies[0], tallies[1]),
        complete=complete,
        num_games=sum(map(len, games)),
        batch_size=batch_size,
        compile_seconds=began - compile_began,
        seconds=seconds,
        num_finished=sum(s.num_done for s in seatings),
        num_steps=num_steps,
    )


def _rates(played: Played, policy: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """(wins, games) of a policy (0 for A, 1 for B) as player 0 and as player 1."""
    seats = []
    for player in (0, 1):
        tally = played.tallies[policy ^ player]
        seats.append(None if tally is None else (tally.wins[player], tally.games))
    return seats[0], seats[1]


def _results(played: Played, names: tuple[str, str], rules: Rules) -> dict[str, Any]:
    from unojax.cli.simulate.summary import QUANTILES, Rate

    total = played.total

    def as_json(*parts: tuple[int, int] | None) -> dict[str, float] | None:
        known = [part for part in parts if part is not None]
        return Rate(sum(wins for wins, _ in known), sum(games for _, games in known)).to_json() if known else None

    wins = []
    for policy, name in enumerate(names):
        seats = _rates(played, policy)
        wins.append(
            {"policy": name, "as_player_0": as_json(seats[0]), "as_player_1": as_json(seats[1]), "total": as_json(*seats)}
        )
    # Every step that does not end the game costs the penalty; the last step of a truncated game does not end it.
    penalty = rules.step_penalty * (total.steps - (total.games - total.truncated)) / total.games
    advantage = [
        (row["total"]["wins"] - other["total"]["wins"]) / total.games for row, other in zip(wins, wins[::-1], strict=True)
    ]
    return {
        "wins": wins,
        "wins_of_player": [Rate(n, total.games).to_json() for n in total.wins],
        "mean_return": [a - penalty for a in advantage],
        "stalemates": total.stalemates,
        "drawn": total.drawn,
        "truncated": total.truncated,
        "reshuffles_per_game": total.reshuffles / total.games,
        "steps_per_game": {
            "mean": total.steps / total.games,
            "quantiles": {str(q): total.length_quantile(q) for q in QUANTILES},
            "max": total.longest,
        },
        "choice_share": total.choices / total.steps,
        "compile_seconds": played.compile_seconds,
        "seconds": played.seconds,
        "games_per_second": played.num_finished / played.seconds,
        "steps_per_second": played.num_steps / played.seconds,
    }


def _win_table(played: Played, names: tuple[str, str], rules: Rules) -> Table:
    from unojax.cli import output
    from unojax.cli.simulate.summary import Rate

    total = played.total
    zero_first = rules.first_player == "zero"
    table = output.grid(title=f"Games won, % (95 % interval), of {output.count(total.games, 'game')}")
    table.add_column("")
    for heading in ("moving first" if zero_first else "as player 0", "moving second" if zero_first else "as player 1", "in all"):
        table.add_column(heading, justify="right", no_wrap=True)

    def cell(*parts: tuple[int, int] | None) -> str:
        known = [part for part in parts if part is not None]
        return Rate(sum(wins for wins, _ in known), sum(games for _, games in known)).text() if known else "-"

    for policy, name in enumerate(names):
        # Two policies of one name need another.
        label = f"{name} {'AB'[policy]}" if names[0] == names[1] else name
        seats = _rates(played, policy)
        table.add_row(label, *(cell(seat) for seat in seats), cell(*seats))
    if None not in played.tallies:
        table.add_row("either", *(cell((n, total.games)) for n in total.wins), "")
    return table


def _facts(request: Simulate, played: Played, results: dict[str, Any], rules: Rules) -> dict[str, str]:
    from unojax.cli import output

    total, steps = played.total, results["steps_per_game"]
    quantiles = ", ".join(f"{100 * float(q):g} %: {n}" for q, n in steps["quantiles"].items())
    facts = {
        "Stalemates": f"{total.stalemates:,} ({total.stalemates / total.games:.2%}), {total.drawn:,} of them drawn".replace(
            "%", " %"
        ),
        "Truncated": f"{total.truncated:,} ({total.truncated / total.games:.2%})".replace("%", " %"),
        "Steps per game": f"mean {steps['mean']:.1f}; {quantiles}, longest {steps['max']}",
        "With a choice": f"{100 * results['choice_share']:.1f} % of the steps",
        "Reshuffles": f"{results['reshuffles_per_game']:.3f} per game",
    }
    if rules.step_penalty:
        facts["Mean return"] = ", ".join(
            f"{name} {value:+.4f}" for name, value in zip(request.policies, results["mean_return"], strict=True)
        )
    seats = (
        "each policy moves first in half of them" if rules.first_player == "zero" else "each policy is player 0 in half of them"
    )
    asked = "" if played.complete else f" of {request.games:,}"
    return facts | {
        "Rules": output.rules_text(rules),
        "Games": f"{played.num_games:,}{asked}, seed {request.seed}" + (f"; {seats}" if request.seats == "balanced" else ""),
        "Speed": (
            f"{results['steps_per_second'] / 1e6:.2f} million steps/s of complete games, "
            f"{results['games_per_second']:,.0f} games/s; {played.batch_size:,} games at a time"
        ),
        "Time": f"{played.seconds:.2f} s, after {played.compile_seconds:.2f} s to compile and run once",
    }

"""Win rates of two policies over many simulated games with balanced seats: `win_rates`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import partial
from threading import Event
from typing import Final, Literal

import jax
import numpy as np

from unojax.arena.ratings import wilson_interval
from unojax.device.process import noted_interrupts
from unojax.device.shares import ALL, check_share
from unojax.policies import Policy
from unojax.rules import Rules, as_rules
from unojax.simulation import Counting, Finished, LongGameError, Options, Stream, default_batch_size
from unojax.simulation.tally import Tally
from unojax.specs import load_policies

QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles of the steps per game."""

Tallies = tuple[Tally | None, Tally | None]
"""Sums over the games in which A, and in which B, is player 0; None without such games."""
Rows = dict[str, np.ndarray]
"""Finished games as columns of equal length, one row per game."""


@dataclass(frozen=True)
class Rate:
    """A share of games with its 95% Wilson interval.

    Attributes:
        wins: Games won.
        games: Number of games.
        rate: `wins` divided by `games`.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    wins: int
    games: int
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, wins: int, games: int) -> Rate:
        """Return the share of games won."""
        return cls(wins, games, wins / games, *wilson_interval(wins, games))


@dataclass(frozen=True)
class PolicyWins:
    """Games won by a policy.

    Attributes:
        policy: Name of the policy.
        as_player_0: Share of games won as player 0; None if it never was player 0.
        as_player_1: Share of games won as player 1; None if it never was player 1.
        total: Share of all games won.
    """

    policy: str
    as_player_0: Rate | None
    as_player_1: Rate | None
    total: Rate


@dataclass(frozen=True)
class GameLengths:
    """Numbers of actions of both players in a game.

    Attributes:
        mean: Mean number of actions.
        quantiles: Smallest number of actions that this share of the games does not exceed, for 0.05, 0.25, 0.5, 0.75 and 0.95.
        max: Actions of the longest game.
    """

    mean: float
    quantiles: dict[str, int]
    max: int


@dataclass(frozen=True)
class GameStatistics:
    """Figures of many games of two policies, A and B.

    Attributes:
        wins: Results of A and of B.
        wins_of_player: Shares of games won by player 0 and by player 1, across policies.
        mean_return: Mean return of A and of B: wins minus losses per game, minus the step penalties of a game; None under rules
            with points, because points are not stored.
        stalemates: Games that ended because cards ran out.
        drawn: Stalemates with equal hands.
        truncated: Games cut off by `--max-steps`.
        reshuffles_per_game: Mean number of reshuffles of the pile into the deck.
        steps_per_game: Actions of a game.
        choice_share: Share of the actions with an alternative: more than one legal action.
        compile_seconds: Time to compile and run once, s.
        seconds: Playing time after compilation, s.
        games_per_second: Complete games in that time, 1/s.
        steps_per_second: Actions of complete games in that time, 1/s.
    """

    wins: tuple[PolicyWins, PolicyWins]
    wins_of_player: tuple[Rate, Rate]
    mean_return: tuple[float, float] | None
    stalemates: int
    drawn: int
    truncated: int
    reshuffles_per_game: float
    steps_per_game: GameLengths
    choice_share: float
    compile_seconds: float
    seconds: float
    games_per_second: float
    steps_per_second: float


@dataclass(frozen=True)
class SimulationReport:
    """Results of `unojax simulate`.

    Attributes:
        complete: False after Ctrl-C; the results then cover the games begun before it.
        games: Number of games played.
        games_asked: Number of games requested.
        policies: Names of A and B.
        seats: `balanced`: each policy is player 0 in half of the games; `as-given`: A is player 0 in all of them.
        seed: Random seed of the games.
        batch_size: Number of parallel games.
        results: Figures of the games.
    """

    complete: bool
    games: int
    games_asked: int
    policies: tuple[str, str]
    seats: Literal["balanced", "as-given"]
    seed: int
    batch_size: int
    results: GameStatistics


@dataclass(frozen=True)
class WinRates:
    """Results of two policies, A and B.

    Attributes:
        policies: Names of A and B.
        rules: Rules of the games.
        tallies: Sums over the games.
        complete: Whether all requested games of the share were played.
        batch_size: Games in progress at a time.
        compile_seconds, seconds: Compile time and playing time.
    """

    policies: tuple[str, str]
    rules: Rules
    tallies: Tallies
    complete: bool
    batch_size: int
    compile_seconds: float
    seconds: float

    @property
    def total(self) -> Tally:
        """Return the sums over all games."""
        return sum((tally for tally in self.tallies if tally), Tally())

    @property
    def wins(self) -> tuple[PolicyWins, PolicyWins]:
        """Return the games won by A and by B."""
        return self._wins(0), self._wins(1)

    @property
    def wins_of_player(self) -> tuple[Rate, Rate]:
        """Return the games won by player 0 and by player 1, whichever policy plays."""
        first, second = self.total.wins
        return Rate.of(first, self.total.games), Rate.of(second, self.total.games)

    @property
    def statistics(self) -> GameStatistics:
        """Return the figures of the games; there must be some."""
        total, wins = self.total, self.wins
        returns = None
        if not self.rules.points:
            # Every step that does not end the game costs the penalty, including the last step of a truncated game.
            penalty = self.rules.step_penalty * (total.steps - (total.games - total.truncated)) / total.games
            lead = (wins[0].total.wins - wins[1].total.wins) / total.games
            returns = lead - penalty, -lead - penalty
        quantiles = {str(share): total.length_quantile(share) for share in QUANTILES}
        return GameStatistics(
            wins=wins,
            wins_of_player=self.wins_of_player,
            mean_return=returns,
            stalemates=total.stalemates,
            drawn=total.drawn,
            truncated=total.truncated,
            reshuffles_per_game=total.reshuffles / total.games,
            steps_per_game=GameLengths(total.steps / total.games, quantiles, total.longest),
            choice_share=total.choices / max(total.steps, 1),
            compile_seconds=self.compile_seconds,
            seconds=self.seconds,
            games_per_second=total.games / self.seconds,
            steps_per_second=total.steps / self.seconds,
        )

    def _wins(self, policy: int) -> PolicyWins:
        seats = [(self.tallies[policy ^ player], player) for player in (0, 1)]
        first, second = (None if tally is None else Rate.of(tally.wins[player], tally.games) for tally, player in seats)
        won = sum(tally.wins[player] for tally, player in seats if tally is not None)
        return PolicyWins(self.policies[policy], first, second, Rate.of(won, self.total.games))

    def join(self, shares: Sequence[tuple[Tallies, bool]]) -> WinRates:
        """Combine `tallies` and `complete` of several shares."""
        totals = (sum(filter(None, of_seating), Tally()) for of_seating in zip(*(tallies for tallies, _ in shares), strict=True))
        first, second = (total if total.games else None for total in totals)
        return replace(self, tallies=(first, second), complete=all(complete for _, complete in shares))


def win_rates(
    policies: tuple[str | Policy, str | Policy] = ("scarcest-color", "uniform"),
    games: int = 100_000,
    *,
    rules: Rules | str = Rules(),
    seed: int = 0,
    balanced: bool = True,
    batch_size: int | None = None,
    share: tuple[int, int] = ALL,
    finish_on_interrupt: bool = False,
    on_progress: Callable[[int, int], None] = lambda finished, asked: None,
    on_rows: Callable[[Rows], None] | None = None,
) -> WinRates:
    """Play many games of two policies, A and B, and count the wins by seat.

    Args:
        policies: Names, specs such as `my.py:name`, or policies.
        games: Number of games, each played to its end.
        rules: Rules of the games, or the name of a preset.
        seed: Random seed. Games depend on it, not on batch size or device.
        balanced: If True, A is player 0 in half of the games and B in the other half, with separate random numbers. If False, A
            is player 0 in all games, those of `unojax.simulate(jax.random.key(seed), games, (A, B))`.
        batch_size: Games in progress at a time. None: chosen for the device.
        share: (part, parts). Play only the games with number % parts == part, of each seating.
        finish_on_interrupt: If True, the first Ctrl-C during play finishes the games in progress and returns the results; a
            second one raises KeyboardInterrupt. If False, the first one raises.
        on_progress: Called with the numbers of finished and requested games.
        on_rows: Called with finished games as rows: seats, winner, steps and the other fields of `Games`.

    Raises:
        ValueError: If an argument is out of range.
    """
    rules = as_rules(rules)
    pair, names = load_policies(policies)
    key = jax.random.key(seed, impl="threefry2x32")
    num_second = games // 2 if balanced else 0
    num_each = (games - num_second, num_second)
    share = check_share(share, num_second or games)
    batch_size = default_batch_size(share.size(num_each[0])) if batch_size is None else batch_size

    def keep(swapped: int, finished: Finished) -> None:
        if on_rows is not None:
            on_rows(_rows(names, swapped, finished))

    def start(swapped: int, by_rows: bool) -> _Seating:
        seated = (pair[1], pair[0]) if swapped else pair
        seat_key = jax.random.fold_in(key, 1) if swapped else key
        play = Stream if by_rows else Counting
        options: Options = {"rules": rules, "batch_size": batch_size, "share": share}
        return _Seating(swapped, play(seat_key, num_each[swapped], seated, **options), keep)

    def play(by_rows: bool) -> WinRates:
        starts = [partial(start, swapped, by_rows) for swapped, number in enumerate(num_each) if number]
        compile_began = time.perf_counter()
        for begin in starts:
            next(begin().games)
        began = time.perf_counter()
        seatings = [begin() for begin in starts]
        asked = sum(seating.games.num_left for seating in seatings)
        with noted_interrupts() if finish_on_interrupt else nullcontext(Event()) as stop:
            _play_in_turns(seatings, asked, stop, on_progress)
        seconds = time.perf_counter() - began
        tallies = {seating.swapped: seating.tally for seating in seatings}
        complete = sum(tally.games for tally in tallies.values()) == asked
        both = tallies.get(0), tallies.get(1)
        return WinRates(names, rules, both, complete, batch_size, began - compile_began, seconds)

    if on_rows is not None:
        return play(by_rows=True)
    try:
        return play(by_rows=False)
    except LongGameError:
        return play(by_rows=True)


@dataclass
class _Seating:
    """Games in which A (`swapped` is 0) or B (1) is player 0; `keep` receives the rows, if set."""

    swapped: int
    games: Stream | Counting
    keep: Callable[[int, Finished], None]
    tally: Tally = field(default_factory=Tally)

    def advance(self) -> None:
        """Play for the given milliseconds."""
        more = next(self.games)
        if isinstance(more, Finished):
            self.keep(self.swapped, more)
            more = Tally.of(more.games)
        self.tally += more


def _play_in_turns(seatings: list[_Seating], asked: int, stop: Event, on_progress: Callable[[int, int], None]) -> None:
    """Play all games. The seatings take turns, so that an interrupted run has about as many games of each."""
    on_progress(0, asked)
    while behind := [s for s in seatings if s.games.num_left]:
        min(behind, key=lambda s: s.tally.games).advance()
        on_progress(sum(s.tally.games for s in seatings), asked)
        if stop.is_set():
            # Games in progress are finished, because dropping them would favour short games. Both seatings finish equally many,
            # so that the seats stay balanced in total.
            most = max(s.games.num_begun for s in seatings)
            for seating in seatings:
                seating.games.end_at(min(most, seating.games.num_games))


def _rows(names: tuple[str, str], swapped: int, finished: Finished) -> Rows:
    """Return finished games as rows; a game is identified by its seating and its number there."""
    games = finished.games
    columns = {column.name: getattr(games, column.name) for column in fields(games)}
    # As wide as the longer name, in all parts.
    texts = np.array(names)
    seated = {f"player_{seat}": np.full(len(games), texts[seat ^ swapped], texts.dtype) for seat in (0, 1)}
    about = {"game": finished.index, "swapped": np.full(len(games), bool(swapped))}
    return about | seated | columns | {"stalemate": games.stalemate}

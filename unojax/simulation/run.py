"""Runs of many games: `simulate`, `count_games` and `Stream`, the host's side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from unojax import game, table
from unojax.decks import is_int
from unojax.device.lanes import NO_WALK
from unojax.device.mesh import local_mesh, size_of
from unojax.device.platform import platform
from unojax.device.random_bits import check_key, key_words
from unojax.device.shares import ALL, check_share
from unojax.device.static import Argument
from unojax.policies import Policy, as_policies, distinct, name_of, uniform
from unojax.rules import Rules, as_rules, check_max_steps
from unojax.simulation.games import Finished, Games
from unojax.simulation.harvest import (
    HAND_0,
    HAND_1,
    LONGEST,
    MOST_COUNTED,
    PHASE,
    FinishedFirst,
    Gather,
    Kept,
    Limits,
    Results,
    advance_slots,
    in_order,
    make_kept,
    start_run,
)
from unojax.simulation.tally import Tally

MAX_GAMES: Final = 2**31
"""Largest number of games of one key."""
_MUST: Final = (
    "a policy must return an action whose legal_mask is True, and a preference narrow the legal options down and leave some"
)
MOST_LANES: Final = {"cpu": 2**14, "gpu": 2**20}
"""Largest number of games in progress at a time."""
_FULL: Final = {"cpu": 1, "gpu": 2**18}
"""Number of lanes below which a call is no faster: on a GPU launches take as long as the work, on an H200 2.7 ms a call."""
_GAMES_PER_LANE: Final = 8
"""Games for each lane. The last games are ten times as long as others: with this ratio, most lanes idle for half of a run."""

Policies = tuple[str | Policy, str | Policy]


class Options(TypedDict, total=False):
    """Options of a run of games.

    Attributes:
        rules: Static, or the name of a preset.
        batch_size: Games in progress at a time; None: the device's default.
        max_steps: Limit of steps, instead of `rules.max_steps`, after which games are truncated.
        share: (part, parts): play only the games whose number is `part` modulo `parts`, so that several processes can divide a
            run.
    """

    rules: Rules | str
    batch_size: int | None
    max_steps: int | None
    share: tuple[int, int]


def simulate(
    key: Array,
    num_games: int,
    policies: Policies = (uniform, uniform),
    *,
    on_device: bool = False,
    **options: Unpack[Options],
) -> Games:
    """Play exactly `num_games` complete games; player p follows `policies[p]`.

    Every game that begins also ends and counts, so short games are not favoured.

    Args:
        key: A threefry2x32 key (the default kind); game i uses the random stream (key, i).
        num_games: Number of games, 1 .. 2^31.
        policies: Two policies, or names of `unojax.POLICIES`. A `PackedPolicy` runs packed; any other is called through the
            protocol, with one-hot observations.
        on_device: Leave the results on the device, as `jax.Array`.
        options: See `unojax.simulation.Options`.

    Raises:
        ValueError: If an argument is out of range, one of `policies` is no policy, or a policy chose an illegal action.
    """
    run = _Keeping(key, num_games, policies, **options)
    for _ in run:
        pass
    return run.games(on_device)


def count_games(key: Array, num_games: int, policies: Policies = (uniform, uniform), **options: Unpack[Options]) -> Tally:
    """Play the games of `simulate`, with its arguments, and return only sums over them, computed on the device.

    Raises:
        ValueError: As `simulate`, and if more than 2^23 games are in progress at a time.
        LongGameError: If a game took 16,384 steps or more.
    """
    return sum(Counting(key, num_games, policies, **options), Tally())


class LongGameError(ValueError):
    """A game exceeded the lengths that the device can count."""


class _Run:
    """A run of games: repeated calls of the program that advances the slots. Arguments and errors are those of `simulate`.

    On a GPU the next call begins before the results of the last one are returned, so that host and device work in parallel.
    """

    _gather: Gather

    def __init__(self, key: Array, num_games: int, policies: Policies = (uniform, uniform), **options: Unpack[Options]):
        check_key(key, "simulate")
        if not (is_int(num_games) and 1 <= num_games <= MAX_GAMES):
            raise ValueError(f"num_games must be an integer in [1, {MAX_GAMES}], got {num_games!r}")
        unknown = set(options) - set(Options.__annotations__)
        if unknown:
            raise TypeError(f"options are {', '.join(Options.__annotations__)}, got {', '.join(sorted(unknown))}")
        rules, max_steps = as_rules(options.get("rules", Rules())), options.get("max_steps")
        check_max_steps(max_steps)
        max_steps = rules.max_steps if max_steps is None else max_steps
        self.num_games, self._policies, self._num_done = int(num_games), as_policies(policies), 0
        self._share = check_share(options.get("share", ALL), self.num_games)
        mesh = _mesh_for(self.num_left)
        self._num_devices = size_of(mesh)
        batch_size = _checked_batch_size(options.get("batch_size"), self.num_left)
        if self._gather == "count" and batch_size > MOST_COUNTED:
            raise ValueError(f"batch_size must be at most {MOST_COUNTED} where games are counted, got {batch_size}")
        pair = Argument(distinct(self._policies))
        how = {"truncates": max_steps is not None, "gather": self._gather, "mesh": mesh}
        self._advance = partial(advance_slots, seed=key_words(key), policies=pair, on=platform(), **how)
        self._limits = Limits(*map(jnp.uint32, (num_games, max_steps or 0, *self._share)))
        self._slots, self._next_index = start_run(batch_size, self._limits, self._policies, rules, self._num_devices)
        self._kept = make_kept(self.num_left, self._num_devices) if self._gather == "keep" else None
        self._latest: Any = None
        self._ahead: Any = None

    @property
    def num_left(self) -> int:
        """Games of this share that have not ended."""
        return self._share.size(self.num_games) - self._num_done

    @property
    def num_begun(self) -> int:
        """Number of the last started game, plus one."""
        # Device d of D has begun the games d, d + D, ... of the share so far.
        last = (np.asarray(self._next_index).astype(np.int64) - 1) * self._num_devices + np.arange(self._num_devices)
        return min(int(last.max()) * self._share.parts + self._share.part + 1, self.num_games)

    def end_at(self, num_games: int) -> None:
        """Limit the run to the first `num_games` games, at least as many as have begun."""
        self.num_games = num_games
        self._limits = self._limits._replace(num_games=jnp.uint32(num_games))

    def _next_results(self, shorten: Callable[[Any], Any] = lambda results: results) -> Any:
        """Return the results of the next call, shortened on the device; StopIteration if all games have ended."""
        if not self.num_left:
            raise StopIteration
        # Keep the buffers until the next call has its own: reallocating freed memory page by page on a CPU costs 5 % of the time.
        self._latest = self._call() if self._ahead is None else self._ahead
        # Fetch before the next call starts; otherwise the fetch would wait for it.
        results = shorten(self._latest)
        self._ahead = self._call() if platform() == "gpu" else None
        return results

    def _call(self) -> Any:
        self._slots, self._next_index, results, self._kept = self._advance(
            self._slots, self._next_index, limits=self._limits, kept=self._kept
        )
        return results

    def _illegal(self, number: int, what: str) -> ValueError:
        names = " and ".join(dict.fromkeys(map(name_of, self._policies)))
        return ValueError(f"a policy of {names} chose an illegal action in {what} ({number} such games so far); {_MUST}")


class Stream(_Run, Iterator[Finished]):
    """Iterator over the games of `simulate` as they finish, every few milliseconds; arguments and errors as there."""

    _gather = "hand out"

    def __next__(self) -> Finished:
        ended: Any = _to_host(self._next_results(_shorten))
        index = ended.game_index.astype(np.int64)
        if ended.illegal.any():
            raise self._illegal(int(np.count_nonzero(ended.illegal)), f"game {index[np.argmax(ended.illegal)]}")
        self._num_done += len(index)
        return Finished(index, _games(ended, np))


class Counting(_Run, Iterator[Tally]):
    """Counts of the games that end in each call, summed on the device; arguments and errors are those of `count_games`."""

    _gather = "count"

    def __next__(self) -> Tally:
        counts = jax.tree.map(lambda of_devices: of_devices.sum(0), jax.device_get(self._next_results()))
        if counts.illegal:
            raise self._illegal(counts.illegal, "a game")
        tally = _tally_of(counts)
        self._num_done += tally.games
        return tally


class _Keeping(_Run, Iterator[int]):
    """Numbers of the games that end in each call; their results stay on the device, in the order of the games."""

    _gather = "keep"

    def __next__(self) -> int:
        progress = jax.device_get(self._next_results())
        if progress.illegal.any():
            number = progress.first_illegal[np.argmax(progress.illegal > 0)]
            raise self._illegal(int(progress.illegal.sum()), f"game {number}")
        finished = int(progress.games.sum())
        self._num_done += finished
        return finished

    def games(self, on_device: bool) -> Games:
        """Return the results, once all games have ended."""
        assert self._kept is not None, "made at the start"
        games = _open_kept(self._kept, num_devices=self._num_devices)
        return (games if on_device else jax.device_get(games))[: self._num_done]


def _mesh_for(num_games: int) -> Mesh | None:
    """Return the devices that share a run; None: one device, which also plays runs of fewer games than devices."""
    mesh = local_mesh()
    return mesh if num_games >= size_of(mesh) else None


def default_batch_size(num_games: int) -> int:
    """Choose the number of games in progress at a time, on all devices together.

    On a CPU they fit in the second-level cache, on a GPU they fill the device, and most slots stay busy until the end. Each
    device has a power of two, so that runs of similar size share their compiled program.
    """
    on, num_devices = platform(), size_of(_mesh_for(num_games))
    of_device = -(-num_games // num_devices)
    slots = max(-(-of_device // _GAMES_PER_LANE), min(of_device, _FULL[on]))
    return num_devices * min(MOST_LANES[on], 1 << (slots - 1).bit_length())


def _checked_batch_size(batch_size: int | None, num_games: int) -> int:
    if batch_size is None:
        return default_batch_size(num_games)
    if not (is_int(batch_size) and batch_size >= 1):
        raise ValueError(f"batch_size must be None or an integer of at least 1, got {batch_size!r}")
    num_devices = size_of(_mesh_for(num_games))
    on_each, of_device = -(-batch_size // num_devices), -(-num_games // num_devices)
    # More slots than games would stand idle.
    return num_devices * min(on_each, 1 << (of_device - 1).bit_length())


def _shorten(results: Results | FinishedFirst) -> Results:
    """Drop the results after the finished games, if these come first; waits for them."""
    if isinstance(results, Results):
        return results
    # A few sizes need few programs; each number of games would need its own.
    number = np.atleast_1d(jax.device_get(results.number))
    on_each = len(results.results.game_index) // len(number)
    return _first(results.results, min(on_each, 1 << int(number.max()).bit_length()), len(number))


def _to_host(results: Results) -> Results:
    """Fetch the results of the games that finished, NumPy."""
    fetched = jax.device_get(results)
    at = np.flatnonzero(fetched.game_index != NO_WALK)
    return jax.tree.map(lambda field: field.ravel()[at], fetched)


@partial(jax.jit, static_argnames="num_devices")
def _open_kept(kept: Kept, *, num_devices: int) -> Games:
    """Make results, on the device, from the fields kept of each game."""
    kept = in_order(kept, num_devices)
    ending = {"phase": PHASE.get(kept.ending), "hand_0": HAND_0.get(kept.ending), "hand_1": HAND_1.get(kept.ending)}
    return _games(Results(kept.ending, *kept[:3], illegal=kept.ending, **ending), jnp)


def _games(ended: Any, numpy: Any) -> Games:
    """Make results of games that have ended, by NumPy or by `jax.numpy`."""
    phase = ended.phase
    other = numpy.where(phase == table.OVER_WON_BY_1, 1, game.NO_WINNER)
    return Games(
        winner=numpy.where(phase == table.OVER_WON_BY_0, 0, other).astype(np.int8),
        num_steps=ended.num_steps.astype(np.int32),
        num_choices=ended.num_choices.astype(np.int32),
        num_reshuffles=ended.num_reshuffles.astype(np.int32),
        hand_sizes=numpy.stack([ended.hand_0, ended.hand_1], axis=1).astype(np.int8),
        truncated=phase == table.PLAY,
    )


@partial(jax.jit, static_argnames=("number", "num_devices"))
def _first(results: Results, number: int, num_devices: int) -> Results:
    return jax.tree.map(lambda field: field.reshape(num_devices, -1)[:, :number], results)


def _tally_of(got: Any) -> Tally:
    if got.lengths[LONGEST]:
        raise LongGameError(
            f"{got.lengths[LONGEST]} games took {LONGEST} steps or more, which are too many to count by length; give max_steps "
            f"below {LONGEST}, or use simulate"
        )
    lengths = got.lengths[: int(np.flatnonzero(got.lengths).max(initial=0)) + 1].astype(np.int64)
    return Tally(
        games=int(got.games),
        wins=(int(got.wins_0), int(got.wins_1)),
        steps=int(lengths @ np.arange(len(lengths))),
        lengths=lengths,
        **{name: int(getattr(got, name)) for name in ("stalemates", "drawn", "truncated")},
        **{name: int(low) + (int(high) << 8) for name in ("choices", "reshuffles") for low, high in [getattr(got, name)]},
    )

"""Thousands of games at once: `simulate`.

Games are played in *lanes*. Each lane advances its game node by node (see `unojax.table`); when a game ends, its result is
handed out and the lane starts the next game, so no lane idles for longer than a block of a few nodes. The random word for node
t of game i is Threefry(key, (i, t)): a game depends on the key and its index alone, not on the lane, the batch size or the
other games. Memory on the device is that of the lanes and does not grow with the number of games or steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import game, table
from unojax.device import static
from unojax.device.lanes import NO_WALK
from unojax.device.platform import platform
from unojax.device.random_bits import key_words
from unojax.policies import Policy, as_policies, distinct, uniform
from unojax.rules import Rules, check_max_steps, is_int
from unojax.simulation.games import Collector, Finished, Games
from unojax.simulation.lanes import LONGEST, Counts, GameLanes, Limits, Results, advance_lanes, count_lanes, start_lanes
from unojax.simulation.tally import Tally

MAX_GAMES: Final = 2**31
"""Games that one key numbers."""
MOST_LANES: Final = {"cpu": 2**14, "gpu": 2**20}
"""Games in progress at a time, at most."""
_GAMES_PER_LANE: Final = {"cpu": 8, "gpu": 1}
_CALLS_AHEAD: Final = {"cpu": 0, "gpu": 1}

_Result = TypeVar("_Result")

Policies = tuple[str | Policy, str | Policy]


def simulate(
    key: Array,
    num_games: int,
    policies: Policies = (uniform, uniform),
    *,
    rules: Rules = Rules(),
    batch_size: int | None = None,
    max_steps: int | None = None,
) -> Games:
    """Play exactly `num_games` complete games; player p follows `policies[p]`.

    Every game that is begun is finished and counted, so short games are not favoured. For a given key the results do not depend
    on `batch_size`.

    Args:
        key: a threefry2x32 key (the default kind); game i uses the random stream (key, i).
        num_games: 1 .. 2^31.
        policies: two names of `unojax.POLICIES` or policies; a `PackedPolicy` runs packed, any other is called through the
            protocol, with one-hot observations.
        rules: static.
        batch_size: games in progress at a time; the device's default if None.
        max_steps: truncate games after that many steps, instead of `rules.max_steps`.

    Raises:
        ValueError: an argument is out of range, one of `policies` is none, or a policy chose an illegal action.
    """
    _check_num_games(num_games)
    results = Collector(num_games)
    for finished in stream(key, num_games, policies, rules=rules, batch_size=batch_size, max_steps=max_steps):
        results.add(finished)
    return results.prefix()


def stream(
    key: Array,
    num_games: int,
    policies: Policies = (uniform, uniform),
    *,
    rules: Rules = Rules(),
    batch_size: int | None = None,
    max_steps: int | None = None,
) -> Iterator[Finished]:
    """Play games like `simulate`, and hand out the finished ones every few milliseconds; arguments and errors as there."""
    _check_num_games(num_games)
    both = as_policies(policies)
    batch_size = _checked_batch_size(batch_size, num_games)
    check_max_steps(max_steps)
    max_steps = rules.max_steps if max_steps is None else max_steps
    num_done = 0
    for results in _calls(advance_lanes, key, num_games, both, rules, batch_size, max_steps):
        finished = _to_host(results, both)
        num_done += len(finished.index)
        yield finished
        if num_done == num_games:
            break


def count_games(
    key: Array,
    num_games: int,
    policies: Policies = (uniform, uniform),
    *,
    rules: Rules = Rules(),
    batch_size: int | None = None,
    max_steps: int | None = None,
) -> Tally:
    """Play the games that `simulate` plays, and give only their counts, which are added up on the device.

    Neither the host nor the device keeps anything for each game; arguments and errors are those of `simulate`.

    Raises:
        ValueError: a game took 16,384 steps or more.
    """
    _check_num_games(num_games)
    both = as_policies(policies)
    batch_size = _checked_batch_size(batch_size, num_games)
    check_max_steps(max_steps)
    max_steps = rules.max_steps if max_steps is None else max_steps
    tally = Tally()
    for counts in _calls(count_lanes, key, num_games, both, rules, batch_size, max_steps):
        tally += _tally_of(counts, both)
        if tally.games == num_games:
            break
    return tally


def _calls(
    program: Callable[..., tuple[GameLanes, Array, _Result]],
    key: Array,
    num_games: int,
    both: tuple[Policy, Policy],
    rules: Rules,
    batch_size: int,
    max_steps: int | None,
) -> Iterator[_Result]:
    """Call a program of lanes over and over, and hand out its results.

    On a GPU the next call has begun by then, so that the host looks at results while the device plays on.
    """
    numbers, skeleton = static.split(distinct(both))
    run = partial(program, policies=skeleton, rules=rules, truncates=max_steps is not None, on=platform())
    seed = key_words(key)
    limits = Limits(jnp.uint32(num_games), jnp.uint32(max_steps or 0))
    lanes, next_index = start_lanes(batch_size, limits, both, rules)
    waiting: deque[_Result] = deque()
    while True:
        lanes, next_index, results = run(lanes, next_index, seed, limits, numbers)
        waiting.append(results)
        if len(waiting) > _CALLS_AHEAD[platform()]:
            yield waiting.popleft()


def default_batch_size(num_games: int) -> int:
    """Choose how many games are in progress at a time in a run of so many.

    On CPU what stays in the second-level cache, and few enough that most lanes are busy until the end; on GPU what fills the
    device. A power of two, so that runs of similar size share their compiled program.
    """
    on = platform()
    lanes = -(-num_games // _GAMES_PER_LANE[on])
    return min(MOST_LANES[on], 1 << (lanes - 1).bit_length())


def _checked_batch_size(batch_size: int | None, num_games: int) -> int:
    if batch_size is None:
        return default_batch_size(num_games)
    if not (is_int(batch_size) and batch_size >= 1):
        raise ValueError(f"batch_size must be None or an integer of at least 1, got {batch_size!r}")
    return batch_size


def _check_num_games(num_games: int) -> None:
    if not (is_int(num_games) and 1 <= num_games <= MAX_GAMES):
        raise ValueError(f"num_games must be an integer in [1, {MAX_GAMES}], got {num_games!r}")


def _to_host(results: Results, policies: Policies) -> Finished:
    at = np.flatnonzero(np.asarray(results.game_index) != NO_WALK)
    ended: Any = jax.tree.map(lambda field: np.asarray(field).ravel()[at], results)
    index = ended.game_index.astype(np.int64)
    if ended.illegal.any():
        raise ValueError(
            f"a policy of {policies!r} chose an illegal action in game {index[np.argmax(ended.illegal)]} (one of "
            f"{np.count_nonzero(ended.illegal)} such games so far); a policy must return an action whose legal_mask is True"
        )
    winner = np.select([ended.phase == table.OVER_WON_BY_0, ended.phase == table.OVER_WON_BY_1], [0, 1], game.NO_WINNER)
    games = Games(
        winner=winner.astype(np.int8),
        num_steps=ended.num_steps.astype(np.int32),
        num_choices=ended.num_choices.astype(np.int32),
        num_reshuffles=ended.num_reshuffles.astype(np.int32),
        hand_sizes=np.stack([ended.hand_0, ended.hand_1], axis=1).astype(np.int8),
        truncated=ended.phase == table.PLAY,
    )
    return Finished(index, games)


def _tally_of(counts: Counts, policies: Policies) -> Tally:
    got = jax.device_get(counts)
    if got.illegal:
        raise ValueError(
            f"a policy of {policies!r} chose an illegal action in {got.illegal} games; a policy must return an action whose "
            f"legal_mask is True"
        )
    if got.lengths[LONGEST]:
        raise ValueError(
            f"{got.lengths[LONGEST]} games took {LONGEST} steps or more, which are too many to count by length; give max_steps "
            f"below {LONGEST}, or use simulate"
        )
    return Tally(
        games=int(got.games),
        wins=(int(got.wins_0), int(got.wins_1)),
        lengths=got.lengths[: int(np.flatnonzero(got.lengths).max(initial=0)) + 1].astype(np.int64),
        **{name: int(getattr(got, name)) for name in ("stalemates", "drawn", "truncated", "steps", "choices", "reshuffles")},
    )

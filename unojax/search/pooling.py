"""Replicates of a search: repeated searches of a decision with fresh samples, and pooled estimates."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax.device.platform import available_cores, platform
from unojax.device.programs import Program
from unojax.observation import Observation
from unojax.search.agents import Remembered, SearchAgent
from unojax.search.monte_carlo import Estimate, choose
from unojax.text import format_action


@dataclass(frozen=True)
class PlayRow:
    """Win probability of a legal play.

    Attributes:
        action: The play.
        win: Win probability of the play; a drawn game counts half.
        win_error: Standard error of `win`.
    """

    action: str
    win: float
    win_error: float


@dataclass(frozen=True)
class PooledPlay(PlayRow):
    """Undiscounted estimates of a legal play.

    Attributes:
        behind: Win probability of the best play minus this one. It is negative if a discount prefers a faster win.
        behind_error: Standard error of the difference, with common samples.
        gain: This win probability minus that of the rollout policy's play.
        gain_error: Standard error of the difference.
        rollouts: Number of rollouts of the play.
    """

    behind: float
    behind_error: float
    gain: float
    gain_error: float
    rollouts: int


class Pooled(NamedTuple):
    """Pooled replicates of a search, with actions as text.

    Attributes:
        plays: Legal plays, the best first.
        recommended: Play to choose.
        own: Play of the search's rollout policy.
        replicates: Number of replicates.
    """

    plays: tuple[PooledPlay, ...]
    recommended: str
    own: str
    replicates: int


def replicates(
    agent: SearchAgent,
    memories: Sequence[Remembered],
    observation: Observation,
    legal: np.ndarray,
    key: Array,
    number: int | None,
) -> Generator[Estimate]:
    """Search all legal plays of one decision repeatedly, with fresh samples, on all cores.

    Args:
        agent: Search agent.
        memories: One or more; replicate i takes memory `i % len(memories)`.
        observation: Observation of the player to move.
        legal: One or more choices, bool[`Rules.num_choices`].
        key: Consumed; replicate i uses `fold_in(key, i)`.
        number: Number of replicates; None: no end.

    Returns:
        The estimates in order, NumPy. Compilation is finished on return. To stop early, close the iterator.
    """
    decision = jax.device_put((observation, legal))
    # The threads do not inherit the platform that the search is tuned for.
    search = search_once.compile(key, memories[0], *decision, agent=agent)

    def one(index: int) -> Estimate:
        return jax.device_get(search(jax.random.fold_in(key, index), memories[index % len(memories)], *decision))

    return _side_by_side(one, count() if number is None else range(number))


def _side_by_side(one: Callable[[int], Estimate], indices: Iterable[int]) -> Generator[Estimate]:
    # A search leaves all cores but one of a CPU free.
    at_a_time = available_cores() if platform() == "cpu" else 1
    waiting = iter(indices)
    workers = ThreadPoolExecutor(at_a_time, "searching")
    try:
        running = deque(workers.submit(one, index) for index in islice(waiting, at_a_time))
        while running:
            yield running.popleft().result()
            running.extend(workers.submit(one, index) for index in islice(waiting, 1))
    finally:
        workers.shutdown(wait=False, cancel_futures=True)


def pool(estimates: Sequence[Estimate], legal: np.ndarray, keep: float, prior_rollouts: float = 0.0) -> Pooled:
    """Average two or more independent estimates (NumPy) of one decision over all their samples.

    A search prunes plays with poor estimates, so a mean of the replicates' means would be too low for them. The ratio of sums
    over replicates has only a bias of order 1 / replicates (Wald's identity). Standard errors are those of a ratio, from the
    differences between the replicates, in which all plays share samples.

    Args:
        estimates: Estimates of the replicates.
        legal: bool[`Rules.num_choices`].
        keep: As in `unojax.search.agents.monte_carlo`.
        prior_rollouts: Rollouts that a leaf's value counts as in each estimate (`SearchAgent.prior_rollouts`).
    """
    samples = np.stack([one.num_samples for one in estimates])
    counted = samples + prior_rollouts
    weights = counted / np.maximum(counted.mean(0), 1)

    def average(of_each: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted mean over the replicates, and each replicate's deviation from it."""
        stacked = np.stack(of_each, dtype=np.float64)
        mean = (weights * stacked).mean(0)
        return mean, weights * (stacked - mean)

    value, value_residuals = average([one.value for one in estimates])
    win, residuals = average([one.win for one in estimates])

    def error(residuals: np.ndarray) -> np.ndarray:
        return np.sqrt((residuals**2).sum(0) / (len(estimates) * (len(estimates) - 1)))

    # A policy that is indifferent between plays may pick a different one in each replicate.
    own = Counter(int(one.base) for one in estimates).most_common(1)[0][0]
    best = int(np.argmax(np.where(legal, value, -np.inf)))
    win_error = error(residuals)
    gain, gain_error = win - win[own], error(residuals - residuals[:, [own]])
    behind, behind_error = win[best] - win, error(residuals - residuals[:, [best]])
    columns = (win, win_error, behind, behind_error, gain, gain_error, samples.sum(0))
    actions = sorted(np.flatnonzero(legal).tolist(), key=lambda action: -value[action])
    plays = tuple(PooledPlay(format_action(action), *(column[action].item() for column in columns)) for action in actions)
    # A play that some replicates pruned can still be chosen: its mean is not too low, and its error covers the rest.
    figures = {
        "value": value,
        "gain": value - value[own],
        "value_error": error(value_residuals),
        "gain_error": error(value_residuals - value_residuals[:, [own]]),
        "win": win,
        "win_error": win_error,
    }
    found: Any = {name: of_play.astype(np.float32) for name, of_play in figures.items()}
    found |= {"num_samples": legal.astype(np.int32), "base": np.int32(own)}
    recommended = int(choose(Estimate(**found), legal, keep))
    return Pooled(plays, format_action(recommended), format_action(own), len(estimates))


def cost_of(
    estimates: Sequence[Estimate], legal: np.ndarray, action: int, prior_rollouts: float = 0.0
) -> tuple[float, float, int]:
    """Return an action's win probability lost against the best play, its error, and the best play.

    One half of the replicates chooses the best play and the other half evaluates it, and vice versa. The cost has thus no bias by
    the luckiest estimate, and may be negative. The error is at least that of the difference to the best other play.

    Args:
        estimates: Four or more independent estimates (NumPy) of one decision.
        legal, prior_rollouts: As in `pool`; two or more choices.
        action: One of them.
    """
    values, wins = (
        np.stack(of_each, dtype=np.float64) for of_each in zip(*((one.value, one.win) for one in estimates), strict=True)
    )
    weights = np.stack([one.num_samples for one in estimates]) + float(prior_rollouts)
    scaled = weights / np.maximum(weights.mean(0), 1)

    def mean(of_each: np.ndarray, part: slice) -> np.ndarray:
        total = (weights[part] * of_each[part]).sum(0) / np.maximum(weights[part].sum(0), 1)
        return np.where(legal, total, -np.inf)

    value, win = (mean(of_each, slice(None)) for of_each in (values, wins))
    residuals = scaled * (wins - np.where(legal, win, 0))

    def error(best: np.ndarray | int) -> float:
        difference = residuals[np.arange(len(estimates)), best] - residuals[:, action]
        return math.sqrt((difference**2).sum() / (len(estimates) * (len(estimates) - 1)))

    gained, chosen = [], np.zeros(len(estimates), int)
    for part, other in ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))):
        chosen[part] = mean(values, other).argmax()
        gained.append(mean(wins, part)[chosen[part][0]] - mean(wins, part)[action])
    runner_up = int(np.where(np.arange(len(value)) == action, -np.inf, value).argmax())
    return float(np.mean(gained)), max(error(chosen), error(runner_up)), int(value.argmax())


@partial(Program, static="agent")
def search_once(key: Array, memory: Remembered, observation: Observation, legal: Array, *, agent: SearchAgent) -> Estimate:
    """Return the estimates of one search for the choices `legal`, bool[`Rules.num_choices`]. Consumes `key`."""
    # `agent.think` would skip a single legal play.
    key_hands, key_search = jax.random.split(key)
    hands = agent.hands(key_hands, memory, observation)
    one = jax.tree.map(lambda x: jnp.asarray(x)[None], (key_search, observation, hands, legal, memory.num_steps))
    return jax.tree.map(lambda x: x[0], agent.estimate(*one))

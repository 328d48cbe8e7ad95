"""Cache beliefs on the host, for interactive play and analysis: `BeliefCache`."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax.belief.particles import Info
from unojax.belief.tracking import advance, begin
from unojax.belief.updaters import ParticleFilter, Updater
from unojax.observation import Observation, check_observation
from unojax.rules import Rules

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_ANY_START: Final = ParticleFilter(prior="uniform")


class Recent(Generic[_Key, _Value]):
    """Least-recently-used cache of at most `max_entries` values; None: no limit."""

    def __init__(self, max_entries: int | None = None):
        if max_entries is not None and max_entries < 1:
            raise ValueError(f"max_entries must be at least 1, or None for no limit, got {max_entries}")
        self._max_entries, self._entries, self.evictions = max_entries, OrderedDict[_Key, _Value](), 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: _Key) -> bool:
        return key in self._entries

    def get(self, key: _Key) -> _Value:
        """Return a value and mark it as the last used. Raises KeyError if it is missing."""
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: _Key, value: _Value) -> None:
        """Store a value as the last used."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if self._max_entries is not None and len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
            self.evictions += 1


def names_of(observations: Sequence[Observation]) -> list[tuple[Rules, bytes]]:
    """Name each position by the rules and a digest of all observations up to it."""
    digest, names = hashlib.blake2b(digest_size=16), []
    for view in observations:
        for leaf in jax.tree.leaves(view):
            digest.update(np.asarray(leaf).tobytes())
        names.append((view.rules, digest.digest()))
    return names


@dataclass(frozen=True)
class CacheStats:
    """Counts of cache hits and misses, updates computed, entries evicted, and entries held now."""

    hits: int = 0
    misses: int = 0
    updates: int = 0
    evictions: int = 0
    entries: int = 0


class CacheEntry(NamedTuple):
    """A belief, and the diagnostics of its last update; None at the start of a sequence."""

    belief: Any
    info: Info | None


class BeliefCache:
    """Beliefs by the observer's past observations: the state and the history.

    An entry's key is a digest of the whole sequence of observations, which determine the actions too. The belief for a sequence
    is that of `track`. With 1024 particles an entry takes about 0.4 MB. Not thread-safe.

    Args:
        updater: Updater of the beliefs; by default the particle filter with the uniform prior.
        key: PRNG key of the beliefs; None: `jax.random.key(0)`.
        max_entries: Largest number of beliefs, the last used ones; None: no limit.
        log_types: float32[K] nats, prior over the opponent's type at the start of all sequences, for an updater with a
            `Family`; None: its own prior.
        start: Belief at the start of all sequences; None: the updater begins it.

    Raises:
        ValueError: If `max_entries` is not positive.
    """

    def __init__(
        self,
        updater: Updater = _ANY_START,
        *,
        key: Array | None = None,
        max_entries: int | None = None,
        log_types: ArrayLike | None = None,
        start: CacheEntry | None = None,
    ):
        self._updater = updater
        self._key = jax.random.key(0, impl="threefry2x32") if key is None else key
        self._max_entries = max_entries
        self._log_types, self._start = log_types, start
        self.clear()

    @property
    def stats(self) -> CacheStats:
        """Statistics since the cache was made or cleared."""
        return CacheStats(**self._counts, evictions=self._entries.evictions, entries=len(self._entries))

    def clear(self) -> None:
        """Remove all beliefs and reset the statistics."""
        self._entries = Recent[tuple[Rules, bytes], CacheEntry](self._max_entries)
        self._counts: Counter[str] = Counter()

    def belief(self, observations: Sequence[Observation]) -> Any:
        """Return the belief of an observer after these observations, the last one current; see `track`."""
        return self.track(observations).belief

    def track(self, observations: Sequence[Observation]) -> CacheEntry:
        """Return the belief after these observations and the last update's diagnostics; cache the beliefs in between.

        Args:
            observations: Observations of one player, one before the first transition and one after each; unbatched. The first may
                lie in mid-game.

        Raises:
            ValueError: If the sequence is empty, an observation is a batch, or two in a row are not one transition apart.
        """
        views = [jax.tree.map(np.asarray, observation) for observation in observations]
        if not views:
            raise ValueError("observations must hold at least the first position, got none")
        for view in views:
            check_observation(view, "BeliefCache.track")
        names = names_of(views)
        known = next((t for t in reversed(range(len(views))) if names[t] in self._entries), -1)
        self._counts["hits" if known == len(views) - 1 else "misses"] += 1
        if known >= 0:
            entry = self._entries.get(names[known])
        else:
            entry, known = self._start or CacheEntry(begin(self._updater, self._key_at(0), views[0], self._log_types), None), 0
            self._entries.put(names[0], entry)
        for t in range(known + 1, len(views)):
            entry = CacheEntry(*advance(self._updater, self._key_at(t), entry.belief, views[t - 1], views[t], place=t))
            self._counts["updates"] += 1
            self._entries.put(names[t], entry)
        return entry

    def _key_at(self, place: int) -> Array:
        return jax.random.fold_in(self._key, place)

"""Keep beliefs on the host, for interactive play and analysis: `BeliefCache`."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax.belief.adaptive import Schedule, num_particles_for, resize
from unojax.belief.filters import ParticleFilter
from unojax.belief.follow import advance, begin
from unojax.belief.particles import Belief, Info
from unojax.belief.particles.belief import check_start
from unojax.observation import Observation
from unojax.rules import Rules

_ANY_START: Final = ParticleFilter(prior="uniform")
_resize = jax.jit(resize, static_argnames="num_particles")


@dataclass(frozen=True)
class CacheStats:
    """Requests answered without computing anything, and others; updates computed; entries dropped for the limit, and held now."""

    hits: int = 0
    misses: int = 0
    updates: int = 0
    evictions: int = 0
    entries: int = 0


class CacheEntry(NamedTuple):
    """A belief, and the diagnostics of the update that led to it; None at the start of a sequence."""

    belief: Belief
    info: Info | None


class BeliefCache:
    """Beliefs by what their observer has seen.

    An entry's key is a digest of the whole sequence of canonical observations, which tells the actions too. The belief for a
    sequence is always the same one, whatever is in the cache: random keys derive from the seed and the sequence. With 1024
    particles an entry takes about 0.4 MB. Not thread-safe.

    Args:
        filter: begins and updates the beliefs, by default from the uniform prior.
        seed: of the random keys.
        schedule: adapt the number of particles to the position; that of the filter is then ignored.
        max_entries: how many beliefs to keep, those used last; None: all.
        log_types: float32[K] nats, what is known of the opponent's type at the start of all sequences, for a filter with a
            `Family`; None: its own prior.

    Raises:
        ValueError: `max_entries` or the number of particles is not positive.
    """

    def __init__(
        self,
        filter: ParticleFilter = _ANY_START,
        *,
        seed: int = 0,
        schedule: Schedule | None = None,
        max_entries: int | None = None,
        log_types: ArrayLike | None = None,
    ):
        if max_entries is not None and max_entries < 1:
            raise ValueError(f"max_entries must be at least 1, or None for no limit, got {max_entries}")
        check_start(filter.num_particles, filter.prior)
        self._filter = filter
        self._schedule = schedule or Schedule(sizes=(filter.num_particles,), cards_left=())
        self._key = jax.random.key(seed, impl="threefry2x32")
        self._max_entries = max_entries
        self._log_types = log_types
        self.clear()

    @property
    def stats(self) -> CacheStats:
        """Statistics since the cache was made or cleared."""
        return CacheStats(**self._counts, entries=len(self._entries))

    def clear(self) -> None:
        """Forget all beliefs and statistics."""
        self._entries: OrderedDict[tuple[Rules, bytes], CacheEntry] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def belief(self, observations: Sequence[Observation]) -> Belief:
        """Give the belief of an observer who saw these positions, the last one now; see `track`."""
        return self.track(observations).belief

    def track(self, observations: Sequence[Observation]) -> CacheEntry:
        """Give the belief of an observer who saw these positions, and the diagnostics of the last update; keep all on the way.

        Args:
            observations: of one player, one before the first and one after each micro-step; unbatched. The first may lie in
                mid-game: the belief is then the one of an observer who knows nothing of what was before.

        Raises:
            ValueError: the sequence is empty, an observation is a batch, or two in a row are not one micro-step apart.
        """
        views = [jax.tree.map(np.asarray, observation) for observation in observations]
        if not views:
            raise ValueError("observations must hold at least the first position, got none")
        digest, names = hashlib.blake2b(digest_size=16), []
        for view in views:
            for leaf in jax.tree.leaves(view):
                digest.update(leaf.tobytes())
            names.append((view.rules, digest.digest()))
        known = next((t for t in reversed(range(len(views))) if names[t] in self._entries), -1)
        self._counts["hits" if known == len(views) - 1 else "misses"] += 1
        entry = self._entries[names[known]] if known >= 0 else self._start(views[0], names[0])
        self._keep(names[max(known, 0)], entry)
        for t in range(max(known, 0) + 1, len(views)):
            entry = self._advance(entry, views, t, names[t])
            self._keep(names[t], entry)
        return entry

    def _start(self, view: Observation, name: tuple[Rules, bytes]) -> CacheEntry:
        size = num_particles_for(view, schedule=self._schedule)
        filter = replace(self._filter, num_particles=size)
        return CacheEntry(begin(filter, self._key_for(name), view, self._log_types), None)

    def _advance(self, entry: CacheEntry, views: list[Observation], place: int, name: tuple[Rules, bytes]) -> CacheEntry:
        key_update, key_resize = jax.random.split(self._key_for(name))
        num = entry.belief.num_particles
        filter = replace(self._filter, num_particles=num)
        belief, info = advance(filter, key_update, entry.belief, views[place - 1], views[place], place=place)
        self._counts["updates"] += 1
        size = num_particles_for(views[place], info.ess / num, schedule=self._schedule)
        return CacheEntry(belief if size == num else _resize(belief, key_resize, num_particles=size), info)

    def _key_for(self, name: tuple[Rules, bytes]) -> Array:
        return jax.random.fold_in(self._key, int.from_bytes(name[1][:4], "little"))

    def _keep(self, name: tuple[Rules, bytes], entry: CacheEntry) -> None:
        self._entries[name] = entry
        self._entries.move_to_end(name)
        if self._max_entries is not None and len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
            self._counts["evictions"] += 1

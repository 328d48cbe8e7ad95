"""A host-side cache of beliefs, for interactive play and analysis: `BeliefCache`.

A belief depends on all that its observer saw, so an entry's key is a digest of the whole sequence: the canonical observations,
which are equal for positions that look equal, and with them the actions, which `infer_action` reads off two observations in a
row. Asked for a longer sequence, the cache computes the updates that are missing and keeps the belief after each.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from unojax.belief import history
from unojax.belief.adaptive import Schedule, num_particles_for, resize
from unojax.belief.history import Prior
from unojax.belief.opponents import OpponentModel, uniform_opponent
from unojax.belief.particles import Belief, Info, belief_init, belief_update
from unojax.observation import Observation
from unojax.rules import Rules

# Shared by all caches, so that a second one compiles nothing.
_init = jax.jit(belief_init, static_argnames=("num_particles", "rules", "prior"))
_update = jax.jit(belief_update, static_argnames=("opponent", "rules"))
_resize = jax.jit(resize, static_argnames="num_particles")
_infer_action = jax.jit(history.infer_action)


@dataclass(frozen=True)
class CacheStats:
    """What a cache did so far.

    Attributes:
        hits: requests answered without computing anything.
        misses: the other requests.
        updates: belief updates computed.
        evictions: entries dropped for the limit.
        entries: beliefs held now.
    """

    hits: int
    misses: int
    updates: int
    evictions: int
    entries: int

    @property
    def hit_rate(self) -> float:
        """Share of requests that were hits; 0 before the first."""
        return self.hits / max(self.hits + self.misses, 1)


class Tracked(NamedTuple):
    """A belief, and what happened in the update that led to it; None at the start of a sequence."""

    belief: Belief
    info: Info | None


class BeliefCache:
    """Beliefs by what their observer has seen.

    The belief for a sequence is always the same one, whatever is in the cache: random keys derive from the seed and the sequence.
    With 1024 particles an entry takes about 0.4 MB. Not thread-safe.

    Args:
        num_particles: N; the first size if a schedule is given.
        opponent: the opponent model, hashable.
        rules: of the games to come.
        prior: of a sequence's first position; "deal" if that is always right after a deal. See `belief_init`.
        seed: of the random keys.
        schedule: adapt the number of particles to the position; `num_particles` is then ignored.
        max_entries: how many beliefs to keep, those used last; None: all.

    Raises:
        ValueError: `max_entries` or `num_particles` is not positive.
    """

    def __init__(
        self,
        *,
        num_particles: int = 1024,
        opponent: OpponentModel = uniform_opponent,
        rules: Rules = Rules(),
        prior: Prior = "uniform",
        seed: int = 0,
        schedule: Schedule | None = None,
        max_entries: int | None = None,
    ):
        if max_entries is not None and max_entries < 1:
            raise ValueError(f"max_entries must be at least 1, or None for no limit, got {max_entries}")
        if num_particles < 1:
            raise ValueError(f"num_particles must be at least 1, got {num_particles}")
        self._schedule = schedule or Schedule(sizes=(num_particles,), cards_left=())
        self._opponent = opponent
        self._rules = rules
        self._prior: Prior = prior
        self._key = jax.random.key(seed)
        self._max_entries = max_entries
        self._entries: OrderedDict[bytes, Tracked] = OrderedDict()
        self._hits = self._misses = self._updates = self._evictions = 0

    @property
    def stats(self) -> CacheStats:
        """Statistics since the cache was made or cleared."""
        return CacheStats(self._hits, self._misses, self._updates, self._evictions, len(self._entries))

    def clear(self) -> None:
        """Forget all beliefs and statistics."""
        self._entries.clear()
        self._hits = self._misses = self._updates = self._evictions = 0

    def belief(self, observations: Sequence[Observation]) -> Belief:
        """The belief of an observer who saw these positions, the last one now; see `track`."""
        return self.track(observations).belief

    def track(self, observations: Sequence[Observation]) -> Tracked:
        """The belief of an observer who saw these positions, and what happened in the last update.

        Args:
            observations: of one player, one before the first and one after each micro-step; unbatched. The first may lie in
                mid-game: the belief is then the one of an observer who knows nothing of what was before.

        Raises:
            ValueError: the sequence is empty, the observations are of different players or of another deck than the rules', or
                two in a row are not one micro-step apart.
        """
        views = [jax.tree.map(np.asarray, observation) for observation in observations]
        digests = self._digests(views)
        known = next((t for t in reversed(range(len(views))) if digests[t] in self._entries), -1)
        if known == len(views) - 1:
            self._hits += 1
        else:
            self._misses += 1
        tracked = self._entries[digests[known]] if known >= 0 else self._start(views[0], digests[0])
        self._keep(digests[max(known, 0)], tracked)
        for t in range(max(known, 0) + 1, len(views)):
            tracked = self._advance(tracked, views[t - 1], views[t], digests[t])
            self._keep(digests[t], tracked)
        return tracked

    def _digests(self, views: list[Observation]) -> list[bytes]:
        """The key of each prefix of the sequence."""
        if not views:
            raise ValueError("observations must hold at least the first position, got none")
        digest, digests = hashlib.blake2b(digest_size=16), []
        for t, view in enumerate(views):
            if np.ndim(view.player) != 0:
                raise ValueError(f"observations must be unbatched, got a batch of shape {np.shape(view.player)} at place {t}")
            if view.rules != self._rules:
                raise ValueError(f"observation {t} is of a game with another deck than the rules of this cache")
            if view.player != views[0].player:
                raise ValueError(f"observations must be of one player, got {views[0].player} at first and {view.player} at {t}")
            if t > 0 and not _is_one_step(views[t - 1], view):
                raise ValueError(
                    f"observations {t - 1} and {t} are not one micro-step apart; pass the observer's view after every play and "
                    f"every draw of either player"
                )
            for leaf in jax.tree.leaves(view):
                digest.update(leaf.tobytes())
            digests.append(digest.digest())
        return digests

    def _start(self, view: Observation, digest: bytes) -> Tracked:
        size = num_particles_for(view, schedule=self._schedule)
        return Tracked(_init(view, self._key_for(digest), num_particles=size, rules=self._rules, prior=self._prior), None)

    def _advance(self, tracked: Tracked, before: Observation, after: Observation, digest: bytes) -> Tracked:
        key_update, key_resize = jax.random.split(self._key_for(digest))
        action = _infer_action(before, after)
        belief, info = _update(tracked.belief, before, action, after, key_update, opponent=self._opponent, rules=self._rules)
        self._updates += 1
        size = num_particles_for(after, info.ess / belief.num_particles, schedule=self._schedule)
        if size != belief.num_particles:
            belief = _resize(belief, key_resize, num_particles=size)
        return Tracked(belief, info)

    def _key_for(self, digest: bytes) -> Array:
        return jax.random.fold_in(self._key, int.from_bytes(digest[:4], "little"))

    def _keep(self, digest: bytes, tracked: Tracked) -> None:
        self._entries[digest] = tracked
        self._entries.move_to_end(digest)
        if self._max_entries is not None and len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
            self._evictions += 1


def _is_one_step(before: Observation, after: Observation) -> bool:
    """Whether one play, one draw, or nothing at all can lie between two observations."""
    mine, theirs = int(after.hand_count) - int(before.hand_count), int(after.opponent_count) - int(before.opponent_count)
    pile = np.sum(after.pile, dtype=int) - np.sum(before.pile, dtype=int)
    change, other = (theirs, mine) if history.opponent_moved(before) else (mine, theirs)
    if before.terminated or (change == 0 and not after.terminated):
        return other == change == pile == 0 and bool(after.current_player == before.current_player)
    if change == 0:
        return other == 0
    if change < 0:
        return change == -1 and other == 0 and pile == 1
    return other == 0 and pile <= 0 and change == max(int(before.penalty), 1)

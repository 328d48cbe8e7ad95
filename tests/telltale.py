"""A stand-in for the adviser of a board, where the test is about the board."""

from __future__ import annotations

import zlib
from types import SimpleNamespace

import jax
import numpy as np

from unojax import cards
from unojax.games.adviser import Advice, Outlook, Thought
from unojax.games.seen import choices


class TellTale:
    """An adviser at no cost. Every number that it says depends on all that it was told."""

    def __init__(self, search, *, seed, log_types=None, steps_before=0):
        self._seed, self.log_types = seed, log_types

    def warm(self, start):
        """Compile nothing."""

    def learned(self, start, seen):
        return len(seen)

    def outlook(self, start, seen, *, num_games):
        random = self._random(start, seen)
        win = np.float32(random.uniform(0.1, 0.9))
        return Outlook(prob_holds=random.random(cards.NUM_TYPES), win_probability=win, win_error=np.float32(0.01))

    def advise(self, start, seen):
        random = self._random(start, seen)
        can = choices(seen[-1].after if seen else start)
        thought = None
        if can.sum() > 1:
            estimate = SimpleNamespace(value=random.uniform(-0.9, 0.9, len(can)))
            thought = Thought(estimate, can, random.choice(np.flatnonzero(can)))
        return Advice(random.random(cards.NUM_TYPES), random.random(4), random.random(), thought)

    def _random(self, start, seen):
        told = jax.tree.leaves([start, [(step.before, step.action, step.after) for step in seen]])
        return np.random.default_rng([self._seed, zlib.crc32(b"".join(np.asarray(leaf).tobytes() for leaf in told))])

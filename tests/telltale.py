"""A stub for a board's advisor."""

from __future__ import annotations

import zlib
from types import SimpleNamespace

import jax
import numpy as np

from unojax import cards
from unojax.games.advisor import Thought, WinEstimate
from unojax.games.choices import choices


class TellTale:
    """Advisor without computation, whose numbers depend on all of its input."""

    def __init__(self, search, key, *, log_types=None, steps_before=0):
        self._seed, self.log_types = np.asarray(jax.random.key_data(key)).tolist(), log_types

    def warm(self, start):
        """Compile nothing."""

    def learned(self, views):
        return len(views) - 1

    def win_estimate(self, views, *, num_games):
        random = self._random(views)
        win = np.float32(random.uniform(0.1, 0.9))
        return WinEstimate(self._belief(random), win, np.float32(0.01))

    def advise(self, views):
        random = self._random(views)
        can = choices(views[-1])
        if can.sum() <= 1:
            return None
        return Thought(SimpleNamespace(win=random.uniform(0.05, 0.95, len(can))), can, random.choice(np.flatnonzero(can)))

    def _belief(self, random):
        return SimpleNamespace(
            prob_holds=random.random(cards.NUM_TYPES), prob_color=random.random(4), prob_no_playable=random.random()
        )

    def _random(self, views):
        given = jax.tree.leaves(list(views))
        return np.random.default_rng([*self._seed, zlib.crc32(b"".join(np.asarray(leaf).tobytes() for leaf in given))])

"""Base class of agents that choose on the host, one game at a time."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import cards
from unojax.agents import Memory
from unojax.observation import Observation

_ID_WORDS: Final = 2


class Question(NamedTuple):
    """A decision for a host agent.

    Attributes:
        game: Name of the game, the same for all its questions.
        seed: Seed of random answers, 0 .. 2^32 - 1.
        observation: The player's observation, NumPy.
        legal: Two or more legal actions, ascending.
    """

    game: str
    seed: int
    observation: Observation
    legal: list[int]


class HostAgent:
    """Agent that calls `choose` at each real choice. Its memory, 64 bits, identifies the game."""

    def init(self, key: Array, observation: Observation) -> Memory:
        del observation
        return jax.random.bits(key, (_ID_WORDS,), jnp.uint32)

    def update(self, key: Array, memory: Memory, before: Observation, action: Array, after: Observation) -> Memory:
        del key, before, action, after
        return memory

    def act(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array) -> Array:
        seed = jax.random.bits(key, dtype=jnp.uint32)
        shape = jax.ShapeDtypeStruct((), jnp.int32)
        rows = (memory, seed, observation, legal_mask)
        return jax.pure_callback(partial(_choose_rows, self), shape, *rows, vmap_method="broadcast_all")

    def choose(self, question: Question) -> int:
        """Return a legal action, or `unojax.agents.RESIGN` to concede the game."""
        raise NotImplementedError


def _choose_rows(agent: HostAgent, memory: Any, seed: Any, observation: Observation, legal_mask: Any) -> np.ndarray:
    """Choose in each game of a batch: int32 of the masks' leading shape."""
    memory, seed, legal_mask = np.asarray(memory), np.asarray(seed), np.asarray(legal_mask)
    observation = jax.tree.map(np.asarray, observation)
    shape = legal_mask.shape[:-1]
    chosen = np.full(shape, cards.DRAW, np.int32)
    for row in np.ndindex(shape):
        seen, legal = jax.tree.map(lambda leaf, row=row: leaf[row], observation), np.flatnonzero(legal_mask[row]).tolist()
        # Skip games of the batch that are over or in which another player moves.
        if seen.terminated or seen.current_player != seen.player:
            continue
        game = "".join(f"{word:08x}" for word in memory[row].tolist())
        chosen[row] = legal[0] if len(legal) == 1 else agent.choose(Question(game, int(seed[row]), seen, legal))
    return chosen

"""What a policy is.

A policy is any callable `policy(key, observation, legal_mask) -> action`, unbatched and jit-able. A `PackedPolicy` narrows the
legal plays down to its favourites with a few bit operations on packed options (`unojax.bits`), and chooses uniformly among them.
The same operations serve the protocol above, the action probabilities that an opponent model needs, and the kernels of simulation
and search.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, game
from unojax.bits import Words
from unojax.observation import Observation
from unojax.view import View, view_of


class Policy(Protocol):
    """Chooses an action for the player who observes."""

    def __call__(self, key: Array, observation: Observation, legal_mask: Array, /) -> Array:
        """An action 0..60 (integer scalar) for `legal_mask` bool[61]; consumes `key`."""
        ...


def distinct(policies: tuple[Policy, Policy]) -> tuple[Policy, ...]:
    """The policies of two players, as one if both follow the same, so that it is asked once."""
    return policies[:1] if policies[0] is policies[1] else policies


class PackedPolicy(ABC):
    """A policy that narrows down the legal plays and chooses uniformly among what is left."""

    name: str
    summary: str

    @abstractmethod
    def narrow(self, view: View, legal: Words) -> Words:
        """The options that the policy chooses from: a subset of `legal`, not empty unless that is. Elementwise over any shape."""

    def __call__(self, key: Array, observation: Observation, legal_mask: Array) -> Array:
        """An action, int32[]: DRAW if no play is legal."""
        options = self._narrow_mask(observation, legal_mask)
        color, position = bits.choose(options, jax.random.bits(key, dtype=jnp.uint32))
        play = color * np.uint32(cards.NUM_RANKS) + bits.rank_at(position)
        return jnp.where(bits.any_of(options) == 0, cards.DRAW, play.astype(jnp.int32))

    def action_probs(self, observation: Observation, legal_mask: Array) -> Array:
        """The probability of each action, float32[61]."""
        options = self._narrow_mask(observation, legal_mask)
        plays = game.options_to_mask(options)
        chosen = jnp.append(plays, ~plays.any()).astype(jnp.float32)
        return chosen / chosen.sum()

    def _narrow_mask(self, observation: Observation, legal_mask: Array) -> Words:
        return self.narrow(view_of(observation), game.mask_to_options(legal_mask))

"""Policies in general, and the packed ones.

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
from unojax.device.random_bits import check_key
from unojax.observation import Observation, check_observation
from unojax.view import View, view_of


class Policy(Protocol):
    """Chooses an action for the player who observes."""

    def __call__(self, key: Array, observation: Observation, legal_mask: Array, /) -> Array:
        """Choose an action 0..60 (integer scalar) for `legal_mask` bool[61]; consumes `key`."""
        ...


def distinct(policies: tuple[Policy, Policy]) -> tuple[Policy, ...]:
    """Drop the second of two players' policies if it is the first, so that it is asked once."""
    return policies[:1] if policies[0] is policies[1] else policies


def ask(policies: tuple[Policy, ...], key: Array, observation: Observation, legal_mask: Array) -> Array:
    """Ask the policies, one for each player or one for both, what the observer plays: int32[].

    Both are asked with the same key, since under `vmap` either may be the one who moves.
    """
    actions = [jnp.asarray(policy(jax.random.clone(key), observation, legal_mask), jnp.int32) for policy in policies]
    return jnp.where(observation.player == 0, actions[0], actions[-1])


class PackedPolicy(ABC):
    """A policy that narrows down the legal plays and chooses uniformly among what is left."""

    name: str
    summary: str

    @abstractmethod
    def narrow(self, view: View, legal: Words) -> Words:
        """Narrow legal options down to those that the policy chooses from, none only if none is legal. Elementwise."""

    def __call__(self, key: Array, observation: Observation, legal_mask: Array) -> Array:
        """Choose an action, int32[]: DRAW if no play is legal.

        Raises:
            ValueError: an argument is a batch.
        """
        check_key(key, "a policy")
        options = self._narrow_mask(observation, legal_mask, "a policy")
        color, position = bits.choose(options, jax.random.bits(key, dtype=jnp.uint32))
        play = color * np.uint32(cards.NUM_RANKS) + bits.rank_at(position)
        return jnp.where(bits.any_of(options) == 0, cards.DRAW, play.astype(jnp.int32))

    def action_probs(self, observation: Observation, legal_mask: Array) -> Array:
        """Compute the probability of each action, float32[61].

        Raises:
            ValueError: an argument is a batch.
        """
        options = self._narrow_mask(observation, legal_mask, "action_probs")
        plays = game.options_to_mask(options)
        chosen = jnp.append(plays, ~plays.any()).astype(jnp.float32)
        return chosen / chosen.sum()

    def _narrow_mask(self, observation: Observation, legal_mask: Array, name: str) -> Words:
        check_observation(observation, name)
        if np.shape(legal_mask) != (cards.NUM_ACTIONS,):
            raise ValueError(
                f"{name} takes a single mask bool[61], got shape {np.shape(legal_mask)}; map over a batch with jax.vmap"
            )
        return self.narrow(view_of(observation), game.mask_to_options(legal_mask))

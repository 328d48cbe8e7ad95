"""What a policy is, and what a packed policy sees.

A policy is any callable `policy(key, observation, legal_mask) -> action`, unbatched and jit-able. A `PackedPolicy` narrows the
legal plays down to its favourites with a few bit operations on packed options (`unojax.bits`), and chooses uniformly among them.
The same operations serve the protocol above, the action probabilities that an opponent model needs, and the kernels of simulation
and search.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import bits, cards, game, table
from unojax.bits import StaticWords, Words
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.table import Node, Table


class Policy(Protocol):
    """Chooses an action for the player who observes."""

    def __call__(self, key: Array, observation: Observation, legal_mask: Array, /) -> Array:
        """An action 0..60 (integer scalar) for `legal_mask` bool[61]; consumes `key`."""
        ...


def distinct(policies: tuple[Policy, Policy]) -> tuple[Policy, ...]:
    """The policies of two players, as one if both follow the same, so that it is asked once."""
    return policies[:1] if policies[0] is policies[1] else policies


class View(NamedTuple):
    """What a packed policy looks at. Which copy of a type lies where means nothing: count cards and never look for one.

    Attributes:
        hand: the player's own cards.
        opponent_count: uint32[...] cards in the opponent's hand.
        pile: the cards played.
        color: uint32[...] active colour 0..3.
        everything: all cards of the game, constants.
    """

    hand: Words
    opponent_count: Array
    pile: Words
    color: Array
    everything: StaticWords

    def count_unseen(self, word: int, mask: ArrayLike) -> Array:
        """int32[...]: cards of one word that the player has not seen, opponent's hand and deck together.

        Args:
            word: index 0..3.
            mask: uint32[...] bits of the word that count; with any copy of a type all copies in that word.
        """
        everything, hand, pile = (
            lax.population_count(jnp.asarray(words[word]) & jnp.asarray(mask)).astype(jnp.int32)
            for words in (self.everything, self.hand, self.pile)
        )
        return everything - hand - pile


def view_of(tables: Table, node: Node, rules: Rules) -> View:
    """What the player to move looks at, at a node of each table."""
    return View(
        hand=node.hand,
        opponent_count=node.opponent_count,
        pile=tables.cards_of(table.PILE, rules),
        color=node.meta.color,
        everything=bits.all_cards(rules.deck),
    )


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

    @staticmethod
    def view(observation: Observation) -> View:
        """What the policy looks at, of one observation."""
        return View(
            hand=bits.pack(observation.hand),
            opponent_count=observation.opponent_count.astype(jnp.uint32),
            pile=bits.pack(observation.pile),
            color=observation.color.astype(jnp.uint32),
            everything=bits.all_cards(observation.composition),
        )

    def _narrow_mask(self, observation: Observation, legal_mask: Array) -> Words:
        return self.narrow(self.view(observation), game.mask_to_options(legal_mask))

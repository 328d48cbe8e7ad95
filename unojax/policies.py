"""Policies: how a player chooses among the legal actions.

A policy is any callable `policy(key, observation, legal_mask) -> action`, unbatched and jit-able. A `PackedPolicy` is one that
narrows the legal plays down to its favourites with a few bit operations on packed options (`unojax.bits`), and chooses uniformly
among them. The same operations serve the protocol above, the action probabilities that an opponent model needs, and the kernels
of simulation and search.

This module has the policies that a person would name. Each is a `RulePolicy`: a short list of preferences applied one after the
other. `unojax.scoring` has those that add up points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import bits, cards, game
from unojax.bits import Words
from unojax.observation import Observation


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
    everything: tuple[np.uint32, np.uint32, np.uint32, np.uint32]

    def count_unseen(self, word: int, mask: ArrayLike) -> Array:
        """int32[...]: cards of one word that the player has not seen, opponent's hand and deck together.

        Args:
            word: index 0..3.
            mask: uint32[...] bits of the word that count; with any copy of a type all copies in that word.
        """
        everything, hand, pile = (
            lax.population_count(jnp.asarray(words[word] & mask)).astype(jnp.int32)
            for words in (self.everything, self.hand, self.pile)
        )
        return everything - hand - pile


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
        view = View(
            hand=bits.pack(observation.hand),
            opponent_count=observation.opponent_count.astype(jnp.uint32),
            pile=bits.pack(observation.pile),
            color=observation.color.astype(jnp.uint32),
            everything=bits.all_cards(observation.composition),
        )
        return self.narrow(view, game.mask_to_options(legal_mask))


Preference = Callable[[View, Words], Words]
"""Narrows a set of legal options to a subset of it, not empty unless the set is."""


@dataclass(frozen=True)
class RulePolicy(PackedPolicy):
    """The legal plays that survive a list of preferences.

    Attributes:
        name: how the policy is called on the command line.
        summary: what it does, in a few words.
        preferences: applied in order.
    """

    name: str
    summary: str
    preferences: tuple[Preference, ...] = ()

    def narrow(self, view: View, legal: Words) -> Words:
        """See `PackedPolicy`."""
        for preference in self.preferences:
            legal = preference(view, legal)
        return legal


def prefer(legal: Words, favoured: Words) -> Words:
    """The favoured ones among the legal options if there are any, else all of them."""
    both = bits.map_words(lambda a, b: a & b, legal, favoured)
    return bits.where(bits.any_of(both) != 0, both, legal)


def prefer_bits(mask: np.uint32) -> Preference:
    """Prefer options whose rank bit is in `mask`, whatever their colour."""

    def preference(view: View, legal: Words) -> Words:
        del view
        return prefer(legal, bits.map_words(lambda w: w & mask, legal))

    return preference


def _rank_mask(*ranks: int) -> np.uint32:
    return np.uint32(sum(1 << (rank if rank < cards.WILD else rank + 12) for rank in ranks))


_ACTION_CARDS: Final = bits.ACTION_RANKS | bits.WILDS
keep_wilds: Final = prefer_bits(bits.COLORED)
wilds_first: Final = prefer_bits(bits.WILDS)
actions_first: Final = prefer_bits(_ACTION_CARDS)
actions_last: Final = prefer_bits(bits.COLORED & ~bits.ACTION_RANKS)
penalties_first: Final = prefer_bits(_rank_mask(cards.DRAW_TWO, cards.WILD_DRAW_FOUR))
repeat_turns: Final = prefer_bits(_rank_mask(cards.SKIP, cards.REVERSE))


def _color_counts(view: View) -> list[Array]:
    return [lax.population_count(word & bits.COLORED) for word in view.hand]


def declare_most_held(view: View, legal: Words) -> Words:
    """With a Wild or Wild+4, declare a colour of which one holds most. Leaves coloured plays alone."""
    held = _color_counts(view)
    most = jnp.maximum(jnp.maximum(held[0], held[1]), jnp.maximum(held[2], held[3]))
    o0, o1, o2, o3 = (jnp.where(n == most, option, option & ~bits.WILDS) for n, option in zip(held, legal, strict=True))
    return o0, o1, o2, o3


def _by_color_count(view: View, legal: Words, sign: int) -> Words:
    """Prefer coloured plays of the colour with the largest `sign * (cards held)` among the playable colours."""
    held = _color_counts(view)
    none = np.int32(-cards.NUM_CARDS - 1)
    score = [
        jnp.where((option & bits.COLORED) != 0, sign * n.astype(jnp.int32), none) for n, option in zip(held, legal, strict=True)
    ]
    best = jnp.maximum(jnp.maximum(score[0], score[1]), jnp.maximum(score[2], score[3]))
    f0, f1, f2, f3 = (jnp.where(s == best, option & bits.COLORED, np.uint32(0)) for s, option in zip(score, legal, strict=True))
    return prefer(legal, (f0, f1, f2, f3))


def scarcest_color(view: View, legal: Words) -> Words:
    """Prefer coloured plays of the colour of which one holds least."""
    return _by_color_count(view, legal, -1)


def commonest_color(view: View, legal: Words) -> Words:
    """Prefer coloured plays of the colour of which one holds most."""
    return _by_color_count(view, legal, 1)


def when_opponent_has(at_most: int, then: Preference, otherwise: Preference) -> Preference:
    """One preference while the opponent holds at most so many cards, another while it holds more."""

    def preference(view: View, legal: Words) -> Words:
        near = view.opponent_count <= at_most
        return bits.where(near, then(view, legal), otherwise(view, legal))

    return preference


uniform: Final = RulePolicy("uniform", "any legal play, with equal probability")

POLICIES: Final[dict[str, RulePolicy]] = {
    policy.name: policy
    for policy in (
        uniform,
        RulePolicy("keep-wilds", "wild cards last; declares the colour most held", (keep_wilds, declare_most_held)),
        RulePolicy("wilds-first", "wild cards first; declares the colour most held", (wilds_first, declare_most_held)),
        RulePolicy(
            "actions-first",
            "wild, +2, skip and reverse first; declares the colour most held",
            (actions_first, declare_most_held),
        ),
        RulePolicy(
            "actions-last",
            "number cards first, wild cards last; declares the colour most held",
            (actions_last, keep_wilds, declare_most_held),
        ),
        RulePolicy(
            "scarcest-color",
            "gets rid of the colour held least; wild cards last; declares the colour most held",
            (scarcest_color, declare_most_held),
        ),
        RulePolicy(
            "commonest-color",
            "plays the colour held most; wild cards last; declares the colour most held",
            (commonest_color, declare_most_held),
        ),
        RulePolicy(
            "repeat-turns",
            "skip and reverse first, to move again; wild cards last; declares the colour most held",
            (repeat_turns, keep_wilds, declare_most_held),
        ),
        RulePolicy(
            "guard",
            "keeps wild and action cards until the opponent is down to three, then +2 and Wild+4 first",
            (
                when_opponent_has(3, then=penalties_first, otherwise=actions_last),
                when_opponent_has(3, then=actions_first, otherwise=keep_wilds),
                declare_most_held,
            ),
        ),
    )
}
"""The named policies."""


def get_policy(name: str) -> RulePolicy:
    """A named policy.

    Raises:
        ValueError: there is no such policy; the message lists those there are.
    """
    if name not in POLICIES:
        raise ValueError(f"no policy is called {name!r}; choose one of {', '.join(POLICIES)}")
    return POLICIES[name]

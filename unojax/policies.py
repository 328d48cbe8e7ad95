"""Policies: how a player chooses among the legal actions.

A policy is any callable `policy(key, observation, legal_mask) -> action`, unbatched and jit-able. This module has the ones that
a person would name. Each is a `RulePolicy`: a short list of preferences applied one after the other to the set of legal plays,
and a uniform choice among what is left. A preference works on packed options (`unojax.bits`), so the same few bit operations
serve the protocol above, the action probabilities that an opponent model needs, and the simulation kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards, game
from unojax.bits import Words
from unojax.observation import Observation


class Policy(Protocol):
    """Chooses an action for the player who observes."""

    def __call__(self, key: Array, observation: Observation, legal_mask: Array, /) -> Array:
        """An action 0..60 (integer scalar) for `legal_mask` bool[61]; consumes `key`."""
        ...


class View(NamedTuple):
    """What preferences look at, in packed form.

    Attributes:
        hand: the player's own cards. Preferences count them and never ask which copy of a type is held.
        opponent_count: uint32[...] cards in the opponent's hand.
    """

    hand: Words
    opponent_count: Array


Preference = Callable[[View, Words], Words]
"""Narrows a set of legal options to a subset of it, not empty unless the set is."""


@dataclass(frozen=True)
class RulePolicy:
    """A uniform choice among the legal plays that survive a list of preferences.

    Attributes:
        name: how the policy is called on the command line.
        summary: what it does, in a few words.
        preferences: applied in order.
    """

    name: str
    summary: str
    preferences: tuple[Preference, ...] = ()

    def narrow(self, view: View, legal: Words) -> Words:
        """The options that the policy chooses from, uniformly."""
        for preference in self.preferences:
            legal = preference(view, legal)
        return legal

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
        view = View(bits.pack(observation.hand), observation.opponent_count.astype(jnp.uint32))
        return self.narrow(view, game.mask_to_options(legal_mask))


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

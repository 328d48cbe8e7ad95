"""Policies that a person would name: preferences applied one after the other to the legal plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards
from unojax.bits import Words
from unojax.policies.packed import PackedPolicy
from unojax.view import View

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
        """Apply the preferences in order; see `PackedPolicy`."""
        for preference in self.preferences:
            legal = preference(view, legal)
        return legal


def prefer(legal: Words, favoured: Words) -> Words:
    """Keep the favoured ones among the legal options if there are any, else all of them."""
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
    """Switch from one preference to another while the opponent holds at most so many cards."""

    def preference(view: View, legal: Words) -> Words:
        near = view.opponent_count <= at_most
        return bits.where(near, then(view, legal), otherwise(view, legal))

    return preference


uniform: Final = RulePolicy("uniform", "any legal play, with equal probability")

RULE_POLICIES: Final[dict[str, RulePolicy]] = {
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
"""By name."""

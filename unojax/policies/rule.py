"""Policies of successive preferences among the legal plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final

import jax.numpy as jnp
import numpy as np
from jax import lax

from unojax import bits, cards
from unojax.bits import Words
from unojax.policies.packed import PackedPolicy, plays_before_draws, prefer
from unojax.view import View

Preference = Callable[[View, Words], Words]
"""Function that narrows legal options to a subset, empty only if they are empty."""


@dataclass(frozen=True)
class RulePolicy(PackedPolicy):
    """Policy that applies preferences to the legal plays, in order.

    Attributes:
        name: Name in specs and commands.
        summary: Short description.
        preferences: Functions of a view and the legal options that keep the preferred ones.
        draws_at_will: Drawing, passing and challenging are options too, instead of only without a play.
    """

    name: str
    summary: str
    preferences: tuple[Preference, ...] = ()
    draws_at_will: bool = False

    def narrow(self, view: View, legal: Words) -> Words:
        if view.rules.draw_is_option and not self.draws_at_will:
            legal = plays_before_draws(legal)
        for preference in self.preferences:
            legal = preference(view, legal)
        return legal


@dataclass(frozen=True)
class PreferBits:
    """Prefer options whose rank bit is in `mask`, in any colour."""

    mask: np.uint32

    def __call__(self, view: View, legal: Words) -> Words:
        del view
        return prefer(legal, bits.map_words(lambda w: w & self.mask, legal))


def _rank_mask(*ranks: int) -> np.uint32:
    return np.uint32(sum(1 << (rank if rank < cards.WILD else rank + 12) for rank in ranks))


_ACTION_CARDS: Final = bits.ACTION_RANKS | bits.WILDS
keep_wilds: Final = PreferBits(bits.FIRST_COPIES)
wilds_first: Final = PreferBits(bits.WILDS)
actions_first: Final = PreferBits(_ACTION_CARDS)
actions_last: Final = PreferBits(bits.FIRST_COPIES & ~bits.ACTION_RANKS)
penalties_first: Final = PreferBits(_rank_mask(cards.DRAW_TWO, cards.WILD_DRAW_FOUR))
repeat_turns: Final = PreferBits(_rank_mask(cards.SKIP, cards.REVERSE))


def _color_counts(view: View) -> Words:
    return bits.map_words(lambda word: lax.population_count(word & bits.COLORED), view.hand)


def declare_most_held(view: View, legal: Words) -> Words:
    """Prefer wild plays that declare the colour most held; coloured plays all stay."""
    return best_declared(_color_counts(view), legal)


def best_declared(score: Words, legal: Words) -> Words:
    """Keep wild plays that declare a colour with the highest of four scores; coloured plays all stay."""
    best = reduce(jnp.maximum, score)
    return bits.map_words(lambda s, option: jnp.where(s == best, option, option & ~bits.WILDS), score, legal)


def _by_color_count(view: View, legal: Words, sign: int) -> Words:
    """Prefer coloured plays of the playable colour with the largest `sign * (cards held)`."""
    colored = bits.map_words(lambda option: option & bits.FIRST_COPIES, legal)
    none = np.int32(-cards.NUM_CARDS - 1)
    score = bits.map_words(lambda n, o: jnp.where(o != 0, sign * n.astype(jnp.int32), none), _color_counts(view), colored)
    best = jnp.maximum(jnp.maximum(score[0], score[1]), jnp.maximum(score[2], score[3]))
    return prefer(legal, bits.map_words(lambda s, option: jnp.where(s == best, option, np.uint32(0)), score, colored))


def scarcest_color(view: View, legal: Words) -> Words:
    """Prefer coloured plays of the playable colour least held."""
    return _by_color_count(view, legal, -1)


def commonest_color(view: View, legal: Words) -> Words:
    """Prefer coloured plays of the playable colour most held."""
    return _by_color_count(view, legal, 1)


@dataclass(frozen=True)
class WhenOpponentHas:
    """Preference that depends on whether the opponent has at most `at_most` cards."""

    at_most: int
    then: Preference
    otherwise: Preference

    def __call__(self, view: View, legal: Words) -> Words:
        near = view.opponent_count <= self.at_most
        return bits.where(near, self.then(view, legal), self.otherwise(view, legal))


def _declaring(name: str, summary: str, *preferences: Preference) -> RulePolicy:
    return RulePolicy(name, f"{summary}; declares the colour most held", (*preferences, declare_most_held))


uniform: Final = RulePolicy("uniform", "any legal action, with equal probability", draws_at_will=True)
"""Any legal action, with equal probability."""
greedy: Final = RulePolicy("greedy", "any legal play, with equal probability; draws only without one")
"""Any legal play, with equal probability: `uniform`, except under rules with optional draws."""
_GUARD: Final = RulePolicy(
    "guard",
    "keeps wild and action cards until the opponent is down to three, then +2 and Wild+4 first",
    (
        WhenOpponentHas(3, then=penalties_first, otherwise=actions_last),
        WhenOpponentHas(3, then=actions_first, otherwise=keep_wilds),
        declare_most_held,
    ),
)

RULE_POLICIES: Final[dict[str, RulePolicy]] = {
    policy.name: policy
    for policy in (
        uniform,
        greedy,
        _declaring("keep-wilds", "wild cards last", keep_wilds),
        _declaring("wilds-first", "wild cards first", wilds_first),
        _declaring("actions-first", "wild, +2, skip and reverse first", actions_first),
        _declaring("actions-last", "number cards first, wild cards last", actions_last, keep_wilds),
        _declaring("scarcest-color", "gets rid of the colour held least; wild cards last", scarcest_color),
        _declaring("commonest-color", "plays the colour held most; wild cards last", commonest_color),
        _declaring("repeat-turns", "skip and reverse first, to move again; wild cards last", repeat_turns, keep_wilds),
        _GUARD,
    )
}
"""By name."""

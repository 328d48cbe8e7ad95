"""Preferences for the colour to declare with a wild card, for `unojax.policies.RulePolicy`."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array, lax

from unojax import bits, cards
from unojax.bits import Words
from unojax.policies import Preference
from unojax.policies.rule import best_declared
from unojax.view import View

ColorScore = Callable[[View], Array]
"""Scores of the colours: numbers of shape [4, ...]."""


def declare(score: ColorScore) -> Preference:
    """Return a preference for declaring a colour with the highest score."""

    def preference(view: View, legal: Words) -> Words:
        red, yellow, blue, green = score(view)
        return best_declared((red, yellow, blue, green), legal)

    return preference


def held(view: View) -> Array:
    """Return the number of cards of each colour in the own hand, int32[4, ...]."""
    return jnp.stack([lax.population_count(word & bits.COLORED).astype(jnp.int32) for word in view.hand])


def not_seen(view: View) -> Array:
    """Return the number of unseen cards of each colour, int32[4, ...]."""
    return jnp.stack([view.count_unseen(color, bits.COLORED) for color in range(cards.NUM_COLORS)])


def is_active(view: View) -> Array:
    """Return 1 for the active colour, else 0, int32[4, ...]."""
    return jnp.stack([(view.color == color).astype(jnp.int32) for color in range(cards.NUM_COLORS)])

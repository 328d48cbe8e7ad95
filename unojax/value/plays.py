"""The value of every legal play: that of the information state after it."""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
from jax import Array, lax

from unojax.device import control
from unojax.device.tracing import compiled_apart
from unojax.value.features import Outlook, about_to, after_plays, features
from unojax.value.network import Network
from unojax.view import View

CHUNK: Final = 512
"""Afterstates evaluated by the network at a time."""


def value_choices(network: Network, view: View, outlook: Outlook, action: Array) -> Array:
    """Return the values of legal choices, int32[...], for their player: float32[...]."""
    after, is_won = compiled_apart(after_plays)(view, action)
    about = about_to(view, action)
    value = network(features(after, outlook, about)).value
    # A draw or a challenge is valued at the moment before it, with no transition passed.
    if network.config.discount != 1.0:
        value = jnp.where(about > 0, value, network.config.discount * value)
    return jnp.where(is_won, 1.0, value)


def value_plays(network: Network, view: View, outlook: Outlook, legal: Array, *, chunk: int = CHUNK) -> Array:
    """Return the value of every legal choice for its player: float32, like `legal`.

    A play that wins has value 1, an illegal one -inf, and another the discounted value after it. A draw or a challenge is
    evaluated before its chance outcome. The belief stays the same, because a play gives its player no information. The network
    evaluates all legal plays of a batch together.

    Args:
        network: Network that evaluates the plays.
        view, outlook: [D] of the players to move.
        legal: Legal choices, bool[D, `Rules.num_choices`].
        chunk: Static; changes no result.
    """
    num_plays = legal.sum(dtype=jnp.int32)
    size = -(-legal.size // chunk) * chunk
    of_decision, play = jnp.nonzero(legal, size=size, fill_value=len(legal))

    def one_chunk(i: Array, values: Array) -> Array:
        at, action = (lax.dynamic_slice(x, [i * chunk], [chunk]) for x in (of_decision, play))
        before, seen = jax.tree.map(lambda x: x[at], (view, outlook))
        value = value_choices(network, before, seen, action)
        return values.at[at, action].set(value, mode="drop")

    nothing = jnp.full(legal.shape, -jnp.inf, jnp.float32)
    return control.fori_loop(0, (num_plays + chunk - 1) // chunk, one_chunk, nothing)

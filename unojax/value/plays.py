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
    """Value legal choices, int32[...], one at each view, for the player who makes them: float32[...]."""
    after, is_won = compiled_apart(after_plays)(view, action)
    about = about_to(view, action)
    value = network(features(after, outlook, about)).value
    # A draw or a challenge is valued at the moment before it, with no transition passed.
    if network.config.discount != 1.0:
        value = jnp.where(about > 0, value, network.config.discount * value)
    return jnp.where(is_won, 1.0, value)


def value_plays(network: Network, view: View, outlook: Outlook, legal: Array, *, chunk: int = CHUNK) -> Array:
    """Value every legal play for the player who makes it, and every other choice (`Rules.num_choices`).

    A play gives its player no new information, so the belief stays the same. The network evaluates only the legal plays of all
    decisions together, so a batch costs as much as its plays. A draw or a challenge is valued before its chance outcome.

    Args:
        network: Network that values the plays.
        view, outlook: [D] of the players to move.
        legal: bool[D, 60], or more (`Rules.num_choices`).
        chunk: Static; changes no result.

    Returns:
        float32, of the shape of `legal`: 1 for a play that wins at once, -inf for an illegal one. The value after any
        other play is discounted by `NetworkConfig.discount`, one transition.
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

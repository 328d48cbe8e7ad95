"""The layers of the network, in Flax, imported by `unojax.value.network` on its first call.

One encoder reads each colour's row with the shared features. The mean over the colours and the row of the active colour feed a
trunk of dense layers (Zaheer et al. 2017, "Deep Sets"), so the value is the same under every permutation of the colours.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from unojax import cards
from unojax.value.features import COLOR_COLUMNS, COLORED_SLOTS, MATCH_COLUMNS, TYPE_COLUMNS, Features
from unojax.value.shape import NetworkConfig, Outputs

_KINDS: Final = np.eye(5, dtype=np.float32)[:, [0] * 10 + [1, 1, 2, 3, 4]]
"""Ranks of each kind that the policy head distinguishes: float32[5, 15]."""
_COPIES: Final = slice(0, cards.NUM_COLORED_RANKS), slice(cards.NUM_COLORED_RANKS, COLORED_SLOTS)
"""Columns of a colour for the ranks held, in one copy and in two."""


def _dot(inputs: Array, kernel: Array, _: Any = None, **options: Any) -> Array:
    """Multiply matrices of two axes: on a CPU gradients of larger products are slow."""
    flat = jax.lax.dot_general(inputs.reshape(-1, inputs.shape[-1]), kernel, (((1,), (0,)), ((), ())), **options)
    return flat.reshape(*inputs.shape[:-1], kernel.shape[-1])


_linear = partial(nnx.Linear, dot_general=_dot)


def _by_rank(weights: Array) -> Array:
    """Spread the policy head's weights, [..., 30], over the ranks, [..., 45]."""
    of_rank, *of_kind = jnp.split(weights, cards.NUM_RANKS + len(_KINDS) * np.arange(3), -1)
    plain, if_held, if_elsewhere = (kind @ _KINDS for kind in of_kind)
    return jnp.concatenate([of_rank + plain, if_held, if_elsewhere], -1)


class PolicyHead(nnx.Module):
    """Logits of the plays.

    Each sums three parts: colour and kind of card (number, Skip or Reverse, +2, Wild, Wild+4); colour and rank; and, for coloured
    cards, a part proportional to the copies of that type, and of that rank in other colours, in hand.
    """

    def __init__(self, width: int, *, rngs: nnx.Rngs):
        size = cards.NUM_RANKS + 3 * len(_KINDS)
        self.out = _linear(width, size, kernel_init=nnx.initializers.zeros_init(), rngs=rngs)

    def __call__(self, of_color: Array, trunk: Array, features: Features) -> Array:
        """Return logits, float32[..., 60], from encodings of colours, [..., 4, w], and trunk, [..., w]."""
        first, second = (features.color[..., _COPIES[copy]] for copy in range(2))
        no_axes = [(0, 0)] * (first.ndim - 1)
        held = jnp.pad(first + jnp.pad(second, [*no_axes, (1, 0)]), [*no_axes, (0, cards.NUM_RANKS - cards.NUM_COLORED_RANKS)])
        elsewhere = held.sum(-2, keepdims=True) - held
        # Few weights are spread over ranks, and not many outputs; the trunk's part of these is the same for all colours.
        assert self.out.bias is not None, "it is a linear layer with one"
        kernel, bias = (_by_rank(weights[...]) for weights in (self.out.kernel, self.out.bias))
        width = of_color.shape[-1]
        of_trunk = _dot(trunk, kernel[width:]) + bias
        plain, if_held, if_elsewhere = jnp.split(_dot(of_color, kernel[:width]) + of_trunk[..., None, :], 3, -1)
        return (plain + held * if_held + elsewhere * if_elsewhere).reshape(*features.shared.shape[:-1], cards.DRAW)


class ValueNetwork(nnx.Module):
    """The layers, used by `apply`."""

    def __init__(self, config: NetworkConfig, *, rngs: nnx.Rngs):
        width, num_shared = config.width, len(config.shared_columns)
        self.color_in = _linear(len(config.color_columns), width, rngs=rngs)
        self.matches_in = _linear(len(MATCH_COLUMNS), width, use_bias=False, rngs=rngs) if config.matches else None
        self.shared_in = _linear(num_shared, width, use_bias=False, rngs=rngs)
        self.color_hidden = nnx.List([_linear(width, width, rngs=rngs) for _ in range(config.color_layers - 1)])
        self.pooled = _linear(2 * width, width, rngs=rngs)
        self.shared_trunk = _linear(num_shared, width, use_bias=False, rngs=rngs)
        self.trunk_hidden = nnx.List([_linear(width, width, rngs=rngs) for _ in range(config.trunk_layers - 1)])
        # Zero weights: an untrained network gives even odds, prefers nothing, and ignores the types.
        zero = partial(_linear, kernel_init=nnx.initializers.zeros_init(), rngs=rngs)
        self.types_in, self.types_trunk = (
            zero(len(TYPE_COLUMNS), width, use_bias=False) if config.types else None for _ in range(2)
        )
        self.win = zero(width, 1)
        self.policy = PolicyHead(2 * width, rngs=rngs) if config.policy_head else None
        self.slots = zero(2 * width, COLORED_SLOTS) if config.belief_head else None
        self.wild_slots = zero(width, 2 * cards.NUM_COLORS) if config.belief_head else None

    def __call__(self, features: Features) -> Outputs:
        """Evaluate features of any leading axes."""
        of_color = self.color_in(features.color) + self.shared_in(features.shared)[..., None, :]
        if self.matches_in is not None:
            of_color += self.matches_in(features.matches)
        if self.types_in is not None:
            of_color += self.types_in(features.types)[..., None, :]
        of_color = nnx.relu(of_color)
        for layer in self.color_hidden:
            of_color = nnx.relu(layer(of_color))
        is_active = features.color[..., COLOR_COLUMNS.index("active colour"), None]
        pooled = jnp.concatenate([of_color.mean(-2), (of_color * is_active).sum(-2)], -1)
        trunk = self.pooled(pooled) + self.shared_trunk(features.shared)
        if self.types_trunk is not None:
            trunk += self.types_trunk(features.types)
        trunk = nnx.relu(trunk)
        for layer in self.trunk_hidden:
            trunk = nnx.relu(layer(trunk))

        policy_logits = slot_logits = None
        if self.policy is not None:
            policy_logits = self.policy(of_color, trunk, features)
        if self.slots is not None and self.wild_slots is not None:
            both = jnp.concatenate([of_color, jnp.broadcast_to(trunk[..., None, :], of_color.shape)], -1)
            # A word of slots ends with one copy of each wild.
            wilds = self.wild_slots(trunk).reshape(*trunk.shape[:-1], cards.NUM_COLORS, 2)
            slot_logits = jnp.concatenate([self.slots(both), wilds], -1).reshape(*trunk.shape[:-1], cards.NUM_CARDS)
        return Outputs(self.win(trunk)[..., 0], policy_logits, slot_logits)


def init_params(key: Array, config: NetworkConfig) -> dict[str, Any]:
    """Return random parameters with even odds for every state. Consumes `key`."""
    return nnx.to_pure_dict(nnx.state(ValueNetwork(config, rngs=nnx.Rngs(key))))


def apply(params: dict[str, Any], config: NetworkConfig, features: Features) -> Outputs:
    """Evaluate information states of any shape. Pure."""
    graphdef, state = _structure(config)
    # A copy, since the structure is kept.
    filled = jax.tree.map(lambda leaf: leaf, state)
    nnx.replace_by_pure_dict(filled, params)
    return nnx.merge(graphdef, filled)(features)


@cache
def _structure(config: NetworkConfig) -> tuple[Any, Any]:
    """The layers without their parameters: graph definition and abstract state."""
    return nnx.split(nnx.eval_shape(lambda: ValueNetwork(config, rngs=nnx.Rngs(0))))

"""The value network: how likely an information state is to be won, and optional heads for a policy and a belief.

`unojax.value.layers` has the layers, in Flax, which is imported when a network is first called: a game can begin before.

**Sign**: every value is that of the player whose information state it is, never of the player to move: +1 is a win for it, -1 a
loss. There is no flip between turns; whose turn it is, is a feature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jax import Array

from unojax.rules import Rules
from unojax.value.features import Features, has_turn_columns
from unojax.value.shape import NetworkConfig, Outputs

__all__ = ["Network", "NetworkConfig", "Outputs", "Params", "check_network", "init_network"]

Params = dict[str, Any]
"""Nested dicts of float32 arrays."""


@partial(jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=["config"])
@dataclass(frozen=True)
class Network:
    """A network as a pytree: its parameters, and what they are parameters of. Call it on `Features`."""

    params: Params
    config: NetworkConfig = NetworkConfig()

    def __call__(self, features: Features) -> Outputs:
        """Evaluate information states of any shape. Pure."""
        from unojax.value import layers

        return layers.apply(self.params, self.config, features)

    @property
    def num_params(self) -> int:
        """Number of parameters."""
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self.params))


def init_network(key: Array, config: NetworkConfig = NetworkConfig()) -> Network:
    """Make a network with random parameters that gives even odds to everything. Consumes `key`."""
    from unojax.value import layers

    return Network(layers.init_params(key, config), config)


def check_network(network: Network, name: str, rules: Rules) -> None:
    """Check that a network reads what turns under the rules depend on, and nothing that they lack.

    Raises:
        ValueError: it does not.
    """
    if rules.unknown:
        raise ValueError(
            f"network {name} was not trained for rules with {', '.join(rules.unknown)}: leave them at their defaults"
        )
    if has_turn_columns(rules) and not network.config.turns:
        raise ValueError(
            f"network {name} knows plays, forced draws and penalties of 2 and 4: it can't play rules where drawing is a choice "
            "or penalties add up (may_draw, play_drawn='may', wild_draw_four='challenge', stacking); train one for them with "
            "python -m training.train_value --play.rules official, and name its file: network=runs/value/best.safetensors"
        )
    if network.config.turns and not has_turn_columns(rules):
        raise ValueError(
            f"network {name} knows only rules where drawing is a choice or penalties add up (may_draw, play_drawn='may', "
            "wild_draw_four='challenge', stacking): name them, such as rules=official, or take network=pretrained"
        )

"""The value network: the win probability of an information state, and optional heads."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import jax
import numpy as np
from jax import Array
from jax.core import Tracer

from unojax.rules import Rules, as_rules
from unojax.value.features import Features
from unojax.value.shape import NetworkConfig, Outputs

__all__ = ["Network", "NetworkConfig", "Outputs", "Params", "check_network", "init_network", "knows_turns"]

Params = dict[str, Any]
"""Nested dicts of float32 arrays."""


@partial(jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=["config"])
@dataclass(frozen=True, eq=False)
class Network:
    """A network as a pytree: its parameters and their configuration. Call it on `Features`.

    Networks are equal if their digests are. While it is traced, a network equals only itself.
    """

    knows_all_rules: ClassVar[bool] = False
    """Whether its values mean the same under any rules, so that it needs no training for them."""

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

    @cached_property
    def digest(self) -> str | None:
        """Digest of the configuration and the parameters; None while the network is traced."""
        named = self.named_params()
        if any(isinstance(leaf, Tracer) for leaf in named.values()):
            return None
        digest = hashlib.sha256(repr(self.config).encode())
        for name, array in sorted(named.items()):
            digest.update(name.encode() + np.asarray(array).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Network) and self.digest == other.digest is not None)

    def __hash__(self) -> int:
        return hash(self.config)

    def named_params(self) -> dict[str, Any]:
        """Return the parameters by their paths, `color_in.kernel`."""
        leaves, _ = jax.tree.flatten_with_path(self.params)
        return {".".join(str(part.key) for part in path): leaf for path, leaf in leaves}


def init_network(key: Array, config: NetworkConfig = NetworkConfig()) -> Network:
    """Return a network with random parameters and even odds for every state. Consumes `key`."""
    from unojax.value import layers

    return Network(layers.init_params(key, config), config)


def knows_turns(network: Network, rules: Rules) -> bool:
    """Return whether a network was trained for the turns of the rules (`unojax.rules.TURNS`)."""
    return network.knows_all_rules or not (rules.unknown or unknown_turns(network, rules))


def unknown_turns(network: Network, rules: Rules) -> list[str]:
    """Return the fields of turns, as `name=value`, that a network was not trained for."""
    nearest = min((rules.turns_unlike(as_rules(name)) for name in network.config.rules), key=len)
    return [f"{name}={value!r}" for name, value in nearest.items()]


def check_network(network: Network, name: str, rules: Rules, discount: float | None = None) -> None:
    """Raise ValueError unless a network `knows_turns` of the rules and has the discount."""
    own = network.config.discount
    if discount is not None and discount != own:
        raise ValueError(
            f"discount must be that of network {name}, whose values have discount={own:g}, got {discount!r}; train one with "
            f"python -m training.train_value --network.discount {discount!r}"
        )
    if knows_turns(network, rules):
        return
    if rules.unknown:
        raise ValueError(
            f"network {name} was not trained for rules with {', '.join(rules.unknown)}: leave them at their defaults"
        )
    known, unknown = " and ".join(network.config.rules), ", ".join(unknown_turns(network, rules))
    raise ValueError(
        f"network {name} was trained for {known} rules and can't play with {unknown}: "
        "take another agent, such as mc, or train a network with python -m training.train_value --play.rules NAME, and name its "
        "file: network=runs/value/best.safetensors"
    )

"""A network's values in a search. Only searches with a network import it, because Flax is slow."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import numpy as np
from jax import Array

from unojax.belief.hands import TypedHands
from unojax.belief.opponents import Opponent
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.search.monte_carlo import Estimate, average
from unojax.value.features import outlook_of_hands
from unojax.value.network import Network, check_network
from unojax.value.plays import value_plays
from unojax.value.pretrained import load_network
from unojax.view import view_of


@dataclass(frozen=True)
class NetworkLeaf:
    """A network's values in a search; the first fields are keys of `monte_carlo`.

    Two leaves are equal if their networks are, so a file with new contents does not reuse an old compiled program.

    Attributes:
        opponent: Opponent model of the belief; None without one.
        loaded: The network itself, NumPy, constants of any program.

    Raises:
        ValueError: If there is no such network.
    """

    network: str
    weight: float
    rules: Rules = Rules()
    opponent: Opponent | None = None
    digest: str = field(init=False, repr=False)
    loaded: Network = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        loaded = jax.tree.map(np.asarray, load_network(self.network, self.rules))
        object.__setattr__(self, "loaded", loaded)
        object.__setattr__(self, "digest", loaded.digest)

    def check(self, rules: Rules, discount: float) -> None:
        """Check that the network supports the rules and the discount.

        Raises:
            ValueError: If the network lacks columns for the rules, its values have another discount than the search, or the rules
                truncate games or have step penalties.
        """
        if rules.max_steps is not None or rules.step_penalty:
            raise ValueError(
                "a network's values know of no truncation and no penalty: a leaf needs max_steps=None and step_penalty=0, "
                f"got max_steps={rules.max_steps!r} and step_penalty={rules.step_penalty!r}"
            )
        check_network(self.loaded, self.network, rules, discount)

    def average(self, estimate: Estimate, observations: Observation, hands: TypedHands, legal: Array) -> Estimate:
        """Average estimates of D decisions with the network's values of their plays."""
        view = view_of(observations)
        values = value_plays(self.loaded, view, outlook_of_hands(view, hands, self.opponent), legal)
        return average(estimate, values, legal, self.weight)

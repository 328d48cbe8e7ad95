"""A network's part in a search. Imported by the searches that have one: Flax takes a third of a second."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from jax import Array

from unojax.belief.hands import TypedHands
from unojax.belief.opponents import Opponent
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.search.monte_carlo import Estimate, average
from unojax.search.rollouts import Leaf
from unojax.value.features import outlook_of_hands
from unojax.value.network import check_network
from unojax.value.plays import value_known, value_plays
from unojax.value.pretrained import load_network
from unojax.view import view_of


@dataclass(frozen=True)
class NetworkLeaf:
    """A network's part in a search; the fields are keys of its spec (see `unojax.search.agents.monte_carlo`), but for the last.

    Attributes:
        opponent: what the belief takes the other player for; None without one.

    Raises:
        ValueError: there is no such network.
    """

    network: str
    depth: int
    weight: float
    opponent: Opponent | None = None

    def __post_init__(self) -> None:
        load_network(self.network)

    def check(self, rules: Rules) -> None:
        """Check that the network knows the rules; raise ValueError if it does not."""
        check_network(load_network(self.network), self.network, rules)

    def cut(self, rules: Rules) -> Leaf:
        """Cut rollouts off at the depth, with the network's values."""
        return Leaf(self.depth, partial(value_known, load_network(self.network), rules))

    def average(self, estimate: Estimate, observations: Observation, hands: TypedHands, legal: Array) -> Estimate:
        """Average estimates of D decisions with the network's values of their plays (depth 0)."""
        view = view_of(observations)
        values = value_plays(load_network(self.network), view, outlook_of_hands(view, hands, self.opponent), legal)
        return average(estimate, values, legal, self.weight)

"""The heuristic value: three features of a position with fitted weights.

    V = a1 (n2 - n1) + a2 E[playable cards in the opponent's hand] + a3 (own wild cards)

n1 and n2 are the cards in the player's and the opponent's hand, with a pending penalty already drawn. The expectation is over the
belief. tanh(V) is a value in [-1, 1], like a network's, and searches accept it instead: `mc:leaf=heuristic`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards
from unojax.belief.hands import WeightedHands
from unojax.belief.summary import expected_counts
from unojax.observation import Observation
from unojax.policies.scoring import check_weights
from unojax.value.features import SHARED_COLUMNS, SHARED_TURN_COLUMNS, Features
from unojax.value.network import Network
from unojax.value.shape import Outputs
from unojax.view import view_of

HEURISTIC: Final = "heuristic"
"""Name of the heuristic value in options for networks."""
_WILD_COLUMNS: Final = [i for i, name in enumerate(SHARED_COLUMNS) if name.startswith("own wild")]


class HeuristicWeights(NamedTuple):
    """Weights of the heuristic value.

    Attributes:
        margin: Weight of each card by which the opponent's hand is larger than the player's.
        playable: Weight of each expected card in the opponent's hand that is playable on the top card.
        wilds: Weight of each Wild or Wild+4 in the player's hand.
    """

    margin: float
    playable: float
    wilds: float


# Fitted by `python -m training.fit_scoring heuristic --games 4096 --positions 8192`.
HEURISTIC_WEIGHTS: Final = HeuristicWeights(margin=0.0748, playable=-0.0775, wilds=0.39)
"""The fitted weights."""


def heuristic_value(
    observation: Observation, belief: WeightedHands | None = None, *, weights: HeuristicWeights = HEURISTIC_WEIGHTS
) -> Array:
    """Return the heuristic value V of a position for its observer, float32[]. Pure, unbatched.

    Args:
        observation: Observation of the position.
        belief: Possible hands of the opponent; None: uniform over the unseen cards.
        weights: Three finite numbers.

    Raises:
        ValueError: If a weight is not finite.
    """
    check_weights(tuple(weights), "the heuristic value", HeuristicWeights._fields)
    view = view_of(observation)
    if belief is None:
        unseen = view.unseen().astype(jnp.float32)
        expected = observation.opponent_count * unseen / jnp.maximum(unseen.sum(), 1.0)
    else:
        expected = expected_counts(belief)
    playable = jnp.where(view.playable_types(), expected, 0.0).sum()
    own = bits.type_counts(view.hand).astype(jnp.float32)
    margin = observation.opponent_count - own.sum() + jnp.where(view.is_own_turn, -1.0, 1.0) * observation.penalty
    return _value(weights, margin, playable, own[cards.WILD_TYPE :].sum())


@partial(jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=["config"])
@dataclass(frozen=True, eq=False)
class HeuristicNetwork(Network):
    """The heuristic value as a network; `params` holds the weights."""

    knows_all_rules: ClassVar[bool] = True

    @classmethod
    def of(cls, weights: HeuristicWeights = HEURISTIC_WEIGHTS) -> HeuristicNetwork:
        """Return a network of these weights. Raises ValueError if one is not finite."""
        check_weights(tuple(weights), "the heuristic value", HeuristicWeights._fields)
        return cls({name: np.float32(weight) for name, weight in weights._asdict().items()})

    def __call__(self, features: Features) -> Outputs:
        def column(name: str) -> Array:
            return features.shared[..., SHARED_COLUMNS.index(name)]

        # With columns for other rules, a penalty can be any even number.
        penalty = 2.0 * column("penalty 2") + 4.0 * column("penalty 4")
        if features.shared.shape[-1] > len(SHARED_COLUMNS):
            penalty = 10.0 * features.shared[..., len(SHARED_COLUMNS) + SHARED_TURN_COLUMNS.index("penalty / 10")]
        margin = 10.0 * (column("opponent's cards / 10") - column("own cards / 10"))
        margin += jnp.where(column("own turn") > 0, -1.0, 1.0) * penalty
        playable = 4.0 * column("opponent's expected playable cards / 4")
        wilds = sum((features.shared[..., i] for i in _WILD_COLUMNS), jnp.zeros_like(margin))
        return Outputs(win_logit=2.0 * _value(HeuristicWeights(**self.params), margin, playable, wilds))


def _value(weights: HeuristicWeights, margin: Array, playable: Array, wilds: Array) -> Array:
    return (weights.margin * margin + weights.playable * playable + weights.wilds * wilds).astype(jnp.float32)

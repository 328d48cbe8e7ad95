"""Opponent models: likelihoods of the actions of a player with a given hand.

A model is any callable `opponent(observation, legal_mask) -> float32[61]` (`OpponentModel`), such as a policy's `action_probs`.
`PolicyOpponent` and `ConsistentOpponent` also evaluate all packed hands of a filter at once, which is many times faster. A
`Family` has several models as types, and filters infer the type.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import bits
from unojax.bits import Words
from unojax.device.returned import numbers, takes
from unojax.observation import Observation
from unojax.policies import PackedPolicy, action_probs, get_policy, greedy, name_of, narrow, uniform
from unojax.rules import Rules
from unojax.table import Picked
from unojax.view import View


class OpponentModel(Protocol):
    """Model of the choices of a player who sees `observation`.

    The observation is the opponent's own view of the game, constructed for one hypothetical hand (`history.imagine`).
    """

    def __call__(self, observation: Observation, legal_mask: Array, /) -> Array:
        """Return likelihoods of the actions, float32[A], for `legal_mask`, bool[A] with A = `Rules.num_actions`.

        They are in [0, 1] and need not add up to 1. The particle filter treats NaN and numbers far above 1 as impossible.
        """
        ...


@runtime_checkable
class PackedOpponent(Protocol):
    """Model that also evaluates many packed hands at a time."""

    def __call__(self, observation: Observation, legal_mask: Array, /) -> Array: ...

    def likelihood(self, view: View, legal: Words, played: Picked, /) -> Array:
        """Return the likelihood of a play for packed hands with the given legal options: float32[...]."""
        ...


@dataclass(frozen=True)
class PolicyOpponent:
    """An opponent that follows a policy, except that with probability `tremble` it makes any legal play, uniformly.

    If drawing is optional, a trembling policy also takes any legal action with probability `SLIP`, independent of `tremble`. A
    voluntary draw or a challenge then says nothing about the policy.

    Attributes:
        policy: Policy, assumed to choose uniformly among its preferred plays.
        tremble: Probability in [0, 1]. A positive value keeps every legal action possible, so that a wrong model cannot exclude
            the true hand.

    Raises:
        ValueError: If `tremble` is not in [0, 1].
    """

    policy: PackedPolicy
    tremble: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.tremble <= 1.0:
            raise ValueError(f"tremble must be a probability in [0, 1], got {self.tremble}")

    def __call__(self, observation: Observation, legal_mask: Array) -> Array:
        by_policy = action_probs(self.policy.action_probs, f"{name_of(self.policy)}.action_probs", observation, legal_mask)
        plays = greedy.action_probs(observation, legal_mask)
        anything = legal_mask.astype(jnp.float32) / legal_mask.sum(dtype=jnp.float32)
        return self._mix(by_policy, plays, anything, observation.rules)

    def likelihood(self, view: View, legal: Words, played: Picked) -> Array:
        by_policy = _share(narrow(self.policy, view, legal), played)
        if self.tremble == 0.0:
            return by_policy
        return self._mix(by_policy, _share(greedy.narrow(view, legal), played), _share(legal, played), view.rules)

    def _mix(self, by_policy: Array, plays: Array, anything: Array, rules: Rules) -> Array:
        """Mix three distributions: the policy, uniform over plays, and uniform over legal actions."""
        if self.tremble == 0.0:
            return by_policy
        # The uniform policy needs no tremble, and skipping it avoids a second rounding.
        mixed = by_policy if self.policy == greedy else (1.0 - self.tremble) * by_policy + self.tremble * plays
        return (1.0 - SLIP) * mixed + SLIP * anything if rules.draw_is_option else mixed


@dataclass(frozen=True)
class ConsistentOpponent:
    """Consistency only: every legal action has likelihood 1, so plays carry no information about cards not played."""

    def __call__(self, observation: Observation, legal_mask: Array) -> Array:
        return legal_mask.astype(jnp.float32)

    def likelihood(self, view: View, legal: Words, played: Picked) -> Array:
        return bits.contains(legal, played.word, played.position).astype(jnp.float32)


TREMBLE: Final = 0.05
"""Default tremble of a named policy."""
SLIP: Final = 0.05
"""Probability that a trembling opponent takes any legal action (draw, pass and challenge included) if drawing is optional."""

uniform_opponent: Final = PolicyOpponent(uniform)
"""Plays every legal action with equal probability: the default model."""
consistent_opponent: Final = ConsistentOpponent()
"""Consistency only."""


@dataclass(frozen=True)
class Family:
    """An opponent of one of K types: it always follows the same one of K models, which filters infer.

    A filter with a family tracks p(hand, type | history)  ~  p(type) p(hand) prod_t p_type(action_t | hand_t, public_t).

    Attributes:
        models: K models that return probabilities: those of the legal actions add up to 1.
        names: Names of the types; by default as `parse_opponent` reads them.
        weights: Prior P(type), up to a common factor; uniform by default.

    Raises:
        ValueError: If there is no model, two types have one name, a weight is not positive, numbers differ, or a model does not
            return probabilities.
    """

    models: tuple[OpponentModel, ...]
    names: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        names = tuple(self.names) or tuple(map(opponent_name, self.models))
        weights = tuple(map(float, self.weights)) or (1.0,) * len(self.models)
        if not self.models or not len(self.models) == len(names) == len(weights):
            counts = f"{len(self.models)} models, {len(names)} names and {len(weights)} weights"
            raise ValueError(f"a family needs models, and a name and a weight for each of them, got {counts}")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two types of a family are called {twice[0]!r}; give each a name of its own")
        if bad := [weight for weight in weights if not (math.isfinite(weight) and weight > 0)]:
            raise ValueError(f"weights of types must be positive numbers, got {bad[0]}")
        for model in self.models:
            if isinstance(model, ConsistentOpponent):
                raise ValueError("consistent gives no probabilities of actions, so it can't be a type of a family")
            if isinstance(model, Family):
                raise ValueError("a family can't be a type of another one; list its models")
        object.__setattr__(self, "models", tuple(self.models))
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "weights", weights)

    @property
    def num_types(self) -> int:
        """Number of types K."""
        return len(self.models)

    @property
    def log_prior(self) -> np.ndarray:
        """float64[K] nats: prior ln P(type)."""
        return np.log(np.asarray(self.weights) / sum(self.weights))


Opponent: TypeAlias = OpponentModel | Family
"""Opponent of a filter: one model, or several types."""


def models_of(opponent: Opponent) -> tuple[OpponentModel, ...]:
    """Return the models of an opponent: one, or those of its types. Raises ValueError for any other object."""
    if not (isinstance(opponent, Family) or (callable(opponent) and takes(opponent, 2))):
        raise ValueError(
            "opponent must be a model, a function of observation and legal mask, or a Family of them, got "
            f"{opponent!r}; parse_opponent reads texts, and PolicyOpponent follows a policy"
        )
    return opponent.models if isinstance(opponent, Family) else (opponent,)


def type_prior(opponent: Opponent, log_types: ArrayLike | None = None) -> ArrayLike | None:
    """Return the prior over types, float[K] nats up to a constant: `log_types` or the opponent's own; None for a single model.

    Raises:
        ValueError: If `log_types` are given and the opponent has no types, or another number of them.
    """
    if not isinstance(opponent, Family):
        if log_types is not None:
            raise ValueError("log_types are given and the opponent is a single model; begin with a family, opponent=family")
        return None
    if log_types is None:
        return opponent.log_prior
    if np.shape(log_types) != (opponent.num_types,):
        raise ValueError(f"log_types must be float[{opponent.num_types}], one for each type, got shape {np.shape(log_types)}")
    return log_types


def check_types(num_known: int, opponent: Opponent, begin: str) -> None:
    """Check that `begin` made a belief for the types of an opponent: `num_known` of them, 0 for a single model.

    Raises:
        ValueError: If the numbers differ.
    """
    num_types = opponent.num_types if isinstance(opponent, Family) else 0
    if num_known != num_types:
        raise ValueError(
            f"the belief tells {num_known or 'no'} types of opponents apart, and this opponent has {num_types or 'none'}; begin "
            f"with the same one, {begin}(..., opponent=...)"
        )


def likelihood_of(model: OpponentModel, observation: Observation, legal_mask: Array, action: ArrayLike) -> Array:
    """Evaluate the likelihood of one action, a valid index: float32[], 0 if the action is not legal.

    Raises:
        ValueError: If the model returns something other than a number for each action.
    """
    likelihoods = action_probs(model, f"opponent model {name_of(model)}", observation, legal_mask)
    return jnp.where(legal_mask[action], likelihoods[action], jnp.float32(0))


def packed_likelihood_of(model: PackedOpponent, view: View, legal: Words, played: Picked) -> Array:
    """Evaluate the likelihood of a play for packed hands with the given legal options: float32[...].

    Raises:
        ValueError: If the model returns something other than a number for each hand.
    """
    return numbers(
        model.likelihood(view, legal, played), f"{name_of(model)}.likelihood", legal[0].shape, "a likelihood for each hand"
    )


def is_packed(opponent: Opponent) -> bool:
    """Return whether all models of an opponent evaluate packed hands."""
    return all(isinstance(model, PackedOpponent) for model in models_of(opponent))


def opponent_name(model: OpponentModel) -> str:
    """Return a model's name, in the form that `parse_opponent` reads if there is one."""
    if isinstance(model, PolicyOpponent):
        if model == uniform_opponent:
            return "uniform"
        return model.policy.name + ("" if model.tremble == TREMBLE else f"+{np.format_float_positional(model.tremble, trim='-')}")
    return name_of(model)


FAMILY: Final = "greedy|scarcest-color|actions-first|keep-wilds|linear|linear+0.5"
"""Types of the opponent called `family`, with a uniform prior: the shipped network's training opponent."""
MINIMAX: Final = "greedy|scarcest-color|actions-first|keep-wilds|linear*6|linear+0.5*2"
"""Types of the opponent called `minimax`, the default of searches: the types of `FAMILY` with the minimax-regret prior (Savage
1951), under which the largest cost of inferring the type is least.
"""
PEER: Final = "greedy|scarcest-color|actions-first|keep-wilds|linear*40|linear+0.5*2"
"""Types of the opponent called `peer`, the default of advisors: the types of `FAMILY`, with most of the prior on `linear`, which
rollouts follow for the player.
"""
NAMED: Final = {"family": FAMILY, "minimax": MINIMAX, "peer": PEER}
"""Named families."""


def parse_opponent(text: str) -> Opponent:
    """Return the opponent model with a name.

        uniform, consistent     see `uniform_opponent`, `consistent_opponent`
        linear, linear+0.5      a policy with the default tremble (`TREMBLE`), or another
        uniform|linear*2        one of these types, the second twice as likely (`Family`)
        family, minimax, peer   the types of `FAMILY`, `MINIMAX` or `PEER`

    Raises:
        ValueError: If there is no such policy, or a tremble, a type or a weight is invalid.
    """
    text = NAMED.get(text, text)
    if "|" not in text and "*" not in text:
        return _parse_model(text)
    models, weights = [], []
    for part in text.split("|"):
        name, times, weight = part.strip().partition("*")
        if times and not re.fullmatch(_NUMBER, weight):
            raise ValueError(f"opponent model {text!r}: the weight of {name} must be a positive number, got {weight!r}")
        models.append(_parse_model(name))
        weights.append(float(weight) if times else 1.0)
    try:
        return Family(tuple(models), weights=tuple(weights))
    except ValueError as error:
        raise ValueError(f"opponent model {text!r}: {error}") from None


_NUMBER: Final = r"[0-9]*\.?[0-9]+"


def _parse_model(text: str) -> OpponentModel:
    name, plus, tremble = text.partition("+")
    if name in ("uniform", "consistent"):
        if plus:
            raise ValueError(f"opponent model {text!r}: {name} has no tremble; write {name}")
        return uniform_opponent if name == "uniform" else consistent_opponent
    policy = get_policy(name)
    if not plus:
        return PolicyOpponent(policy, TREMBLE)
    if not re.fullmatch(_NUMBER, tremble):
        raise ValueError(f"opponent model {text!r}: the tremble must be a probability in [0, 1], got {tremble!r}")
    return PolicyOpponent(policy, float(tremble))


def _share(options: Words, played: Picked) -> Array:
    """Return the probability of a play under a uniform choice among options; 0 if it is not an option."""
    number = lax.max(bits.count(options), np.uint32(1)).astype(jnp.float32)
    # The division comes last because XLA on a CPU stores the result of a division but recomputes cheaper operations in each
    # kernel that reads them. The types of a family that follow one policy can then share its result.
    return bits.contains(options, played.word, played.position).astype(jnp.float32) / number

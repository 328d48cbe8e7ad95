"""Opponent models: likelihoods of the actions of a player with a given hand.

A model is any callable `opponent(observation, legal_mask) -> float32[61]` (`OpponentModel`); the `action_probs` of a policy is
one. The two classes here also answer for packed hands, all particles at a time, which is many times faster. A
`Family` leaves open which of several models the opponent follows: filters find out.
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
from unojax.device.returned import numbers
from unojax.observation import Observation
from unojax.policies import PackedPolicy, action_probs, get_policy, greedy, name_of, narrow, uniform
from unojax.rules import Rules
from unojax.table import Picked
from unojax.view import View


class OpponentModel(Protocol):
    """A model of how a player who sees `observation` chooses.

    It is asked for the opponent's own view of the game, imagined for one hand that the opponent might hold (`history.imagine`).
    """

    def __call__(self, observation: Observation, legal_mask: Array, /) -> Array:
        """Give likelihoods of the actions for `legal_mask`, bool[A] with A = `Rules.num_actions`: float32[A].

        They are in [0, 1] and need not add up to 1, but a factor common to all hands scales the evidence, and one that depends on
        the hand is information about the hand. The particle filter multiplies several in float32: numbers far above 1, and NaN,
        end as impossible.
        """
        ...


@runtime_checkable
class PackedOpponent(Protocol):
    """A model that also answers for packed hands, many at a time."""

    def __call__(self, observation: Observation, legal_mask: Array, /) -> Array: ...

    def likelihood(self, view: View, legal: Words, played: Picked, /) -> Array:
        """Give the likelihood of a play, for packed hands with the legal options given: float32[...]."""
        ...


@dataclass(frozen=True)
class PolicyOpponent:
    """An opponent that follows a policy, except that with probability `tremble` it makes any legal play, uniformly.

    Where drawing is a choice, a policy that trembles also takes any legal action with probability `SLIP`, whatever its tremble: a
    voluntary draw or a challenge says nothing about which policy the opponent follows.

    Attributes:
        policy: chooses uniformly among the plays that it favours.
        tremble: in [0, 1]. A little of it keeps every legal action possible, so that a wrong model cannot rule out the truth.

    Raises:
        ValueError: `tremble` is not in [0, 1].
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
        """Mix the probabilities by the policy, among the plays, and among all legal actions."""
        if self.tremble == 0.0:
            return by_policy
        # Whoever makes any legal play anyway does not tremble; and its probabilities are not rounded twice.
        mixed = by_policy if self.policy == greedy else (1.0 - self.tremble) * by_policy + self.tremble * plays
        return (1.0 - SLIP) * mixed + SLIP * anything if rules.draw_is_option else mixed


@dataclass(frozen=True)
class ConsistentOpponent:
    """Consistency only: every legal action is as likely as certain, so plays tell nothing about what was not held."""

    def __call__(self, observation: Observation, legal_mask: Array) -> Array:
        return legal_mask.astype(jnp.float32)

    def likelihood(self, view: View, legal: Words, played: Picked) -> Array:
        return bits.contains(legal, played.word, played.position).astype(jnp.float32)


TREMBLE: Final = 0.05
"""The tremble of a policy named without one."""
SLIP: Final = 0.05
"""Probability that a trembling opponent takes any legal action, where drawing is a choice: a draw, a pass or a challenge too."""

uniform_opponent: Final = PolicyOpponent(uniform)
"""Plays every legal action with equal probability: the default model."""
consistent_opponent: Final = ConsistentOpponent()
"""Consistency only."""


@dataclass(frozen=True)
class Family:
    """An opponent of one of K types: it follows one of K models, always the same, and which is to be found out.

    A filter that is given a family holds a belief over hand and type,

        p(hand, type | history)  ~  p(type) p(hand) prod_t p_type(action_t | hand_t, public_t),

    so that plays tell about the type, by all hands that the opponent may have held, and the type about the hand.

    Attributes:
        models: K, of probabilities: those of the legal actions add up to 1.
        names: of the types; by default as `parse_opponent` reads them.
        weights: P(type) before anything is seen, up to a common factor; by default all are alike.

    Raises:
        ValueError: there is no model, two types have one name, a weight is not positive, numbers differ, or a model is not one of
            probabilities.
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
        """K."""
        return len(self.models)

    @property
    def log_prior(self) -> np.ndarray:
        """float64[K] nats: ln P(type) before anything is seen."""
        return np.log(np.asarray(self.weights) / sum(self.weights))


Opponent: TypeAlias = OpponentModel | Family
"""What filters take for an opponent: one model, or several types."""


def models_of(opponent: Opponent) -> tuple[OpponentModel, ...]:
    """List the models of an opponent: one, or those of its types; ValueError if it is none."""
    if not (isinstance(opponent, Family) or callable(opponent)):
        raise ValueError(
            f"opponent must be a model, a function, or a Family of them, got {opponent!r}; parse_opponent reads texts"
        )
    return opponent.models if isinstance(opponent, Family) else (opponent,)


def type_prior(opponent: Opponent, log_types: ArrayLike | None = None) -> ArrayLike | None:
    """Give the prior of an opponent's types, float[K] nats up to a constant: its own, or `log_types`; None for a single model.

    Raises:
        ValueError: `log_types` are given and the opponent has no types, or another number of them.
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
    """Check that a belief was begun with the types of an opponent: with `num_known` of them, 0 for a single model, by `begin`.

    Raises:
        ValueError: it was not.
    """
    num_types = opponent.num_types if isinstance(opponent, Family) else 0
    if num_known != num_types:
        raise ValueError(
            f"the belief tells {num_known or 'no'} types of opponents apart, and this opponent has {num_types or 'none'}; begin "
            f"with the same one, {begin}(..., opponent=...)"
        )


def likelihood_of(model: OpponentModel, observation: Observation, legal_mask: Array, action: ArrayLike) -> Array:
    """Ask a model for the likelihood of one action, a valid index: float32[], 0 if the action is not legal.

    Raises:
        ValueError: If the model returns something other than a number for each action.
    """
    likelihoods = action_probs(model, f"opponent model {name_of(model)}", observation, legal_mask)
    return jnp.where(legal_mask[action], likelihoods[action], jnp.float32(0))


def packed_likelihood_of(model: PackedOpponent, view: View, legal: Words, played: Picked) -> Array:
    """Ask a model for the likelihood of a play for packed hands with the legal options given: float32[...].

    Raises:
        ValueError: If the model returns something other than a number for each hand.
    """
    return numbers(
        model.likelihood(view, legal, played), f"{name_of(model)}.likelihood", legal[0].shape, "a likelihood for each hand"
    )


def is_packed(opponent: Opponent) -> bool:
    """Tell whether all models of an opponent answer for packed hands."""
    return all(isinstance(model, PackedOpponent) for model in models_of(opponent))


def opponent_name(model: OpponentModel) -> str:
    """Name a model, as `parse_opponent` reads it if it can be read."""
    if isinstance(model, PolicyOpponent):
        if model == uniform_opponent:
            return "uniform"
        return model.policy.name + ("" if model.tremble == TREMBLE else f"+{np.format_float_positional(model.tremble, trim='-')}")
    return name_of(model)


FAMILY: Final = "greedy|scarcest-color|actions-first|keep-wilds|linear|linear+0.5"
"""The types of the opponent called `family`, all as likely: what the shipped network was trained with."""
MINIMAX: Final = "greedy|scarcest-color|actions-first|keep-wilds|linear*6|linear+0.5*2"
"""Those of the opponent called `minimax`: the types of `FAMILY`, as likely at first as makes finding out cost a search about as
much against each, so that the most that it can cost is least (minimax regret, Savage 1951): what searches take. All as likely, it
costs a search most against `linear`, and least against opponents that are none of them."""
PEER: Final = "greedy|scarcest-color|actions-first|keep-wilds|linear*40|linear+0.5*2"
"""Those of the opponent called `peer`: the types of `FAMILY`, with most of the prior on `linear`. Rollouts follow `linear` for
the player, so that the opponent is assumed to play as well as the player until it shows otherwise: the model of advisers."""
NAMED: Final = {"family": FAMILY, "minimax": MINIMAX, "peer": PEER}
"""Families with a name."""


def parse_opponent(text: str) -> Opponent:
    """Make the opponent that a text names.

        uniform, consistent     see `uniform_opponent`, `consistent_opponent`
        linear, linear+0.5      a policy with the usual tremble (`TREMBLE`), or another
        uniform|linear*2        one of these types, the second twice as likely (`Family`)
        family, minimax, peer   one of those of `FAMILY`, `MINIMAX` or `PEER`

    Raises:
        ValueError: there is no such policy, a tremble is no probability, or types and weights make no family.
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
    """Give the probability of a play under a uniform choice among options; 0 if it is not among them."""
    number = lax.max(bits.count(options), np.uint32(1)).astype(jnp.float32)
    # A division comes last: XLA on a CPU keeps what ends in one, and works anything cheaper out again in each kernel that reads
    # it. So the types of a family that follow one policy share its work.
    return bits.contains(options, played.word, played.position).astype(jnp.float32) / number

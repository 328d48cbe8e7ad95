"""Policies, `policy(key, observation, legal_mask) -> action`, and packed ones.

A `PackedPolicy` narrows the legal plays down by a few bit operations (`unojax.bits`) and chooses uniformly among the rest. The
same operations give the probabilities for opponent models and run in simulation and search.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, game
from unojax.bits import Words
from unojax.device.random_bits import check_key, random_words
from unojax.device.returned import like, numbers, one_integer
from unojax.observation import Observation, check_observation
from unojax.rules import Rules
from unojax.table import options
from unojax.table.options import Picked
from unojax.view import View, view_of


class Policy(Protocol):
    """Callable that chooses an action for the observing player, unbatched and jit-able."""

    def __call__(self, key: Array, observation: Observation, legal_mask: Array, /) -> Array:
        """Return a legal action, an integer scalar, given bool[num_actions]. Consumes `key`."""
        ...


def name_of(chooser: object) -> str:
    """Return the name of a policy or opponent model for messages."""
    if isinstance(chooser, partial):
        return name_of(chooser.func)
    return str(getattr(chooser, "name", None) or getattr(chooser, "__name__", None) or type(chooser).__name__)


def distinct(policies: tuple[Policy, Policy]) -> tuple[Policy, ...]:
    """Return the policies without a repetition, so that an equal pair is evaluated once."""
    return policies[:1] if policies[0] is policies[1] else policies


def ask(policies: tuple[Policy, ...], key: Array, observation: Observation, legal_mask: Array) -> Array:
    """Return the observer's action, int32[], by its policy, one of `policies`.

    All are called with the same key, because under `vmap` either player may move.

    Raises:
        ValueError: If a policy returns something other than one integer.
    """
    actions = [one_integer(policy(jax.random.clone(key), observation, legal_mask), "a policy") for policy in policies]
    return jnp.where(observation.player == 0, actions[0], actions[-1]).astype(jnp.int32)


def action_probs(asked: Callable[..., Any], who: str, observation: Observation, legal_mask: Array) -> Array:
    """Return the numbers of an opponent model for each action, float32[num_actions].

    Raises:
        ValueError: If the result has another form.
    """
    shape = (observation.rules.num_actions,)
    return numbers(asked(observation, legal_mask), who, shape, "a number for each action (Rules.num_actions)")


def narrow(policy: PackedPolicy, view: View, legal: Words) -> Words:
    """Return a packed policy's favourites among legal options, four words like `legal`.

    Raises:
        ValueError: If the result has another form.
    """
    w0, w1, w2, w3 = like(policy.narrow(view, legal), f"{name_of(policy)}.narrow", legal, "packed options (bits.Words)")
    return w0, w1, w2, w3


def prefer(legal: Words, favoured: Words) -> Words:
    """Return the favoured legal options, or all if none is favoured."""
    both = bits.both(legal, favoured)
    return bits.where(bits.any_of(both) != 0, both, legal)


def plays_before_draws(legal: Words) -> Words:
    """Return the legal plays, or drawing before a challenge if there are none."""
    plays = bits.map_words(lambda w: w & bits.PLAYS, legal)
    draw = legal[0] & bits.DRAW_OPTION, *bits.empty(legal[0])[1:]
    return bits.where(bits.any_of(plays) != 0, plays, prefer(legal, draw))


def _pick(key: Array, narrowed: Words, rules: Rules) -> Array:
    """Pick an option uniformly: an action, int32[], or DRAW if there is none."""
    picked = Picked(*bits.choose(narrowed, random_words(key, 1)[0]))
    return jnp.where(bits.any_of(narrowed) == 0, cards.DRAW, options.action_of(picked, rules).astype(jnp.int32))


class PackedPolicy(ABC):
    """Policy that narrows down the legal plays and chooses uniformly among the rest."""

    name: str
    summary: str

    @abstractmethod
    def narrow(self, view: View, legal: Words) -> Words:
        """Return the candidates among legal options, empty only if `legal` is. Elementwise."""

    def __call__(self, key: Array, observation: Observation, legal_mask: Array) -> Array:
        """Choose an action, int32[], unbatched: DRAW if no play is legal."""
        check_key(key, "a policy")
        return self.choose(key, *self._packed(observation, legal_mask, "a policy"))

    def choose(self, key: Array, view: View, legal: Words) -> Array:
        """Choose an action, int32[], from a packed view and the legal options."""
        return _pick(key, narrow(self, view, legal), view.rules)

    def choose_each(self, keys: Array, observations: Observation, legal_masks: Array) -> Array:
        """Choose D actions, int32[D], as `vmap` of `__call__` does, but faster."""
        rules = observations.rules
        legal = jax.vmap(partial(game.actions_to_options, rules=rules))(legal_masks)
        return jax.vmap(partial(_pick, rules=rules))(keys, narrow(self, view_of(observations), legal))

    def action_probs(self, observation: Observation, legal_mask: Array) -> Array:
        """Return the probability of each action, float32[num_actions], unbatched."""
        narrowed = narrow(self, *self._packed(observation, legal_mask, "action_probs"))
        chosen = game.options_to_actions(narrowed, observation.rules).astype(jnp.float32)
        return chosen / chosen.sum()

    def _packed(self, observation: Observation, legal_mask: Array, name: str) -> tuple[View, Words]:
        check_observation(observation, name)
        if np.shape(legal_mask) != (observation.rules.num_actions,):
            shape = f"bool[{observation.rules.num_actions}], got shape {np.shape(legal_mask)}"
            raise ValueError(f"{name} takes a single mask {shape}; map over a batch with jax.vmap")
        return view_of(observation), game.actions_to_options(legal_mask, observation.rules)

"""Agents: players that remember. `init`, `update` after every micro-step, `act`.

An agent sees observations only. All three functions are pure, unbatched, jit- and vmap-able, and the memory is any pytree, so an
agent can be carried through thousands of games at once. A policy becomes an agent without memory (`PolicyAgent`). `parse_agent`
makes an agent from text (see `unojax.specs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from unojax.observation import Observation
from unojax.policies import Policy
from unojax.specs import parse_agent

__all__ = ["Agent", "Memory", "PolicyAgent", "parse_agent"]

Memory = Any
"""A pytree of arrays; what is in it is the agent's own business."""


class Agent(Protocol):
    """A player for whole games. Hashable, so that it can be a static argument."""

    @property
    def name(self) -> str:
        """How the agent is called in tables: the shortest spec that makes it."""
        ...

    def init(self, key: Array, observation: Observation, /) -> Memory:
        """The memory at the start of a game, from the agent's first observation. Consumes `key`."""
        ...

    def update(self, key: Array, memory: Memory, before: Observation, action: Array, after: Observation, /) -> Memory:
        """The memory after one micro-step of either player.

        Args:
            key: consumed.
            memory: before it.
            before, after: the agent's observations around it.
            action: the public action of whoever moved, int32[].
        """
        ...

    def act(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array, /) -> Array:
        """An action, int32[], for `legal_mask` bool[61]. Consumes `key`.

        If it is not the agent's turn, or the game is over, any answer will do and no time should be spent on one.
        """
        ...


@partial(jax.tree_util.register_dataclass, data_fields=["policy"], meta_fields=["name"])
@dataclass(frozen=True)
class PolicyAgent:
    """A policy as an agent without memory. A pytree, so that the weights of a policy are traced (see `unojax.device.static`).

    Attributes:
        name: as in `Agent`.
        policy: chooses the actions.
    """

    name: str
    policy: Policy

    def init(self, key: Array, observation: Observation) -> Memory:
        """Nothing to remember."""
        del key, observation
        return ()

    def update(self, key: Array, memory: Memory, before: Observation, action: Array, after: Observation) -> Memory:
        """Nothing to remember."""
        del key, before, action, after
        return memory

    def act(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array) -> Array:
        """What the policy chooses."""
        del memory
        return jnp.asarray(self.policy(key, observation, legal_mask), jnp.int32)

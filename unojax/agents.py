"""Agents: players that remember. `init`, `update` after every transition, `act`.

An agent sees observations only. All three functions are pure, unbatched, jit- and vmap-able, and the memory is any pytree, so an
agent can be carried through thousands of games at once. A policy becomes an agent without memory (`PolicyAgent`); stronger ones
are made of parts: a belief over the hidden hand (`unojax.belief.updaters`) and what values plays (`unojax.search`,
`unojax.value`). `unojax.specs` makes agents from text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from unojax.device.returned import like, one_integer
from unojax.game import State
from unojax.observation import Observation
from unojax.policies import Policy

Memory = Any
"""A pytree of arrays, the agent's own business."""

RESIGN: Final = -2
"""What `act` returns to give the game up. Between agents the other one wins then; it is no action of the game."""


class Agent(Protocol):
    """A player for whole games. Hashable, or a pytree whose leaves are numbers or hashable (see `unojax.device.static`)."""

    @property
    def name(self) -> str:
        """The agent's name in tables: the shortest spec that makes it."""
        ...

    def init(self, key: Array, observation: Observation, /) -> Memory:
        """The memory at the start of a game, from the agent's first observation. Consumes `key`."""
        ...

    def update(self, key: Array, memory: Memory, before: Observation, action: Array, after: Observation, /) -> Memory:
        """The memory after a transition of either player: the public `action`, int32[], between two observations of the agent's.
        Consumes `key`."""
        ...

    def act(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array, /) -> Array:
        """An action, int32[], for `legal_mask`, bool[61] or [62] (`Rules.num_actions`). Consumes `key`.

        If it is not the agent's turn, or the game is over, any answer will do and no time should be spent on one.
        """
        ...


def act(agent: Agent, key: Array, memory: Memory, observation: Observation, legal_mask: Array) -> Array:
    """Ask an agent for its action: int32[]. Consumes `key`.

    Raises:
        ValueError: If it returns something other than one integer.
    """
    return one_integer(agent.act(key, memory, observation, legal_mask), "act").astype(jnp.int32)


def update(agent: Agent, key: Array, memory: Memory, before: Observation, action: Array, after: Observation) -> Memory:
    """Return the agent's memory after a transition. Consumes `key`.

    Raises:
        ValueError: If the agent returns a memory of another structure, or of other shapes and types.
    """
    return like(agent.update(key, memory, before, action, after), "update", memory, "a memory like the one it gets")


def faults_of(agent: Agent) -> list[str]:
    """Say what an agent did wrong so far, a line for each kind of fault; most agents have no report."""
    return list(getattr(agent, "report", list)())


def next_game(agent: Agent, key: Array, memory: Memory, observation: Observation) -> Memory:
    """Begin the next game of a match against the same opponent: the memory at its start. Consumes `key`.

    An agent that has a method `next_game(key, memory, observation)` is given the memory that it had at the end of the last game,
    and keeps of it what it likes, such as the opponent's type; any other begins anew. The method is pure, unbatched and vmap-able
    as the others are, and gives a memory of the same shapes.

    Raises:
        ValueError: If it does not.
    """
    go_on = getattr(agent, "next_game", None)
    if go_on is None:
        return agent.init(key, observation)
    return like(go_on(key, memory, observation), "next_game", memory, "a memory like the one it gets")


def reveal(agent: Agent, memory: Memory, state: State, player: ArrayLike) -> Memory:
    """Show the true state to an agent that has a method `reveal(memory, state, player)`, a yardstick, and nothing to any other.

    Nowhere else does the hidden hand reach an agent. The agent is about to act as `player`, with the memory that comes back.
    """
    look = getattr(agent, "reveal", None)
    return memory if look is None else look(memory, state, player)


def sees_hidden_hand(agent: Agent) -> bool:
    """Tell an agent that `reveal` shows the opponent's hand."""
    # Searches have the method, and use it if their updater is an oracle.
    updater = getattr(agent, "updater", None)
    return hasattr(agent, "reveal") and (updater is None or hasattr(updater, "see"))


def check_sees_no_hidden_hand(agent: Agent) -> None:
    """Check that an agent plays by what a player sees. Raises ValueError if it does not."""
    if sees_hidden_hand(agent):
        raise ValueError(f"{agent.name} looks at the hidden hand: what it does is no function of what a player sees")


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
        del key, observation
        return ()

    def update(self, key: Array, memory: Memory, before: Observation, action: Array, after: Observation) -> Memory:
        del key, before, action, after
        return memory

    def act(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array) -> Array:
        del memory
        return jnp.asarray(self.policy(key, observation, legal_mask))

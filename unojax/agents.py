"""Agents: players with memory. `init`, `update` after every transition, `act`.

An agent sees only observations. Its functions are pure, unbatched, jit- and vmap-able, and consume their keys; its memory is any
pytree. A policy becomes an agent without memory (`PolicyAgent`); other agents combine a belief over the hidden hand
(`unojax.belief.updaters`) with values of plays (`unojax.search`, `unojax.value`). `unojax.specs` makes agents from text.
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
from unojax.game import Packed, State
from unojax.observation import Observation
from unojax.policies import Policy

Memory = Any
"""A pytree of arrays, private to the agent."""

RESIGN: Final = -2
"""Result of `act` that resigns the game. Between agents the other one then wins; it is no action of the game."""


class Agent(Protocol):
    """A player for whole games. Hashable, or a pytree whose leaves are numbers or hashable (see `unojax.device.static`)."""

    @property
    def name(self) -> str:
        """The agent's name in tables: the shortest spec that makes it."""
        ...

    def init(self, key: Array, observation: Observation, /) -> Memory:
        """Return the memory at the start of a game, from the agent's first observation."""
        ...

    def update(self, key: Array, memory: Memory, before: Observation, action: Array, after: Observation, /) -> Memory:
        """Return the memory after a transition of either player: the public `action`, int32[], between two observations."""
        ...

    def act(self, key: Array, memory: Memory, observation: Observation, legal_mask: Array, /) -> Array:
        """Return an action, int32[], for `legal_mask`, bool[61] or [62] (`Rules.num_actions`).

        Batches ignore the result when it is not the agent's turn, or the game is over.
        """
        ...


def act(agent: Agent, key: Array, memory: Memory, observation: Observation, legal_mask: Array) -> Array:
    """Call an agent for its action: int32[].

    Raises:
        ValueError: If it returns something other than one integer.
    """
    return one_integer(agent.act(key, memory, observation, legal_mask), "act").astype(jnp.int32)


def update(agent: Agent, key: Array, memory: Memory, before: Observation, action: Array, after: Observation) -> Memory:
    """Call an agent for its memory after a transition.

    Raises:
        ValueError: If the agent returns a memory of another structure, or of other shapes and types.
    """
    return like(agent.update(key, memory, before, action, after), "update", memory, "a memory like the one it gets")


def faults_of(agent: Agent) -> list[str]:
    """Return an agent's faults so far, a line for each kind; most agents have no report."""
    return list(getattr(agent, "report", list)())


def next_game(agent: Agent, key: Array, memory: Memory, observation: Observation) -> Memory:
    """Begin the next game of a match against the same opponent: return the memory at its start.

    An agent's method `next_game(key, memory, observation)` receives the memory at the end of the last game and may carry over any
    part, such as the opponent's type. An agent without the method starts again from `init`.

    Raises:
        ValueError: If the method returns a memory of another structure, or of other shapes and types.
    """
    go_on = getattr(agent, "next_game", None)
    if go_on is None:
        return agent.init(key, observation)
    return like(go_on(key, memory, observation), "next_game", memory, "a memory like the one it gets")


def reveal(agent: Agent, memory: Memory, state: State | Packed, player: ArrayLike) -> Memory:
    """Show the true state to an oracle baseline, an agent with a method `reveal(memory, state, player)`, and nothing to others.

    This is the only path from the hidden hand to an agent. The agent is about to act as `player`, with the returned memory.
    """
    look = getattr(agent, "reveal", None)
    if look is None:
        return memory
    return look(memory, state.unpack() if isinstance(state, Packed) else state, player)


def sees_hidden_hand(agent: Agent) -> bool:
    """Return whether `reveal` shows the opponent's hand to an agent."""
    # Searches have the method, and use it if their updater is an oracle.
    updater = getattr(agent, "updater", None)
    return hasattr(agent, "reveal") and (updater is None or hasattr(updater, "see"))


def check_sees_no_hidden_hand(agent: Agent) -> None:
    """Check that an agent plays without hidden information. Raises ValueError if it does not."""
    if sees_hidden_hand(agent):
        raise ValueError(f"{agent.name} looks at the hidden hand: what it does is no function of what a player sees")


@partial(jax.tree_util.register_dataclass, data_fields=["policy"], meta_fields=["name"])
@dataclass(frozen=True)
class PolicyAgent:
    """A policy as an agent without memory. A pytree, so that the weights of a policy are traced (see `unojax.device.static`).

    Attributes:
        name: As in `Agent`.
        policy: Policy that chooses the actions.
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

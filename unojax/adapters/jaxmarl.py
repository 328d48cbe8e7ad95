"""The game as a JaxMARL `MultiAgentEnv`: `unojax.adapters.jaxmarl.Uno(rules=...)`.

Agents are `agent_0` and `agent_1`, and all of them act in every step. One action more than the game has, `num_actions - 1`, is to
do nothing: the only one available to the player who is not to move, whose action is not looked at. An action of the mover's that
is not legal loses the game: -1 and +1, under any rules. `step` deals the next game when one is over, as in all of JaxMARL.

`get_avail_actions` gives the masks. JaxMARL's `CTRolloutManager`, with which its Q-learning baselines run, asks for them by the
names of its own environments, and lets all others play any action; after `manager = CTRolloutManager(env, ...)` it is told by
`manager.get_valid_actions = jax.vmap(env.get_avail_actions)`.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportArgumentType=false
# The library may not be there, and then its classes are unknown.

from __future__ import annotations

import contextlib
import io
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from unojax import game
from unojax.adapters.encoding import BeliefKind, DType, Encoder
from unojax.adapters.requirements import missing
from unojax.adapters.seats import Seats, SeatsGame
from unojax.rules import Rules, as_rules

try:
    # It prints two lines about environments that it lacks.
    with contextlib.redirect_stdout(io.StringIO()):
        from jaxmarl.environments import spaces
        from jaxmarl.environments.multi_agent_env import MultiAgentEnv
except ImportError as error:
    raise missing("jaxmarl", "jaxmarl") from error


@struct.dataclass
class UnoState:
    """A state of JaxMARL's: bool[] `done`, int32[] `step`, and the game."""

    done: Array
    step: Array
    seats: Seats


class Uno(MultiAgentEnv):
    """Both seats of the game at once, as arrays.

    Args:
        rules: of the game, or the name of some: "official", "house", "rlcard".
        belief, particles, dtype: of the observation, as in `unojax.adapters.encoding.Encoder`.

    Attributes:
        nothing: the action of the player who is not to move, `num_actions - 1`.

    Raises:
        ValueError: an argument is none of those allowed.
    """

    def __init__(
        self, rules: Rules | str = Rules(), *, belief: BeliefKind = "none", particles: int = 128, dtype: DType = "float32"
    ):
        super().__init__(num_agents=2)
        encoder = Encoder(belief, particles, dtype, as_rules(rules))
        self._game = SeatsGame(encoder)
        self.nothing = encoder.rules.num_actions
        self.num_actions = self.nothing + 1
        seen = spaces.Box(0.0, float(encoder.high.max()), (encoder.size,), jnp.dtype(dtype))
        self.observation_spaces = dict.fromkeys(self.agents, seen)
        self.action_spaces = {agent: spaces.Discrete(self.num_actions) for agent in self.agents}

    @partial(jax.jit, static_argnums=0)
    def reset(self, key: Array) -> tuple[dict[str, Array], UnoState]:
        """Begin a game. Consumes `key`."""
        seats = self._game.deal(key)
        state = UnoState(jnp.bool_(False), jnp.int32(0), seats)
        return self.get_obs(state), state

    def step_env(
        self, key: Array, state: UnoState, actions: dict[str, Array]
    ) -> tuple[dict[str, Array], UnoState, dict[str, Array], dict[str, Array], dict[str, Any]]:
        """Play the mover's action. Consumes `key`.

        `info` has an entry for each agent, as in JaxMARL's own environments and as its training loops take it: bool[num_agents]
        `truncated`, and int8[num_agents] `winner`, the number of the agent that won, or -1.
        """
        mover = state.seats.packed.current_player
        first, second = (jnp.asarray(actions[agent]).astype(jnp.int32) for agent in self.agents)
        seats = self._game.play(state.seats, jnp.where(mover == 0, first, second), key)
        after = seats.state
        state = UnoState(after.is_over, after.step_count, seats)
        rewards = {agent: after.rewards[player] for player, agent in enumerate(self.agents)}
        dones = {**dict.fromkeys(self.agents, after.is_over), "__all__": after.is_over}
        info = {"truncated": jnp.full(self.num_agents, after.truncated), "winner": jnp.full(self.num_agents, after.winner)}
        return self.get_obs(state), state, rewards, dones, info

    def get_obs(self, state: UnoState) -> dict[str, Array]:
        """What each agent sees."""
        return {agent: self._game.look(state.seats, player) for player, agent in enumerate(self.agents)}

    @partial(jax.jit, static_argnums=0)
    def get_avail_actions(self, state: UnoState) -> dict[str, Array]:
        """The actions that each agent may choose: bool[num_actions]."""
        mover, legal = state.seats.packed.current_player, game.packed_legal_mask(state.seats.packed)
        idle = np.arange(self.num_actions) == self.nothing
        moves = jnp.append(legal, jnp.bool_(False))
        return {agent: jnp.where(mover == player, moves, idle) for player, agent in enumerate(self.agents)}

    @property
    def name(self) -> str:
        """`unojax_uno`."""
        return "unojax_uno"

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        """Both agents are of one class."""
        return {"players": list(self.agents)}

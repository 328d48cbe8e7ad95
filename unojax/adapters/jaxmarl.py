"""The game as a JaxMARL `MultiAgentEnv`: `unojax.adapters.jaxmarl.Uno(rules=...)`.

Both agents, `agent_0` and `agent_1`, act in every step. The player who is not to move has one available action, `num_actions -
1`, which does nothing. JaxMARL's `CTRolloutManager` reads masks from JaxMARL's own environments alone: for any other set
`manager.get_valid_actions = jax.vmap(env.get_avail_actions)`.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportArgumentType=false
# The library may be missing; its classes are then unknown.

from __future__ import annotations

import contextlib
import io
from functools import partial
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from unojax import game
from unojax.adapters.encoding import Encoder, EncoderOptions
from unojax.adapters.requirements import missing
from unojax.adapters.seats import Seats, deal
from unojax.rules import Rules, as_rules

try:
    # JaxMARL prints two lines about missing environments.
    with contextlib.redirect_stdout(io.StringIO()):
        from jaxmarl.environments import spaces
        from jaxmarl.environments.multi_agent_env import MultiAgentEnv
except ImportError as error:
    raise missing("jaxmarl", "jaxmarl") from error


@struct.dataclass
class UnoState:
    """JaxMARL state: bool[] `done`, int32[] `step`, and the game."""

    done: Array
    step: Array
    seats: Seats


class Uno(MultiAgentEnv):
    """Both seats of the game at once.

    Args:
        rules: Rules of the game, or the name of a preset.
        encoding: `belief`, `particles` and `dtype` of `unojax.adapters.encoding.Encoder`.

    Attributes:
        nothing: Action of the player who is not to move, `num_actions - 1`.

    Raises:
        ValueError: If an argument has another value.
    """

    def __init__(self, rules: Rules | str = Rules(), **encoding: Unpack[EncoderOptions]):
        super().__init__(num_agents=2)
        self.encoder = encoder = Encoder(rules=as_rules(rules), **encoding)
        self.nothing = encoder.rules.num_actions
        self.num_actions = self.nothing + 1
        seen = spaces.Box(0.0, float(encoder.high.max()), (encoder.size,), jnp.dtype(encoder.dtype))
        self.observation_spaces = dict.fromkeys(self.agents, seen)
        self.action_spaces = {agent: spaces.Discrete(self.num_actions) for agent in self.agents}

    @partial(jax.jit, static_argnums=0)
    def reset(self, key: Array) -> tuple[dict[str, Array], UnoState]:
        """Begin a game. Consumes `key`."""
        seats = deal(key, encoder=self.encoder)
        state = UnoState(jnp.bool_(False), jnp.int32(0), seats)
        return self.get_obs(state), state

    def step_env(
        self, key: Array, state: UnoState, actions: dict[str, Array]
    ) -> tuple[dict[str, Array], UnoState, dict[str, Array], dict[str, Array], dict[str, Any]]:
        """Play the action of the player to move. Consumes `key`.

        `info` has an entry for each agent: bool[num_agents] `truncated`, and int8[num_agents] `winner`, -1 for none.
        """
        mover = state.seats.packed.current_player
        first, second = (jnp.asarray(actions[agent]).astype(jnp.int32) for agent in self.agents)
        seats = state.seats.play(jnp.where(mover == 0, first, second), key)
        after = seats.state
        state = UnoState(after.is_over, after.step_count, seats)
        rewards = {agent: after.rewards[player] for player, agent in enumerate(self.agents)}
        dones = {**dict.fromkeys(self.agents, after.is_over), "__all__": after.is_over}
        info = {"truncated": jnp.full(self.num_agents, after.truncated), "winner": jnp.full(self.num_agents, after.winner)}
        return self.get_obs(state), state, rewards, dones, info

    def get_obs(self, state: UnoState) -> dict[str, Array]:
        """Return each agent's encoded observation."""
        return {agent: state.seats.look(player) for player, agent in enumerate(self.agents)}

    @partial(jax.jit, static_argnums=0)
    def get_avail_actions(self, state: UnoState) -> dict[str, Array]:
        """Return each agent's available actions, bool[num_actions]."""
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
        """Agents by class; both belong to one."""
        return {"players": list(self.agents)}

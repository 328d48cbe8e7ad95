"""The game as a `pgx.Env`.

Steps draw cards, so `Env.step` takes a key: `env.step(state, action, key)`. A key inside the state, which would let a search
foresee the draws, is not offered. The same player may move twice in a row (Skip, Reverse, a penalty's draw): the sign of a
discount comes from `current_player` before and after a step, and is not -1 always.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportArgumentType=false
# The library may not be there, and then its classes are unknown.

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from unojax import game
from unojax.adapters.encoding import BeliefKind, DType, Encoder
from unojax.adapters.requirements import missing
from unojax.adapters.seats import Seats, SeatsGame
from unojax.files import write_whole
from unojax.rules import RULES_VERSION, Rules, as_rules
from unojax.viz.position import position_svg

try:
    from pgx import Env
    from pgx import State as PgxState
    from pgx._src.struct import dataclass as pgx_dataclass
except ImportError as error:
    raise missing("pgx", "pgx") from error

ID = "unojax_uno"


@pgx_dataclass
class UnoState(PgxState):
    """A state of pgx's with the game inside.

    Attributes:
        current_player: int32[] who moves next, 0 or 1; at the end, who moved last.
        observation: [size] what that player sees; see `unojax.adapters.encoding`.
        rewards: float32[2] of the last step.
        terminated, truncated: bool[].
        legal_action_mask: bool[num_actions] of the player to move; all at the end.
    """

    current_player: Array
    observation: Array
    rewards: Array
    terminated: Array
    truncated: Array
    legal_action_mask: Array
    _step_count: Array
    _seats: Seats

    @property
    def env_id(self) -> Any:
        return ID

    def to_svg(self, *, color_theme: str | None = None, scale: float | None = None) -> str:
        """Draw the position, of a batch the first one, with the hand of the player to move open; `scale` is ignored."""
        del scale
        state = self._seats.state
        if num_axes := state.current_player.ndim:
            state = jax.tree.map(lambda leaf: leaf[(0,) * num_axes], state)
        return position_svg(state, view=0 if state.current_player == 0 else 1, theme="dark" if color_theme == "dark" else "light")

    def save_svg(self, filename: Any, *, color_theme: str | None = None, scale: float | None = None) -> None:
        """Write the drawing to a file."""
        write_whole(filename, self.to_svg(color_theme=color_theme, scale=scale))


class Uno(Env):
    """Two-player UNO for what consumes pgx environments.

    Args:
        rules: of the game, or the name of some: "official", "house", "rlcard".
        belief, particles, dtype: as in `unojax.adapters.encoding.Encoder`.

    Raises:
        ValueError: an argument is none of those allowed.
    """

    def __init__(
        self, rules: Rules | str = Rules(), *, belief: BeliefKind = "none", particles: int = 128, dtype: DType = "float32"
    ) -> None:
        super().__init__()
        self.rules = as_rules(rules)
        self.encoder = Encoder(belief, particles, dtype, self.rules)
        self._game = SeatsGame(self.encoder)

    def step(self, state: Any, action: Array, key: Array | None = None) -> Any:
        """Play an action; consumes `key`. An illegal one ends the game, -1 for who played it.

        Raises:
            ValueError: there is no key.
        """
        if key is None:
            raise ValueError("step draws cards and needs a key: env.step(state, action, key)")
        step_count = state._step_count + ~(state.terminated | state.truncated)
        played = self._step(state.replace(_step_count=step_count), action, key)
        return played.replace(observation=self.observe(played))

    def determinize(self, state: Any, key: Array) -> Any:
        """Deal anew what the player to move does not see, the opponent's hand and the deck, so that a search may look at them.

        The opponent's hand is drawn by the environment's belief if that is "particles", else it is any of the cards not seen, one
        as likely as another. The player to move sees the same as before. Consumes `key`.
        """
        return self._state_of(self._game.determinize(state._seats, key), state._step_count).replace(observation=state.observation)

    def _init(self, key: Array) -> UnoState:
        return self._state_of(self._game.deal(key), jnp.int32(0))

    def _step(self, state: Any, action: Array, key: Array) -> UnoState:
        # The end of a game, and an illegal action, are the engine's business and `SeatsGame`'s: pgx's own `step` would select
        # between whole states three times.
        return self._state_of(self._game.play(state._seats, action, key), state._step_count)

    def _observe(self, state: Any, player_id: Array) -> Array:
        return self._game.look(state._seats, player_id)

    def _state_of(self, seats: Seats, step_count: Array) -> UnoState:
        packed = seats.packed
        return UnoState(
            current_player=packed.current_player.astype(jnp.int32),
            # Filled in by pgx after every step.
            observation=jnp.zeros(self.encoder.size, self.encoder.dtype),
            rewards=packed.rewards,
            terminated=packed.terminated,
            truncated=packed.truncated,
            legal_action_mask=game.packed_legal_mask(packed),
            _step_count=step_count,
            _seats=seats,
        )

    @property
    def id(self) -> Any:
        """`unojax_uno`."""
        return ID

    @property
    def version(self) -> str:
        """That of the rules."""
        return str(RULES_VERSION)

    @property
    def num_players(self) -> int:
        """Two."""
        return 2

    @property
    def num_actions(self) -> int:
        """Actions, legal or not."""
        return self.rules.num_actions

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """(size,)."""
        return (self.encoder.size,)

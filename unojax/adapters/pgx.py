"""The game as a `pgx.Env`.

`Env.step` needs a key for draws: `env.step(state, action, key)`. A key in the state would let a search foresee them. The same
player may move twice in a row, so compare `current_player` before a search changes the sign of a value.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportArgumentType=false
# The library may be missing; its classes are then unknown.

from __future__ import annotations

from typing import Any, Unpack

import jax
import jax.numpy as jnp
from jax import Array

from unojax import game
from unojax.adapters.encoding import Encoder, EncoderOptions
from unojax.adapters.requirements import missing
from unojax.adapters.seats import Seats, deal
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
    """pgx state that contains the game.

    Attributes:
        current_player: Player to move, int32[]; at the end, the last one.
        observation: That player's observation, [size]; see `unojax.adapters.encoding`.
        rewards: Rewards of the last step, float32[2].
        terminated, truncated: bool[].
        legal_action_mask: Legal actions of the player to move, bool[num_actions]; all True at the end.
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
        """Return a drawing of the position, the first of a batch, as the player to move sees it."""
        del scale
        state = self._seats.state
        if num_axes := state.current_player.ndim:
            state = jax.tree.map(lambda leaf: leaf[(0,) * num_axes], state)
        return position_svg(state, view=0 if state.current_player == 0 else 1, theme="dark" if color_theme == "dark" else "light")

    def save_svg(self, filename: Any, *, color_theme: str | None = None, scale: float | None = None) -> None:
        """Write the drawing to a file."""
        write_whole(filename, self.to_svg(color_theme=color_theme, scale=scale))


class Uno(Env):
    """Two-player UNO as a pgx environment.

    Args:
        rules: Rules of the game, or the name of a preset.
        encoding: `belief`, `particles` and `dtype` of `unojax.adapters.encoding.Encoder`.

    Raises:
        ValueError: If an argument has another value.
    """

    def __init__(self, rules: Rules | str = Rules(), **encoding: Unpack[EncoderOptions]) -> None:
        super().__init__()
        self.rules = as_rules(rules)
        self.encoder = Encoder(rules=self.rules, **encoding)

    def step(self, state: Any, action: Array, key: Array | None = None) -> Any:
        """Play an action; consumes `key`.

        Raises:
            ValueError: If `key` is None.
        """
        if key is None:
            raise ValueError("step draws cards and needs a key: env.step(state, action, key)")
        step_count = state._step_count + ~(state.terminated | state.truncated)
        played = self._step(state.replace(_step_count=step_count), action, key)
        return played.replace(observation=self.observe(played))

    def determinize(self, state: Any, key: Array) -> Any:
        """Resample the opponent's hand and the deck, so that a search may use the state.

        The hand comes from the belief if that is "particles", else uniformly from the unseen cards. Consumes `key`.
        """
        return self._state_of(state._seats.determinize(key), state._step_count).replace(observation=state.observation)

    def _init(self, key: Array) -> UnoState:
        return self._state_of(deal(key, encoder=self.encoder), jnp.int32(0))

    def _step(self, state: Any, action: Array, key: Array) -> UnoState:
        # The engine and `Seats` handle finished games and illegal actions. The `step` of pgx would select between whole
        # states three times.
        return self._state_of(state._seats.play(action, key), state._step_count)

    def _observe(self, state: Any, player_id: Array) -> Array:
        return state._seats.look(player_id)

    def _state_of(self, seats: Seats, step_count: Array) -> UnoState:
        packed = seats.packed
        return UnoState(
            current_player=packed.current_player.astype(jnp.int32),
            # pgx fills this in after every step.
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
        """Version of the rules."""
        return str(RULES_VERSION)

    @property
    def num_players(self) -> int:
        """2."""
        return 2

    @property
    def num_actions(self) -> int:
        """Number of actions."""
        return self.rules.num_actions

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """(size,)."""
        return (self.encoder.size,)

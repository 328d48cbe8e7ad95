"""The game as a PettingZoo AEC environment: `unojax.adapters.pettingzoo.env(rules=...)`.

Agents are `player_0` and `player_1`; one may be selected twice in a row. Observations are a dict of `observation` (see
`unojax.adapters.encoding`) and `action_mask`, int8, all 0 for the player who is not to move. `infos` holds the mask too.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportArgumentType=false
# The library may be missing; its classes are then unknown.

from __future__ import annotations

from typing import Any, Final

import numpy as np

from unojax.adapters.encoding import BeliefKind, DType, Encoder
from unojax.adapters.requirements import missing
from unojax.adapters.seats import HostGame, as_index
from unojax.rules import Rules, as_rules
from unojax.text import format_observation

try:
    from gymnasium import spaces
    from pettingzoo import AECEnv
    from pettingzoo.utils import wrappers
except ImportError as error:
    raise missing("pettingzoo", "pettingzoo") from error

AGENTS: Final = ("player_0", "player_1")


def env(
    rules: Rules | str = Rules(),
    *,
    belief: BeliefKind = "none",
    particles: int = 128,
    dtype: DType = "float32",
    render_mode: str | None = None,
) -> AECEnv:
    """Return a `UnoAEC`, wrapped in PettingZoo's check of the order of calls."""
    return wrappers.OrderEnforcingWrapper(
        raw_env(rules, belief=belief, particles=particles, dtype=dtype, render_mode=render_mode)
    )


class UnoAEC(AECEnv):
    """Both seats of the game in turn.

    Args:
        rules: Rules of the game, or the name of a preset.
        belief, particles, dtype: As in `unojax.adapters.encoding.Encoder`.
        render_mode: "ansi" for the observation of the player to move as text, or None.

    Raises:
        ValueError: If an argument has another value.
    """

    metadata = {"name": "unojax_uno_v0", "render_modes": ["ansi"], "is_parallelizable": False}  # noqa: RUF012  (as in AECEnv)

    def __init__(
        self,
        rules: Rules | str = Rules(),
        *,
        belief: BeliefKind = "none",
        particles: int = 128,
        dtype: DType = "float32",
        render_mode: str | None = None,
    ):
        super().__init__()
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode must be None or 'ansi', got {render_mode!r}")
        self.render_mode = render_mode
        encoder = Encoder(belief, particles, dtype, as_rules(rules))
        self._game = HostGame(encoder)
        high = encoder.high
        seen = spaces.Box(np.zeros_like(high), high, dtype=high.dtype.type)
        self._no_action = np.zeros(encoder.rules.num_actions, np.int8)
        mask = spaces.Box(0, 1, self._no_action.shape, np.int8)
        self.possible_agents = list(AGENTS)
        self.observation_spaces = {agent: spaces.Dict({"observation": seen, "action_mask": mask}) for agent in AGENTS}
        self.action_spaces = {agent: spaces.Discrete(len(self._no_action)) for agent in AGENTS}

    def observation_space(self, agent: str) -> spaces.Space:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin the next game, or with a `seed` the first game of another sequence."""
        del options
        if seed is not None:
            self._game.seed(seed)
        self._game.deal()
        self.agents = list(AGENTS)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self._show()

    def step(self, action: Any) -> None:
        """Play an integer action for the selected agent, or None if that agent is done."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._game.play(as_index(action))
        self._show()
        self._accumulate_rewards()

    def observe(self, agent: str) -> dict[str, np.ndarray]:
        """Return an agent's observation."""
        player = AGENTS.index(agent)
        return {"observation": self._game.shown.encoded[player].copy(), "action_mask": self._mask(player)}

    def render(self) -> str | None:
        """Return the observation of the player to move as text in mode "ansi"."""
        if self.render_mode is None:
            return None
        return format_observation(self._game.observation(int(self._game.shown.current_player)))

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def _show(self) -> None:
        shown = self._game.shown
        self.rewards = {name: float(shown.rewards[player]) for player, name in enumerate(AGENTS)}
        self.terminations = dict.fromkeys(AGENTS, bool(shown.terminated))
        self.truncations = dict.fromkeys(AGENTS, bool(shown.truncated))
        self.agent_selection = AGENTS[int(shown.current_player)]
        self.infos = {name: {"action_mask": self._mask(player)} for player, name in enumerate(AGENTS)}

    def _mask(self, player: int) -> np.ndarray:
        is_mine = player == int(self._game.shown.current_player)
        return self._game.shown.mask.astype(np.int8) if is_mine else self._no_action.copy()


raw_env = UnoAEC

"""The game as a PettingZoo AEC environment: `unojax.adapters.pettingzoo.env(rules=...)`.

Agents are `player_0` and `player_1`; one may be selected twice in a row. Observations are a dict of `observation` (see
`unojax.adapters.encoding`) and `action_mask`, int8, all 0 for the player who is not to move. `infos` holds the mask too.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportArgumentType=false
# The library may be missing; its classes are then unknown.

from __future__ import annotations

from typing import Any, Final, Unpack

import numpy as np

from unojax.adapters.encoding import Encoder, EncoderOptions
from unojax.adapters.requirements import missing
from unojax.adapters.seats import HostGame
from unojax.rules import Rules, as_rules
from unojax.text import format_observation

try:
    from pettingzoo import AECEnv
    from pettingzoo.utils import wrappers
except ImportError as error:
    raise missing("pettingzoo", "pettingzoo") from error

AGENTS: Final = ("player_0", "player_1")


def env(rules: Rules | str = Rules(), *, render_mode: str | None = None, **encoding: Unpack[EncoderOptions]) -> AECEnv:
    """Return a `UnoAEC`, wrapped in PettingZoo's check of the order of calls."""
    return wrappers.OrderEnforcingWrapper(raw_env(rules, render_mode=render_mode, **encoding))


class UnoAEC(AECEnv):
    """Both seats of the game in turn.

    Args:
        rules: Rules of the game, or the name of a preset.
        render_mode: "ansi" for the observation of the player to move as text, or None.
        encoding: `belief`, `particles` and `dtype` of `unojax.adapters.encoding.Encoder`.

    Raises:
        ValueError: If an argument has another value.
    """

    metadata = {"name": "unojax_uno_v0", "render_modes": ["ansi"], "is_parallelizable": False}  # noqa: RUF012  (as in AECEnv)

    def __init__(self, rules: Rules | str = Rules(), *, render_mode: str | None = None, **encoding: Unpack[EncoderOptions]):
        super().__init__()
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode must be None or 'ansi', got {render_mode!r}")
        self.render_mode = render_mode
        encoder = Encoder(rules=as_rules(rules), **encoding)
        self._game = HostGame(encoder)
        self._no_action = np.zeros(encoder.rules.num_actions, np.int8)
        self.possible_agents = list(AGENTS)
        spaces = [encoder.spaces() for _ in AGENTS]
        self.observation_spaces, self.action_spaces = (
            dict(zip(AGENTS, of_agents, strict=True)) for of_agents in zip(*spaces, strict=True)
        )

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
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
        """Play an action for the selected agent, or None if that agent is done.

        Raises:
            ValueError: If the action is not in the action space. An illegal action in it loses the game.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._game.play(action)
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

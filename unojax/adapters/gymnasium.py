"""Gymnasium environments of one seat against an agent: `unojax/Uno-v0`.

    import gymnasium, unojax.adapters.gymnasium

    env = gymnasium.make("unojax/Uno-v0", opponent="linear")
    envs = gymnasium.make_vec("unojax/Uno-v0", num_envs=4096, opponent="linear")

A step plays the seat's action, then the opponent's moves until the seat's next turn. A forced draw of the seat is a step with one
legal action. Observations are a dict of `observation` (see `unojax.adapters.encoding`) and `action_mask`, int8, also in `info`.

The reward at the end is +1, -1 or 0, or with `Rules.points` the loser's points divided by 500. Every step of either player after
the seat's first move costs `Rules.step_penalty`. `info["illegal_action"]` marks a game that the seat lost by an illegal action,
`info["opponent_failed"]` one that it won because the opponent resigned or played one.

Environment i of a vector environment with seed s equals a single one with seed s + i, except for rounding by the opponent. A
reset without a seed deals the next games. After an exception, call `reset`.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportArgumentType=false
# The library may be missing; its classes are then unknown.

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Unpack

import jax
import numpy as np

from unojax.adapters import solo
from unojax.adapters.encoding import Encoder, EncoderOptions
from unojax.adapters.requirements import missing
from unojax.adapters.seats import as_action
from unojax.adapters.solo import Lanes, Seat, Shown, Table
from unojax.agents import Agent, faults_of
from unojax.decks import is_int
from unojax.device.forks import check_not_forked
from unojax.device.platform import available_cores, platform
from unojax.device.static import Argument
from unojax.observation import observe
from unojax.policies import Policy
from unojax.rules import Rules, as_rules
from unojax.specs import as_agent
from unojax.text import format_observation

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise missing("gymnasium", "gymnasium") from error

ID = "unojax/Uno-v0"
_FEWEST_LANES = 256
"""Number of lanes that justifies a separate thread."""

Player = str | Policy | Agent


class UnoVectorEnv(VectorEnv[dict[str, np.ndarray], np.ndarray, np.ndarray]):
    """Thousands of games of one seat against an agent, one device program a step. On a CPU, groups of games run in parallel.

    Args:
        num_envs: Number of parallel games.
        opponent: Spec of an agent, such as "value" or "mc:rollouts=64", a policy, or an agent.
        rules: Rules of the game, or the name of a preset.
        seat: Player of the seat, 0, 1, or "random" for either one in each game.
        autoreset_mode: `gymnasium.vector.AutoresetMode`. NEXT_STEP: the step after the end resets a game and ignores its
            action. SAME_STEP: the last step resets it, and `infos["final_obs"]` holds the last observation.
        encoding: `belief`, `particles` and `dtype` of `unojax.adapters.encoding.Encoder`.

    Raises:
        ValueError: If an argument has another value.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012  (as in VectorEnv)

    def __init__(
        self,
        num_envs: int = 1,
        opponent: Player = "value",
        rules: Rules | str = Rules(),
        *,
        seat: Seat = "random",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **encoding: Unpack[EncoderOptions],
    ):
        mode = AutoresetMode(autoreset_mode)
        if mode is AutoresetMode.DISABLED:
            raise ValueError("autoreset_mode must be NEXT_STEP or SAME_STEP, got DISABLED")
        self.metadata = {**self.metadata, "autoreset_mode": mode}
        self._resets_at_once = mode is AutoresetMode.SAME_STEP
        if not (is_int(num_envs) and num_envs >= 1):
            raise ValueError(f"num_envs must be an integer of at least 1, got {num_envs!r}")
        if render_mode is not None:
            raise ValueError(f"render_mode must be None for many games at a time, got {render_mode!r}")
        if seat not in (0, 1, "random"):
            raise ValueError(f"seat must be 0, 1 or 'random', got {seat!r}")
        self.num_envs = num_envs
        self.render_mode = None
        encoder = Encoder(rules=as_rules(rules), **encoding)
        self.single_observation_space, self.single_action_space = encoder.spaces()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._opponent = as_agent(opponent, rules=encoder.rules)
        self._num_told = len(faults_of(self._opponent))
        self._table = Table(encoder, seat)
        self._pool: ThreadPoolExecutor | None = None
        self._groups: list[Lanes] = []
        self._over = np.ones(num_envs, bool)
        self._mask = np.zeros((num_envs, encoder.rules.num_actions), np.int8)

    @cached_property
    def _num_groups(self) -> int:
        cores = available_cores() if platform() == "cpu" else 1
        return max(1, min(cores, self.num_envs // _FEWEST_LANES))

    @cached_property
    def _argument(self) -> Argument:
        """The opponent, on the device. Starts JAX."""
        return Argument(self._opponent)

    def __getstate__(self) -> dict[str, Any]:
        """Omit threads from the pickle; they restart on first use."""
        return vars(self) | {"_pool": None}

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict]:
        """Begin the next game of each environment, or with seeds the first of another sequence.

        Args:
            seed: None, an integer s for the seeds s, s + 1, ..., or a list of seeds and None.
            options: Not used; `reset_mask` is rejected.

        Raises:
            ValueError: If a seed or the number of seeds is invalid, or a `reset_mask` is given.
        """
        if options and "reset_mask" in options:
            raise ValueError("reset_mask can't be used: games that are over are reset by steps")
        observation, _, _, _, info = self._hand_out(self._begin(self._seeds(seed)))
        return observation, info

    def step(self, actions: Any) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict]:
        """Play an action, integers [num_envs], in each game. The returned arrays are copies.

        Raises:
            gymnasium.error.ResetNeeded: If no game has begun, or the last step failed.
            ValueError: If the actions are not such integers, or that of an unfinished game is not in the action space. An
                illegal action in it loses the game.
        """
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise ValueError(f"actions must be {self.num_envs} integers, got {actions.dtype}{list(actions.shape)}")
        shown = self._play(actions)
        over = shown.terminated | shown.truncated
        if not (self._resets_at_once and over.any()):
            return self._hand_out(shown)
        fresh = self._renew()
        ends = {"reward": shown.reward, "terminated": shown.terminated, "truncated": shown.truncated}
        observation, reward, terminated, truncated, info = self._hand_out(fresh._replace(**ends))
        final, final_info = np.full(self.num_envs, None, object), _infos(shown, over)
        for i in np.flatnonzero(over):
            # Copies: a view would keep the observations of all games alive.
            final[i] = {"observation": shown.observation[i].copy(), "action_mask": shown.mask[i].copy()}
        ended = {"final_obs": final, "_final_obs": over, "final_info": final_info, "_final_info": over.copy()}
        return observation, reward, terminated, truncated, info | ended

    def action_masks(self) -> np.ndarray:
        """Return the legal actions, bool[num_envs, num_actions]."""
        return self._mask.astype(bool)

    def close_extras(self, **kwargs: Any) -> None:
        del kwargs
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    @property
    def lanes(self) -> Lanes:
        """All games, on the host. Raises ResetNeeded as `step` does."""
        return jax.tree.map(lambda *parts: np.concatenate(parts), *jax.device_get(self._begun()))

    def _begin(self, seeds: Sequence[int | None]) -> Shown:
        """Begin each lane's first game for its seed. None: its next game, or a random seed."""
        check_not_forked()
        goes_on = np.array([seed is None for seed in seeds]) & bool(self._groups)
        keys, games = np.zeros((len(seeds), 2), np.uint32), np.zeros(len(seeds), np.int32)
        if goes_on.any():
            last = jax.device_get([(lanes.key, lanes.number) for lanes in self._groups])
            last_keys, last_games = map(np.concatenate, zip(*last, strict=True))
            keys[goes_on], games[goes_on] = last_keys[goes_on], last_games[goes_on] + 1
        if not goes_on.all():
            numbers = [_seed() if seed is None else int(seed) % 2**32 for seed in seeds]
            keys[~goes_on] = np.asarray(_key_data(np.asarray(numbers, np.uint32)))[~goes_on]
        self._over = np.ones(len(seeds), bool)
        groups = zip(*(np.array_split(of_lanes, self._num_groups) for of_lanes in (keys, games)), strict=True)
        return self._together([(solo.begin, *group) for group in groups])

    def _play(self, actions: np.ndarray) -> Shown:
        """Play an action, int[num_envs], in each lane; those of finished games are ignored."""
        begun, played, num_actions = self._begun(), actions[~self._over], int(self.single_action_space.n)
        if (wrong := played[(played < 0) | (played >= num_actions)]).size:
            raise ValueError(f"an action must be in [0, {num_actions - 1}], got {wrong[0]}")
        groups = np.array_split(np.where(self._over, 0, actions).astype(np.int32), self._num_groups)
        return self._together([(solo.step, lanes, group) for lanes, group in zip(begun, groups, strict=True)])

    def _renew(self) -> Shown:
        """Begin the next game in each lane whose game is over."""
        return self._together([(solo.renew, lanes) for lanes in self._begun()])

    def _begun(self) -> list[Lanes]:
        if not self._groups:
            raise gymnasium.error.ResetNeeded("no game has begun, or the last step failed: call reset() first")
        return self._groups

    def _together(self, work: list[tuple[Any, ...]]) -> Shown:
        agent = self._argument

        def one(call: tuple[Any, ...]) -> tuple[Lanes, Shown]:
            function, *args = call
            lanes, shown = function(agent, *args, table=self._table)
            return lanes, jax.device_get(shown)

        if self._pool is None and len(work) > 1:
            self._pool = ThreadPoolExecutor(len(work))

        # A step donates the lanes' buffers: if it fails, no lanes remain, and the next reset starts over.
        self._groups = []
        done = [one(call) for call in work] if self._pool is None else list(self._pool.map(one, work))
        self._groups = [lanes for lanes, _ in done]
        # A copy that the caller may write to; arrays from a device are read-only.
        shown = Shown(*(np.concatenate(parts) for parts in zip(*(shown for _, shown in done), strict=True)))
        # Lanes whose game was over have begun the next one.
        begins, self._over = self._over, shown.terminated | shown.truncated
        self._warn_of_faults(shown.failed)
        if (begins & self._over).any():
            raise ValueError(
                f"{solo.MOST_PASSED_OVER} games in a row were over before the seat's first move: take an opponent that does not "
                "give up, or rules that let both players move"
            )
        return shown

    def _warn_of_faults(self, failed: np.ndarray) -> None:
        """Warn of games, bool[num_envs], that the opponent lost by faults; once for each kind."""
        faults = faults_of(self._opponent)
        if not faults and failed.any():
            faults = ["it gave up, or played an action that was not legal"]
        if len(faults) > self._num_told:
            self._num_told = len(faults)
            what = f"the opponent {self._opponent.name!r} fails, and loses games by that: {'; '.join(faults)}"
            warnings.warn(what, RuntimeWarning, stacklevel=2)

    def _hand_out(self, shown: Shown) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict]:
        self._mask = shown.mask
        observation = {"observation": shown.observation, "action_mask": shown.mask.copy()}
        return observation, shown.reward, shown.terminated, shown.truncated, _infos(shown, np.ones(self.num_envs, bool))

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        """Return a seed for each environment and seed this object's generator."""
        if seed is None:
            return [None] * self.num_envs
        seeds: list[int | None] = list(seed) if isinstance(seed, Iterable) else [seed]
        if is_int(seed):
            seeds = [int(seed) + i for i in range(self.num_envs)]
        if len(seeds) != self.num_envs or not all(s is None or (is_int(s) and s >= 0) for s in seeds):
            raise ValueError(f"seed must be None, an integer of at least 0, or a list of {self.num_envs} of those, got {seed!r}")
        super().reset(seed=seeds[0] if is_int(seed) else None)
        return seeds


class UnoEnv(gymnasium.Env[dict[str, np.ndarray], np.int64]):
    """One seat against an agent: the game of a `UnoVectorEnv` of one.

    Args:
        opponent, rules, seat, encoding: As in `UnoVectorEnv`.
        render_mode: "ansi" for the seat's observation as text, or None.

    Raises:
        ValueError: If an argument has another value.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  (as in gymnasium.Env)

    def __init__(
        self,
        opponent: Player = "value",
        rules: Rules | str = Rules(),
        *,
        seat: Seat = "random",
        render_mode: str | None = None,
        **encoding: Unpack[EncoderOptions],
    ):
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode must be None or 'ansi', got {render_mode!r}")
        self.render_mode = render_mode
        self._envs = UnoVectorEnv(1, opponent, rules, seat=seat, **encoding)
        self.observation_space, self.action_space = self._envs.single_observation_space, self._envs.single_action_space
        self._is_over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, np.ndarray], dict]:
        """Begin the next game, or with a `seed` the first game of another sequence."""
        super().reset(seed=seed, options=options)
        observation, infos = self._envs.reset(seed=[seed])
        self._is_over = False
        return _only(observation), _only(infos)

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict]:
        """Play an action and the opponent's moves. The returned arrays are copies.

        Raises:
            gymnasium.error.ResetNeeded: If no game is in progress, or the last step failed.
            ValueError: If the action is not in the action space. An illegal action in it loses the game.
        """
        if self._is_over:
            raise gymnasium.error.ResetNeeded("the game is over or has not begun: call reset() first")
        observation, *of_step, infos = self._envs.step([as_action(action, int(self.action_space.n))])
        reward, terminated, truncated = (values.item() for values in of_step)
        self._is_over = terminated or truncated
        return _only(observation), reward, terminated, truncated, _only(infos)

    def action_masks(self) -> np.ndarray:
        """Return the legal actions, bool[num_actions], as sb3-contrib's MaskablePPO expects; all False before the first reset."""
        return self._envs.action_masks()[0]

    def render(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the seat's observation as text in mode "ansi"."""
        if self.render_mode is None:
            return None
        lanes = self._envs.lanes
        state = jax.tree.map(lambda leaf: leaf[0], lanes.state)
        return format_observation(observe(state, int(lanes.seat[0])))

    def close(self) -> None:
        self._envs.close()


def _only(rows: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the entries of a single game: arrays, and numbers of Python. Gymnasium's marks of known infos are left out."""
    return {name: row[0] if row.ndim > 1 else row[0].item() for name, row in rows.items() if not name.startswith("_")}


@jax.jit
def _key_data(seeds: jax.Array) -> jax.Array:
    return jax.random.key_data(jax.vmap(lambda seed: jax.random.key(seed, impl="threefry2x32"))(seeds))


def _infos(shown: Shown, known: np.ndarray) -> dict[str, Any]:
    """Return copied infos in gymnasium's form; bool[num_envs] `known` marks games with infos."""
    infos = {"action_mask": shown.mask, "illegal_action": shown.illegal, "opponent_failed": shown.failed}
    masks = {f"_{name}": known for name in infos}
    return {name: array.copy() for name, array in (infos | masks).items()}


def _seed() -> int:
    return int.from_bytes(os.urandom(4), "little")


if ID not in gymnasium.registry:
    gymnasium.register(ID, entry_point=f"{__name__}:UnoEnv", vector_entry_point=f"{__name__}:UnoVectorEnv")

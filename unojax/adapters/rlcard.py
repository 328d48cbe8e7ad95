"""The game as an RLCard environment, and RLCard agents as players.

    env = unojax.adapters.rlcard.make(rules=...)         # or rlcard.make("unojax-uno") after the import
    unojax arena rlcard:uno-rule-v1 linear               # a model of RLCard's registry
    unojax arena rlcard:runs/checkpoint_dqn.pt uniform   # a trained DQN or NFSP agent

States follow RLCard: planes int[4, 4, 15] of the hand and the target, legal actions by number, and the raw state with names such
as `r-5`, `b-wild`. RLCard's order of colours is red, green, blue, yellow. The default rules are those of unojax; `make("rlcard")`
has RLCard's.

Under rules beyond RLCard's, the raw state has `penalty`, `drawn` and `contested`, `draw` also means passing, and a 62nd action is
`challenge`.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportArgumentType=false
# The library may be missing; its classes are then unknown.

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, Final

import numpy as np
from jax import Array

from unojax import cards
from unojax.adapters.callback import HostAgent, Question
from unojax.adapters.encoding import Encoder
from unojax.adapters.requirements import missing
from unojax.adapters.seats import HostGame
from unojax.agents import Memory
from unojax.observation import Observation
from unojax.rules import Rules, as_rules

try:
    from rlcard.envs import Env
    from rlcard.envs.registration import register, registry
    from rlcard.games.uno.utils import ACTION_LIST, encode_hand, encode_target
except ImportError as error:
    raise missing("rlcard", "rlcard") from error

ID: Final = "unojax-uno"
DEFAULT_MODEL: Final = "uno-rule-v1"
_RANDOM_MODEL: Final = "random"
_COLORS: Final = "rybg"
_RANKS: Final = (*map(str, range(10)), "skip", "reverse", "draw_2", "wild", "wild_draw_4")
_SWAPPED: Final = {1: 3, 3: 1}
_ACTIONS: Final = (*ACTION_LIST, "challenge")
"""RLCard's names of actions, by its numbers."""
_PLANES: Final = (4, 4, 15)


def to_rlcard(action: int) -> int:
    """Convert an action number between unojax and RLCard, either way."""
    color, rank = divmod(action, cards.NUM_RANKS)
    return action if action >= cards.DRAW else _SWAPPED.get(color, color) * cards.NUM_RANKS + rank


def card_name(card: int, copy: int = 0) -> str:
    """Return RLCard's name of a card type, `r-5`; a wild card's colour is meaningless."""
    color, rank = int(cards.COLOR_OF_TYPE[card]), int(cards.RANK_OF_TYPE[card])
    return f"{_COLORS[copy if color < 0 else color]}-{_RANKS[rank]}"


def state_of(observation: Observation, legal: list[int], action_record: list[Any] | None = None) -> dict[str, Any]:
    """Return an observation as an RLCard state.

    Args:
        observation: Observation, NumPy.
        legal: Legal actions, numbered as in unojax.
        action_record: Player and RLCard's name of each action so far.
    """
    hand, pile = (_names(onehot) for onehot in (observation.hand, observation.pile))
    top = f"{_COLORS[int(observation.color)]}-{_RANKS[int(observation.top_rank)]}"
    # The order of the pile is unknown below its top.
    top_card = card_name(cards.card_type(int(observation.color), int(observation.top_rank)))
    if top_card in pile:
        pile.remove(top_card)
    numbers = sorted(map(to_rlcard, legal))
    names = [_ACTIONS[number] for number in numbers]
    player, counts = int(observation.player), [int(observation.hand.sum()), int(observation.opponent_count)]
    planes = np.zeros(_PLANES, int)
    encode_hand(planes[:3], hand)
    encode_target(planes[3], top)
    raw = {"hand": hand, "target": top, "played_cards": [*pile, top], "legal_actions": names, "num_players": 2}
    raw |= {"num_cards": counts if player == 0 else counts[::-1], "current_player": int(observation.current_player)}
    drawn, contested = int(observation.drawn), int(observation.contested)
    raw |= {"penalty": int(observation.penalty), "drawn": None if drawn < 0 else card_name(drawn)}
    raw |= {"contested": None if contested < 0 else _COLORS[contested]}
    return {
        "obs": planes,
        "legal_actions": OrderedDict.fromkeys(numbers),
        "raw_obs": raw,
        "raw_legal_actions": names,
        "action_record": [] if action_record is None else action_record,
    }


def _names(onehot: np.ndarray) -> list[str]:
    slots = np.flatnonzero(onehot)
    held = sorted((int(cards.TYPE_OF_SLOT[s]), int(cards.COPY_OF_SLOT[s])) for s in slots)
    return [card_name(card, copy) for card, copy in held]


class _Game(HostGame):
    """The game as RLCard's `Env` expects it; actions are RLCard's names."""

    def __init__(self, rules: Rules):
        super().__init__(Encoder(rules=rules))
        self.allow_step_back = False
        self._past: list[Any] = []

    def get_num_players(self) -> int:
        return 2

    def get_num_actions(self) -> int:
        return self.encoder.rules.num_actions

    def init_game(self) -> tuple[int, int]:
        self.deal()
        self._past = []
        return self.get_player_id(), self.get_player_id()

    def step(self, name: str) -> tuple[int, int]:
        action = self.checked(name)
        if self.allow_step_back:
            self._past.append((self.seats, self.shown))
        self.play(action)
        return self.get_player_id(), self.get_player_id()

    def checked(self, name: str) -> int:
        """Return the unojax number of an action. Raises ValueError if it is illegal."""
        legal = self.legal_actions(self.get_player_id())
        action = to_rlcard(_ACTIONS.index(name)) if name in _ACTIONS else -1
        if action not in legal:
            allowed = ", ".join(_ACTIONS[to_rlcard(action)] for action in legal) or "none, the game is over"
            raise ValueError(f"action {name!r} is not legal; legal are {allowed}")
        return action

    def step_back(self) -> bool:
        if not self._past:
            return False
        self.seats, self.shown = self._past.pop()
        return True

    def get_player_id(self) -> int:
        return int(self.shown.current_player)

    def is_over(self) -> bool:
        return bool(self.shown.terminated or self.shown.truncated)

    def get_state(self, player: int) -> int:
        return player

    def legal_actions(self, player: int) -> list[int]:
        if self.is_over() or player != self.get_player_id():
            return []
        return np.flatnonzero(self.shown.mask).tolist()


class UnoEnv(Env):
    """Environment for RLCard's agents; `make` is the shortcut.

    Args:
        config: RLCard's `seed` and `allow_step_back`, and `rules` as in `make`.
    """

    def __init__(self, config: dict[str, Any]):
        self.name = ID
        self.rules = as_rules(config.get("rules", Rules()))
        self.game = _Game(self.rules)
        super().__init__({"seed": None, "allow_step_back": False, **config})
        self.state_shape = [list(_PLANES)] * 2
        self.action_shape: list[None] = [None, None]

    def seed(self, seed: int | None = None) -> None:
        """Begin a sequence of games."""
        self.game.seed(seed)

    def step(self, action: int | str, raw_action: bool = False) -> tuple[dict[str, Any], int]:
        """Return the next state and its player after an action, a number or with `raw_action` a name.

        Raises:
            ValueError: If the action is illegal; the game is then unchanged.
        """
        # Before RLCard records the action.
        self.game.checked(action if raw_action else self._decode_action(action))
        return super().step(action, raw_action)

    def get_payoffs(self) -> np.ndarray:
        """Return both players' rewards, float[2]; 0 if the game is drawn, truncated or unfinished."""
        shown = self.game.shown
        return np.array(shown.rewards if shown.terminated else [0, 0], float)

    def get_perfect_information(self) -> dict[str, Any]:
        """Return all cards by RLCard's names."""
        player = self.game.get_player_id()
        seen = state_of(self.game.observation(player), self.game.legal_actions(player))["raw_obs"]
        hands = [_names(hand) for hand in self.game.state().hands]
        kept = {key: seen[key] for key in ("target", "played_cards", "current_player", "legal_actions")}
        return {"num_players": 2, "hand_cards": hands, **kept}

    def _extract_state(self, player: int) -> dict[str, Any]:
        return state_of(self.game.observation(player), self.game.legal_actions(player), self.action_recorder)

    def _decode_action(self, action_id: int) -> str:
        if not 0 <= action_id < self.num_actions:
            raise ValueError(f"action must be in [0, {self.num_actions - 1}], got {action_id}")
        return _ACTIONS[action_id]

    def _get_legal_actions(self) -> OrderedDict:
        player = self.game.get_player_id()
        return OrderedDict.fromkeys(sorted(map(to_rlcard, self.game.legal_actions(player))))


def make(rules: Rules | str = Rules(), *, seed: int | None = None, allow_step_back: bool = False) -> UnoEnv:
    """Return the environment under rules or a preset."""
    return UnoEnv({"rules": rules, "seed": seed, "allow_step_back": allow_step_back})


@dataclass(frozen=True)
class RLCardAgent(HostAgent):
    """RLCard agent as a player.

    Attributes:
        name: Spec of the agent.
        model: As in `agent`.
    """

    name: str
    model: str

    def init(self, key: Array, observation: Observation) -> Memory:
        """Begin a game. Raises ValueError if the model does not support the rules."""
        _check_rules(self.model, observation.rules)
        return super().init(key, observation)

    def choose(self, question: Question) -> int:
        theirs = _load(self.model, _written(self.model))
        state = state_of(question.observation, question.legal)
        with _RANDOM:
            before = np.random.get_state()  # noqa: NPY002  (RLCard's agents draw from NumPy's one global generator)
            np.random.seed(question.seed)  # noqa: NPY002  (as above)
            try:
                action, _ = theirs.eval_step(state)
            finally:
                np.random.set_state(before)  # noqa: NPY002  (as above)
        number = _ACTIONS.index(action) if theirs.use_raw else int(action)
        return to_rlcard(number)


_RANDOM: Final = threading.Lock()


def _written(model: str) -> tuple[int, int]:
    """Return time and size of a checkpoint; a rewritten file is another agent."""
    if not model.endswith(".pt"):
        return 0, 0
    status = Path(model).stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=16)
def _load(model: str, written: tuple[int, int]) -> Any:
    del written
    if model == _RANDOM_MODEL:
        return _agents().RandomAgent(num_actions=len(_ACTIONS))
    if model.endswith(".pt"):
        return _load_checkpoint(model)
    import rlcard.models

    return rlcard.models.load(model).agents[0]


def _load_checkpoint(path: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise ValueError(f"model {path!r} was trained with torch, which is not installed: pip install torch") from error
    agents = _agents()
    # RLCard's checkpoints hold Python objects, so loading one runs code from the file.
    checkpoint = torch.load(path, weights_only=False)
    kind = checkpoint.get("agent_type", "")
    if kind not in ("DQNAgent", "NFSPAgent"):
        raise ValueError(f"model {path!r} must be a checkpoint of a DQNAgent or an NFSPAgent")
    # RLCard prints about the file, and stdout may be a command's JSON.
    with redirect_stdout(sys.stderr):
        return getattr(agents, kind).from_checkpoint(checkpoint)


def _check_rules(model: str, rules: Rules) -> None:
    """Reject a registry model under `Rules.draw_is_option`: it draws whenever it may."""
    if model == _RANDOM_MODEL or model.endswith(".pt") or not rules.draw_is_option:
        return
    options = {"may_draw": True, "play_drawn": "may", "wild_draw_four": "challenge"}
    got = ", ".join(f"{name}={value!r}" for name, value in options.items() if getattr(rules, name) == value)
    raise ValueError(
        f"model {model!r} draws wherever it may, and plays only under rules where a draw is forced, such as 'default' and "
        f"'rlcard': got {got}; take other rules, or an agent that RLCard has trained under these (.pt)"
    )


def _agents() -> Any:
    try:
        import rlcard.agents
    except (ImportError, CalledProcessError) as error:
        # RLCard imports distutils, which setuptools provides since Python 3.12, and pip.
        raise ValueError(f"rlcard.agents can't be imported ({error}): pip install setuptools pip") from error
    return rlcard.agents


def agent(*, model: str = DEFAULT_MODEL, rules: Rules = Rules()) -> RLCardAgent:
    """Play as an RLCard agent.

    Args:
        model: Name in RLCard's registry of a model that plays UNO ("uno-rule-v1"), for rules without optional draws; "random";
            or the file (.pt) of a trained DQN or NFSP agent. Loading runs code from the file, so it must be trusted.
        rules: Rules of the games.

    Raises:
        ValueError: If the model does not exist, or does not support these rules.
    """
    from rlcard.models.registration import model_registry

    names = [name for name in model_registry.model_specs if name.startswith("uno")]
    if model.endswith(".pt"):
        if not Path(model).is_file():
            raise ValueError(f"there is no file {model!r}")
    elif model not in (names := (*names, _RANDOM_MODEL)):
        raise ValueError(f"model must be one of {', '.join(names)}, or a file .pt, got {model!r}")
    _check_rules(model, rules)
    try:
        theirs = _load(model, _written(model))
    except (RuntimeError, OSError) as error:
        raise ValueError(f"model {model!r} can't be loaded: {error}") from error
    known = getattr(theirs, "num_actions", None) or getattr(theirs, "_num_actions", len(_ACTIONS))
    if known < rules.num_actions:
        raise ValueError(f"model {model!r} has {known} actions, and a game under these rules {rules.num_actions}")
    return RLCardAgent(f"rlcard:{model}", model)


if ID not in registry.env_specs:
    register(ID, f"{__name__}:UnoEnv")

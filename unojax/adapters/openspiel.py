"""The game in OpenSpiel: `import unojax.adapters.openspiel` registers `unojax_uno`.

    pyspiel.load_game("unojax_uno")
    pyspiel.load_game("unojax_uno(deck=R1 R1 R2 Y1 Y2 RS W,hand_size=2,max_steps=12)")
    unojax.adapters.openspiel.load_game(unojax.Rules(...))

Its parameters are the fields of `unojax.Rules`; `deck` is "full" or all cards, separated by blanks. OpenSpiel's games end, so
`max_steps` is 500 unless it is given; a game that is cut off is a draw. Every card that is dealt, turned up or drawn is a chance
node of its own, whose outcomes are card types 0..53 (for the start card plus 54 times the number of a coin, which gives a wild
its colour and says who begins, where the rules leave that to chance). A draw is an action of its player, and then chance nodes.

Information states recall all that the player saw: the first hand, the start card, every action, and the own cards drawn. Their
tensor has one row for each step that a game may have. Observation tensors are those of `unojax.adapters.encoding`.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportArgumentType=false
# The library may not be there, and then its classes are unknown.

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import jax
import numpy as np

from unojax import cards, game
from unojax.adapters.encoding import Encoder
from unojax.adapters.nodes import Nodes
from unojax.adapters.requirements import missing
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import format_action, format_cards, format_observation, parse_cards

try:
    import pyspiel
except ImportError as error:
    raise missing("open_spiel", "openspiel") from error

NAME: Final = "unojax_uno"
MAX_STEPS: Final = 500
"""Steps after which a game is cut off, if the rules don't say."""
_FULL: Final = "full"
_ENCODER: Final = Encoder()
_START_COLUMNS: Final = cards.NUM_COLORS + cards.NUM_RANKS
_STEP_COLUMNS: Final = 2 + cards.NUM_ACTIONS + cards.NUM_TYPES


def _parameters(rules: Rules) -> dict[str, Any]:
    """Write rules as parameters of the game: numbers, truth values and text."""
    values = {field.name: getattr(rules, field.name) for field in fields(Rules)}
    deck = _FULL if rules.deck == Rules().deck else format_cards(cards.onehot_of(np.array(rules.deck)))
    return values | {"deck": deck, "max_steps": MAX_STEPS if rules.max_steps is None else rules.max_steps}


def _rules_of(parameters: dict[str, Any]) -> Rules:
    values: dict[str, Any] = {**_DEFAULTS, **parameters}
    deck = values["deck"]
    counts = Rules().deck if deck == _FULL else tuple(cards.count_types(parse_cards(deck)).tolist())
    return Rules(**{**values, "deck": counts})


def load_game(rules: Rules = Rules()) -> pyspiel.Game:
    """Load the game under these rules; its `str` is what `pyspiel.load_game` takes."""
    return pyspiel.load_game(NAME, _parameters(rules))


_DEFAULTS: Final[dict[str, Any]] = _parameters(Rules())


def _game_type(utility: Any = pyspiel.GameType.Utility.ZERO_SUM) -> pyspiel.GameType:
    return pyspiel.GameType(
        short_name=NAME,
        long_name="UNO for two (unojax)",
        dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
        chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
        information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
        utility=utility,
        reward_model=pyspiel.GameType.RewardModel.TERMINAL,
        max_num_players=2,
        min_num_players=2,
        provides_information_state_string=True,
        provides_information_state_tensor=True,
        provides_observation_string=True,
        provides_observation_tensor=True,
        provides_factored_observation_string=False,
        parameter_specification=_DEFAULTS,
    )


class UnoGame(pyspiel.Game):
    """The game under some rules; `params` as in `load_game`."""

    def __init__(self, params: dict[str, Any] | None = None):
        self.rules = _rules_of(params or {})
        self.nodes = Nodes(self.rules)
        assert self.rules.max_steps is not None
        # What every step costs both players, at most.
        paid = abs(self.rules.step_penalty) * self.rules.max_steps
        utility = pyspiel.GameType.Utility
        info = pyspiel.GameInfo(
            num_distinct_actions=cards.NUM_ACTIONS,
            max_chance_outcomes=self.nodes.num_outcomes,
            num_players=2,
            min_utility=-1.0 - paid,
            max_utility=1.0 + paid,
            utility_sum=0.0 if paid == 0 else None,
            max_game_length=self.rules.max_steps,
        )
        super().__init__(_game_type(utility.ZERO_SUM if paid == 0 else utility.GENERAL_SUM), info, params or {})

    def new_initial_state(self) -> UnoState:
        return UnoState(self)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> UnoObserver:
        return UnoObserver(iig_obs_type or pyspiel.IIGObservationType(perfect_recall=False), params, self.rules)


class UnoState(pyspiel.State):
    """A game in progress. All attributes are immutable, for copies.

    Attributes:
        position: where it stands, as in `unojax.adapters.nodes`.
        hands: types dealt to each player, ascending.
        start: the start card's outcome; -1 before it.
        steps: `(player, action, types drawn)`, the last one perhaps still drawing.
    """

    def __init__(self, game: UnoGame):
        super().__init__(game)
        self._nodes, self._rules = game.nodes, game.rules
        self.position = game.nodes.start
        self.hands: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self.start = -1
        self.steps: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
        self._is_drawing = False

    def current_player(self) -> int:
        if self.is_terminal():
            return pyspiel.PlayerId.TERMINAL
        look = self._nodes.look(self.position)
        return pyspiel.PlayerId.CHANCE if look.is_dealing or self._is_drawing else look.player

    def is_terminal(self) -> bool:
        return self._is_cut_off() or self._nodes.look(self.position).is_over

    def returns(self) -> list[float]:
        look = self._nodes.look(self.position)
        paid = self._rules.step_penalty * (len(self.steps) - look.is_over)
        won = [0.0, 0.0] if look.winner == game.NO_WINNER else [1.0 - 2.0 * look.winner, 2.0 * look.winner - 1.0]
        return [points - paid for points in won] if self.is_terminal() else [0.0, 0.0]

    def chance_outcomes(self) -> list[tuple[int, float]]:
        return list(self._nodes.look(self.position).outcomes)

    def state(self) -> State:
        """The position as a `unojax.State`, NumPy on the host, with the fields of the episode; once the start card lies."""
        look = self._nodes.look(self.position)
        last = self.steps[-1][1] if self.steps else game.NO_ACTION
        return look.state.replace(
            step_count=np.int32(len(self.steps)), last_action=np.int8(last), truncated=np.bool_(self._is_cut_off())
        )

    def _is_cut_off(self) -> bool:
        # A step is over when its cards are drawn.
        done = len(self.steps) - self._is_drawing
        return done >= (self._rules.max_steps or 0) and not self._nodes.look(self.position).is_over

    def _legal_actions(self, player: int) -> list[int]:
        look = self._nodes.look(self.position)
        return list(look.legal) if player == look.player and not self.is_chance_node() else []

    def _apply_action(self, action: int) -> None:
        look, player = self._nodes.look(self.position), self._nodes.look(self.position).player
        if not (look.is_dealing or self._is_drawing):
            self.position = self._nodes.play(self.position, action)
            self.steps = (*self.steps, (player, action, ()))
            self._is_drawing = action == cards.DRAW and not self._nodes.look(self.position).is_over
            return
        self.position = self._nodes.draw(self.position, action)
        card = action % cards.NUM_TYPES
        if self._is_drawing:
            mover, last, drawn = self.steps[-1]
            self.steps = (*self.steps[:-1], (mover, last, tuple(sorted((*drawn, card)))))
            self._is_drawing = self._nodes.look(self.position).is_drawing
        elif len(self.hands[1]) < self._rules.hand_size:
            first, second = (tuple(sorted((*hand, card))) if p == player else hand for p, hand in enumerate(self.hands))
            self.hands = (first, second)
        else:
            self.start = action

    def _action_to_string(self, player: int, action: int) -> str:
        if player != pyspiel.PlayerId.CHANCE:
            return format_action(action)
        coin, card = divmod(action, cards.NUM_TYPES)
        return cards.TYPE_NAMES[card] + (f" (coin {coin})" if coin else "")

    def information(self, player: int) -> str:
        """What the player has seen so far, in one line."""
        parts = [f"player {player}", f"hand {_names(self.hands[player])}"]
        if self.start >= 0:
            parts.append(f"start {self._action_to_string(pyspiel.PlayerId.CHANCE, self.start)}")
        for mover, action, drawn in self.steps:
            seen = f" {_names(drawn)}" if drawn and mover == player else ""
            parts.append(f"{mover}:{format_action(action)}{seen}")
        return ", ".join(parts)

    def __str__(self) -> str:
        everything = [f"hands {' / '.join(map(_names, self.hands))}"]
        if self.start >= 0:
            everything.append(f"start {self._action_to_string(pyspiel.PlayerId.CHANCE, self.start)}")
        everything += [f"{p}:{format_action(a)}{' ' + _names(d) if d else ''}" for p, a, d in self.steps]
        return ", ".join(everything)


class UnoObserver:
    """Writes what a player sees of a state as `tensor`, its parts in `dict`, and as text."""

    def __init__(self, iig_obs_type: Any, params: Any, rules: Rules):
        if params:
            raise ValueError(f"observers have no parameters, got {params}")
        if iig_obs_type.private_info == pyspiel.PrivateInfoType.ALL_PLAYERS:
            raise ValueError("private_info must be SINGLE_PLAYER or NONE: nobody sees both hands")
        self._recalls = iig_obs_type.perfect_recall
        self._is_private = iig_obs_type.private_info == pyspiel.PrivateInfoType.SINGLE_PLAYER
        self._is_public = iig_obs_type.public_info
        assert rules.max_steps is not None
        if self._recalls:
            shapes = {"player": (2,), "start": (_START_COLUMNS + 2,), "steps": (rules.max_steps, _STEP_COLUMNS)}
            shapes |= {"hand": (cards.NUM_TYPES,)} if self._is_private else {}
        else:
            shapes = {"player": (2,), "observation": (_ENCODER.size,)}
        self.tensor = np.zeros(sum(int(np.prod(shape)) for shape in shapes.values()), np.float32)
        self.dict, start = {}, 0
        for name, shape in shapes.items():
            stop = start + int(np.prod(shape))
            self.dict[name] = self.tensor[start:stop].reshape(shape)
            start = stop

    def set_from(self, state: UnoState, player: int) -> None:
        """Write the state as `player` sees it."""
        self.tensor.fill(0)
        self.dict["player"][player] = 1
        if not self._recalls:
            seen = np.array(_encode(state.state(), np.int32(player)))
            hand = _ENCODER.columns("hand")
            if not self._is_private:
                seen[hand] = 0
            if not self._is_public:
                seen[hand.stop :] = 0
            self.dict["observation"][:] = seen
            return
        if self._is_private:
            np.add.at(self.dict["hand"], list(state.hands[player]), 1)
        if self._is_public and state.start >= 0:
            # Before anything is played the position tells the start card, its colour and who begins.
            card, coin = state.start % cards.NUM_TYPES, state._nodes.coins[state.start // cards.NUM_TYPES]
            color = coin >> 30 if card >= cards.WILD_TYPE else int(cards.COLOR_OF_TYPE[card])
            self.dict["start"][[color, cards.NUM_COLORS + int(cards.RANK_OF_TYPE[card]), _START_COLUMNS + (coin & 1)]] = 1
        for row, (mover, action, drawn) in zip(self.dict["steps"], state.steps, strict=False):
            if self._is_public:
                row[[mover, 2 + action]] = 1
            if self._is_private and mover == player:
                np.add.at(row[2 + cards.NUM_ACTIONS :], list(drawn), 1)

    def string_from(self, state: UnoState, player: int) -> str:
        """Write the state as `player` sees it, as text."""
        if self._recalls:
            return state.information(player)
        if state.start < 0:
            return f"player {player}: hand {_names(state.hands[player])}"
        return format_observation(_observe(state.state(), np.int32(player)))


def _names(types: tuple[int, ...]) -> str:
    return " ".join(cards.TYPE_NAMES[t] for t in types) or "-"


@jax.jit
def _encode(state: State, player: jax.Array) -> jax.Array:
    return _ENCODER.encode((), observe(state, player))


@jax.jit
def _observe(state: State, player: jax.Array) -> Observation:
    return observe(state, player)


if NAME not in pyspiel.registered_names():
    pyspiel.register_game(_game_type(), UnoGame)

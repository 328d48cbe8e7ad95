"""The game in OpenSpiel: `import unojax.adapters.openspiel` registers `unojax_uno`.

    pyspiel.load_game("unojax_uno")
    pyspiel.load_game("unojax_uno(deck=R1 R1 R2 Y1 Y2 RS W,hand_size=2,max_steps=12)")
    pyspiel.load_game("unojax_uno(rules=official)")
    unojax.adapters.openspiel.load_game(unojax.Rules(...))

Parameters are the fields of `unojax.Rules`; `deck` is "full" or all cards, separated by blanks. `rules` names a preset, whose
fields other parameters override if they differ from the default rules. `max_steps` is 500 by default, and a truncated game is a
draw. Illegal actions raise.

Each card dealt, turned up or drawn is a chance node with outcomes `type + 54 * coin`: the coin determines the colour of a random
wild or the starting player. Information states have perfect recall, and their tensor one row for each possible step. Observation
tensors are those of `unojax.adapters.encoding`.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false, reportArgumentType=false
# The library may be missing; its classes are then unknown.

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import numpy as np

from unojax import cards, game
from unojax.adapters.encoding import Encoder
from unojax.adapters.nodes import Nodes, decode, from_bytes
from unojax.adapters.requirements import missing
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import MATCH_POINTS, POINTS, Rules, as_rules
from unojax.text import format_action, format_cards, format_observation, parse_cards

try:
    import pyspiel
except ImportError as error:
    raise missing("open_spiel", "openspiel") from error

NAME: Final = "unojax_uno"
MAX_STEPS: Final = 500
"""Default limit of steps, if the rules have none."""
_FULL: Final = "full"
_PRESET: Final = "rules"
_PRIVATE: Final = ("hand", "drawn")
"""Private sections of an observation."""
_CARD_COLUMNS: Final = cards.NUM_COLORS + cards.NUM_RANKS


class Step(NamedTuple):
    """A step of a game.

    Attributes:
        player, action: The player and its action.
        drawn: Types drawn so far, ascending; private to the player.
        laid: Action that played a drawn card, or `unojax.game.NO_ACTION`.
        goes_on: The player moves again after a draw or a challenge.
    """

    player: int
    action: int
    drawn: tuple[int, ...] = ()
    laid: int = game.NO_ACTION
    goes_on: bool = False

    def __deepcopy__(self, memo: dict) -> Step:
        # OpenSpiel deep-copies a state's attributes for each child; this one is immutable.
        return self


def _parameters(rules: Rules) -> dict[str, Any]:
    """Return rules as parameters of the game: numbers, truth values and text."""
    values = {field.name: getattr(rules, field.name) for field in fields(Rules)}
    deck = _FULL if rules.deck == Rules().deck else format_cards(cards.onehot_of(np.array(rules.deck)))
    return values | {"deck": deck, "max_steps": MAX_STEPS if rules.max_steps is None else rules.max_steps}


def _rules_of(parameters: dict[str, Any]) -> Rules:
    # OpenSpiel fills in missing parameters.
    changes = {name: value for name, value in parameters.items() if value != _DEFAULTS[name]}
    values = _parameters(as_rules(changes.pop(_PRESET, "default"))) | changes
    deck = values["deck"]
    counts = Rules().deck if deck == _FULL else tuple(cards.count_types(parse_cards(deck)).tolist())
    return Rules(**{**values, "deck": counts})


_DEFAULTS: Final[dict[str, Any]] = {_PRESET: "default", **_parameters(Rules())}


def load_game(rules: Rules | str = Rules()) -> pyspiel.Game:
    """Return the game under rules or a preset; `pyspiel.load_game` reads its `str`."""
    return pyspiel.load_game(NAME, _parameters(as_rules(rules)))


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
    """The game under given rules; `params` as in `load_game`."""

    def __init__(self, params: dict[str, Any] | None = None):
        self.rules = _rules_of(params or {})
        self.nodes = Nodes(self.rules)
        assert self.rules.max_steps is not None
        # Upper bounds: the total step penalties, and the reward of a game.
        paid = abs(self.rules.step_penalty) * self.rules.max_steps
        worth = np.dot(self.rules.deck, POINTS) / MATCH_POINTS if self.rules.points else 1.0
        utility = pyspiel.GameType.Utility
        info = pyspiel.GameInfo(
            num_distinct_actions=self.rules.num_actions,
            max_chance_outcomes=self.nodes.num_outcomes,
            num_players=2,
            min_utility=-worth - paid,
            max_utility=worth + paid,
            utility_sum=0.0 if paid == 0 else None,
            max_game_length=self.rules.max_steps,
        )
        super().__init__(_game_type(utility.ZERO_SUM if paid == 0 else utility.GENERAL_SUM), info, params or {})

    def new_initial_state(self) -> UnoState:
        return UnoState(self)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> UnoObserver:
        return UnoObserver(iig_obs_type or pyspiel.IIGObservationType(perfect_recall=False), params, self.rules)


class UnoState(pyspiel.State):
    """A game in progress. Attributes are immutable, hence cheap to deep-copy for each child.

    Attributes:
        position: Position as in `unojax.adapters.nodes`.
        hands: Types dealt to each player, ascending.
        start: Outcome of the start card; -1 before it.
        start_drawn: Types that each player has drawn for the start card, ascending.
        steps: Steps so far; the last one may still be drawing.
    """

    def __init__(self, game: UnoGame):
        super().__init__(game)
        self._nodes = game.nodes
        self.position = game.nodes.start
        self.hands: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self.start = -1
        self.start_drawn: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self.steps: tuple[Step, ...] = ()
        self._is_drawing = False

    def current_player(self) -> int:
        if self.is_terminal():
            return pyspiel.PlayerId.TERMINAL
        facts = self._nodes.facts(self.position)
        is_chance = facts.is_dealing or facts.is_drawing or self._is_drawing
        return pyspiel.PlayerId.CHANCE if is_chance else facts.player

    def is_terminal(self) -> bool:
        return self._is_cut_off() or self._nodes.facts(self.position).is_over

    def returns(self) -> list[float]:
        if not self.is_terminal():
            return [0.0, 0.0]
        paid = self._nodes.rules.step_penalty * max(0, len(self.steps) - 1)
        return [reward - paid for reward in self._nodes.facts(self.position).rewards]

    def chance_outcomes(self) -> list[tuple[int, float]]:
        return self._nodes.outcomes(self.position)

    def state(self) -> State:
        """Return the position after the start card as a `unojax.State`, NumPy."""
        return self._nodes.state(self.position).replace(**self.episode())

    def episode(self) -> dict[str, Any]:
        """Return the fields of a `State` that the position lacks."""
        last = self.steps[-1].action if self.steps else game.NO_ACTION
        fields = {"step_count": np.int32(len(self.steps)), "last_action": np.int8(last)}
        return fields | {"truncated": np.bool_(self._is_cut_off())}

    def _is_cut_off(self) -> bool:
        # A step ends after its last drawn card.
        done = len(self.steps) - self._is_drawing
        return done >= (self._nodes.rules.max_steps or 0) and not self._nodes.facts(self.position).is_over

    def _legal_actions(self, player: int) -> list[int]:
        facts = self._nodes.facts(self.position)
        return list(facts.legal) if player == facts.player and not self.is_chance_node() else []

    def _apply_action(self, action: int) -> None:
        if self.is_terminal():
            raise ValueError(f"action {action} comes after the end of the game: no action is legal")
        before, is_chance = self._nodes.facts(self.position), self.is_chance_node()
        if not is_chance and action not in before.legal:
            raise ValueError(f"action {action} is not legal here; legal are {', '.join(map(str, before.legal))}")
        player, card = before.player, action % cards.NUM_TYPES
        self.position = (self._nodes.draw if is_chance else self._nodes.play)(self.position, action)
        after = self._nodes.facts(self.position)
        if not is_chance:
            must_draw = before.legal == (cards.DRAW,)
            self._is_drawing = not after.is_over and (must_draw or after.is_drawing)
            goes_on = action == cards.CHALLENGE and after.player == player
            self.steps = (*self.steps, Step(player, action, goes_on=goes_on))
        elif self._is_drawing:
            *steps, step = self.steps
            self._is_drawing = after.is_drawing
            goes_on = not (after.is_drawing or after.is_over) and after.player == player
            laid = after.top if after.num_cards[player] == before.num_cards[player] else game.NO_ACTION
            self.steps = (*steps, Step(player, step.action, _with(step.drawn, card), laid, goes_on))
        elif len(self.hands[1]) < self._nodes.rules.hand_size:
            self.hands = _given(self.hands, player, card)
        elif self.start < 0:
            self.start = action
        else:
            self.start_drawn = _given(self.start_drawn, player, card)

    def _action_to_string(self, player: int, action: int) -> str:
        if player != pyspiel.PlayerId.CHANCE:
            return format_action(action)
        coin, card = divmod(action, cards.NUM_TYPES)
        return cards.TYPE_NAMES[card] + (f" (coin {coin})" if coin else "")

    def information(self, player: int) -> str:
        """Return the player's observations in one line."""
        return ", ".join([f"player {player}", f"hand {_names(self.hands[player])}", *self.story((player,))])

    def __str__(self) -> str:
        return ", ".join([f"hands {' / '.join(map(_names, self.hands))}", *self.story((0, 1))])

    def story(self, seen: tuple[int, ...]) -> list[str]:
        """Return the events since the deal as text, with the cards drawn by players in `seen`."""
        parts = []
        if self.start >= 0:
            parts.append(f"start {self._action_to_string(pyspiel.PlayerId.CHANCE, self.start)}")
        parts += [f"{player} drew {_names(self.start_drawn[player])}" for player in seen if self.start_drawn[player]]
        for step in self.steps:
            drawn = f" {_names(step.drawn)}" if step.drawn and step.player in seen else ""
            laid = "" if step.laid == game.NO_ACTION else f" laid {format_action(step.laid)}"
            parts.append(f"{step.player}:{format_action(step.action)}{drawn}{laid}{' again' if step.goes_on else ''}")
        return parts


class UnoObserver:
    """Observer that writes a player's view to `tensor`, its parts to `dict`, or as text."""

    def __init__(self, iig_obs_type: Any, params: Any, rules: Rules):
        if params:
            raise ValueError(f"observers have no parameters, got {params}")
        if iig_obs_type.private_info == pyspiel.PrivateInfoType.ALL_PLAYERS:
            raise ValueError("private_info must be SINGLE_PLAYER or NONE: nobody sees both hands")
        self._recalls = iig_obs_type.perfect_recall
        self._is_private = iig_obs_type.private_info == pyspiel.PrivateInfoType.SINGLE_PLAYER
        self._is_public = iig_obs_type.public_info
        assert rules.max_steps is not None
        self._encoder = Encoder(rules=rules)
        # Columns of a step: player, action, result, types drawn.
        has_results = rules.play_drawn != "no" or rules.draw_until_playable or rules.wild_draw_four == "challenge"
        self._results = 2 + rules.num_actions
        self._drawn = self._results + (_CARD_COLUMNS + 1 if has_results else 0)
        if self._recalls:
            shapes = {"player": (2,), "start": (_CARD_COLUMNS + 2,), "steps": (rules.max_steps, self._drawn + cards.NUM_TYPES)}
            shapes |= {"hand": (cards.NUM_TYPES,)} if self._is_private else {}
            shapes |= {"start_drawn": (cards.NUM_TYPES,)} if self._is_private and rules.start_effects == "keep_turn" else {}
        else:
            shapes = {"player": (2,), "observation": (self._encoder.size,)}
        self.tensor = np.zeros(sum(int(np.prod(shape)) for shape in shapes.values()), np.float32)
        self.dict, start = {}, 0
        for name, shape in shapes.items():
            stop = start + int(np.prod(shape))
            self.dict[name] = self.tensor[start:stop].reshape(shape)
            start = stop

    def set_from(self, state: UnoState, player: int) -> None:
        """Write the state from the view of `player`."""
        self.tensor.fill(0)
        self.dict["player"][player] = 1
        if not self._recalls:
            rows = from_bytes(state.position)
            seen = np.array(_encode(rows, state.episode(), np.int32(player), self._encoder))
            sections = [(self._encoder.columns(section.name), section.name) for section in self._encoder.sections]
            for columns, name in sections:
                if not (self._is_private if name in _PRIVATE else self._is_public):
                    seen[columns] = 0
            self.dict["observation"][:] = seen
            return
        if self._is_private:
            np.add.at(self.dict["hand"], list(state.hands[player]), 1)
            np.add.at(self.dict.get("start_drawn", np.zeros(cards.NUM_TYPES)), list(state.start_drawn[player]), 1)
        if self._is_public and state.start >= 0:
            # At the first position, the start outcome determines the start card, its colour and the first player.
            card, coin = state.start % cards.NUM_TYPES, state._nodes.coins[state.start // cards.NUM_TYPES]
            color = coin >> 30 if card >= cards.WILD_TYPE else int(cards.COLOR_OF_TYPE[card])
            self.dict["start"][[color, cards.NUM_COLORS + int(cards.RANK_OF_TYPE[card]), _CARD_COLUMNS + (coin & 1)]] = 1
        for row, step in zip(self.dict["steps"], state.steps, strict=False):
            if self._is_public:
                row[[step.player, 2 + step.action]] = 1
                if step.goes_on:
                    row[self._results] = 1
                if step.laid != game.NO_ACTION:
                    color, rank = divmod(step.laid, cards.NUM_RANKS)
                    row[[self._results + 1 + color, self._results + 1 + cards.NUM_COLORS + rank]] = 1
            if self._is_private and step.player == player:
                np.add.at(row[self._drawn :], list(step.drawn), 1)

    def string_from(self, state: UnoState, player: int) -> str:
        """Return the state from the view of `player` as text."""
        if self._recalls:
            return state.information(player) if self._is_private else ", ".join([f"player {player}", *state.story(())])
        if state.start < 0:
            return f"player {player}: hand {_names(state.hands[player] if self._is_private else ())}"
        seen = _observe(state.state(), np.int32(player))
        if not self._is_private:
            seen = seen.replace(hand=np.zeros_like(seen.hand), drawn=np.int8(game.NONE))
        return format_observation(seen)


def _names(types: tuple[int, ...]) -> str:
    return " ".join(cards.TYPE_NAMES[t] for t in types) or "-"


def _with(types: tuple[int, ...], card: int) -> tuple[int, ...]:
    return tuple(sorted((*types, card)))


def _given(hands: tuple[tuple[int, ...], tuple[int, ...]], player: int, card: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    first, second = hands
    return (_with(first, card), second) if player == 0 else (first, _with(second, card))


@partial(jax.jit, static_argnames="encoder")
def _encode(rows: jax.Array, episode: dict[str, jax.Array], player: jax.Array, encoder: Encoder) -> jax.Array:
    return encoder.encode((), observe(decode(rows, encoder.rules).replace(**episode), player))


@jax.jit
def _observe(state: State, player: jax.Array) -> Observation:
    return observe(state, player)


if NAME not in pyspiel.registered_names():
    pyspiel.register_game(_game_type(), UnoGame)

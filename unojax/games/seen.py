"""Games as one player saw them: one action (`Seen`), and the whole game from a position and a list of actions (`SeenGame`).

The player's own view is all that goes in. To play the actions of a list, the hidden hand is imagined anew at each step, as any
that makes the action possible: what the player sees after a step does not depend on which. Host only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import jax
import numpy as np
from jax import Array

from unojax import cards, text
from unojax.belief.history import playable_types
from unojax.games.question import check_history
from unojax.games.replay import DRAW, TOKEN, Replay, play_token
from unojax.observation import Observation, determinize
from unojax.rules import Rules

_NUM_FIELDS: Final = 7
"""Fields of a position on one line."""


@dataclass(frozen=True)
class Seen:
    """An action 0..61 as one player saw it, and the player's observations around it, as NumPy."""

    before: Observation
    action: int
    after: Observation

    @property
    def is_mine(self) -> bool:
        """The observer acted."""
        return bool(self.before.is_my_turn)


@dataclass(frozen=True)
class SeenGame:
    """A game so far as one player saw it.

    Attributes:
        observations: at the start and after each action, as NumPy.
        actions: 0..61.
        notation: the actions as they are read.
        steps_before: steps of the game before the start, as far as is known.
        shows_one_hand: false where it was read from a whole position.
    """

    observations: tuple[Observation, ...]
    actions: tuple[int, ...]
    notation: str
    steps_before: int = 0
    shows_one_hand: bool = True

    @property
    def end(self) -> Observation:
        return self.observations[-1]


def legal_actions(view: Observation) -> np.ndarray:
    """Tell the observer's legal actions on the host: bool[61], see `Observation.legal_mask`."""
    return np.asarray(_legal_mask(view))


def choices(view: Observation) -> np.ndarray:
    """Tell the observer's legal actions but a draw that is forced, on the host: bool[60], or more (`Rules.num_choices`)."""
    legal = legal_actions(view)
    plays = legal[: view.rules.num_choices]
    return plays if legal.sum() > 1 or not legal[cards.DRAW] else np.zeros_like(plays)


class ImpossibleActionError(ValueError):
    """An action that can't be, with its number in the list, from 1."""

    def __init__(self, number: int, why: object):
        super().__init__(f"action {number}: {why}")
        self.number = number


def shows_one_hand(position: str) -> bool:
    """Tell one player's view as text from a whole position, by its first two places."""
    places = position.strip().split("/")
    return places[0].startswith("player") or any(place.isdigit() for place in places[:2])


def read_seen(position: str, actions: str, player: int | None, rules: Rules) -> SeenGame:
    """Read a game as one player saw it.

    Args:
        position: one player's view, as `text.parse_observation` reads it, or a whole position, of which one view is used.
        actions: the list that was played from there; the player's draws name the cards, `draw(R5,W)`, those of the other don't.
        player: whose view of a whole position is used; None: of who moves at the end, unless the cards drawn are the other's.
        rules: of the game.

    Raises:
        ValueError: the position can't be read, shows another player's hand, or is the end of a game.
        ImpossibleActionError: as `play_seen`.
    """
    check_history(actions, rules)
    if shows_one_hand(position):
        seen = text.parse_observation(position, rules=rules)
        if player not in (None, int(seen.player)):
            raise ValueError(f"the position shows the hand of player {int(seen.player)}, not of player {player}")
        # The lines of `format_observation` do not have the number of steps.
        fields = position.split()
        return play_seen(seen, actions, steps_before=int(fields[4]) if len(fields) == _NUM_FIELDS else 0)
    state = text.parse_position(position, rules=rules)
    if state.is_over:
        raise ValueError(f"position {position!r}: the game is over")
    whole, mover, steps_before = Replay(jax.device_get(state), ()), int(state.current_player), int(state.step_count)
    games, errors = [], []
    for seat in (mover, 1 - mover) if player is None else (player,):
        try:
            games.append(play_seen(whole.observations(seat)[0], actions, steps_before=steps_before))
        except ImpossibleActionError as error:
            errors.append(error)
    if not games:
        raise max(errors, key=lambda error: error.number)
    return replace(next((game for game in games if game.end.is_my_turn), games[0]), shows_one_hand=False)


def play_seen(start: Observation, actions: str, *, steps_before: int = 0) -> SeenGame:
    """Play a list of actions, see `read_seen`, from a player's first view, unbatched.

    Raises:
        ImpossibleActionError: an action can't be read, or no hidden hand makes it possible.
    """
    observations, played, notation = [jax.device_get(start)], [], []
    for number, token in enumerate(TOKEN.findall(actions), 1):
        seen = observations[-1]
        try:
            state = jax.device_get(_determinize(cards.onehot_of(_hidden_hand(seen, token.strip())), seen))
            # Which cards the other player draws is not seen, so any key will do.
            step = play_token(state, token, jax.random.key(0))
            if seen.is_my_turn and step.drawn and "(" not in token:
                raise ValueError(f"name the cards that player {step.mover} drew, as in draw(R5)")
        except ValueError as error:
            raise ImpossibleActionError(number, error) from error
        observations.append(Replay(state, (step,)).observations(int(seen.player))[1])
        played.append(step.action)
        notation.append(step.notation(with_cards=step.mover == seen.player))
    return SeenGame(tuple(observations), tuple(played), " ".join(notation), steps_before)


def _hidden_hand(seen: Observation, token: str) -> np.ndarray:
    """int[54]: some hand of the other player with which an action is possible. Raises ValueError where there is none."""
    draw = DRAW.fullmatch(token)
    action = cards.DRAW if draw else text.parse_action(token)
    if seen.terminated:
        raise ValueError(f"{token!r} comes after the end of the game")
    if seen.is_my_turn:
        named = cards.count_types(text.parse_cards(draw[1])) if draw else np.zeros(cards.NUM_TYPES, int)
        return _hand_besides(seen, named)
    if draw:
        raise ValueError(f"player {int(seen.player)} does not see what player {int(seen.current_player)} draws; write draw")
    return _hand_for(seen, action)


def _hand_besides(seen: Observation, named: np.ndarray) -> np.ndarray:
    """A hidden hand that leaves these cards (int[54]) to draw."""
    unseen = _unseen(seen)
    if seen.deck_count < max(seen.penalty, 1):
        # What is in the pile under its top can be drawn too.
        named = named - cards.count_types(seen.pile)
        named[cards.card_type(int(seen.color), int(seen.top_rank))] += 1
    kept = np.clip(named, 0, None)
    if (missing := np.flatnonzero(kept > unseen)).size:
        name = cards.TYPE_NAMES[missing[0]]
        raise ValueError(f"{named[missing[0]]} x {name} can't be drawn: only {unseen[missing[0]]} of them can be in the deck")
    if kept.sum() > seen.deck_count:
        raise ValueError(f"the deck holds {int(seen.deck_count)} cards, and {kept.sum()} of those drawn can't come from the pile")
    return cards.first(unseen - kept, int(seen.opponent_count))


def _hand_for(seen: Observation, action: int) -> np.ndarray:
    """A hidden hand with which the other player, who is to move, may act like this."""
    unseen, number = _unseen(seen), int(seen.opponent_count)
    who, name = f"player {int(seen.current_player)}", text.format_action(action)
    top = text.format_action(int(seen.color) * cards.NUM_RANKS + int(seen.top_rank))
    if seen.penalty:
        if action != cards.DRAW:
            raise ValueError(f"{name!r} is not legal for {who}, who must draw {int(seen.penalty)}")
        return cards.first(unseen, number)
    playable = np.asarray(_playable_types(seen.color, seen.top_rank))
    if action == cards.DRAW:
        others = np.where(playable, 0, unseen)
        if others.sum() < number:
            raise ValueError(
                f"'draw' is not legal for {who}, who holds {number} cards and so one that can be played on {top}: no more than "
                f"{others.sum()} of the cards not seen can't"
            )
        return cards.first(others, number)
    if action > cards.DRAW:
        raise ValueError(f"{name!r} is not legal for {who}: no Wild+4 can be challenged")
    played = np.arange(cards.NUM_TYPES) == cards.TYPE_OF_PLAY[action]
    if not playable[played]:
        raise ValueError(f"{name!r} is not legal for {who}: it can't be played on {top}")
    if not unseen[played]:
        raise ValueError(f"{name!r} can't be: {who} has no such card, since player {int(seen.player)} sees all of them elsewhere")
    return played + cards.first(unseen - played, number - 1)


def _unseen(seen: Observation) -> np.ndarray:
    """int[54]: `Observation.unseen` on the host."""
    return np.asarray(seen.rules.deck) - cards.count_types(seen.hand) - cards.count_types(seen.pile)


_determinize = jax.jit(determinize)


@jax.jit
def _legal_mask(view: Observation) -> Array:
    return view.legal_mask


_playable_types = jax.jit(playable_types)

"""The game so far as one player saw it, from a position and a list of actions.

The player's own view is all that goes in. To play the actions through, the hidden hand is imagined anew at each step, as any that
makes the action possible: what the player sees after a step does not depend on which.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
from jax import Array

from unojax import bits, cards, game, text
from unojax.belief.history import playable_types
from unojax.game import State
from unojax.games import replay
from unojax.games.replay import Replay
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.search.rollouts import place_cards


@dataclass(frozen=True)
class Path:
    """A game so far as one player saw it.

    Attributes:
        observations: at the start and after each action, as NumPy.
        actions: 0..60.
        notation: the actions as they are read.
    """

    observations: tuple[Observation, ...]
    actions: tuple[int, ...]
    notation: str

    @property
    def end(self) -> Observation:
        """The last position."""
        return self.observations[-1]


def read_path(position: str, history: str, player: int | None, rules: Rules) -> Path:
    """The game so far.

    Args:
        position: what a player sees, as `text.parse_observation` reads it, or a whole position, of which only one player's view
            is used.
        history: what was played from there; cards drawn by the player are named, `draw(R5,W)`, those of the other are not.
        player: 0 or 1; None: whose view is given, or else who moves at the end.
        rules: the rules.

    Raises:
        ValueError: the position or the history can't be, or the player is not to move at the end.
    """
    if has_hidden_hand(position):
        seen = text.parse_observation(position, rules=rules)
        if player not in (None, int(seen.player)):
            raise ValueError(f"--player {player}: the position shows the hand of player {int(seen.player)}")
        return _check_end(follow(seen, history, rules))
    state = text.parse_position(position, rules=rules)
    if state.is_over:
        raise ValueError(f"position {position!r}: the game is over; there is nothing to advise")
    views = Replay(jax.device_get(state), ()).observations
    if player is not None:
        return _check_end(follow(views(player, rules)[0], history, rules))
    # Whose view the history is, is told by whose cards it names, and if none are drawn by who moves at the end.
    paths, errors = [], []
    for seat in (int(state.current_player), 1 - int(state.current_player)):
        try:
            paths.append(follow(views(seat, rules)[0], history, rules))
        except ImpossibleActionError as error:
            errors.append(error)
    if not paths:
        raise max(errors, key=lambda error: error.number)
    return _check_end(next((path for path in paths if path.end.is_my_turn), paths[0]))


def has_hidden_hand(position: str) -> bool:
    """Whether a position is one player's view and not a whole one."""
    places = position.strip().split("/")
    return places[0].startswith("player") or any(place.isdigit() for place in places[:2])


class ImpossibleActionError(ValueError):
    """An action that can't be, with its number in the list."""

    def __init__(self, number: int, why: object):
        super().__init__(f"--history: action {number}: {why}")
        self.number = number


def follow(start: Observation, history: str, rules: Rules) -> Path:
    """The game that a list of actions makes, as one player sees it.

    Raises:
        ImpossibleActionError: an action can't be read, or no hidden hand makes it possible.
    """
    observations, actions, notation = [jax.device_get(start)], [], []
    for number, token in enumerate(replay.TOKEN.findall(history), 1):
        seen = observations[-1]
        try:
            state = imagine(seen, _hidden_hand(seen, token.strip()), rules)
            # Which cards the other player draws is not seen, so any key will do.
            step = replay.follow(state, token.strip(), jax.random.key(0), rules)
            if seen.is_my_turn and step.drawn and "(" not in token:
                raise ValueError(f"name the cards that player {step.mover} drew, as in draw(R5)")
        except ValueError as error:
            raise ImpossibleActionError(number, error) from error
        observations.append(Replay(state, (step,)).observations(int(seen.player), rules)[1])
        actions.append(step.action)
        notation.append(step.notation(with_cards=step.mover == seen.player))
    return Path(tuple(observations), tuple(actions), " ".join(notation))


def _check_end(path: Path) -> Path:
    end = path.end
    if end.terminated:
        raise ValueError("--history: the game is over at its end; there is nothing to advise")
    if not end.is_my_turn:
        when = " at the end of --history" if path.actions else ""
        raise ValueError(
            f"player {int(end.current_player)} is to move{when}, but the view is that of player {int(end.player)}; advice is for "
            "the player to move"
        )
    return path


def _hidden_hand(seen: Observation, token: str) -> np.ndarray:
    """int[54]: some hand of the other player with which an action is possible.

    Raises:
        ValueError: there is none.
    """
    draw = replay.DRAW.fullmatch(token)
    action = cards.DRAW if draw else text.parse_action(token)
    if seen.terminated:
        raise ValueError(f"{token!r} comes after the end of the game")
    if seen.is_my_turn:
        named = replay.counts(text.parse_cards(draw[1])) if draw else np.zeros(cards.NUM_TYPES, int)
        return _hand_besides(seen, named)
    if draw:
        raise ValueError(f"player {int(seen.player)} does not see what player {int(seen.current_player)} draws; write draw")
    return _hand_for(seen, action)


def _hand_besides(seen: Observation, named: np.ndarray) -> np.ndarray:
    """A hidden hand that leaves these cards (int[54]) to draw."""
    unseen = unseen_counts(seen)
    if seen.deck_count < max(seen.penalty, 1):
        # What is in the pile under its top can be drawn too.
        named = named - replay.counts(seen.pile)
        named[int(cards.type_of(seen.color, seen.top_rank))] += 1
    kept = np.clip(named, 0, None)
    if (missing := np.flatnonzero(kept > unseen)).size:
        name = cards.TYPE_NAMES[missing[0]]
        raise ValueError(f"{named[missing[0]]} x {name} can't be drawn: only {unseen[missing[0]]} of them can be in the deck")
    if kept.sum() > seen.deck_count:
        raise ValueError(f"the deck holds {int(seen.deck_count)} cards, and {kept.sum()} of those drawn can't come from the pile")
    return some_cards(unseen - kept, int(seen.opponent_count))


def _hand_for(seen: Observation, action: int) -> np.ndarray:
    """A hidden hand with which the other player, who is to move, may act like this."""
    unseen, number = unseen_counts(seen), int(seen.opponent_count)
    who, name = f"player {int(seen.current_player)}", text.format_action(action)
    top = text.format_action(int(seen.color) * cards.NUM_RANKS + int(seen.top_rank))
    if seen.penalty:
        if action != cards.DRAW:
            raise ValueError(f"{name!r} is not legal for {who}, who must draw {int(seen.penalty)}")
        return some_cards(unseen, number)
    playable = np.asarray(_playable_types(seen.color, seen.top_rank))
    if action == cards.DRAW:
        others = np.where(playable, 0, unseen)
        if others.sum() < number:
            raise ValueError(
                f"'draw' is not legal for {who}, who holds {number} cards and so one that can be played on {top}: no more than "
                f"{others.sum()} of the cards not seen can't"
            )
        return some_cards(others, number)
    played = np.arange(cards.NUM_TYPES) == int(cards.type_of(*divmod(action, cards.NUM_RANKS)))
    if not playable[played]:
        raise ValueError(f"{name!r} is not legal for {who}: it can't be played on {top}")
    if not unseen[played]:
        raise ValueError(f"{name!r} can't be: {who} has no such card, since player {int(seen.player)} sees all of them elsewhere")
    return played + some_cards(unseen - played, number - 1)


def unseen_counts(seen: Observation) -> np.ndarray:
    """int[54]: on the host."""
    return np.asarray(seen.rules.deck) - replay.counts(seen.hand) - replay.counts(seen.pile)


def some_cards(counts: np.ndarray, number: int) -> np.ndarray:
    """int[54]: the first so many cards."""
    return np.clip(number - (np.cumsum(counts) - counts), 0, counts)


def imagine(seen: Observation, hidden: np.ndarray, rules: Rules) -> State:
    """The whole position if the other player held these cards (int[54]), as NumPy."""
    return jax.device_get(_place(seen, replay.onehot(hidden), rules=rules))


@partial(jax.jit, static_argnames="rules")
def _place(seen: Observation, hidden: Array, *, rules: Rules) -> State:
    return game.from_table(
        place_cards(seen, bits.pack(hidden)),
        rules,
        last_action=seen.last_action,
    )


_playable_types = jax.jit(playable_types)

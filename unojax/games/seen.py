"""Games as one player, the observer, saw them: an action (`Seen`), and a game (`SeenGame`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import jax
import numpy as np

from unojax import cards, text
from unojax.decks import is_int
from unojax.game import State
from unojax.games.choices import legal_actions
from unojax.games.events import GOES_ON, Event, event_between, next_event, split_words
from unojax.games.imagined import fitting_types, unseen_types, view_after
from unojax.games.replay import Replay
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.text.notation import check_text

PLAYERS: Final = ("player 0", "player 1")
"""Names of the players in messages."""
_NUM_FIELDS: Final = 7
"""Fields of a position on one line."""


@dataclass(frozen=True)
class Seen:
    """An action 0..61, and the observer's views before and after it."""

    before: Observation
    action: int
    after: Observation

    @property
    def is_mine(self) -> bool:
        """Whether the observer acted."""
        return bool(self.before.is_my_turn)


class ImpossibleActionError(ValueError):
    """An impossible event, with its number in the list, from 1."""

    def __init__(self, number: int, why: object):
        super().__init__(f"action {number}: {why}")
        self.number, self.why = number, why


@dataclass(frozen=True)
class SeenGame:
    """A game so far as one player saw it.

    Attributes:
        observations: Views at the start and after each event.
        events: Events so far.
        steps_before: Steps of the game before the start, if known.
        states: Positions with all cards, of the first observations; none if only the observer's views are known.
        names: Names of player 0 and player 1 in messages.
    """

    observations: tuple[Observation, ...]
    events: tuple[Event, ...] = ()
    steps_before: int = 0
    states: tuple[State, ...] = ()
    names: tuple[str, str] = PLAYERS

    @classmethod
    def of(cls, played: Replay, player: int) -> SeenGame:
        """Return a recorded game as a player saw it."""
        views = tuple(played.observations(player))
        events = tuple(map(event_between, views, views[1:]))
        return cls(views, events, int(played.start.step_count), tuple(played.states))

    @property
    def start(self) -> Observation:
        """First view."""
        return self.observations[0]

    @property
    def end(self) -> Observation:
        """Last view."""
        return self.observations[-1]

    @property
    def player(self) -> int:
        """Observer, 0 or 1."""
        return int(self.end.player)

    @property
    def shows_one_hand(self) -> bool:
        """Whether only the observer's views are known."""
        return not self.states

    @property
    def actions(self) -> tuple[int, ...]:
        """Action 0..61 of each event; -1 for a count."""
        return tuple(event.action for event in self.events)

    @property
    def notation(self) -> str:
        """Events in the notation of `play`."""
        return " ".join(map(str, self.events))

    @cached_property
    def seen(self) -> tuple[Seen, ...]:
        """Actions with the views before and after each; counts are omitted."""
        around = zip(self.observations, self.events, self.observations[1:], strict=False)
        return tuple(Seen(before, event.action, after) for before, event, after in around if event.kind != "count")

    @property
    def num_steps(self) -> int:
        """Steps of the game up to the end, if known."""
        return self.steps_before + sum(event.kind != "count" for event in self.events)

    @cached_property
    def num_forgotten(self) -> int:
        """Number of events before the last count, which voids their information."""
        return max((number for number, event in enumerate(self.events, 1) if event.kind == "count"), default=0)

    @cached_property
    def num_settled(self) -> int:
        """Number of events up to the last shown hand or count, which restarts the belief."""
        return max(self.num_forgotten, *self.hands, 0)

    @cached_property
    def hands(self) -> dict[int, np.ndarray]:
        """Hands that the other player showed, bool[108], by the number of events before."""
        return {number: text.parse_cards(event.shown) for number, event in enumerate(self.events, 1) if event.shown}

    def since_count(self) -> SeenGame:
        """Return the game since the last count, which is the input of a belief."""
        first, later = self.num_forgotten, self.events[self.num_forgotten :]
        kept = {"observations": self.observations[first:], "events": later, "states": self.states[first:]}
        return replace(self, **kept, steps_before=self.back(len(later)).num_steps)

    def play(self, line: str) -> SeenGame:
        """Return the game with further events, in the notation of `unojax.games.events`.

        Raises:
            ImpossibleActionError: If an event can't be read, or no hidden hand makes it possible.
        """
        check_text(line, "events", "R5; draw")
        words, views, events = split_words(line), list(self.observations), list(self.events)
        while words:
            try:
                if views[-1].terminated:
                    raise ValueError(f"{words[0].lower()!r} comes after the end of the game")
                event = next_event(words, views[-1], self.names)
                views.append(view_after(views[-1], event, self.names))
            except ValueError as error:
                raise ImpossibleActionError(len(events) + 1, error) from error
            events.append(event if event.kind == "count" or event.shown else event_between(views[-2], views[-1]))
        return replace(self, observations=tuple(views), events=tuple(events))

    def possible(self) -> tuple[str, ...]:
        """Return the possible next events as text; a draw of the observer's own without its cards."""
        view = self.end
        if view.terminated:
            return ()
        if view.is_my_turn:
            own = [text.format_action(action) for action in np.flatnonzero(legal_actions(view)).tolist()]
            if view.has_drawn and len(own) > 1:
                own.remove("draw")
                own.append("pass")
            return tuple(own)
        types = np.flatnonzero(unseen_types(view) * fitting_types(view))
        plays = [text.format_action(a) for a in range(cards.DRAW) if cards.TYPE_OF_PLAY[a] in types]
        return tuple(line for line in ("draw", f"draw{GOES_ON}", "pass", "challenge", *plays) if self.can_play(line))

    def can_play(self, line: str) -> bool:
        """Return whether the events of a line are possible next."""
        try:
            self.play(line)
        except ImpossibleActionError:
            return False
        return True

    def back(self, number: int = 1) -> SeenGame:
        """Return the game without its last events. Raises ValueError if the game has fewer."""
        if not (is_int(number) and 0 <= number <= len(self.events)):
            raise ValueError(f"there are {len(self.events)} events to take back, not {number!r}")
        left = len(self.events) - number
        kept = {"observations": self.observations[: left + 1], "states": self.states[: left + 1]}
        return replace(self, **kept, events=self.events[:left])

    def corrected(self, number: int, line: str) -> SeenGame:
        """Return the game with event `number`, from 1, replaced, and later ones replayed.

        Raises:
            ValueError: If there is no such event.
            ImpossibleActionError: If an event, or a later one after the correction, is impossible.
        """
        if not (is_int(number) and 1 <= number <= len(self.events)):
            raise ValueError(f"there is no event {number!r}: there are {len(self.events)}")
        later = " ".join(map(str, self.events[number:]))
        return self.back(len(self.events) - number + 1).play(line).play(later)


def shows_one_hand(position: str) -> bool:
    """Return whether a text holds one player's view, not a whole position."""
    places = position.strip().split("/")
    return places[0].startswith("player") or any(place.isdigit() for place in places[:2])


def read_seen(position: str, actions: str, player: int | None, rules: Rules) -> SeenGame:
    """Return a game as one player saw it.

    Args:
        position: One player's view, as in `text.parse_observation`, or a whole position, of which one view is used.
        actions: Later events, in the notation of `unojax.games.events`.
        player: Player whose view of a whole position is used. None: the player to move at the end, unless the other player's
            draws name cards.
        rules: Rules of the game.

    Raises:
        ValueError: If the position can't be read, shows another player's hand, or is the end of a game.
        ImpossibleActionError: As in `SeenGame.play`.
    """
    if not isinstance(position, str):
        raise ValueError(
            f"position must be text, got {type(position).__name__}; unojax.format_position writes a state, and "
            "unojax.text.format_view an observation"
        )
    if shows_one_hand(position):
        seen = text.parse_observation(position, rules=rules)
        if player not in (None, int(seen.player)):
            raise ValueError(f"the position shows the hand of player {int(seen.player)}, not of player {player}")
        # The lines of `format_observation` lack the number of steps.
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
    return replace(next((game for game in games if game.end.is_my_turn), games[0]), states=(whole.start,))


def play_seen(start: Observation, actions: str, *, steps_before: int = 0) -> SeenGame:
    """Return the game from a player's first view and events. Raises as `SeenGame.play`."""
    return SeenGame((jax.device_get(start),), steps_before=steps_before).play(actions)

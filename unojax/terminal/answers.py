"""A person's input in a game: a number or a card, a draw, or a command."""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass

import numpy as np

from unojax import cards, text
from unojax.observation import Observation
from unojax.text.notation import in_notation
from unojax.viz.words import why_not

_LONGEST_QUOTE = 20


class Command(enum.Enum):
    """An input other than a play."""

    ADVICE = ("?", "hint")
    HELP = ("h", "help")
    PILE = ("p", "pile")
    BACK = ("u", "undo", "back")
    QUIT = ("q", "quit", "exit")


_COMMANDS = {word: command for command in Command for word in command.value}


@dataclass(frozen=True)
class Wild:
    """A wild card whose colour is still to be chosen. `rank` is 13 or 14."""

    rank: int

    def declare(self, color: int) -> int:
        return color * cards.NUM_RANKS + self.rank


@dataclass(frozen=True)
class Options:
    """Options of a person to move.

    Number n on the screen is `types[n - 1]` of the playable types, none if the person can only draw. `may_draw` includes a pass.
    """

    view: Observation
    types: tuple[int, ...]
    may_draw: bool = False
    may_challenge: bool = False

    @classmethod
    def of(cls, view: Observation, legal: np.ndarray) -> Options:
        """Return the options in a position; `legal` is bool[61] or [62]."""
        types = np.unique(cards.TYPE_OF_PLAY[np.flatnonzero(legal[: cards.DRAW])])
        may_draw = bool(legal[cards.DRAW]) and int(legal.sum()) > 1
        return cls(view, tuple(types.tolist()), may_draw, bool(legal[cards.DRAW + 1 :].any()))

    @property
    def extra(self) -> str:
        """Return the other options than plays in words; "" if there are none."""
        draw = f"Enter to take {int(self.view.penalty)} cards" if self.view.penalty else "d to draw"
        draw = "p to pass" if self.view.has_drawn else draw
        return " or ".join([draw] * self.may_draw + ["c to challenge"] * self.may_challenge)

    def read(self, line: str) -> int | Wild | Command:
        """Read a line: a legal action, a wild card without its colour, or a command."""
        word = line.strip()
        draws = ("p", "pass") if self.view.has_drawn else ("d", "draw", *([""] if self.view.penalty else []))
        # Before the commands: p shows the pile, except when passing is an option.
        if self.may_draw and word.lower() in draws:
            return cards.DRAW
        if word.lower() in _COMMANDS:
            return _COMMANDS[word.lower()]
        if self.may_challenge and word.lower() in ("c", "challenge"):
            return cards.CHALLENGE
        if not self.types:
            if word.lower() in ("", "d", "draw"):
                return cards.DRAW
            due = f"must draw {int(self.view.penalty)}" if self.view.penalty else "can't play"
            if self.may_challenge:
                raise ValueError(f"Type {self.extra} (h: help).")
            raise ValueError(f"You {due}: press Enter to draw (h: help).")
        if not word:
            raise ValueError(f"Type {self._choices()}.")
        if word.isascii() and word.isdigit():
            if not 1 <= int(word[:9]) <= len(self.types):
                raise ValueError(f"There is no {quote(word)[1:-1]}: type {self._choices()}.")
            return self._play(self.types[int(word[:9]) - 1])
        if (name := in_notation(word)) in cards.TYPE_NAMES:
            return self._play(cards.TYPE_NAMES.index(name))
        try:
            action = text.parse_action(word)
        except ValueError:
            raise ValueError(f"{quote(word)} is not clear: type {self._choices()}.") from None
        if action == cards.CHALLENGE:
            raise ValueError(f"There is no Wild+4 to challenge: type {self._choices()}.")
        if action == cards.DRAW:
            why = "You have drawn" if self.view.has_drawn else "You can play, so you must"
            raise ValueError(f"{why}: type {self._choices()}.")
        self._play(int(cards.TYPE_OF_PLAY[action]))
        return action

    def _play(self, card_type: int) -> int | Wild:
        if card_type not in self.types:
            raise ValueError(f"{why_not(self.view, self.types, card_type, notation=True)}: type {self._choices()}.")
        color, rank = int(cards.COLOR_OF_TYPE[card_type]), int(cards.RANK_OF_TYPE[card_type])
        return Wild(rank) if color < 0 else color * cards.NUM_RANKS + rank

    def _choices(self) -> str:
        last, name = len(self.types), cards.TYPE_NAMES[self.types[-1]]
        plays = f"1 or {name}" if last == 1 else f"1 to {last} or a card such as {name}"
        extra = f", {self.extra}" if self.extra else ""
        return f"{plays}{extra} (h: help)"


def read_color(line: str) -> int | Command | None:
    """Read a colour 0..3, a command, or None to choose another card."""
    word = line.strip().lower()
    if not word:
        return None
    for color, name in enumerate(cards.COLOR_NAMES):
        if word in (name, name[0]):
            return color
    if word in _COMMANDS:
        return _COMMANDS[word]
    raise ValueError(f"{quote(word)} is no colour: type R, Y, B or G, or press Enter to choose another card.")


class Wish(enum.Enum):
    """An answer to the question after the end of a game."""

    REMATCH = ("r", "rematch")
    BACK = ("u", "undo", "back")
    LEAVE = ("", "q", "quit", "exit", "n", "no")


_WISHES = {word: wish for wish in Wish for word in wish.value}


def read_wish(line: str) -> Wish:
    word = line.strip().lower()
    if word not in _WISHES:
        raise ValueError(f"{quote(line.strip())} is not clear: type r for a rematch, u to take back, or Enter to stop.")
    return _WISHES[word]


def quote(word: str) -> str:
    """Shorten an input, without control characters."""
    quoted = repr(word)
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        quoted = ascii(word)
    return quoted if len(quoted) <= _LONGEST_QUOTE else quoted[: _LONGEST_QUOTE - 4] + "..." + quoted[-1]

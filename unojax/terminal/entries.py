"""Input at a table: events, and commands."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final


class Command(enum.Enum):
    """A command instead of an event."""

    SHOW = ("",)
    UNDO = ("u", "undo")
    CORRECT = ("f", "fix")
    WHAT_IF = ("?", "if")
    LIST = ("l", "list")
    HELP = ("h", "help")
    QUIT = ("q", "quit", "exit")


_COMMANDS: Final = {word: command for command in Command for word in command.value}
_LINE: Final = re.compile(r"(\?|[a-z]*)\s*(\d*)\s*(.*)", re.I)
HELP: Final = {
    "R5": "what was played. Colours R Y B G, then 0-9, S skip, R reverse, +2.",
    "W:B": "a wild card and its colour; wb and w b too, and w4b for a Wild+4.",
    "d": "they draw, as many cards as they must.",
    "d g7": "you draw the green 7; d g7 r1 where two are due.",
    "d+": "they draw, and may play that card: then the card, or p.",
    "p": "pass after a draw.",
    "c": "they challenge your Wild+4; c won or c lost: your own challenge.",
    "c r2 g7": "your challenge, and the whole hand that they showed.",
    "=6": "you lost track: they hold 6 cards.",
    "d; r5": "several at once. Tab completes.",
    "Enter": "shows the table again.",
    "u": "take the last event back; u3 takes three back.",
    "f r3": "the last event was r3; f7 r3: event 7 was. Later ones stay.",
    "? r5": "what if: how you would stand after it. Nothing is entered.",
    "l": "the events so far, with their numbers.",
    "h": "this help.",
    "q": "stop.",
}
"""What may be typed, and what it means."""


@dataclass(frozen=True)
class Input:
    """One or more events (`command` None), or a command with its number and the rest."""

    command: Command | None
    number: int | None
    rest: str


def read_input(line: str) -> Input:
    """Read a line. Raises ValueError if a command lacks an argument."""
    line = line.strip()
    word, number, rest = _LINE.fullmatch(line).groups()  # pyright: ignore[reportOptionalMemberAccess]
    command = _COMMANDS.get(word.lower())
    if command is None or (command is Command.SHOW and line):
        return Input(None, None, line)
    if command in (Command.CORRECT, Command.WHAT_IF) and not rest:
        raise ValueError(
            f"Type what {'happened' if command is Command.CORRECT else 'you would play'}, as in {word} R5 (h: help)."
        )
    if command not in (Command.CORRECT, Command.WHAT_IF) and rest:
        return Input(None, None, line)
    return Input(command, int(number) if number else None, rest)


def read_beginner(line: str) -> bool:
    """Return whether the other player begins. Raises ValueError if the answer is neither you nor they."""
    answer = line.strip().lower()
    if answer in ("y", "you", "t", "they"):
        return answer.startswith("t")
    raise ValueError(f"Type y if you begin, or t if they do, got {answer!r}.")

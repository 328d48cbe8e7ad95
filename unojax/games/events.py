"""Events of a game as one of its players, the observer, can report them: `Event`, as text and parsed from text.

    R5  W:B            a card that the player to move plays, a wild one with the declared colour
    draw(G7)           cards that the observer draws, or a card that a draw put on the pile at once (`Rules.play_drawn` "auto")
    draw               the other player draws all cards due
    draw+              the other player draws a card that leaves the turn open, if the rules make that depend on the card
    pass               the player to move keeps the card just drawn
    challenge          the other player challenges the observer's Wild+4
    challenge(won)     the observer challenges, and the Wild+4 was against the rules; challenge(lost): it was not
    challenge(won,R5,Y2)   the same, and the other player showed this hand
    =6                 the observer lost track: the other player holds 6 cards now

Reading ignores case and accepts short forms and words: `w b`, `wb`, `blue 5`, `d`, `d g7`, `p`, `c`, `c won`, `c r5 y2`, `they
have 6 cards`. The outcome of a challenge may be omitted if the hand was shown.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace
from typing import Final, Literal

import jax
import numpy as np

from unojax import cards, text
from unojax.belief.history import read_step
from unojax.observation import Observation
from unojax.text.notation import in_notation, parse_counts

Kind = Literal["play", "draw", "pass", "challenge", "count"]
GOES_ON: Final = "+"
WON: Final = "won"
LOST: Final = "lost"
EVENT_HELP: Final = (
    "write a card (R5, YS, W:B), draw (your own with the cards, draw G7), pass, challenge (your own: won or lost, and the hand "
    "that was shown), or =6 for the number of cards that the other player holds"
)

_LOST_TRACK: Final = re.compile(
    r"^\s*(?:they\s+(?:have|hold)|lost\s+track\W*(?:they\s+(?:have|hold))?|=)\s*(\d+)(?:\s+cards?)?\s*$", re.I
)
_NUMBERED_DRAW: Final = re.compile(r"^\s*d(?:raw)?s?\s+(\d+|two|four|six)(?:\s+cards?)?(?:$|[\s:,]+(.*))", re.I)
_NUMBERS: Final = {"two": 2, "four": 4, "six": 6}
_SHORT_FORMS: Final = (
    (re.compile(r"\bW4"), "W+4"),
    (re.compile(r"\bW(\+4)?[\s:]*([RYBG])(?![\w+])"), r"W\1:\2"),
    (re.compile(r"\b(D|DRAW|C|CHALLENGE)([+-])"), r"\1\2 "),
)
_WORD: Final = re.compile(r"\([^()]*\)|[^\s,;()]+")
_DRAWS: Final = ("D", "DRAW", "DRAWS")
_PASSES: Final = ("P", "PASS", "PASSES", "KEEP", "KEEPS")
_CHALLENGES: Final = ("C", "CHALLENGE", "CHALLENGES")
_VERDICTS: Final = {"WON": WON, "RIGHT": WON, "LOST": LOST, "WRONG": LOST}


@dataclass(frozen=True)
class Event:
    """An event of a game; `str` returns the module's notation.

    Attributes:
        kind: Kind of event.
        detail: Play: the action, `W:B`. Draw: the named cards, `R5,W`, or `+` if the turn stays open. Challenge: `won` or
            `lost`, and a shown hand, `won,R5,Y2`. Count: the number of cards. Else empty.
    """

    kind: Kind
    detail: str = ""

    def __str__(self) -> str:
        if self.kind == "play":
            return self.detail
        if self.kind == "count":
            return f"={self.detail}"
        if self.detail == GOES_ON:
            return self.kind + GOES_ON
        return f"{self.kind}({self.detail})" if self.detail else self.kind

    @property
    def action(self) -> int:
        """Action 0..61; -1 for a count."""
        if self.kind == "play":
            return text.parse_action(self.detail)
        return {"draw": cards.DRAW, "pass": cards.DRAW, "challenge": cards.CHALLENGE, "count": -1}[self.kind]

    @property
    def shown(self) -> str:
        """Hand shown at a challenge, `R5 Y2`; empty if not stated."""
        return self.detail.partition(",")[2].replace(",", " ") if self.kind == "challenge" else ""

    @property
    def without_hand(self) -> Event:
        """Event without the shown hand."""
        return replace(self, detail=self.detail.partition(",")[0]) if self.shown else self


def cards_due(view: Observation) -> int:
    """Return the number of cards of the next draw; 0 if too few are left, which ends the game."""
    due, deck, pile = max(int(view.penalty), 1), int(view.deck_count), int(np.sum(view.pile))
    left = deck if deck >= due else deck + pile - (not view.rules.reshuffle_top)
    return due if left >= due else 0


def split_words(line: str) -> deque[str]:
    """Split a line of events into upper-case words; cards in parentheses stay together."""
    return deque(word for part in line.split(";") for word in _words_of_part(part))


def _words_of_part(part: str) -> list[str]:
    """Split a part of a line, between semicolons, into words."""
    if found := _LOST_TRACK.match(part):
        return [f"={int(found[1])}"]
    if found := _NUMBERED_DRAW.match(part):
        return ["DRAW", f"#{_NUMBERS.get(found[1].lower(), found[1])}", *_words_of_part(found[2] or "")]
    part = in_notation(part)
    for pattern, written in _SHORT_FORMS:
        part = pattern.sub(written, part)
    return _WORD.findall(part)


def next_event(words: deque[str], view: Observation, names: tuple[str, str]) -> Event:
    """Remove the words of the next event from a list of words, and return the event.

    Args:
        words: One or more words from `split_words`.
        view: The observer's view before the event.
        names: Names of player 0 and player 1 in messages.

    Raises:
        ValueError: If no event can be read.
    """
    word, is_mine = words.popleft(), bool(view.is_my_turn)
    name = word.rstrip("+-")
    if word.startswith("=") and word[1:].isdigit():
        return Event("count", str(int(word[1:])))
    if word in _PASSES:
        return Event("pass")
    if name in _CHALLENGES:
        return _challenge(word, words, view)
    if name not in _DRAWS:
        return Event("play", text.format_action(_play(word)))
    if word.endswith("-"):
        raise ValueError(f"unknown event {word.lower()!r}: {EVENT_HELP}")
    if words and words[0].startswith("#"):
        _check_number(int(words.popleft()[1:]), view, names)
    if not is_mine:
        return _their_draw(word, words, view)
    return Event("draw", _named_cards(words, view, names[int(view.player)]))


def event_between(before: Observation, after: Observation) -> Event:
    """Return the event between two views of one player."""
    step, rules = jax.device_get(_read_step(before, after)), before.rules
    action, laid = int(step.action), int(step.laid)
    is_mine, goes_on = bool(before.is_my_turn), bool(after.has_drawn)
    if 0 <= action < cards.DRAW:
        return Event("play", text.format_action(action))
    if action == cards.CHALLENGE:
        passes = int(after.current_player) != int(before.current_player)
        return Event("challenge", (WON if passes else LOST) if is_mine else "")
    drawn = np.maximum(cards.count_types(after.hand).astype(int) - cards.count_types(before.hand), 0)
    if laid >= 0:
        return Event("draw", text.format_action(int(after.color) * cards.NUM_RANKS + int(after.top_rank)))
    if is_mine and drawn.any():
        return Event("draw", text.format_cards(cards.onehot_of(drawn)).replace(" ", ","))
    if not is_mine and int(after.opponent_count) > int(before.opponent_count):
        is_open = rules.draw_decides_turn and goes_on
        return Event("draw", GOES_ON if is_open else "")
    return Event("draw" if after.terminated else "pass")


def _challenge(word: str, words: deque[str], view: Observation) -> Event:
    """Read the outcome of a challenge and the shown hand, with or without parentheses.

    No card can be played right after a challenge, so all cards that follow belong to the hand.
    """
    said, named = {"+": WON, "-": LOST}.get(word[-1], ""), list[str]()
    while words and (words[0].startswith("(") or words[0] in _VERDICTS or _is_card(words[0])):
        for stated in _WORD.findall(in_notation(words.popleft().strip("()"))):
            if stated in _VERDICTS and not (said or named):
                said = _VERDICTS[stated]
            elif _is_card(stated):
                named.append(stated)
            else:
                raise ValueError(f"after challenge write won or lost, and then the cards that were shown, got {stated.lower()!r}")
    if not named:
        return Event("challenge", said)
    hand = parse_counts(" ".join(named), "the hand shown")
    is_guilty = hand[cards.COLOR_OF_TYPE == int(view.contested)].any()
    shown = text.format_cards(cards.onehot_of(hand)).replace(" ", ",")
    return Event("challenge", f"{said or (WON if is_guilty else LOST)},{shown}")


def _play(word: str) -> int:
    try:
        action = text.parse_action(word)
    except ValueError:
        if word in ("W", "W+4"):
            raise
        raise ValueError(f"unknown event {word.lower()!r}: {EVENT_HELP}") from None
    return action


def _check_number(number: int, view: Observation, names: tuple[str, str]) -> None:
    due = max(int(view.penalty), 1)
    if number != due:
        raise ValueError(f"{names[int(view.current_player)]} can't draw {number} here: the draw is of {due}")


def _their_draw(word: str, words: deque[str], view: Observation) -> Event:
    """Return the detail of the other player's draw: an open turn, or the card placed at once."""
    detail = GOES_ON if word.endswith("+") else ""
    if words and words[0].startswith("("):
        named = words.popleft()[1:-1]
        if view.rules.play_drawn == "auto" and not view.penalty:
            return Event("draw", text.format_action(_play(named.strip())))
        raise ValueError(f"cards that the other player draws are not seen: write draw alone, got draw({named})")
    if detail and not view.rules.draw_decides_turn:
        raise ValueError("draw+ is for rules under which the card drawn decides whether the turn is over: write draw")
    if detail and view.penalty:
        raise ValueError("the turn is over after a penalty: write draw, not draw+")
    return Event("draw", detail)


def _named_cards(words: deque[str], view: Observation, me: str) -> str:
    """Read the cards of the observer's draw, in parentheses or as one word per card."""
    due = cards_due(view)
    if words and words[0].startswith("("):
        named = words.popleft()[1:-1]
    else:
        named = " ".join(words.popleft() for _ in range(min(due, len(words))) if _is_card(words[0]))
    if ":" in named and view.rules.play_drawn == "auto":
        return text.format_action(_play(named.strip()))
    counts = parse_counts(named)
    if not counts.sum() and due:
        raise ValueError(f"name {'the card' if due == 1 else f'the {due} cards'} that {me} drew, as in draw(R5)")
    if counts.sum() != due:
        raise ValueError(f"a draw of {due} must name as many cards, got {named!r}")
    return text.format_cards(cards.onehot_of(counts)).replace(" ", ",")


def _is_card(word: str) -> bool:
    return word.partition(":")[0] in cards.TYPE_NAMES


_read_step = jax.jit(read_step)

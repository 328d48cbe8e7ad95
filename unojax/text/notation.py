"""Cards and actions as text; the notation is that of `unojax.text`."""

from __future__ import annotations

import operator
import re
from typing import Any, Final

import numpy as np
from jax.typing import ArrayLike

from unojax import cards

EMPTY: Final = "-"
"""An empty set of cards, and no action."""
_TYPE_OF_NAME: Final = {name: t for t, name in enumerate(cards.TYPE_NAMES)}
_OTHER_ACTIONS: Final = {"DRAW": cards.DRAW, "CHALLENGE": cards.CHALLENGE}
_CARD_HELP: Final = (
    "a card is a colour R, Y, B or G and 0-9, S (skip), R (reverse) or +2, as in R5, YS, BR, G+2; or W or W+4 without a colour"
)
_ACTION_HELP: Final = "an action is a card (R5, YS, BR, G+2), a wild with the declared colour (W:R, W+4:B), draw, or challenge"


_IN_WORDS: Final = [
    (re.compile(rf"\b{words}(?![A-Z])"), name)
    for words, name in [
        *((color.upper(), color[0].upper()) for color in cards.COLOR_NAMES),
        (r"WILD\s*(?:DRAW\s*(?:FOUR|4)|\+\s*4)", "W+4"),
        (r"W\s*\+\s*4", "W+4"),
        ("WILD", "W"),
        ("SKIP", "S"),
        ("REVERSE", "R"),
        (r"DRAW\s*(?:TWO|2)", "+2"),
    ]
]
_COLOR_APART: Final = re.compile(r"(?<![^\s,])([RYBG])\s+(\+2|[0-9SR])(?![^\s,])")
_WILD_WITH_COLOR: Final = re.compile(r"^(W(?:\+4)?)\s*[:\s]\s*([RYBG])$")


def check_text(text: object, what: str, example: str) -> None:
    """Raise ValueError, which calls the value `what`, unless it is text."""
    if not isinstance(text, str):
        raise ValueError(f"{what} must be text such as {example!r}, got {text!r}")


def in_notation(text: str) -> str:
    """Convert card names in words, such as `red 5` and `wild draw four`, to the notation."""
    text = text.upper()
    for words, name in _IN_WORDS:
        text = words.sub(name, text)
    return _COLOR_APART.sub(r"\1\2", text)


def parse_cards(text: str) -> np.ndarray:
    """Read cards separated by blanks or commas, `"R5 YS"`: one-hot, bool[108].

    Raises:
        ValueError: If a name is unknown, or a card occurs more often than its copies.
    """
    return cards.onehot_of(parse_counts(text))


def format_cards(onehot: ArrayLike) -> str:
    """Return a set of cards sorted by type: `"R5 YS W+4"`; the empty set is the empty text.

    Raises:
        ValueError: If `onehot` is not a canonical one-hot, bool[108].
    """
    return " ".join(names_of(checked_counts(onehot, "cards")))


def parse_action(text: str) -> int:
    """Read an action: `"R5"`, `"wild red"`, `"draw"` (or pass), `"challenge"` to 0..61.

    Raises:
        ValueError: If the text is not an action, a wild has no declared colour, or a coloured card has one.
    """
    check_text(text, "action", "R5")
    name, colon, letter = _WILD_WITH_COLOR.sub(r"\1:\2", in_notation(text).strip()).partition(":")
    if name in _OTHER_ACTIONS and not colon:
        return _OTHER_ACTIONS[name]
    if name not in _TYPE_OF_NAME:
        raise ValueError(f"unknown action {text!r}: {_ACTION_HELP}")
    color, rank = int(cards.COLOR_OF_TYPE[_TYPE_OF_NAME[name]]), int(cards.RANK_OF_TYPE[_TYPE_OF_NAME[name]])
    if color >= 0:
        if colon:
            raise ValueError(f"action {text!r} declares a colour for a coloured card, which has its own: write {name}")
        return color * cards.NUM_RANKS + rank
    if len(letter) != 1 or letter not in cards.COLOR_LETTERS:
        choices = ", ".join(f"{name}:{c}" for c in cards.COLOR_LETTERS)
        raise ValueError(f"action {text!r} must declare one of the four colours: write one of {choices}")
    return cards.COLOR_LETTERS.index(letter) * cards.NUM_RANKS + rank


def format_action(action: Any) -> str:
    """Return an integer action 0..61, of Python, NumPy or JAX, as `parse_action` reads it.

    Raises:
        ValueError: If it is anything else.
    """
    number = _single_integer(action)
    if number is None or not 0 <= number <= cards.CHALLENGE:
        raise ValueError(f"action must be an integer in [0, {cards.CHALLENGE}], got {action!r}")
    if number >= cards.DRAW:
        return next(name.lower() for name, other in _OTHER_ACTIONS.items() if other == number)
    color, rank = divmod(number, cards.NUM_RANKS)
    letter, name = cards.COLOR_LETTERS[color], cards.RANK_NAMES[rank]
    return f"{name}:{letter}" if rank >= cards.WILD else letter + name


def _single_integer(value: Any) -> int | None:
    """Return an integer scalar of any library; None for booleans and other values."""
    if isinstance(value, bool) or getattr(value, "shape", ()) != ():
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def parse_counts(text: str, what: str = "cards") -> np.ndarray:
    """Read the copies of each type in a list of cards: int[54].

    Raises:
        ValueError: As in `parse_cards`; the message calls the cards `what`.
    """
    check_text(text, what, "R5 YS, W+4")
    counts = np.zeros(cards.NUM_TYPES, int)
    for name in re.split(r"[\s,]+", in_notation(text)):
        if not name:
            continue
        if name not in _TYPE_OF_NAME:
            raise ValueError(f"unknown card {name!r} in {what}: {_CARD_HELP}")
        counts[_TYPE_OF_NAME[name]] += 1
    if (many := np.flatnonzero(counts > cards.COPIES)).size:
        t = many[0]
        raise ValueError(f"{counts[t]} x {cards.TYPE_NAMES[t]} in {what}, but there are only {cards.COPIES[t]}")
    return counts


def checked_counts(onehot: ArrayLike, what: str) -> np.ndarray:
    """Count the cards of each type in a canonical one-hot: int[54].

    Raises:
        ValueError: If it is not one; the message calls it `what`.
    """
    array = np.asarray(onehot)
    if array.shape != (cards.NUM_CARDS,) or array.dtype != bool:
        raise ValueError(f"{what} must be bool[{cards.NUM_CARDS}], got {array.dtype}{list(array.shape)}")
    counts = cards.count_types(array)
    if not np.array_equal(cards.onehot_of(counts), array):
        raise ValueError(
            f"{what} must be canonical: the lower copies of a type first; cards.onehot(cards.counts(...)) makes it so"
        )
    return counts


def names_of(counts: np.ndarray) -> list[str]:
    """Return the names of a multiset int[54], sorted by type."""
    return [cards.TYPE_NAMES[t] for t in np.repeat(np.arange(cards.NUM_TYPES), counts)]


def join_cards(counts: np.ndarray) -> str:
    """Return a multiset int[54] as one word, `R5,YS,W+4`; `-` if empty."""
    return ",".join(names_of(counts)) or EMPTY


def split_cards(word: str, what: str) -> np.ndarray:
    """Read `join_cards`: int[54]."""
    return parse_counts("" if word == EMPTY else word, what)

"""Decks: the copies of each of the 54 card types. Imports no JAX."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np

from unojax import cards
from unojax.files import read_text

_HELP: Final = "use full, numbers, parts such as colors=2,ranks=0-5+S,copies=1,wilds=1, or FILE.json with 54 copy counts"
_RANKS: Final = {**{str(rank): rank for rank in range(10)}, "S": cards.SKIP, "R": cards.REVERSE, "+2": cards.DRAW_TWO}
_RANK: Final = r"(?:\d-\d|\d|[SRsr]|\+2)"


def is_int(value: object) -> TypeGuard[int]:
    """Return whether a value is a Python or NumPy integer and no bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def small_deck(*, colors: int = 4, ranks: Sequence[int] = tuple(range(13)), copies: int = 2, wilds: int = 4) -> tuple[int, ...]:
    """Return the copy counts of a smaller deck: `small_deck(colors=2, ranks=(1, 2, 10))`.

    Args:
        colors: Number of colours, the first of red, yellow, blue, green.
        ranks: Coloured ranks 0..12 (Skip 10, Reverse 11, +2 12).
        copies: Largest number of copies of each coloured card.
        wilds: Number of Wild cards and of Wild+4 cards.

    Raises:
        ValueError: If an argument is out of its range.
    """
    for name, value, low, high in (("colors", colors, 1, 4), ("copies", copies, 1, 2), ("wilds", wilds, 0, 4)):
        if not (is_int(value) and low <= value <= high):
            raise ValueError(f"{name} must be an integer in [{low}, {high}], got {value!r}")
    if bad := [r for r in ranks if not (is_int(r) and 0 <= r < cards.NUM_COLORED_RANKS)]:
        raise ValueError(f"ranks must be integers in [0, 12], got {bad}")
    deck = np.zeros(cards.NUM_TYPES, int)
    for color in range(colors):
        for rank in ranks:
            deck[color * 13 + rank] = min(copies, int(cards.COPIES[color * 13 + rank]))
    deck[cards.WILD_TYPE :] = wilds
    return tuple(deck.tolist())


FULL: Final = tuple(cards.COPIES.tolist())
"""All 108 cards."""
DECKS: Final = {"full": FULL, "numbers": small_deck(ranks=range(10), wilds=0)}
"""Named decks."""


def parse_deck(text: str) -> tuple[int, ...]:
    """Return the copies of each of the 54 card types from text.

    Args:
        text: `full`; `numbers` (0-9 alone); the path of a JSON file, `FILE.json`, with a list of 54 copy counts; or arguments of
            `small_deck`, separated by commas or blanks: `colors=2,ranks=0-5+S,copies=1,wilds=1`. Ranks are 0-9, S, R and +2,
            joined by +, or none.

    Raises:
        ValueError: If the text has another form.
    """
    if not isinstance(text, str):
        raise ValueError(f"deck must be text, got {text!r}; {_HELP}")
    if text in DECKS:
        return DECKS[text]
    if text.endswith(".json"):
        return _read_file(Path(text))
    parts: dict[str, Any] = {}
    for part in re.split(r",|\s+", text.strip()):
        name, equals, value = part.partition("=")
        if not equals or name not in ("colors", "ranks", "copies", "wilds"):
            raise ValueError(f"deck {text!r}: {part!r} is not understood; {_HELP}")
        if name in parts:
            raise ValueError(f"deck {text!r}: {name} is given twice; {_HELP}")
        if name == "ranks":
            parts[name] = _parse_ranks(text, value)
        elif re.fullmatch(r"[0-9]", value):
            parts[name] = int(value)
        else:
            raise ValueError(f"deck {text!r}: {name} must be a one-digit number, got {value!r}; {_HELP}")
    try:
        return small_deck(**parts)
    except ValueError as error:
        raise ValueError(f"deck {text!r}: {error}") from None


def check_copies(deck: Sequence[int]) -> tuple[int, ...]:
    """Return copy counts as a tuple. Raises ValueError unless they are 54 of the full deck."""
    values = np.asarray(deck)
    if values.shape != (cards.NUM_TYPES,) or values.dtype.kind not in "iu":
        raise ValueError(f"deck must be {cards.NUM_TYPES} integer copy counts, one per card type, got {deck!r}")
    if (bad := np.flatnonzero((values < 0) | (values > cards.COPIES))).size:
        t = int(bad[0])
        raise ValueError(f"deck[{t}] ({cards.TYPE_NAMES[t]}) must be in [0, {cards.COPIES[t]}], got {values[t]}")
    return tuple(int(v) for v in values)


def _parse_ranks(text: str, value: str) -> list[int]:
    if value == "none":
        return []
    # A plus between two ranks separates them; "+2" has its own, so "1+2" is one and two, "1++2" one and draw two.
    if not re.fullmatch(rf"{_RANK}(?:\+{_RANK})*", value):
        raise ValueError(
            f"deck {text!r}: ranks must be 0-9, S, R and +2 joined by +, such as 0-5+S or 7++2, or none, got {value!r}"
        )
    ranks: set[int] = set()
    for item in re.findall(rf"({_RANK})(?:\+|$)", value):
        if "-" in item:
            first, last = int(item[0]), int(item[2])
            if first > last:
                raise ValueError(f"deck {text!r}: the range {item} runs backwards; write {last}-{first}")
            ranks.update(range(first, last + 1))
        else:
            ranks.add(_RANKS[item.upper()])
    return sorted(ranks)


def _read_file(path: Path) -> tuple[int, ...]:
    try:
        deck = json.loads(read_text(path))
    except OSError as error:
        raise ValueError(f"deck: can't read {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"deck: {str(path)!r} is not JSON: {error}") from None
    if not (isinstance(deck, list) and len(deck) == cards.NUM_TYPES and all(type(n) is int for n in deck)):
        raise ValueError(
            f"deck: {str(path)!r} must hold a JSON list of 54 whole numbers, 13 for each colour, then Wild and Wild+4"
        )
    return check_copies(deck)

"""Small games with names, to be solved exactly."""

from __future__ import annotations

from typing import Final

from unojax import cards
from unojax.rules import Rules
from unojax.text import parse_cards


def _deck(text: str) -> tuple[int, ...]:
    return tuple(cards.count_types(parse_cards(text)).tolist())


DECKS: Final[dict[str, Rules]] = {
    "tiny": Rules(deck=_deck("R1 R1 R2 R2 Y1 Y1 Y2 Y2"), hand_size=2, max_steps=16),
    "small": Rules(deck=_deck("R1 R1 R2 Y1 Y2 Y2 RS Y+2 W"), hand_size=2, max_steps=12),
    "medium": Rules(deck=_deck("R1 R1 R2 R2 Y1 Y1 Y2 Y2 RS Y+2 W"), hand_size=3, max_steps=13),
}
"""By name, the smaller first: 1,032, 171,062 and 2,526,561 information states."""

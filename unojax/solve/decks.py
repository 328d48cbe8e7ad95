"""Named small games for exact solutions."""

from __future__ import annotations

from dataclasses import replace
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
"""By name, the smallest first: 1,032, 171,062 and 2,526,561 information states."""


def rules_of(game: str, rules: Rules) -> Rules:
    """Return `rules` with the deck, hands and steps of an entry of `DECKS`; "rules": unchanged.

    The number of steps in `rules` has precedence.
    """
    if game == "rules":
        return rules
    named = DECKS[game]
    max_steps = named.max_steps if rules.max_steps is None else rules.max_steps
    return replace(rules, deck=named.deck, hand_size=named.hand_size, max_steps=max_steps)

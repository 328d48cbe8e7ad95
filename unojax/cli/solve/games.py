"""The game that a command is to solve, from its options."""

from __future__ import annotations

from dataclasses import replace

from unojax.rules import Rules
from unojax.solve.decks import DECKS


def rules_of(game: str, rules: Rules) -> Rules:
    """Give the rules of a game: a named one's deck, hands and steps, all else, and a number of steps, as the options say."""
    if game == "rules":
        return rules
    named = DECKS[game]
    max_steps = named.max_steps if rules.max_steps is None else rules.max_steps
    return replace(rules, deck=named.deck, hand_size=named.hand_size, max_steps=max_steps)

"""The rules, written once, over a packed table of 108 labelled cards.

Fields and results are arrays of any one shape.

A `Table` is nine 32-bit words. Each physical card has an owner: deck, hand 0, hand 1 or pile. The owner's two bits are spread
over two bit planes of four words; the ninth word is bookkeeping. Rules that need more state have a tenth word (`Account`). Which
copy of a type has which owner is irrelevant, and `unojax.game` drops it.

A game is a walk through **nodes** (extensive form with chance). Each node picks one element of a set, takes one random word and
moves one card:

    DEAL    2 * hand_size chance nodes: a card to player 0, then to player 1
    START   a chance node: the start card
    PLAY    a decision node if the mover may play; else a reshuffle, a card drawn, or the end of a game whose draw is impossible.
            If drawing is one option of several, the drawn cards are separate nodes after the decision
    OVER_*  a finished game stays unchanged

`find_node` returns the set to pick from. `resolve` packs all consequences of the pick into a single word, the *move*; `commit`
applies it. A loop that passes on the move instead of the next table computes the decision once instead of nine times: see
`unojax.device.lanes.walk`.
"""

from __future__ import annotations

from unojax.table.account import Account
from unojax.table.layout import (
    DEAL,
    DECK,
    HAND_0,
    HAND_1,
    IDLE,
    MAX_PENALTY,
    OVER_DRAWN,
    OVER_WON_BY_0,
    OVER_WON_BY_1,
    PILE,
    PLAY,
    START,
    Meta,
    Table,
    deck,
    new_table,
)
from unojax.table.moves import (
    card_points,
    commit,
    concede,
    is_card_drawn,
    is_challenge,
    is_choice,
    is_play,
    is_reshuffle,
    is_step,
    points_won,
    resolve,
    stay,
    visible_part,
)
from unojax.table.nodes import Node, cards_due, find_node, turn_at
from unojax.table.options import Picked, Turn, action_of, options_of, pick_of

__all__ = [
    "DEAL",
    "DECK",
    "HAND_0",
    "HAND_1",
    "IDLE",
    "MAX_PENALTY",
    "OVER_DRAWN",
    "OVER_WON_BY_0",
    "OVER_WON_BY_1",
    "PILE",
    "PLAY",
    "START",
    "Account",
    "Meta",
    "Node",
    "Picked",
    "Table",
    "Turn",
    "action_of",
    "card_points",
    "cards_due",
    "commit",
    "concede",
    "deck",
    "find_node",
    "is_card_drawn",
    "is_challenge",
    "is_choice",
    "is_play",
    "is_reshuffle",
    "is_step",
    "new_table",
    "options_of",
    "pick_of",
    "points_won",
    "resolve",
    "stay",
    "turn_at",
    "visible_part",
]

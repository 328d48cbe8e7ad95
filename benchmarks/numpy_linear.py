"""The linear policy in plain NumPy, for `benchmarks.numpy_search`. Sets of cards are uint32[4, N] as in `unojax.bits`."""

from __future__ import annotations

from typing import Final

import numpy as np

from unojax import bits, cards
from unojax.policies import LINEAR
from unojax.policies.scoring import WEIGHT_NAMES

_COPY_SHIFT: Final = np.uint32(12)
_NUMBERS: Final = np.uint32((1 << cards.SKIP) - 1)
_MOVES_AGAIN: Final = np.uint32(0b11 << cards.SKIP)
_DRAW_TWO: Final = np.uint32(1 << cards.DRAW_TWO)
_ACTION_CARDS: Final = bits.ACTION_RANKS | bits.ACTION_RANKS << _COPY_SHIFT
_COLORS: Final = np.arange(cards.NUM_COLORS, dtype=np.uint8)[:, None]


def linear_narrow(
    hand: np.ndarray, pile: np.ndarray, color: np.ndarray, opponent_count: np.ndarray, num_unseen: np.ndarray, options: np.ndarray
) -> np.ndarray:
    """The options with the most points of `unojax.policies.LINEAR`: uint32[4, N].

    Args:
        hand, pile: uint32[4, N] own cards, and those played.
        color: [N] the active one.
        opponent_count: int[N] cards of the opponent's.
        num_unseen: int[N] cards in the opponent's hand and in the deck.
        options: uint32[4, N] legal plays, not empty.
    """
    held = np.bitwise_count(hand & bits.COLORED)
    unseen = np.uint8(25) - held - np.bitwise_count(pile & bits.COLORED)
    expected = unseen * (opponent_count / np.maximum(num_unseen, 1)).astype(np.float32)
    actions = np.bitwise_count(hand & _ACTION_CARDS)
    points = _HELD[held] + _ACTIONS_HELD[actions]
    points += _W["opponent's expected cards"] * expected
    points += _W["opponent holds none"] * np.exp(-expected)
    points += np.where(color == _COLORS, _W["active colour"], np.float32(0))
    wilds = np.bitwise_count(hand & bits.WILDS).sum(0, dtype=np.int64)
    again = points + _AGAIN_HELD[held] + _AGAIN_ACTIONS_HELD[actions] + _W["moving again: opponent's expected cards"] * expected
    again += _AGAIN_WILDS[wilds]
    wild = _WILD_HELD[held]

    base = _OF_KIND[np.minimum(opponent_count, 5)].T[:, None]
    # Does nothing in hand fit what lies on the pile after a play of the colour's only card, or of the only wild card?
    alone = (held == 1) & (wilds == 0)
    stuck, again_stuck = (np.where(alone, weight, np.float32(0)) for weight in (_STUCK, _AGAIN_STUCK))
    wild_alone = (held == 0) & (wilds == 1)
    elsewhere = _ranks_elsewhere(hand)
    numbers, repeats, draw_twos = (options & kind for kind in (_NUMBERS, _MOVES_AGAIN, _DRAW_TWO))
    kinds = (
        (numbers & ~elsewhere, base[0] + points + stuck),
        (numbers & elsewhere, base[0] + points + _W["number of a rank held in other colours"]),
        (repeats & ~elsewhere, base[1] + again + again_stuck),
        (repeats & elsewhere, base[1] + again + _W["moving again: rank held in other colours"]),
        (draw_twos & ~elsewhere, base[2] + again + again_stuck),
        (draw_twos & elsewhere, base[2] + again + _W["moving again: rank held in other colours"]),
        (options & bits.WILD_BIT, base[3] + points + wild + np.where(wild_alone, _STUCK, np.float32(0))),
        (
            options & bits.WILD_DRAW_FOUR_BIT,
            base[4] + again - _W["moving again: wild cards left"] + wild + np.where(wild_alone, _AGAIN_STUCK, np.float32(0)),
        ),
    )
    scores = [np.where(option != 0, score, np.float32(-np.inf)) for option, score in kinds]
    best = scores[0]
    for score in scores[1:]:
        best = np.maximum(best, score)
    best = np.maximum(np.maximum(best[0], best[1]), np.maximum(best[2], best[3]))
    favoured = np.zeros_like(options)
    for (option, _), score in zip(kinds, scores, strict=True):
        favoured |= np.where(score == best, option, np.uint32(0))
    return favoured


def _ranks_elsewhere(hand: np.ndarray) -> np.ndarray:
    """uint32[4, N]: for each colour, first-copy bits of the ranks held in the others."""
    r0, r1, r2, r3 = (hand | (hand & bits.SECOND_COPIES) >> _COPY_SHIFT) & bits.FIRST_COPIES
    low, high = r0 | r1, r2 | r3
    return np.stack([r1 | high, r0 | high, low | r3, low | r2])


# The weights by name, and summed up for each number of cards that they depend on.
_W: Final = {name: np.float32(weight) for name, weight in zip(WEIGHT_NAMES, LINEAR.weights, strict=True)}
_N: Final = np.arange(26, dtype=np.float32)
_HELD: Final = _W["cards held"] * _N
_ACTIONS_HELD: Final = _W["action cards held"] * _N
_AGAIN_HELD: Final = _W["moving again: cards held"] * _N
_AGAIN_ACTIONS_HELD: Final = _W["moving again: action cards held"] * _N
_AGAIN_WILDS: Final = _W["moving again: wild cards left"] * _N
_WILD_HELD: Final = (_W["wild: cards held"] * _N + np.where(_N == 0, _W["wild: none held"], 0)).astype(np.float32)
_STUCK: Final = _W["nothing left that fits"]
_AGAIN_STUCK: Final = _STUCK + _W["moving again: nothing left that fits"]
_ALWAYS, _AT_1, _AT_2, _AT_3_4 = np.array(LINEAR.weights[:20], np.float32).reshape(4, 5)
_OF_KIND: Final = _ALWAYS + np.stack([0 * _ALWAYS, _AT_1, _AT_2, _AT_3_4, _AT_3_4, 0 * _ALWAYS])
"""float32[6, 5]: points of each kind of card with 0, 1, 2, 3, 4 and more cards in the opponent's hand."""

"""Policies that add up points for each legal play and choose the best: `LinearPolicy`, `LookaheadPolicy`.

Both are `PackedPolicy`s with numbers of their own, which `jit` traces: other weights do not compile anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards
from unojax.bits import Words
from unojax.policies import PackedPolicy, View

_NUMBERS: Final = np.uint32((1 << cards.SKIP) - 1)
_KINDS: Final = {
    "lone number": _NUMBERS,
    "number of a rank held twice": _NUMBERS,
    "skip or reverse": np.uint32(1 << cards.SKIP | 1 << cards.REVERSE),
    "draw two": np.uint32(1 << cards.DRAW_TWO),
    "wild": bits.WILD_BIT,
    "wild draw four": bits.WILD_DRAW_FOUR_BIT,
}
"""The kinds of plays that the linear policy tells apart, and their option bits."""
_MOVES_AGAIN: Final = (False, False, True, True, False, True)
"""Whether the same player moves next after a play of each kind (under the default rules)."""
_PER_KIND: Final = ("always", "opponent has one card", "opponent has two or three", "two or three cards in hand")
_PER_COLOR: Final = (
    "cards held",
    "last one held",
    "cards held, moving again",
    "last one held, moving again",
    "active colour",
    "opponent's expected cards",
)
WEIGHT_NAMES: Final = tuple(f"{kind}: {when}" for when in _PER_KIND for kind in _KINDS) + tuple(
    f"colour: {feature}" for feature in _PER_COLOR
)
"""What each weight of a linear policy multiplies. The first ones are points for the kind of card played: always, or when so many
cards are left. The others are points for the colour declared: for each card of it in hand (before the play), if at most one card
of it is, both once more for plays after which one moves again, if it is the active colour already, and for each card of it
that the opponent would hold on average if all unseen cards were alike."""


@partial(jax.tree_util.register_dataclass, data_fields=["weights"], meta_fields=["name", "summary"])
@dataclass(frozen=True)
class LinearPolicy(PackedPolicy):
    """The play with the most points, a sum of weighted features of the card played and the colour declared.

    Points are those of the kind of card plus those of the colour, so 6 + 4 sums serve all 60 plays.

    Attributes:
        weights: one for each of `WEIGHT_NAMES`.
        name, summary: as in `RulePolicy`.
    """

    weights: tuple[float, ...]
    name: str = "linear"
    summary: str = "the play with the most points, by kind of card and by colour, with fitted weights"

    def narrow(self, view: View, legal: Words) -> Words:
        """See `PackedPolicy`."""
        num_kinds = len(_KINDS)
        by_kind, by_color = self.weights[: -len(_PER_COLOR)], self.weights[-len(_PER_COLOR) :]
        always, at_one, at_few, when_low = (by_kind[i : i + num_kinds] for i in range(0, len(by_kind), num_kinds))
        hand_count = bits.count(view.hand)
        opponent_count = view.opponent_count
        near, few, low = opponent_count == 1, (opponent_count == 2) | (opponent_count == 3), hand_count <= 3
        of_kind = [
            base + jnp.where(near, a, jnp.where(few, b, 0.0)) + jnp.where(low, c, 0.0)
            for base, a, b, c in zip(always, at_one, at_few, when_low, strict=True)
        ]

        unseen = [view.count_unseen(c, bits.ALL_SLOTS) for c in range(cards.NUM_COLORS)]
        num_unseen = jnp.maximum((unseen[0] + unseen[1]) + (unseen[2] + unseen[3]), 1).astype(jnp.float32)
        share = opponent_count.astype(jnp.float32) / num_unseen
        per_card, if_last, per_card_again, if_last_again, if_active, per_expected = by_color
        paired = _ranks_held_twice(view.hand)

        best = None
        groups: list[list[tuple[Array, Array]]] = []
        for color, option in enumerate(legal):
            held = lax.population_count(view.hand[color] & bits.COLORED)
            last, held = held <= 1, held.astype(jnp.float32)
            expected = view.count_unseen(color, bits.COLORED).astype(jnp.float32) * share
            points = (
                per_card * held
                + jnp.where(last, if_last, 0.0)
                + jnp.where(view.color == color, if_active, 0.0)
                + per_expected * expected
            )
            points_again = points + per_card_again * held + jnp.where(last, if_last_again, 0.0)
            groups.append([])
            for i, mask in enumerate(_KINDS.values()):
                members = option & mask
                if i < 2:
                    members &= paired if i == 1 else ~paired
                score = of_kind[i] + (points_again if _MOVES_AGAIN[i] else points)
                groups[-1].append((members, score))
                score = jnp.where(members != 0, score, -jnp.inf)
                best = score if best is None else jnp.maximum(best, score)

        def chosen(groups: list[tuple[Array, Array]]) -> Array:
            word = jnp.zeros_like(groups[0][0])
            for members, score in groups:
                word |= jnp.where(score == best, members, np.uint32(0))
            return word

        w0, w1, w2, w3 = map(chosen, groups)
        return w0, w1, w2, w3


def _ranks_held_twice(hand: Words) -> Array:
    """uint32[...]: first-copy bits of the coloured ranks of which a hand holds two or more cards."""
    once = jnp.zeros_like(hand[0])
    twice = once
    for word in hand:
        for copies in (word & bits.FIRST_COPIES, (word & bits.SECOND_COPIES) >> np.uint32(12)):
            twice |= once & copies
            once |= copies
    return twice


@partial(jax.tree_util.register_dataclass, data_fields=["margin", "playable", "wilds"], meta_fields=["name", "summary"])
@dataclass(frozen=True)
class LookaheadPolicy(PackedPolicy):
    """One-step lookahead: the play that leads to the position of the highest heuristic value

        V = margin * (n2 - n1) + playable * E[playable cards in the opponent's hand] + wilds * (own wild cards),

    where n1 and n2 are the players' cards after the play and the cards that it makes the opponent draw, and the expectation takes
    all unseen cards for alike: n2 times the share of them that could be played on the new top card.

    Attributes:
        margin, playable, wilds: weights.
        name, summary: as in `RulePolicy`.
    """

    margin: float
    playable: float
    wilds: float
    name: str = "lookahead"
    summary: str = "one step ahead: fewer cards than the opponent, few that it can play, wild cards kept"

    def narrow(self, view: View, legal: Words) -> Words:
        """See `PackedPolicy`."""
        # A trailing axis of 15 ranks.
        ranks = np.arange(cards.NUM_RANKS, dtype=np.uint32)
        rank_bits = bits.rank_bit(ranks)
        wide = View(
            hand=bits.map_words(lambda w: w[..., None], view.hand),
            opponent_count=view.opponent_count[..., None],
            pile=bits.map_words(lambda w: w[..., None], view.pile),
            color=view.color[..., None],
            everything=view.everything,
        )
        colors = range(cards.NUM_COLORS)
        num_unseen = sum(wide.count_unseen(c, bits.ALL_SLOTS) for c in colors)
        wild_unseen = sum(wide.count_unseen(c, bits.WILDS) for c in colors)
        of_rank = [wide.count_unseen(c, jnp.where(ranks < cards.WILD, bits.both_copies(rank_bits), np.uint32(0))) for c in colors]
        of_color = [wide.count_unseen(c, bits.COLORED) for c in colors]
        drawn = np.select([ranks == cards.DRAW_TWO, ranks == cards.WILD_DRAW_FOUR], [2, 4], 0)
        their_count = wide.opponent_count.astype(jnp.int32) + drawn
        own_count = bits.count(wide.hand).astype(jnp.int32) - 1
        own_wilds = bits.count(bits.map_words(lambda w: w & bits.WILDS, wide.hand)).astype(jnp.int32) - (ranks >= cards.WILD)

        scores, is_legal = [], []
        for c in colors:
            matching = of_color[c] + sum(of_rank[d] for d in colors if d != c) + wild_unseen
            expected = their_count * matching / jnp.maximum(num_unseen, 1)
            value = self.margin * (their_count - own_count) + self.playable * expected + self.wilds * own_wilds
            is_legal.append((legal[c][..., None] & rank_bits) != 0)
            scores.append(jnp.where(is_legal[-1], value.astype(jnp.float32), -jnp.inf))
        best = jnp.maximum(jnp.maximum(scores[0], scores[1]), jnp.maximum(scores[2], scores[3])).max(-1, keepdims=True)
        w0, w1, w2, w3 = (
            jnp.where(here & (score == best), rank_bits, np.uint32(0)).sum(-1, dtype=jnp.uint32)
            for here, score in zip(is_legal, scores, strict=True)
        )
        return w0, w1, w2, w3

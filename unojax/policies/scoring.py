"""Policies that add up points for each legal play and choose the best: `LinearPolicy`, `LookaheadPolicy`.

Both are `PackedPolicy`s with numbers of their own, which `jit` traces: other weights do not compile anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits, cards
from unojax.bits import Words
from unojax.device.tracing import traced_once
from unojax.policies.packed import PackedPolicy, plays_before_draws
from unojax.view import View

_ACTION_CARDS: Final = bits.ACTION_RANKS | bits.ACTION_RANKS << np.uint32(12)


class _Kind(NamedTuple):
    """A kind of play that the linear policy tells apart.

    Attributes:
        options: the option bits of its ranks.
        moves_again: the same player moves next (under the default rules).
        is_wild: declares a colour.
    """

    options: np.uint32
    moves_again: bool = False
    is_wild: bool = False


_KINDS: Final = {
    "number": _Kind(np.uint32((1 << cards.SKIP) - 1)),
    "skip or reverse": _Kind(np.uint32(1 << cards.SKIP | 1 << cards.REVERSE), moves_again=True),
    "draw two": _Kind(np.uint32(1 << cards.DRAW_TWO), moves_again=True),
    "wild": _Kind(bits.WILD_BIT, is_wild=True),
    "wild draw four": _Kind(bits.WILD_DRAW_FOUR_BIT, moves_again=True, is_wild=True),
}
_WHEN: Final = ("always", "opponent has 1 card", "opponent has 2 cards", "opponent has 3 or 4 cards")
_OF_COLOR: Final = (
    *("cards held", "action cards held", "active colour", "opponent's expected cards", "opponent holds none"),
    *("moving again: cards held", "moving again: action cards held", "moving again: opponent's expected cards"),
    *("wild: cards held", "wild: none held"),
)
_OF_NEXT: Final = (
    *("number of a rank held in other colours", "moving again: rank held in other colours"),
    *("moving again: wild cards left", "nothing left that fits", "moving again: nothing left that fits"),
)
WEIGHT_NAMES: Final = tuple(f"{kind}, {when}" for when in _WHEN for kind in _KINDS) + _OF_COLOR + _OF_NEXT
"""What each weight of a linear policy multiplies. First the kind of card played: always, and in addition when the opponent has
few cards. Then the colour declared: cards of it in hand before the play (all, and action cards alone), whether it is the active
colour already, how many the opponent would hold on average if all unseen cards were alike, and exp(-that), about the probability
of none. Last the cards left in hand that could be played on the new top card, by rank, as wild cards, or by whatever. Some count
once more for plays after which one moves again, or for wild cards."""


def _float32(weights: tuple[float, ...]) -> tuple[Array, ...]:
    """Take weights in single precision, in 64-bit mode too."""
    return tuple(jnp.asarray(weight, jnp.float32) for weight in weights)


def _check_weights(weights: tuple[Any, ...], name: str, names: Sequence[str]) -> None:
    """Check numbers of the host, in the precision that is played with; arrays, which may be traced, are taken as they are.

    With a weight that is not finite no play would have the most points.

    Raises:
        ValueError: one is not finite, or there are too few or too many.
    """
    if not all(isinstance(weight, float | int | np.generic) for weight in weights):
        return
    largest = float(np.finfo(np.float32).max)
    if len(weights) != len(names) or not all(abs(float(weight)) <= largest for weight in weights):
        raise ValueError(f"weights of {name} must be {len(names)} finite numbers, got {weights!r}")


def _or_other(view: View, legal: Words, plays: Words) -> Words:
    """Keep the plays chosen; where the rules left none to choose from, the other legal options."""
    return bits.where(bits.any_of(plays) != 0, plays, legal) if view.rules.draw_is_option else plays


class _Group(NamedTuple):
    """Plays with equal points: option bits (one colour's word) and float32[...]."""

    options: Array
    points: Array


@partial(jax.tree_util.register_dataclass, data_fields=["weights"], meta_fields=["name", "summary"])
@dataclass(frozen=True)
class LinearPolicy(PackedPolicy):
    """The play with the most points, a sum of weighted features of the card played and the colour declared.

    Points belong to a kind of card and a colour, and to whether its rank is held in other colours: 32 sums serve all 60 plays.

    Attributes:
        weights: one for each of `WEIGHT_NAMES`, finite.
        name, summary: as in `RulePolicy`.

    Raises:
        ValueError: the weights are not so many finite numbers.
    """

    weights: tuple[float, ...]
    name: str = "linear"
    summary: str = "the play with the most points, by kind of card and by colour, with fitted weights"

    def __post_init__(self) -> None:
        _check_weights(self.weights, self.name, WEIGHT_NAMES)

    @traced_once
    def narrow(self, view: View, legal: Words) -> Words:
        if view.rules.draw_is_option:
            legal = plays_before_draws(legal)
        groups = self._groups(view)
        best = jnp.full(legal[0].shape, -jnp.inf, jnp.float32)
        for of_color, option in zip(groups, legal, strict=True):
            for group in of_color:
                best = jnp.maximum(best, jnp.where((option & group.options) != 0, group.points, -jnp.inf))
        chosen = []
        for of_color, option in zip(groups, legal, strict=True):
            word = jnp.zeros_like(option)
            for group in of_color:
                word |= jnp.where(group.points == best, option & group.options, np.uint32(0))
            chosen.append(word)
        w0, w1, w2, w3 = chosen
        return _or_other(view, legal, (w0, w1, w2, w3))

    def score_plays(self, view: View) -> Array:
        """Compute the points of every play, float32[..., 60]."""
        rank_bits = bits.rank_bit(cards.along_last(np.arange(cards.NUM_RANKS, dtype=np.uint32), view.color.ndim + 1))
        scores = []
        for of_color in self._groups(view):
            score = jnp.zeros((*view.color.shape, cards.NUM_RANKS), jnp.float32)
            for group in of_color:
                score = jnp.where((group.options[..., None] & rank_bits) != 0, group.points[..., None], score)
            scores.append(score)
        return jnp.concatenate(scores, axis=-1)

    def _groups(self, view: View) -> list[list[_Group]]:
        """Compute for each colour declared the kinds of plays and their points."""
        num_kinds = len(_KINDS)
        weights = _float32(self.weights)
        always, at_1, at_2, at_3_4 = (weights[i * num_kinds : (i + 1) * num_kinds] for i in range(len(_WHEN)))
        of_color, of_next = weights[len(_WHEN) * num_kinds : -len(_OF_NEXT)], weights[-len(_OF_NEXT) :]
        held_w, action_w, active_w, expected_w, none_w, *more = of_color
        again_held_w, again_action_w, again_expected_w, wild_held_w, wild_none_w = more
        number_linked_w, again_linked_w, again_wilds_w, stuck_w, again_stuck_w = of_next

        n = view.opponent_count
        of_kind = [
            base + jnp.where(n == 1, a, jnp.where(n == 2, b, jnp.where((n == 3) | (n == 4), c, 0.0)))
            for base, a, b, c in zip(always, at_1, at_2, at_3_4, strict=True)
        ]
        unseen = [view.count_unseen(c, bits.ALL_SLOTS) for c in range(cards.NUM_COLORS)]
        share = n.astype(jnp.float32) / jnp.maximum((unseen[0] + unseen[1]) + (unseen[2] + unseen[3]), 1).astype(jnp.float32)
        num_wilds = bits.count(bits.map_words(lambda w: w & bits.WILDS, view.hand))
        ranks = [(word | (word & bits.SECOND_COPIES) >> np.uint32(12)) & bits.FIRST_COPIES for word in view.hand]
        groups = []
        for color in range(cards.NUM_COLORS):
            num_held = lax.population_count(view.hand[color] & bits.COLORED)
            held = num_held.astype(jnp.float32)
            action_cards = lax.population_count(view.hand[color] & _ACTION_CARDS).astype(jnp.float32)
            expected = view.count_unseen(color, bits.COLORED).astype(jnp.float32) * share
            points = (
                held_w * held
                + action_w * action_cards
                + jnp.where(view.color == color, active_w, 0.0)
                + expected_w * expected
                + none_w * jnp.exp(-expected)
            )
            again = again_held_w * held + again_action_w * action_cards + again_expected_w * expected
            wild = wild_held_w * held + jnp.where(num_held == 0, wild_none_w, 0.0)
            a, b, c = (ranks[other] for other in range(cards.NUM_COLORS) if other != color)
            elsewhere = a | b | c
            of_color = []
            for kind, base in zip(_KINDS.values(), of_kind, strict=True):
                score = base + points
                # The cards that fit the next top card by colour, and the wild cards, without the card that is played.
                fits, wilds = (num_held, num_wilds - 1) if kind.is_wild else (num_held - 1, num_wilds)
                stuck = stuck_w
                if kind.moves_again:
                    score = score + again + again_wilds_w * wilds.astype(jnp.float32)
                    stuck = stuck + again_stuck_w
                if kind.is_wild:
                    score = score + wild
                else:
                    linked = score + (again_linked_w if kind.moves_again else number_linked_w)
                    of_color.append(_Group(kind.options & elsewhere, linked))
                unlinked = jnp.full_like(elsewhere, kind.options) if kind.is_wild else kind.options & ~elsewhere
                of_color.append(_Group(unlinked, score + jnp.where(fits + wilds == 0, stuck, 0.0)))
            groups.append(of_color)
        return groups


@partial(jax.tree_util.register_dataclass, data_fields=["weights"], meta_fields=["name", "summary"])
@dataclass(frozen=True)
class LookaheadPolicy(PackedPolicy):
    """One-step lookahead: the play that leads to the position of the highest heuristic value

        V = w0 * (n2 - n1) + w1 * E[playable cards in the opponent's hand] + w2 * (own wild cards),

    where n1 and n2 are the players' cards after the play and the cards that it makes the opponent draw, and the expectation takes
    all unseen cards for alike: n2 times the share of them that could be played on the new top card.

    Attributes:
        weights: w0, w1, w2, finite.
        name, summary: as in `RulePolicy`.

    Raises:
        ValueError: the weights are not three finite numbers.
    """

    weights: tuple[float, float, float]
    name: str = "lookahead"
    summary: str = "one step ahead: fewer cards than the opponent, few that it can play, wild cards kept"

    def __post_init__(self) -> None:
        _check_weights(self.weights, self.name, ("w0", "w1", "w2"))

    @traced_once
    def narrow(self, view: View, legal: Words) -> Words:
        if view.rules.draw_is_option:
            legal = plays_before_draws(legal)
        rank_bits = bits.rank_bit(cards.along_last(np.arange(cards.NUM_RANKS, dtype=np.uint32), view.color.ndim + 2))
        is_legal = (jnp.stack(legal, axis=-1)[..., None] & rank_bits) != 0
        scores = jnp.where(is_legal, self.score_plays(view).reshape(is_legal.shape), -jnp.inf)
        best = is_legal & (scores == scores.max((-2, -1), keepdims=True))
        words = jnp.where(best, rank_bits, np.uint32(0)).sum(-1, dtype=jnp.uint32)
        return _or_other(view, legal, (words[..., 0], words[..., 1], words[..., 2], words[..., 3]))

    def score_plays(self, view: View) -> Array:
        """Compute V after every play, float32[..., 60]."""
        margin_w, playable_w, wilds_w = _float32(self.weights)
        ranks = cards.along_last(np.arange(cards.NUM_RANKS, dtype=np.uint32), view.color.ndim + 1)
        of_rank = jnp.where(ranks < cards.WILD, bits.both_copies(bits.rank_bit(ranks)), np.uint32(0))
        wide = replace(
            view, hand=bits.map_words(lambda w: w[..., None], view.hand), pile=bits.map_words(lambda w: w[..., None], view.pile)
        )
        same_color = [wide.count_unseen(c, bits.COLORED) for c in range(cards.NUM_COLORS)]
        same_rank = [wide.count_unseen(c, of_rank) for c in range(cards.NUM_COLORS)]
        wilds = [wide.count_unseen(c, bits.WILDS) for c in range(cards.NUM_COLORS)]
        num_unseen = jnp.maximum(sum(same_color) + sum(wilds), 1).astype(jnp.float32)

        drawn = np.asarray(cards.DRAW_OF_RANK, np.int32)[ranks]
        their_count = view.opponent_count.astype(jnp.int32)[..., None] + drawn
        own_count = bits.count(wide.hand).astype(jnp.int32) - 1
        wild_cards = bits.map_words(lambda w: w & bits.WILDS, wide.hand)
        own_wilds = (bits.count(wild_cards).astype(jnp.int32) - (ranks >= cards.WILD).astype(np.int32)).astype(jnp.float32)
        margin = (their_count - own_count).astype(jnp.float32)
        scores = []
        for color in range(cards.NUM_COLORS):
            playable = same_color[color] + sum(same_rank) - same_rank[color] + sum(wilds)
            expected = their_count.astype(jnp.float32) * playable.astype(jnp.float32) / num_unseen
            scores.append(margin_w * margin + playable_w * expected + wilds_w * own_wilds)
        return jnp.concatenate(scores, axis=-1)


# Fitted by `python -m training.fit_scoring linear`.
LINEAR: Final = LinearPolicy(
    (
        # Kinds of cards, a row for each of `_WHEN`.
        *(0.073, 0.131, 0.116, -0.141, -0.136),
        *(-0.111, -0.109, 0.317, 0.106, 0.176),
        *(0.001, 0.07, 0.082, -0.16, 0.063),
        *(0.038, 0.023, 0.067, -0.035, -0.088),
        # The colour declared and the cards left, as `_OF_COLOR` and `_OF_NEXT`.
        *(-0.014, -0.071, -0.007, 0.036, 1.0, -0.02, 0.025, -0.01, 0.021, -0.183),
        *(-0.02, -0.109, 0.01, -0.04, -0.033),
    )
)
"""The policy `linear`: 35 fitted weights. The searches' rollouts follow it."""
# From an earlier form of that script: least squares, then a cross-entropy search of the win rate.
LOOKAHEAD: Final = LookaheadPolicy((0.132, -0.272, 1.0))
"""The policy `lookahead`: one step ahead, by three fitted weights."""

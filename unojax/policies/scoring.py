"""Policies that choose the play with the most points. `jit` traces their weights."""

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
from unojax.policies.packed import PackedPolicy, plays_before_draws, prefer
from unojax.view import View

_ACTION_CARDS: Final = bits.ACTION_RANKS | bits.ACTION_RANKS << np.uint32(12)


class _Kind(NamedTuple):
    """Kind of play that the linear policy distinguishes.

    Attributes:
        options: Option bits of its ranks.
        moves_again: The same player moves next, under the default rules.
        is_wild: The play declares a colour.
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
_KIND_OF_RANK: Final = np.eye(len(_KINDS), dtype=np.float32)[[0] * cards.SKIP + [1, 1, 2, 3, 4]]
"""float32[15, 5]."""
_MOVES_AGAIN: Final = np.array([kind.moves_again for kind in _KINDS.values()])[_KIND_OF_RANK.argmax(1)]
_WHEN: Final = ("always", "opponent has 1 card", "opponent has 2 cards", "opponent has 3 or 4 cards")
_OF_COLOR: Final = (
    *("cards held", "action cards held", "active colour", "opponent's expected cards", "opponent holds none"),
    *("moving again: cards held", "moving again: action cards held", "moving again: opponent's expected cards"),
    *("wild: cards held", "wild: none held"),
)
_LINKED: Final = "number of a rank held in other colours"
_OF_NEXT: Final = (
    *(_LINKED, "moving again: rank held in other colours"),
    *("moving again: wild cards left", "nothing left that fits", "moving again: nothing left that fits"),
)
WEIGHT_NAMES: Final = tuple(f"{kind}, {when}" for when in _WHEN for kind in _KINDS) + _OF_COLOR + _OF_NEXT
"""Factors of the weights of a linear policy:

* the kind of card played: always, and additionally when the opponent has few cards;
* the colour declared: its cards in hand before the play (all, and action cards alone), whether it is active already, the
  opponent's mean number of its cards if uniform over unseen cards, and exp(-that), roughly the probability of zero;
* the cards left in hand that could be played on the new top card, by rank, as wild cards, or in any way.

Some count again for plays after which the player moves again, or for wild cards.
"""


def _float32(weights: tuple[float, ...]) -> tuple[Array, ...]:
    """Convert weights to single precision, in 64-bit mode too."""
    return tuple(jnp.asarray(weight, jnp.float32) for weight in weights)


def check_weights(weights: tuple[Any, ...], name: str, names: Sequence[str]) -> None:
    """Check weights given as host numbers; arrays may be traced.

    Raises:
        ValueError: If a weight is not finite, or their number is wrong.
    """
    if not all(isinstance(weight, float | int | np.generic) for weight in weights):
        return
    largest = float(np.finfo(np.float32).max)
    if len(weights) != len(names) or not all(abs(float(weight)) <= largest for weight in weights):
        raise ValueError(f"weights of {name} must be {len(names)} finite numbers, got {weights!r}")


class _Group(NamedTuple):
    """Plays with equal points: option bits of one colour, and float32[...]."""

    options: Array
    points: Array


@partial(jax.tree_util.register_dataclass, data_fields=["weights"], meta_fields=["name", "summary"])
@dataclass(frozen=True)
class LinearPolicy(PackedPolicy):
    """Policy that plays the legal card with the largest sum of weighted features.

    Attributes:
        weights: One finite weight for each of `WEIGHT_NAMES`.
        name, summary: As in `RulePolicy`.
    """

    weights: tuple[float, ...]
    name: str = "linear"
    summary: str = "the play with the most points, by kind of card and by colour, with fitted weights"

    def __post_init__(self) -> None:
        check_weights(self.weights, self.name, WEIGHT_NAMES)

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
        # A program may compute points twice and round them differently, so that none equals the best.
        return prefer(legal, (w0, w1, w2, w3))

    def score_plays(self, view: View) -> Array:
        """Return the points of every play, float32[..., 60]: `play_features` times the weights."""
        weights = jnp.stack(_float32(self.weights))
        return jnp.einsum("...pf,f->...p", play_features(view), weights, precision=lax.Precision.HIGHEST)

    def _groups(self, view: View) -> list[list[_Group]]:
        """Return for each declared colour the kinds of plays with their points."""
        w = dict(zip(WEIGHT_NAMES, _float32(self.weights), strict=True))
        of_kind = {kind: _points_of_kind(w, kind, view.opponent_count) for kind in _KINDS}
        hand = _Hand.of(view)
        groups = []
        for color in range(cards.NUM_COLORS):
            points = _points_of_color(w, view, hand, color)
            of_color = []
            for name, kind in _KINDS.items():
                score, stuck = of_kind[name] + points.always, w["nothing left that fits"]
                # Cards that fit the next top card by colour, and the wild cards, without the played card.
                fits, wilds = (hand.held[color], hand.wilds - 1) if kind.is_wild else (hand.held[color] - 1, hand.wilds)
                if kind.moves_again:
                    score = score + points.again + w["moving again: wild cards left"] * wilds.astype(jnp.float32)
                    stuck = stuck + w["moving again: nothing left that fits"]
                if kind.is_wild:
                    score, unlinked = score + points.wild, jnp.full_like(hand.elsewhere[color], kind.options)
                else:
                    linked = "moving again: rank held in other colours" if kind.moves_again else _LINKED
                    of_color.append(_Group(kind.options & hand.elsewhere[color], score + w[linked]))
                    unlinked = kind.options & ~hand.elsewhere[color]
                of_color.append(_Group(unlinked, score + jnp.where(fits + wilds == 0, stuck, 0.0)))
            groups.append(of_color)
        return groups


class _Hand(NamedTuple):
    """Facts about a hand and the unseen cards.

    Attributes:
        held, actions: Number of coloured cards and of action cards by colour, int32[...].
        wilds: Number of wild cards, int32[...].
        elsewhere: Option bits of ranks held in other colours, by colour, uint32[...].
        expected: Expected coloured cards of the opponent by colour, uniform over unseen cards, float32[...].
    """

    held: list[Array]
    actions: list[Array]
    wilds: Array
    elsewhere: list[Array]
    expected: list[Array]

    @classmethod
    def of(cls, view: View) -> _Hand:
        """Count the cards."""
        colors = range(cards.NUM_COLORS)
        unseen = [view.count_unseen(c, bits.ALL_SLOTS) for c in colors]
        num_unseen = jnp.maximum((unseen[0] + unseen[1]) + (unseen[2] + unseen[3]), 1)
        share = view.opponent_count.astype(jnp.float32) / num_unseen.astype(jnp.float32)
        ranks = [(word | (word & bits.SECOND_COPIES) >> np.uint32(12)) & bits.FIRST_COPIES for word in view.hand]
        others = [[ranks[other] for other in colors if other != color] for color in colors]
        return cls(
            held=[lax.population_count(word & bits.COLORED) for word in view.hand],
            actions=[lax.population_count(word & _ACTION_CARDS) for word in view.hand],
            wilds=bits.count(bits.map_words(lambda w: w & bits.WILDS, view.hand)),
            elsewhere=[a | b | c for a, b, c in others],
            expected=[view.count_unseen(c, bits.COLORED).astype(jnp.float32) * share for c in colors],
        )


class _ColorPoints(NamedTuple):
    """Points of a declared colour, float32[...]: always, for moving again, for a wild card."""

    always: Array
    again: Array
    wild: Array


def _points_of_kind(w: dict[str, Array], kind: str, opponent_count: Array) -> Array:
    """Sum the weights of `_WHEN` for a kind of card, float32[...]."""
    always, at_1, at_2, at_3_4 = (w[f"{kind}, {when}"] for when in _WHEN)
    n = opponent_count
    return always + jnp.where(n == 1, at_1, jnp.where(n == 2, at_2, jnp.where((n == 3) | (n == 4), at_3_4, 0.0)))


def _points_of_color(w: dict[str, Array], view: View, hand: _Hand, color: int) -> _ColorPoints:
    """Sum the weights of `_OF_COLOR` for a declared colour."""
    held, actions = hand.held[color].astype(jnp.float32), hand.actions[color].astype(jnp.float32)
    expected = hand.expected[color]
    return _ColorPoints(
        always=w["cards held"] * held
        + w["action cards held"] * actions
        + jnp.where(view.color == color, w["active colour"], 0.0)
        + w["opponent's expected cards"] * expected
        + w["opponent holds none"] * jnp.exp(-expected),
        again=w["moving again: cards held"] * held
        + w["moving again: action cards held"] * actions
        + w["moving again: opponent's expected cards"] * expected,
        wild=w["wild: cards held"] * held + jnp.where(hand.held[color] == 0, w["wild: none held"], 0.0),
    )


def play_features(view: View) -> Array:
    """Return the features of every play, float32[..., 60, 35], in the order of `WEIGHT_NAMES`."""
    hand, n = _Hand.of(view), view.opponent_count
    held, actions, expected, elsewhere = (
        jnp.stack(of_color, -1)[..., None] for of_color in (hand.held, hand.actions, hand.expected, hand.elsewhere)
    )
    held, actions = held.astype(jnp.float32), actions.astype(jnp.float32)
    ranks, again, wild = (
        cards.along_last(of_rank, held.ndim)
        for of_rank in (np.arange(cards.NUM_RANKS, dtype=np.uint32), _MOVES_AGAIN, np.arange(cards.NUM_RANKS) >= cards.WILD)
    )
    is_linked = ((elsewhere & bits.rank_bit(ranks)) != 0) & ~wild
    wilds = hand.wilds[..., None, None].astype(jnp.float32) - wild.astype(np.float32)
    is_stuck = ~is_linked & (held - (~wild).astype(np.float32) + wilds == 0)
    columns = [
        *(held, actions, jax.nn.one_hot(view.color, cards.NUM_COLORS)[..., None], expected, jnp.exp(-expected)),
        *(again * held, again * actions, again * expected, wild * held, wild & (held == 0)),
        *(is_linked & ~again, is_linked & again, again * wilds, is_stuck, is_stuck & again),
    ]
    shape = *n.shape, cards.NUM_COLORS, cards.NUM_RANKS
    when = jnp.stack([jnp.ones_like(n, bool), n == 1, n == 2, (n == 3) | (n == 4)], -1).astype(jnp.float32)
    of_kind = jnp.einsum("...w,rk->...rwk", when, _KIND_OF_RANK).reshape(*n.shape, 1, cards.NUM_RANKS, -1)
    of_kind = jnp.broadcast_to(of_kind, (*shape, of_kind.shape[-1]))
    others = jnp.stack([jnp.broadcast_to(column.astype(jnp.float32), shape) for column in columns], -1)
    return jnp.concatenate([of_kind, others], -1).reshape(*n.shape, cards.DRAW, len(WEIGHT_NAMES))


@partial(jax.tree_util.register_dataclass, data_fields=["weights"], meta_fields=["name", "summary"])
@dataclass(frozen=True)
class LookaheadPolicy(PackedPolicy):
    """Policy of one-step lookahead: the play that leads to the highest heuristic value

        V = w0 * (n2 - n1) + w1 * E[playable cards in the opponent's hand] + w2 * (own wild cards),

    where n1 and n2 are the players' cards after the play and its penalty, and E is uniform over unseen cards.

    Attributes:
        weights: w0, w1, w2, finite.
        name, summary: As in `RulePolicy`.
    """

    weights: tuple[float, float, float]
    name: str = "lookahead"
    summary: str = "one step ahead: fewer cards than the opponent, few that it can play, wild cards kept"

    def __post_init__(self) -> None:
        check_weights(self.weights, self.name, ("w0", "w1", "w2"))

    @traced_once
    def narrow(self, view: View, legal: Words) -> Words:
        if view.rules.draw_is_option:
            legal = plays_before_draws(legal)
        rank_bits = bits.rank_bit(cards.along_last(np.arange(cards.NUM_RANKS, dtype=np.uint32), view.color.ndim + 2))
        is_legal = (jnp.stack(legal, axis=-1)[..., None] & rank_bits) != 0
        scores = jnp.where(is_legal, self.score_plays(view).reshape(is_legal.shape), -jnp.inf)
        best = is_legal & (scores == scores.max((-2, -1), keepdims=True))
        words = jnp.where(best, rank_bits, np.uint32(0)).sum(-1, dtype=jnp.uint32)
        return prefer(legal, (words[..., 0], words[..., 1], words[..., 2], words[..., 3]))

    def score_plays(self, view: View) -> Array:
        """Return V after every play, float32[..., 60]."""
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

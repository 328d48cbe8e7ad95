"""Features: the value network's input, numbers that describe an information state.

An information state is the player's view (`View`) and its belief about the opponent's hand and type (`Outlook`). Both can also
describe the moment after a play (an afterstate): `after_plays`. `Features` has one row for each colour, with the same columns,
and shared features, so permuting the colours of the game permutes the rows and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from unojax import bits, cards, table
from unojax.belief.color_bounds import KIND_OF_TYPE, unpack
from unojax.belief.hands import TypedHands
from unojax.belief.opponents import FAMILY, Family, Opponent, models_of, opponent_name
from unojax.bits import Words
from unojax.device.combinatorics import log_binomial_ratio
from unojax.device.tracing import compiled_apart
from unojax.rules import Rules
from unojax.table import Table
from unojax.view import View, view_of_table

_RANKS: Final = cards.RANK_NAMES[: cards.NUM_COLORED_RANKS]
_COUNT_STEPS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10, 13)
COLORED_SLOTS: Final = 25
_TYPES_OF_COLORS: Final = cards.NUM_COLORS * cards.NUM_COLORED_RANKS

COLOR_COLUMNS: Final = (
    *(f"own {rank}, first copy" for rank in _RANKS),
    *(f"own {rank}, second copy" for rank in _RANKS[1:]),
    *(f"unseen {rank} / 2" for rank in _RANKS),
    *(f"opponent's expected {rank}" for rank in _RANKS),
    "active colour",
    "own cards / 4",
    "opponent's expected cards / 4",
    "probability that the opponent has none",
    "own cards of the top rank",
    "opponent's expected cards of the top rank",
)
"""Columns of `Features.color`. Copies are canonical: the second one is set if two are held."""
MATCH_COLUMNS: Final = (
    *(f"own {rank} in other colours / 2" for rank in _RANKS),
    *(f"opponent's expected {rank} in other colours" for rank in _RANKS),
    *(f"own {rank}: probability that the opponent can play nothing on it" for rank in _RANKS),
)
"""Columns of `Features.matches`: links from one colour to another, which the other columns of a colour lack. The last
are 0 for ranks that the player does not hold in the colour.
"""
SHARED_COLUMNS: Final = (
    *(f"own wilds, at least {n}" for n in range(1, 5)),
    *(f"own wild draw fours, at least {n}" for n in range(1, 5)),
    "unseen wilds / 4",
    "unseen wild draw fours / 4",
    "opponent's expected wilds",
    "opponent's expected wild draw fours",
    *(f"own cards, at least {n}" for n in _COUNT_STEPS),
    "own cards / 10",
    *(f"opponent's cards, at least {n}" for n in _COUNT_STEPS),
    "opponent's cards / 10",
    "deck / 100",
    *(f"top rank {rank}" for rank in cards.RANK_NAMES),
    "penalty 2",
    "penalty 4",
    "own turn",
    "own playable cards / 4",
    "no own card playable",
    "opponent's expected playable cards / 4",
    "probability that the opponent can play nothing",
    "spread of the belief",
)
"""Columns of `Features.shared`. The spread is the sum of the variances of the opponent's counts, over twice the size
of the hand: 0 if the hand is known.
"""
_TYPES: Final = tuple(FAMILY.split("|"))
TYPE_COLUMNS: Final = tuple(f"probability that the opponent plays like {name}" for name in _TYPES)
"""Columns of `Features.types`."""
COLOR_TURN_COLUMNS: Final = ("before a Wild+4 that may be challenged",)
SHARED_TURN_COLUMNS: Final = ("penalty / 10", "a card drawn in this turn", "about to draw", "about to challenge")
"""Further columns of `Features.color` and `Features.shared` under rules with optional draws or stacked penalties.

The network values the moment before the chance outcome of a draw or a challenge.
"""


class Outlook(NamedTuple):
    """Features of a belief about the opponent.

    Attributes:
        expected: Expected cards of each type, float32[..., 54].
        none_of_color: Probability of holding no card of each colour, without wild cards, float32[..., 4].
        none_playable: Probability of holding no card playable on a top card, by active colour and rank, float32[..., 4, 15], for
            every top card that the player may play.
        spread: See `SHARED_COLUMNS`, float32[...].
        types: P(type) of the opponent, of `opponents.FAMILY`, float32[..., 6]; uniform without information.
    """

    expected: Array
    none_of_color: Array
    none_playable: Array
    spread: Array
    types: Array


class Features(NamedTuple):
    """The network's input.

    Attributes:
        color: `COLOR_COLUMNS`, float32[..., 4, C]; if `has_turn_columns`, `COLOR_TURN_COLUMNS` follow.
        shared: `SHARED_COLUMNS`, float32[..., S]; if `has_turn_columns`, `SHARED_TURN_COLUMNS` follow.
        matches: `MATCH_COLUMNS`, float32[..., 4, M], for networks with `NetworkConfig.matches`.
        types: `TYPE_COLUMNS`, float32[..., 6], for networks with `NetworkConfig.types`.
    """

    color: Array
    shared: Array
    matches: Array
    types: Array


def has_turn_columns(rules: Rules) -> bool:
    """Return whether features have columns for optional draws or stacked penalties."""
    return rules.draw_is_option or rules.stacking


def about_to(view: View, action: Array) -> Array:
    """Return the chance event after a legal choice, uint32[...]: 1 a draw, 2 a challenge, else 0."""
    if not view.rules.draw_is_option:
        return jnp.zeros_like(view.color)
    is_draw = (action == cards.DRAW) & (view.unpack_account().has_drawn == 0)
    return jnp.where(action == cards.CHALLENGE, np.uint32(2), is_draw.astype(jnp.uint32))


def after_plays(view: View, action: Array) -> tuple[View, Array]:
    """Return the player's view after its legal choices, and which of them win, bool[...].

    Choices are int32[...] below `Rules.num_choices`. If a chance event follows (`about_to`), the view is that before it.
    """
    rules = view.rules
    # The rules use only the player's own cards; the owners of other cards do not affect a play.
    own = bits.canonical(view.hand)
    in_sight = bits.merge(own, bits.canonical(view.pile))
    zero = jnp.zeros_like(view.color)
    # Under plain rules there is no play while a penalty is pending.
    penalty = jnp.minimum(view.penalty, np.uint32(table.MAX_PENALTY)) if has_turn_columns(rules) else zero
    before = Table(
        low=in_sight,
        high=bits.without(in_sight, own),
        meta=table.Meta(view.rank, view.color, zero, penalty, zero, zero + np.uint32(table.PLAY)).pack(),
        account=view.account,
    )

    @compiled_apart
    def play(before: Table, action: Array) -> Array:
        pick = table.pick_of(action.astype(jnp.uint32), rules)
        return table.resolve(before, table.find_node(before, rules), pick, zero, rules)

    tables = table.commit(before, play(before, action))
    after = replace(view_of_table(tables, zero, rules), opponent_count=view.opponent_count)
    is_won = tables.unpack_meta().phase == table.OVER_WON_BY_0
    if rules.draw_is_option:
        stays = about_to(view, action) > 0
        after = jax.tree.map(lambda a, b: jnp.where(stays, a, b), view, after)
    return after, is_won


def outlook_of_hands(view: View, hands: TypedHands, opponent: Opponent | None = None) -> Outlook:
    """Return the features of a belief given by possible hands, uint32[..., N] each.

    `opponent` is the belief's opponent model: one model, or types with probabilities from `Hands.log_joint`. Without it, or
    for hands without types, the types are uniform.
    """
    counts, weights = bits.type_counts(hands.packed).astype(jnp.float32), jnp.exp(hands.log_weights)
    expected = (counts * weights[..., None]).sum(-2)
    square = (counts**2 * weights[..., None]).sum(-2)
    lacks = _lacks(hands.packed)
    return Outlook(
        expected=expected,
        none_of_color=jnp.einsum("...nc,...n->...c", lacks.color, weights),
        none_playable=jnp.einsum("...nc,...nr,...n->...cr", lacks.color, lacks.rank, lacks.wild * weights),
        spread=_spread(view, square - expected**2),
        types=_types_of(hands, opponent),
    )


def outlook_of_hand(hand: Words) -> Outlook:
    """Return the features of the opponent's actual hand, uint32[...] each."""
    counts = bits.type_counts(hand).astype(jnp.float32)
    lacks = _lacks(hand)
    return Outlook(
        expected=counts,
        none_of_color=lacks.color,
        none_playable=lacks.color[..., :, None] * (lacks.rank * lacks.wild[..., None])[..., None, :],
        spread=jnp.zeros(counts.shape[:-1], jnp.float32),
        types=_any_type(counts.shape[:-1]),
    )


def outlook_of_unseen(view: View) -> Outlook:
    """Return the features of the belief that is uniform over unseen cards.

    With n cards in that hand and U unseen, of which u are of a kind: E = n u / U, P(none) = C(U - u, n) / C(U, n), and the
    hypergeometric variance.
    """
    num_unseen, of_hand = view.unseen(), view.opponent_count.astype(jnp.int32)
    unseen, total = num_unseen.astype(jnp.float32), num_unseen.sum(-1)
    n = of_hand.astype(jnp.float32)
    share = unseen / jnp.maximum(total.astype(jnp.float32), 1.0)[..., None]
    left = (total - of_hand).astype(jnp.float32) / jnp.maximum(total - 1, 1).astype(jnp.float32)
    variance = n[..., None] * share * (1.0 - share) * left[..., None]
    of_color, playable = _add_up(num_unseen)
    return Outlook(
        expected=n[..., None] * share,
        none_of_color=_prob_none(total[..., None], of_color, of_hand[..., None]),
        none_playable=_prob_none(total[..., None, None], playable, of_hand[..., None, None]),
        spread=_spread(view, variance),
        types=_any_type(total.shape),
    )


def outlook_of_ages(view: View, opponent: Array) -> Outlook:
    """Return the features of a belief given by bounds of `unojax.belief.color_bounds`.

    If at most b of the n cards in hand are of a kind, an unseen card of that kind has weight b / n. With the counts w of
    types so weighted, W in all, E = n w / W, at most u. For cards of total weight k, P(none) is the product of 1 - k / (W - i)
    over the n draws, approximated by n factors at the middle one, i = (n - 1) / 2.
    """
    unseen, n = view.unseen().astype(jnp.float32), view.opponent_count.astype(jnp.float32)
    share = jnp.minimum(unpack(opponent).astype(jnp.float32) / jnp.maximum(n, 1.0)[..., None], 1.0)
    weighted = unseen * share[..., KIND_OF_TYPE]
    total = weighted.sum(-1)
    # Bounds that leave too few cards for the hand occur only at decks that end.
    weighted = jnp.where((total >= n)[..., None], weighted, unseen)
    total = jnp.where(total >= n, total, unseen.sum(-1))
    left = jnp.maximum(total - (n - 1.0) / 2.0, 1.0)

    def prob_none(kind: Array) -> Array:
        axes = tuple(range(total.ndim, kind.ndim))
        return jnp.exp(jnp.expand_dims(n, axes) * jnp.log1p(-jnp.minimum(kind / jnp.expand_dims(left, axes), 1.0 - 1e-6)))

    of_color, playable = _add_up(weighted)
    expected = jnp.minimum(weighted * (n / jnp.maximum(total, 1.0))[..., None], unseen)
    share = weighted / jnp.maximum(total, 1.0)[..., None]
    rest = (total - n) / jnp.maximum(total - 1.0, 1.0)
    return Outlook(
        expected=expected,
        none_of_color=prob_none(of_color),
        none_playable=prob_none(playable),
        spread=_spread(view, (n * rest)[..., None] * share * (1.0 - share)),
        types=_any_type(n.shape),
    )


def features(view: View, outlook: Outlook, about: Array | None = None) -> Features:
    """Return the network's input for information states of any shape.

    `about` is the pending chance event of `about_to`.
    """
    own, unseen = bits.type_counts(view.hand), view.unseen()
    shape = view.color.shape
    canonical = bits.unpack(bits.canonical(view.hand)).reshape(*shape, cards.NUM_COLORS, cards.SLOTS_PER_COLOR)

    def by_color(of_type: Array) -> Array:
        return of_type[..., :_TYPES_OF_COLORS].reshape(*shape, cards.NUM_COLORS, cards.NUM_COLORED_RANKS).astype(jnp.float32)

    is_top_rank = _is_one_of(view.rank, range(cards.NUM_COLORED_RANKS))[..., None, :]
    own_by_color, expected_by_color = by_color(own), by_color(outlook.expected)
    columns = [
        canonical[..., :COLORED_SLOTS].astype(jnp.float32),
        by_color(unseen) / 2.0,
        expected_by_color,
        _is_one_of(view.color, range(cards.NUM_COLORS))[..., None].astype(jnp.float32),
        own_by_color.sum(-1, keepdims=True) / 4.0,
        expected_by_color.sum(-1, keepdims=True) / 4.0,
        outlook.none_of_color[..., None],
        jnp.where(is_top_rank, own_by_color, 0.0).sum(-1, keepdims=True),
        jnp.where(is_top_rank, expected_by_color, 0.0).sum(-1, keepdims=True),
    ]

    def elsewhere(by_color: Array) -> Array:
        return by_color.sum(-2, keepdims=True) - by_color

    nothing_playable = outlook.none_playable[..., : cards.NUM_COLORED_RANKS]
    matches = [elsewhere(own_by_color) / 2.0, elsewhere(expected_by_color), jnp.where(own_by_color > 0, nothing_playable, 0.0)]

    playable = view.playable_types()
    own_playable = jnp.where(playable, own, 0).sum(-1)
    top = (view.color * np.uint32(cards.NUM_RANKS) + view.rank).astype(jnp.int32)
    shared = [
        _is_at_least(own[..., cards.WILD_TYPE], range(1, 5)),
        _is_at_least(own[..., cards.WILD_DRAW_FOUR_TYPE], range(1, 5)),
        unseen[..., _TYPES_OF_COLORS:].astype(jnp.float32) / 4.0,
        outlook.expected[..., _TYPES_OF_COLORS:],
        *_count_columns(own.sum(-1)),
        *_count_columns(view.opponent_count.astype(jnp.int32)),
        (unseen.sum(-1) - view.opponent_count.astype(jnp.int32))[..., None].astype(jnp.float32) / 100.0,
        _is_one_of(view.rank, range(cards.NUM_RANKS)),
        _is_one_of(view.penalty, (2, 4)),
        view.is_own_turn[..., None],
        own_playable[..., None].astype(jnp.float32) / 4.0,
        own_playable[..., None] == 0,
        jnp.where(playable, outlook.expected, 0.0).sum(-1, keepdims=True) / 4.0,
        jnp.take_along_axis(outlook.none_playable.reshape(*shape, -1), top[..., None], -1),
        outlook.spread[..., None],
    ]
    if has_turn_columns(view.rules):
        account = view.unpack_account()
        about = jnp.zeros_like(view.color) if about is None else about
        columns.append(_is_one_of(account.contested, range(1, cards.NUM_COLORS + 1))[..., None].astype(jnp.float32))
        shared += [
            view.penalty[..., None].astype(jnp.float32) / 10.0,
            account.has_drawn[..., None],
            _is_one_of(about, (1, 2)),
        ]
    of_shared = jnp.concatenate([jnp.asarray(c, jnp.float32) for c in shared], -1)
    return Features(jnp.concatenate(columns, -1), of_shared, jnp.concatenate(matches, -1), outlook.types)


def _types_of(hands: TypedHands, opponent: Opponent | None) -> Array:
    """Return P(type), float32[..., 6]; probability of other models is spread over all."""
    shape = hands.log_weights.shape[:-1]
    if opponent is None or (isinstance(opponent, Family) and hands.log_joint is None):
        return _any_type(shape)
    of_model = jnp.ones((*shape, 1), jnp.float32) if hands.log_joint is None else jnp.exp(logsumexp(hands.log_joint, axis=-1))
    is_type = np.array([[opponent_name(model) == name for name in _TYPES] for model in models_of(opponent)], np.float32)
    known = of_model @ is_type
    return known + (1.0 - known.sum(-1, keepdims=True)) / len(_TYPES)


def _any_type(shape: tuple[int, ...]) -> Array:
    return jnp.full((*shape, len(_TYPES)), 1 / len(_TYPES), jnp.float32)


def _add_up(of_type: Array) -> tuple[Array, Array]:
    """Sum numbers of types over colours, [..., 4], and over types playable on top cards, [..., 4, 15]."""
    by_rank = of_type[..., :_TYPES_OF_COLORS].reshape(*of_type.shape[:-1], cards.NUM_COLORS, cards.NUM_COLORED_RANKS)
    of_color = by_rank.sum(-1)
    # Colour or rank matches; a wild on top has no rank to match.
    others = jnp.pad(by_rank.sum(-2, keepdims=True) - by_rank, [(0, 0)] * (by_rank.ndim - 1) + [(0, 2)])
    return of_color, of_color[..., None] + others + of_type[..., _TYPES_OF_COLORS:].sum(-1)[..., None, None]


class _Lacks(NamedTuple):
    """1 for missing colours, [..., 4], ranks, [..., 15] (1 for wild ranks), and wilds, [...], else 0."""

    color: Array
    rank: Array
    wild: Array


def _lacks(hands: Words) -> _Lacks:
    held = bits.any_of(bits.types(hands))
    ranks = np.arange(cards.NUM_RANKS, dtype=np.uint32)
    of_rank = np.expand_dims(np.where(ranks < cards.WILD, np.uint32(1) << ranks, np.uint32(0)), tuple(range(held.ndim)))
    return _Lacks(
        color=jnp.stack([(word & bits.COLORED) == 0 for word in hands], -1).astype(jnp.float32),
        rank=((held[..., None] & of_rank) == 0).astype(jnp.float32),
        wild=((held & bits.WILDS) == 0).astype(jnp.float32),
    )


def _count_columns(count: Array) -> tuple[Array, Array]:
    return _is_at_least(count, _COUNT_STEPS), count[..., None].astype(jnp.float32) / 10.0


def _is_one_of(x: Array, values: Sequence[int]) -> Array:
    """Return which of the values x is, bool[..., len(values)]."""
    return x[..., None] == np.expand_dims(np.array(values, x.dtype), tuple(range(x.ndim)))


def _is_at_least(x: Array, values: Sequence[int]) -> Array:
    """Return which of the values x reaches, bool[..., len(values)]."""
    return x[..., None] >= np.expand_dims(np.array(values, x.dtype), tuple(range(x.ndim)))


def _spread(view: View, variance: Array) -> Array:
    n = jnp.maximum(view.opponent_count.astype(jnp.float32), 1.0)
    return jnp.maximum(variance.sum(-1), 0.0) / (2.0 * n)


def _prob_none(total: Array, kind: Array, n: Array) -> Array:
    """Return C(total - kind, n) / C(total, n) for integers, 0 if fewer than n are left."""
    return jnp.exp(log_binomial_ratio(total - kind, n, total, n))

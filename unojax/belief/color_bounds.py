"""Colour-count bounds: the largest number of the opponent's cards of each colour, since it last could not play one.

A player forced to draw holds no card of the active colour and no wild card, and later only those drawn since. A bound for each
colour and for the wild cards grows with every draw, falls to zero when the player cannot play, and falls when a card of the
colour is played. The five bounds are certain and share one word. They omit that a forced draw also excludes the rank of the top
card.

The belief is uniform over hands of unseen cards within the bounds, see `docs/explanation/belief-formulas.md`.
"""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike

from unojax import bits, cards
from unojax.belief import history
from unojax.belief.hands import gain
from unojax.device.combinatorics import LARGEST, log_binomial, log_hypergeometric
from unojax.observation import Observation

WILDS: Final = cards.NUM_COLORS
"""Index of the wild cards among the kinds, after the colours."""
NUM_KINDS: Final = cards.NUM_COLORS + 1
KIND_OF_TYPE: Final = np.where(cards.COLOR_OF_TYPE < 0, WILDS, cards.COLOR_OF_TYPE)
"""int8[54]: the kind of each card type."""
UNKNOWN: Final = 31
"""The vacuous bound; larger bounds are stored as this one."""
_WIDTH: Final = 5
_SHIFTS: Final = tuple(_WIDTH * kind for kind in range(NUM_KINDS))
NOTHING_SHOWN: Final = np.uint32((1 << _WIDTH * NUM_KINDS) - 1)
"""Bounds of a player who has revealed nothing."""
_OF_KIND: Final = np.arange(max(np.bincount(KIND_OF_TYPE, np.asarray(cards.COPIES))).astype(int) + 1)
"""Range of the number of cards of a kind in a hand."""
_MASKS: Final = tuple(bits.static_words(KIND_OF_TYPE[cards.TYPE_OF_SLOT] == kind) for kind in range(NUM_KINDS))
"""The cards of each kind, packed."""
_NO_CARD: Final = np.where(np.arange(LARGEST + 1) == 0, 0.0, -np.inf).astype(np.float32)
"""Log number of ways to choose 0..108 cards of no kind."""


def unpack(bounds: Array) -> Array:
    """Unpack the bounds: uint32[..., 5] of the colours and of the wild cards, `UNKNOWN` if vacuous."""
    return jnp.stack([_get(bounds, kind) for kind in range(NUM_KINDS)], -1)


def after_draw(bounds: Array, number: ArrayLike, could_not_play: Array, color: Array) -> Array:
    """Return the bounds after a player has drawn.

    Args:
        bounds: uint32[...] bounds before the draw.
        number: [...] cards drawn.
        could_not_play: bool[...] the player had no card to play on the top card.
        color: uint32[...] the active colour.
    """
    number = jnp.asarray(number).astype(jnp.uint32)
    made = jnp.zeros_like(bounds)
    for kind in range(NUM_KINDS):
        lacks = could_not_play if kind == WILDS else could_not_play & (color == kind)
        bound = jnp.where(lacks, np.uint32(0), _get(bounds, kind))
        bound = jnp.where(bound == UNKNOWN, bound, jnp.minimum(bound + number, np.uint32(UNKNOWN)))
        made |= bound << np.uint32(_SHIFTS[kind])
    return made


def after_play(bounds: Array, kind: Array) -> Array:
    """Return the bounds after a player has played a card of a kind, uint32[...]: its colour, or `WILDS`.

    The bound of the kind, and any bound that is at least as large, falls by one.
    """
    bound = (bounds >> (kind * np.uint32(_WIDTH))) & np.uint32(UNKNOWN)
    made = jnp.zeros_like(bounds)
    for other in range(NUM_KINDS):
        theirs = _get(bounds, other)
        is_less = (theirs >= bound) & (theirs < UNKNOWN) & (theirs > 0)
        made |= (theirs - is_less.astype(jnp.uint32)) << np.uint32(_SHIFTS[other])
    return made


def after_step(bounds: Array, before: Observation, action: ArrayLike, after: Observation) -> Array:
    """Return the opponent's bounds, uint32[], after one transition of either player."""
    action = jnp.asarray(action).astype(jnp.int32)
    kind = jnp.where(after.top_rank >= cards.WILD, WILDS, after.color).astype(jnp.uint32)
    could_not = history.opponent_could_not_play(before, action)
    drawn = after_draw(bounds, history.opponent_drew(before, after), could_not, before.color.astype(jnp.uint32))
    moved = jnp.where((action >= 0) & (action < cards.DRAW), after_play(bounds, kind), drawn)
    return jnp.where(history.opponent_moved(before) & (action >= 0), moved, bounds)


def count_probs(bounds: Array, observation: Observation) -> Array:
    """Compute the probability that the opponent holds 0..4 copies of each type, within its bounds: float32[54, 5]."""
    of_kind, log_ways = _log_ways(bounds, observation)
    kinds, held = range(NUM_KINDS), observation.opponent_count.astype(jnp.int32)
    # P(a cards of kind k): the ways of kind k for a, times those of the other kinds for the rest.
    log_probs = []
    for kind in kinds:
        others = _NO_CARD
        for other in kinds:
            others = others if other == kind else _add_kind(others, log_ways[other])
        rest = held - _OF_KIND
        log_probs.append(log_ways[kind] + jnp.where(rest >= 0, others[jnp.maximum(rest, 0)], -jnp.inf))
    probs = jax.nn.softmax(jnp.stack(log_probs), -1)
    unseen, total = observation.unseen.astype(jnp.int32), of_kind[KIND_OF_TYPE]
    unseen, total, copies = unseen[:, None, None], total[:, None, None], np.arange(5)[None, :, None]
    picked = jnp.minimum(_OF_KIND, total)
    log_step = log_hypergeometric(copies, unseen, total, picked)
    return (jnp.exp(log_step) * probs[KIND_OF_TYPE][:, None]).sum(-1)


def draw_hands(key: Array, bounds: Array, observation: Observation, number: int) -> bits.Words:
    """Draw hands within the bounds: four uint32[number], canonical sets. Consumes `key`."""
    _, log_ways = _log_ways(bounds, observation)
    # Ways of the kinds from each index on, computed from the last.
    made = [jnp.asarray(_NO_CARD)]
    for kind in reversed(range(NUM_KINDS)):
        made.insert(0, _add_kind(made[0], log_ways[kind]))
    left = jnp.broadcast_to(observation.opponent_count.astype(jnp.int32), (number,))
    unseen = history.unseen_words(observation)
    hands = bits.empty(jnp.zeros(number))
    for kind in range(NUM_KINDS):
        key_number, key_cards = jax.random.split(jax.random.fold_in(key, kind))
        rest = left[:, None] - _OF_KIND
        logits = log_ways[kind] + jnp.where(rest >= 0, made[kind + 1][jnp.maximum(rest, 0)], -jnp.inf)
        taken = jax.random.categorical(key_number, logits).astype(jnp.int32)
        of_kind = bits.both(unseen, _MASKS[kind])
        hands = bits.either(hands, gain(key_cards, bits.empty(hands[0]), of_kind, taken))
        left -= taken
    return hands


def _log_ways(bounds: Array, observation: Observation) -> tuple[Array, Array]:
    """Count unseen cards of each kind, int32[5], and the ways ln C(U_k, a) to hold a of them, -inf beyond the bounds: [5, A]."""
    unseen = observation.unseen.astype(jnp.int32)
    of_kind = jnp.zeros(NUM_KINDS, jnp.int32).at[KIND_OF_TYPE].add(unseen)
    free = log_binomial(of_kind[:, None], _OF_KIND)
    most = unpack(bounds).astype(jnp.int32)[:, None]
    bounded = jnp.where((most < UNKNOWN) & (most < _OF_KIND), -jnp.inf, free)
    made = _NO_CARD
    for kind in range(NUM_KINDS):
        made = _add_kind(made, bounded[kind])
    # Bounds contradict the position only if they belong to another game; they are then ignored.
    return of_kind, jnp.where(made[observation.opponent_count.astype(jnp.int32)] > -jnp.inf, bounded, free)


def _add_kind(log_made: Array | np.ndarray, log_ways: Array) -> Array:
    """Combine the ways to choose j cards of some kinds, [109], with the ways to choose a cards of another kind."""
    rest = np.arange(LARGEST + 1)[:, None] - _OF_KIND
    return logsumexp(jnp.where(rest >= 0, jnp.asarray(log_made)[np.maximum(rest, 0)], -jnp.inf) + log_ways, axis=-1)


def _get(bounds: Array, kind: int) -> Array:
    return (bounds >> np.uint32(_SHIFTS[kind])) & np.uint32(UNKNOWN)

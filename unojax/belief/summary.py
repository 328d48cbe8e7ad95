"""Summaries of weighted hands: marginals, entropy, the most likely hands.

Functions are pure, unbatched, and jit- and vmap-able, unless they say *on the host*. A batch raises ValueError.

The canonical encoding reduces most of them to a weighted mean. Slot s of a hand is set if and only if the hand holds more than
`COPY_OF_SLOT[s]` copies of its type, so with P_s the probability that slot s is set,

    P(count_t > c) = P_s(t, c)
    P(count_t = c) = P_s(t, c - 1) - P_s(t, c)
    E[count_t] = sum_c P_s(t, c)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from unojax import bits, cards
from unojax.belief import resample
from unojax.belief.exact import ExactBelief
from unojax.belief.hands import Hands, WeightedHands
from unojax.belief.opponents import Family, Opponent
from unojax.belief.particles import Belief
from unojax.device.tracing import traced_once
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.table.options import playable


def slot_probs(belief: WeightedHands) -> Array:
    """Average the one-hot hands: float32[108], the probability that each slot of the opponent's canonical hand is set."""
    return _slot_probs(*_single(belief))


@traced_once
def _slot_probs(packed: bits.Words, log_weights: Array) -> Array:
    weights = jnp.exp(log_weights)
    positions = np.arange(cards.SLOTS_PER_COLOR, dtype=np.uint32)[:, None]
    of_color = [jnp.where((word[None] >> positions) & np.uint32(1) != 0, weights[None], 0.0).sum(-1) for word in packed]
    # Rounding may push a sum of weights above 1.
    return jnp.minimum(jnp.concatenate(of_color), 1.0)


def expected_counts(belief: WeightedHands) -> Array:
    """Compute the expected copies of each type in the opponent's hand: float32[54]."""
    return _probs_above(belief).sum(-1)


def prob_holds(belief: WeightedHands) -> Array:
    """Compute the probability that the opponent holds at least one card of each type: float32[54]."""
    return _probs_above(belief)[:, 0]


def count_probs(belief: WeightedHands) -> Array:
    """Compute the probability that the opponent holds 0..4 copies of each type: float32[54, 5]."""
    return _count_probs(_probs_above(belief))


@traced_once
def _count_probs(above: Array) -> Array:
    at_least = jnp.pad(above, ((0, 0), (1, 0)), constant_values=1.0)
    return at_least - jnp.pad(above, ((0, 0), (0, 1)))


def prob_color(belief: WeightedHands) -> Array:
    """Compute the probability that the opponent holds at least one card of each colour, without wild cards: float32[4]."""
    return jnp.stack([_prob(belief, (word & bits.COLORED) != 0) for word in _single(belief)[0]])


def prob_no_playable(belief: WeightedHands, color: ArrayLike, rank: ArrayLike, *, rules: Rules = Rules()) -> Array:
    """Compute the probability that the opponent holds no card playable on `rank` with `color` active: float32[]."""
    color, rank = (jnp.asarray(part).astype(jnp.uint32) for part in (color, rank))
    options = playable(_single(belief)[0], color, rank, rules)
    return _prob(belief, bits.any_of(options) == 0)


def type_probs(belief: Belief) -> Array:
    """Compute P(type) of the opponent under a `Family` of K types: float32[K]. Raises ValueError for a belief without types."""
    return jnp.exp(belief.log_type_probs)


def types_by_name(belief: Belief | ExactBelief, opponent: Opponent) -> dict[str, float]:
    """Return P(type) of the opponent by name, the likeliest first, on the host; empty for a single model."""
    if not isinstance(opponent, Family):
        return {}
    probs = np.asarray(_type_probs(belief) if isinstance(belief, Belief) else np.exp(np.asarray(belief.log_type_probs)), float)
    return {opponent.names[i]: float(probs[i]) for i in np.argsort(-probs, kind="stable")}


def entropy(belief: WeightedHands) -> Array:
    """Compute the entropy of the weighted distinct hands, -sum_h p_h ln p_h with p_h the weight of all h: float32[] nats.

    This plug-in estimate is biased downwards, by about (K - 1) / (2 N) for N equal weights over K possible hands if N is well
    above K (Miller 1955). It never exceeds ln N.
    """
    return _entropy(_probs_of_distinct(*_single(belief)))


@traced_once
def _entropy(probs: Array) -> Array:
    return -jnp.where(probs > 0, probs * jnp.log(jnp.where(probs > 0, probs, 1.0)), 0.0).sum()


def num_distinct(belief: WeightedHands) -> Array:
    """Count the distinct hands of positive weight: int32[]."""
    return (_probs_of_distinct(*_single(belief)) > 0).sum(dtype=jnp.int32)


def log_score(count_probs: np.ndarray, truth: np.ndarray) -> float:
    """Score a belief against the true hand, on the host: the sum over card types of ln P(number of copies held), nats.

    Args:
        count_probs: float[54, 5] probability of 0..4 copies of each type, all positive (`Updater.count_probs`).
        truth: int[54] copies that the opponent holds.
    """
    return float(np.log(count_probs[np.arange(cards.NUM_TYPES), truth], dtype=np.float64).sum())


_type_probs = jax.jit(type_probs)


class BeliefSummary(NamedTuple):
    """Figures of a belief of N hands, from the functions of this module, for the present top card."""

    prob_holds: Array
    expected_counts: Array
    prob_color: Array
    prob_no_playable: Array
    num_distinct: Array
    ess: Array
    num_hands: Array | int


def by_card(figures: ArrayLike, rules: Rules) -> dict[str, float]:
    """Return figures of the 54 card types by name, on the host, for the types that the deck has."""
    values = np.asarray(figures)
    return {cards.TYPE_NAMES[t]: float(values[t]) for t in np.flatnonzero(rules.deck).tolist()}


@dataclass(frozen=True)
class BeliefFigures:
    """Figures of a belief by name.

    Attributes:
        prob_holds: Probability that the opponent holds the card, for each card of the deck.
        expected_counts: Expected copies of the card in the opponent's hand, for each card of the deck.
        prob_color: Probability that the opponent holds a card of the colour; wild cards have no colour.
        prob_no_playable: Probability that the opponent holds no playable card.
        num_distinct: Number of different hands in the belief.
        ess: Effective sample size: number of equally weighted hands with the same variance.
        num_hands: Number of hands in the belief.
    """

    prob_holds: dict[str, float]
    expected_counts: dict[str, float]
    prob_color: dict[str, float]
    prob_no_playable: float
    num_distinct: int
    ess: float
    num_hands: int

    @classmethod
    def of(cls, belief: BeliefSummary, rules: Rules) -> BeliefFigures:
        """Return the figures of a summary, on the host."""
        return cls(
            prob_holds=by_card(belief.prob_holds, rules),
            expected_counts=by_card(belief.expected_counts, rules),
            prob_color=dict(zip(cards.COLOR_NAMES, np.asarray(belief.prob_color).tolist(), strict=True)),
            prob_no_playable=float(belief.prob_no_playable),
            num_distinct=int(belief.num_distinct),
            ess=float(belief.ess),
            num_hands=int(belief.num_hands),
        )


@jax.jit
def summarize(hands: Hands, observation: Observation) -> BeliefSummary:
    """Summarize N weighted hands of the opponent at a position. Unbatched, compiled for each N."""
    return BeliefSummary(
        prob_holds=prob_holds(hands),
        expected_counts=expected_counts(hands),
        prob_color=prob_color(hands),
        prob_no_playable=prob_no_playable(hands, observation.color, observation.top_rank, rules=observation.rules),
        num_distinct=num_distinct(hands),
        ess=resample.effective_sample_size(hands.log_weights),
        num_hands=hands.log_weights.shape[-1],
    )


class LikelyHands(NamedTuple):
    """Some hands and their probabilities, the likeliest first: bool[K, 108] canonical one-hots, float64[K]."""

    hands: np.ndarray
    probs: np.ndarray


def most_likely_hands(belief: WeightedHands, n: int) -> LikelyHands:
    """Find the n most likely hands of one belief, or all if there are fewer; on the host. The packed words break ties.

    Raises:
        ValueError: If `n` is not positive, or the belief is batched.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    words, log_weights = np.stack(jax.device_get(belief.packed), -1), np.asarray(belief.log_weights, np.float64)
    if log_weights.ndim != 1:
        raise ValueError(f"the belief must be unbatched, got log_weights of shape {log_weights.shape}; index one belief first")
    distinct, index = np.unique(words, axis=0, return_inverse=True)
    probs = np.bincount(index.reshape(-1), np.exp(log_weights))
    best = np.argsort(-probs, kind="stable")[:n]
    best = best[probs[best] > 0]
    # Slot s is bit s % 27 of word s // 27.
    onehots = (distinct[best][:, :, None] >> np.arange(cards.SLOTS_PER_COLOR, dtype=np.uint32)) & np.uint32(1)
    return LikelyHands(onehots.reshape(len(best), cards.NUM_CARDS).astype(bool), probs[best])


def _single(belief: WeightedHands) -> tuple[bits.Words, Array]:
    """Return hands and log weights of one belief. Raises ValueError for a batch, or an object without weighted hands."""
    if not hasattr(belief, "log_weights"):
        raise ValueError(
            f"the belief must have weighted hands, as that of belief_init has, got {type(belief).__name__}; an updater's "
            "count_probs and hands read its own beliefs"
        )
    if jnp.ndim(belief.log_weights) != 1:
        shape = jnp.shape(belief.log_weights)
        raise ValueError(f"the belief must be a single one, got log_weights of shape {shape}; map over a batch with jax.vmap")
    return belief.packed, belief.log_weights


def _prob(belief: WeightedHands, is_so: Array) -> Array:
    """Sum the weights of the particles that satisfy `is_so` (bool[N]): float32[]."""
    _, log_weights = _single(belief)
    return jnp.minimum(jnp.where(is_so, jnp.exp(log_weights), 0.0).sum(), 1.0)


def _probs_above(belief: WeightedHands) -> Array:
    """Compute P(count_t > c): float32[54, 4]."""
    return cards.by_copy(slot_probs(belief))


@traced_once
def _probs_of_distinct(packed: bits.Words, log_weights: Array) -> Array:
    """Sum the probability of each distinct hand: float32[N], zeros at the end."""
    *words, log_weights = lax.sort((*packed, log_weights), num_keys=4)
    differs = jnp.stack([word[1:] != word[:-1] for word in words]).any(0)
    hand = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(differs, dtype=jnp.int32)])
    return jax.ops.segment_sum(jnp.exp(log_weights), hand, log_weights.shape[0], indices_are_sorted=True)

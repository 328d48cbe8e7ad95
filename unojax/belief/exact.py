"""The exact Bayes filter over the opponent's hand, by enumeration; for decks of few types.

Let H be the opponent's hand, U the multiset of unseen cards (the deck is U - H), and b(H) = P(H | all that the observer saw).
The belief is a dense tensor with one axis for each card type of the game, of length copies + 1: entry (h_1, h_2, ...) is the
probability that the opponent holds h_1 cards of the first type, and so on. The filter's steps are operations on slices:

    the opponent draws one card    b'(H + t) += b(H) (U_t - H_t) / (|U| - |H|)          a shift along each axis
    the opponent cannot play       b'(H) ~ b(H) if H holds no playable type             all but index 0 of the axes cut away
    the opponent plays t by a      b'(H - t) ~ b(H) pi(a | H)                           a product, and a shift back
    the observer draws J           b'(H) ~ b(H) prod_t C(U_t - H_t, J_t) / C(|U| - |H|, |J|)
    the pile is reshuffled         U grows, b stays

This is the forward algorithm of a hidden Markov chain (Rabiner 1989, "A tutorial on hidden Markov models") with hypergeometric
draws. Everything runs on the host in NumPy float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import cards, game
from unojax.belief import history
from unojax.belief.history import Prior
from unojax.belief.opponents import OpponentModel, consistent_opponent, uniform_opponent
from unojax.observation import Observation, check_observation
from unojax.rules import Rules, agreed_rules

MAX_LATTICE: Final = 5_000_000
"""Largest number of tensor entries (40 MB in float64)."""
_CHUNK: Final = 2048
"""Hands per call of an opponent model; a fixed size, so that a model is compiled once."""


@dataclass(frozen=True, eq=False)
class ExactBelief:
    """P(H | history) for every hand H of the opponent. Immutable; `exact_update` makes the next one.

    Attributes:
        probs: float64, one axis per entry of `types`; adds up to 1.
        types: int64[T] the card types of the game, one for each axis.
        unseen: int64[54] copies of each type that are in the opponent's hand or in the deck.
        hand_count: cards in the opponent's hand.
        rules: of the game.
    """

    probs: np.ndarray
    types: np.ndarray
    unseen: np.ndarray
    hand_count: int
    rules: Rules

    @property
    def expected_counts(self) -> np.ndarray:
        """float64[54]: expected copies of each type in the hand."""
        return self.count_probs @ np.arange(5)

    @property
    def prob_holds(self) -> np.ndarray:
        """float64[54]: probability that the hand holds at least one card of each type."""
        return self.count_probs[:, 1:].sum(-1)

    @property
    def entropy(self) -> float:
        """Entropy in nats over hands as multisets."""
        p = self.probs[self.probs > 0]
        return float(-(p * np.log(p)).sum())

    @property
    def count_probs(self) -> np.ndarray:
        """float64[54, 5]: probability that the hand holds 0..4 copies of each type."""
        result = np.zeros((cards.NUM_TYPES, 5))
        result[:, 0] = 1.0
        for axis, card_type in enumerate(self.types):
            marginal = self.probs.sum(tuple(i for i in range(self.probs.ndim) if i != axis))
            result[card_type, : marginal.size] = marginal
        return result

    def prob_no_playable(self, color: int, rank: int) -> float:
        """Compute the probability of no card playable on `rank` 0..14 with `color` 0..3 active; ValueError for other ones."""
        if not (0 <= color < cards.NUM_COLORS and 0 <= rank < cards.NUM_RANKS):
            raise ValueError(f"color must be in [0, 3] and rank in [0, 14], got color {color} and rank {rank}")
        return float(self.probs[_without(self.types, _playable(color, rank))].sum())

    def hands(self) -> tuple[np.ndarray, np.ndarray]:
        """The possible hands and their probabilities: (int8[K, 54] counts, float64[K])."""
        index = np.nonzero(self.probs)
        return _counts_at(index, self.types), self.probs[index]

    def log_prob(self, hand: np.ndarray | Array) -> float:
        """Compute ln b(hand) in nats, -inf for an impossible hand, canonical one-hot bool[108] or counts int[54].

        Raises:
            ValueError: `hand` is of another shape or type.
        """
        hand = np.asarray(hand)
        if hand.shape == (cards.NUM_CARDS,) and hand.dtype == bool:
            counts = cards.count_types(hand)
        elif hand.shape == (cards.NUM_TYPES,) and hand.dtype.kind in "iu":
            counts = hand.astype(np.int64)
        else:
            raise ValueError(f"hand must be bool[108] or integer counts[54], got {hand.dtype}{list(hand.shape)}")
        on_axes = counts[self.types]
        is_on_lattice = counts.sum() == on_axes.sum() and (on_axes >= 0).all() and (on_axes < self.probs.shape).all()
        prob = float(self.probs[tuple(on_axes)]) if is_on_lattice else 0.0
        return math.log(prob) if prob > 0 else -math.inf


def exact_init(observation: Observation, *, rules: Rules | None = None, prior: Prior = "uniform") -> ExactBelief:
    """Begin a belief, before the first micro-step.

        b0(H) = prod_t C(U_t, H_t) / C(|U|, |H|)                      H is a uniformly random set of |H| unseen cards

    Args:
        observation: of the player whose belief it is, in a game whose deck is small enough.
        rules: those of the observation, if given.
        prior: "uniform" is the formula above: the convention of all beliefs here, and right for any position without a history.
            "deal" is the posterior right after the deal. Under `start_card="non_wild"` it differs a little: the start card is
            uniform over the coloured cards not dealt, so its identity has likelihood 1 / (their number given H), and hands with
            more wild cards are less likely. The two agree under "any" and for decks without wild cards.

    Raises:
        ValueError: the lattice of hands is larger than `MAX_LATTICE`, the observation is a batch, `rules` are other ones than the
            observation's, or there is no such prior.
    """
    if prior not in get_args(Prior):
        raise ValueError(f"prior must be one of {get_args(Prior)}, got {prior!r}")
    check_observation(observation, "exact_init", rules)
    rules = observation.rules
    deck = np.asarray(rules.deck)
    types = np.flatnonzero(deck)
    shape = deck[types] + 1
    if (size := math.prod(shape.tolist())) > MAX_LATTICE:
        raise ValueError(
            f"the lattice of hands has {size:.3g} entries, at most {MAX_LATTICE} are allowed; use a deck with fewer types "
            f"or copies (`rules.small_deck`), or the particle filter"
        )
    unseen = np.asarray(observation.unseen, np.int64)
    hand_count = int(observation.opponent_count)
    weights = _product(types, lambda t, held: _comb(unseen[t], held), deck)
    weights = np.where(_sum(types, deck) == hand_count, weights, 0.0)
    if prior == "deal" and rules.start_card == "non_wild":
        is_colored = types < cards.WILD_TYPE
        num_colored = int(unseen[: cards.WILD_TYPE].sum()) + 1
        left = num_colored - _sum(types, deck, where=is_colored)
        weights = weights / np.maximum(left, 1)
    total = weights.sum()
    if total == 0:
        raise ValueError(f"an opponent's hand of {hand_count} cards does not fit into {unseen.sum()} unseen cards")
    return ExactBelief(weights / total, types, unseen, hand_count, rules)


def exact_update(
    belief: ExactBelief,
    before: Observation,
    action: int,
    after: Observation,
    *,
    opponent: OpponentModel = uniform_opponent,
    rules: Rules | None = None,
) -> tuple[ExactBelief, float]:
    """Condition the belief on one micro-step.

    Args:
        belief, before, after: the belief at `before`, and the observer's observations around the micro-step; unbatched.
        action: the public action taken, 0..60; not looked at if nothing happened (the game was over, or the action illegal).
        opponent: the built-in `uniform_opponent` and `consistent_opponent` take a fast path.
        rules: those of belief and observations, if given.

    Returns:
        The next belief, and the log evidence in nats: ln P(what the observer saw in this micro-step | history), the opponent's
        actions having the likelihood that `opponent` gives. Own actions and the sizes of draws are given, not predicted.

    Raises:
        ValueError: the observations fit neither each other, the belief, the action, nor the rules, or no hand explains them.
    """
    for one in (before, after):
        check_observation(one, "exact_update", rules)
        agreed_rules(belief.rules, one.rules)
    if not (np.array_equal(belief.unseen, before.unseen) and belief.hand_count == int(before.opponent_count)):
        raise ValueError("`before` does not show the position of this belief: the unseen cards or the opponent's count differ")
    is_one_step, shown, played_type, could_not_play, opponent_drew, drawn, unseen = jax.tree.map(np.asarray, _read(before, after))
    if not is_one_step:
        raise ValueError("`before` and `after` are not one micro-step apart; feed the observer's view of every micro-step")
    if shown == game.NO_ACTION:
        return belief, 0.0
    if shown != action:
        raise ValueError(f"action {action} does not lead from `before` to `after`; {shown} does")

    probs, types, hand_count = belief.probs, belief.types, belief.hand_count
    unseen, drawn = unseen.astype(np.int64), drawn.astype(np.int64)
    playable = _playable(int(before.color), int(before.top_rank))
    log_evidence = 0.0
    if action == cards.DRAW:
        if could_not_play:
            possible = np.zeros_like(probs)
            possible[_without(types, playable)] = 1.0
            probs, log_evidence = _condition(probs, possible)
        if drawn.any():
            in_deck = int(unseen.sum()) - hand_count
            ways = _product(types, lambda t, held: _comb(unseen[t] - held, drawn[t]), np.asarray(belief.rules.deck))
            probs, log_evidence = _condition(probs, ways / math.comb(in_deck, int(drawn.sum())))
        for _ in range(int(opponent_drew)):
            probs = _draw_one(probs, types, unseen, hand_count)
            hand_count += 1
    elif history.opponent_moved(before):
        axis = int(np.flatnonzero(types == played_type)[0])
        probs, log_evidence = _condition(probs, _play_likelihood(belief, before, action, axis, opponent))
        probs = _shifted(probs, axis, -1)
        hand_count -= 1
    return ExactBelief(probs, types, np.asarray(after.unseen, np.int64), hand_count, belief.rules), log_evidence


@jax.jit
def _read(before: Observation, after: Observation) -> tuple[Array, ...]:
    """Read all that one micro-step shows in one program."""
    action = history.infer_action(before, after)
    facts = (history.opponent_drew, history.observer_drew, history.unseen_at_draw)
    could_not_play = history.opponent_could_not_play(before, action)
    is_one_step, played_type = history.is_one_step(before, after), history.played_type(after)
    return is_one_step, action, played_type, could_not_play, *(fact(before, after) for fact in facts)


def _condition(probs: np.ndarray, likelihood: np.ndarray) -> tuple[np.ndarray, float]:
    """Apply Bayes' rule: (normalised product, log evidence)."""
    posterior = probs * likelihood
    evidence = float(posterior.sum())
    if evidence <= 0:
        raise ValueError(
            "no hand of the belief explains what happened; start from the beginning of the game, feed every micro-step, "
            "and use an opponent model that gives each legal action a positive probability"
        )
    return posterior / evidence, math.log(evidence)


def _draw_one(probs: np.ndarray, types: np.ndarray, unseen: np.ndarray, hand_count: int) -> np.ndarray:
    """Let the hand gain one card, uniform over the deck U - H."""
    in_deck = int(unseen.sum()) - hand_count
    result = np.zeros_like(probs)
    for axis, t in enumerate(types):
        held = _along(np.arange(probs.shape[axis]), axis, probs.ndim)
        # Hands with H_t > U_t have probability 0; the maximum keeps their weight from being negative.
        result += _shifted(probs * (np.maximum(unseen[t] - held, 0) / in_deck), axis, +1)
    return result


def _shifted(values: np.ndarray, axis: int, by: int) -> np.ndarray:
    """Move `values` one index up (+1) or down (-1) along an axis, with zeros where nothing comes from."""
    result = np.zeros_like(values)
    low, high = (slice(None),) * axis + (slice(None, -1),), (slice(None),) * axis + (slice(1, None),)
    if by > 0:
        result[high] = values[low]
    else:
        result[low] = values[high]
    return result


def _play_likelihood(belief: ExactBelief, before: Observation, action: int, axis: int, opponent: OpponentModel) -> np.ndarray:
    """Compute pi(action | H) for all hands of the lattice of positive probability that hold the card of `axis`; else 0."""
    probs, types = belief.probs, belief.types
    holds = probs > 0
    holds[(slice(None),) * axis + (0,)] = False
    if opponent is consistent_opponent:
        return holds.astype(np.float64)
    if opponent is uniform_opponent:
        playable = _playable(int(before.color), int(before.top_rank))
        num_actions = np.zeros(probs.shape)
        for i in np.flatnonzero(playable[types]).tolist():
            num_declared = cards.NUM_COLORS if types[i] >= cards.WILD_TYPE else 1
            num_actions += num_declared * _along(np.arange(probs.shape[i]) > 0, i, probs.ndim)
        return holds / np.maximum(num_actions, 1)

    index = np.nonzero(holds)
    onehots = cards.onehot_of(_counts_at(index, types))
    padded = np.zeros((-(-len(onehots) // _CHUNK), _CHUNK, cards.NUM_CARDS), bool)
    padded.reshape(-1, cards.NUM_CARDS)[: len(onehots)] = onehots
    if len(onehots):
        # A padding row repeats a real hand, so that the model is never asked about an impossible one.
        padded.reshape(-1, cards.NUM_CARDS)[len(onehots) :] = onehots[0]
    ask = partial(_action_likelihood, before, jnp.int32(action), opponent=opponent)
    values = np.concatenate([np.zeros(0)] + [np.asarray(ask(chunk), np.float64) for chunk in padded])[: len(onehots)]
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("the opponent model must give finite likelihoods of at least 0")
    result = np.zeros(probs.shape)
    result[index] = values
    return result


@partial(jax.jit, static_argnames="opponent")
def _action_likelihood(before: Observation, action: Array, hands: Array, *, opponent: OpponentModel) -> Array:
    """Compute pi(action | hand) for each of hands bool[N, 108], 0 where the action is not legal: float32[N]."""

    def one(hand: Array) -> Array:
        view = history.imagine(before, hand)
        legal = view.legal_mask
        return jnp.where(legal[action], opponent(view, legal)[action], 0.0)

    return jax.vmap(one)(hands)


def _counts_at(index: tuple[np.ndarray, ...], types: np.ndarray) -> np.ndarray:
    """Count the cards of the hands at K places of the lattice: int8[K, 54]."""
    counts = np.zeros((index[0].size, cards.NUM_TYPES), np.int8)
    counts[:, types] = np.stack(index, -1)
    return counts


def _playable(color: int, rank: int) -> np.ndarray:
    """Call `history.playable_types` on the host: bool[54]."""
    return np.asarray(history.playable_types(color, rank))


def _without(types: np.ndarray, excluded: np.ndarray) -> tuple[int | slice, ...]:
    """Index the hands that hold none of the excluded types (bool[54])."""
    return tuple(slice(0, 1) if excluded[t] else slice(None) for t in types)


def _along(values: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """Lay a vector along one axis of an `ndim`-dimensional tensor, for broadcasting."""
    return values.reshape((-1,) + (1,) * (ndim - 1 - axis))


def _product(types: np.ndarray, factor: Callable[[int, int], int], deck: np.ndarray) -> np.ndarray:
    """Compute the tensor prod_t factor(t, H_t) over the lattice."""
    result = np.ones(())
    for t in types:
        result = np.multiply.outer(result, np.array([factor(int(t), held) for held in range(deck[t] + 1)], np.float64))
    return result


def _sum(types: np.ndarray, deck: np.ndarray, where: np.ndarray | None = None) -> np.ndarray:
    """Compute the tensor sum_t H_t over the lattice, over the axes chosen by `where` (default: all)."""
    result = np.zeros((), np.int64)
    for i, t in enumerate(types):
        result = np.add.outer(result, np.arange(int(deck[t]) + 1) * (where is None or bool(where[i])))
    return result


def _comb(n: int, k: int) -> int:
    """Compute C(n, k), 0 outside 0 <= k <= n."""
    return math.comb(int(n), int(k)) if 0 <= k <= n else 0

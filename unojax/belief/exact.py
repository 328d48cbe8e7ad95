"""The exact Bayes filter over the opponent's hand, by enumeration; for decks of few types.

The belief is a dense tensor with one axis for each card type of the game, of length copies + 1. The filter is the forward
algorithm of a hidden Markov chain (Rabiner 1989, "A tutorial on hidden Markov models"), with a chain for each type of a `Family`;
`docs/explanation/belief-formulas.md` lists its steps. Everything runs on the host in NumPy float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, get_args

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import cards, game
from unojax.belief import history, turns
from unojax.belief.history import Prior, Step
from unojax.belief.joint_table import (
    UnexplainedError,
    along,
    choose,
    counts_at,
    playable,
    product,
    total_over,
    without,
)
from unojax.belief.opponents import (
    Family,
    Opponent,
    check_types,
    type_prior,
    uniform_opponent,
)
from unojax.belief.turns import Known
from unojax.observation import Observation, check_counts, check_observation, check_transition
from unojax.rules import Rules

MAX_TABLE: Final = 5_000_000
"""Largest number of tensor entries (40 MB in float64)."""


@dataclass(frozen=True, eq=False)
class ExactBelief:
    """P(H | history) for every hand H of the opponent. Immutable; `exact_update` makes the next one.

    Attributes:
        probs: float64, one axis per entry of `types`; adds up to 1.
        types: int64[T] the card types of the game, one for each axis.
        unseen: int64[54] copies of each type that are in the opponent's hand or in the deck.
        hand_count: Number of cards in the opponent's hand.
        rules: Rules of the game.
        drawn: float64[T, ...], `probs` split by the type of the card that the opponent has drawn in a turn that continues; None
            if there is no such card.
        log_type_probs: float64[K] ln P(type | history), under a `Family` of K types of opponents; else None.
        given_type: Beliefs given each type, which `probs` averages; empty without types. For a type that the history excludes,
            the last belief before its exclusion.
    """

    probs: np.ndarray
    types: np.ndarray
    unseen: np.ndarray
    hand_count: int
    rules: Rules
    drawn: np.ndarray | None = None
    log_type_probs: np.ndarray | None = None
    given_type: tuple[ExactBelief, ...] = ()

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
        """Compute the probability of no card playable on `rank` 0..14 with `color` 0..3 active; ValueError for other values."""
        if not (0 <= color < cards.NUM_COLORS and 0 <= rank < cards.NUM_RANKS):
            raise ValueError(f"color must be in [0, 3] and rank in [0, 14], got color {color} and rank {rank}")
        return float(self.probs[without(self.types, playable(color, rank))].sum())

    def hands(self) -> tuple[np.ndarray, np.ndarray]:
        """The possible hands and their probabilities: (int8[K, 54] counts, float64[K])."""
        index = np.nonzero(self.probs)
        return counts_at(index, self.types), self.probs[index]

    def log_prob(self, hand: np.ndarray | Array) -> float:
        """Compute ln b(hand) in nats, -inf for an impossible hand, canonical one-hot bool[108] or counts int[54].

        Raises:
            ValueError: If `hand` has another shape or type.
        """
        counts = _counts_of(hand)
        on_axes = counts[self.types]
        is_in_table = counts.sum() == on_axes.sum() and (on_axes >= 0).all() and (on_axes < self.probs.shape).all()
        prob = float(self.probs[tuple(on_axes)]) if is_in_table else 0.0
        return math.log(prob) if prob > 0 else -math.inf


def _counts_of(hand: np.ndarray | Array) -> np.ndarray:
    """Return the counts int[54] of a hand, bool[108] or integer[54]. Raises ValueError for another shape or type."""
    hand = np.asarray(hand)
    if hand.shape == (cards.NUM_CARDS,) and hand.dtype == bool:
        return cards.count_types(hand)
    if hand.shape == (cards.NUM_TYPES,) and hand.dtype.kind in "iu":
        return hand.astype(np.int64)
    raise ValueError(f"hand must be bool[108] or integer counts[54], got {hand.dtype}{list(hand.shape)}")


def exact_init(
    observation: Observation,
    *,
    prior: Prior = "uniform",
    opponent: Opponent = uniform_opponent,
    log_types: ArrayLike | None = None,
) -> ExactBelief:
    """Begin a belief, before the first transition.

    Args:
        observation: Observation of the belief's player, in a game whose deck is small enough.
        prior: "uniform": H is a uniformly random set of unseen cards. "deal": the same, but right after a deal conditioned on the
            start card, which under `start_card="non_wild"` was uniform over the coloured cards not dealt. Hands with more wild
            cards are then less likely.
        opponent, log_types: As in `particles.belief_init`.

    Raises:
        ValueError: If the joint table of hands is larger than `MAX_TABLE`, the observation is a batch, its counts do not add up
            to the deck, there is no such prior, or `log_types` are not those of a family.
    """
    if prior not in get_args(Prior):
        raise ValueError(f"prior must be one of {get_args(Prior)}, got {prior!r}")
    check_observation(observation, "exact_init")
    rules = observation.rules
    deck = np.asarray(rules.deck)
    types = np.flatnonzero(deck)
    shape = deck[types] + 1
    if (size := math.prod(shape.tolist())) > MAX_TABLE:
        raise ValueError(
            f"the table of hands has {size:.3g} entries, at most {MAX_TABLE} are allowed; use a deck with fewer types "
            f"or copies (`decks.small_deck`), or the particle filter"
        )
    check_counts(observation, "exact_init")
    unseen = np.asarray(observation.unseen, np.int64)
    hand_count = int(observation.opponent_count)
    weights = product(types, lambda t, held: choose(unseen[t], held), deck)
    weights = np.where(total_over(types, deck) == hand_count, weights, 0.0)
    if prior == "deal" and rules.start_card != "any" and history.looks_dealt(observation):
        # Types of smaller index may be the start card.
        end = cards.WILD_TYPE if rules.start_card == "non_wild" else cards.WILD_DRAW_FOUR_TYPE
        num_startable = int(unseen[:end].sum()) + 1
        held = total_over(types, deck, where=types < end)
        weights = weights * _start_odds(observation, hand_count, num_startable, held, end)
    belief = ExactBelief(weights / weights.sum(), types, unseen, hand_count, rules)
    if observation.has_drawn and history.opponent_moved(observation):
        belief = replace(belief, drawn=_by_any_card(belief))
    log_prior = type_prior(opponent, log_types)
    if log_prior is None:
        return belief
    log_prior = np.asarray(log_prior, np.float64)
    return replace(belief, log_type_probs=log_prior - np.logaddexp.reduce(log_prior), given_type=(belief,) * len(log_prior))


def _by_any_card(belief: ExactBelief) -> np.ndarray:
    """Split a belief by the type of the last card drawn, which may be any card of the hand: float64[T, ...]."""
    probs = belief.probs
    held = (along(np.arange(size), axis, probs.ndim) for axis, size in enumerate(probs.shape))
    return np.stack([probs * number / belief.hand_count for number in held])


def _start_odds(observation: Observation, hand_count: int, num_startable: int, held: np.ndarray, end: int) -> np.ndarray:
    """Compute the probability of the start card in the joint table; see `likelihood.start_log_prob`.

    Types below `end` are startable. Of these, the observer does not hold `num_startable`; `held` are in the hand.
    """
    own = cards.count_types(observation.hand)
    number = max(int(own.sum()), hand_count) - observation.rules.hand_size
    if number <= 0 or observation.rules.start_effects != "keep_turn":
        return 1 / np.maximum(num_startable - held, 1)
    size = observation.rules.hand_size + number
    startable = held if hand_count == size else np.int64(own[:end].sum())
    odds = np.zeros(held.shape)
    for k in range(number + 1):
        shares = [choose(n, k) * choose(size - n, number - k) / choose(size, number) for n in range(int(held.max()) + size + 1)]
        odds += np.array(shares)[startable] / np.maximum(num_startable - held + k, 1)
    return odds


def exact_update(
    belief: ExactBelief,
    before: Observation,
    action: int,
    after: Observation,
    *,
    opponent: Opponent = uniform_opponent,
) -> tuple[ExactBelief, float]:
    """Condition the belief on one transition.

    Args:
        belief: Belief at `before`.
        before, after: The observer's observations around the transition; unbatched.
        action: Public action taken, 0..60, or 61 for a challenge; ignored if nothing happened (the game was over, or the action
            illegal).
        opponent: Opponent model, or the `Family` that the belief was begun with.

    Returns:
        The next belief, and the log evidence in nats, ln P(the observer's observation of this transition | history). Own actions
        and the sizes of draws are given, not predicted.

    Raises:
        ValueError: If the observations contradict each other, the belief, the action or the rules, no hand explains them, or the
            belief was begun with other types of opponents.
    """
    check_types(len(belief.given_type), opponent, "exact_init")
    if isinstance(opponent, Family):
        return _update_each_type(belief, before, action, after, opponent)
    check_transition(belief.rules, before, after, "exact_update")
    if not (np.array_equal(belief.unseen, before.unseen) and belief.hand_count == int(before.opponent_count)):
        raise ValueError("`before` does not show the position of this belief: the unseen cards or the opponent's count differ")
    is_one_step, step = jax.device_get(_read(before, after))
    if not is_one_step:
        raise ValueError("`before` and `after` are not one transition apart; feed the observer's view of every transition")
    if step.action == game.NO_ACTION:
        return belief, 0.0
    if step.action != action:
        raise ValueError(f"action {action} does not lead from `before` to `after`; {step.action} does")

    known = Known(belief.probs, belief.drawn, belief.hand_count, 0.0)
    step = Step(*(part.astype(np.int64) for part in step))
    known = turns.update(known, belief.types, before, after, step, opponent)
    left = np.asarray(after.unseen, np.int64)
    return ExactBelief(known.probs, belief.types, left, known.hand_count, belief.rules, known.drawn), known.log_evidence


def _update_each_type(
    belief: ExactBelief, before: Observation, action: int, after: Observation, family: Family
) -> tuple[ExactBelief, float]:
    """Condition hand and type: the belief given each type, and P(type) by the evidence of each."""
    assert belief.log_type_probs is not None
    given_type, log_joint, unexplained = list(belief.given_type), belief.log_type_probs.copy(), None
    for index in np.flatnonzero(np.isfinite(log_joint)).tolist():
        try:
            model = family.models[index]
            given_type[index], log_evidence = exact_update(given_type[index], before, action, after, opponent=model)
            log_joint[index] += log_evidence
        except UnexplainedError as error:
            log_joint[index], unexplained = -math.inf, error
    if unexplained is not None and np.isneginf(log_joint).all():
        raise unexplained
    log_evidence = float(np.logaddexp.reduce(log_joint))
    log_type_probs = log_joint - log_evidence
    left = np.flatnonzero(np.isfinite(log_joint)).tolist()
    one = given_type[left[0]]
    if one is belief.given_type[left[0]]:
        # Nothing happened.
        return belief, 0.0
    shares = [(math.exp(log_type_probs[k]), given_type[k]) for k in left]
    probs = np.sum([share * part.probs for share, part in shares], axis=0)
    split = [share * part.drawn for share, part in shares if part.drawn is not None]
    drawn = np.sum(split, axis=0) if split else None
    return replace(one, probs=probs, drawn=drawn, log_type_probs=log_type_probs, given_type=tuple(given_type)), log_evidence


def exact_given_hand(belief: ExactBelief, hand: np.ndarray | Array) -> tuple[ExactBelief, float]:
    """Condition the belief on the opponent's whole hand, which the observer sees; `hand` as in `ExactBelief.log_prob`.

    Returns:
        The belief given the hand, and the log evidence ln P(hand | history) in nats.

    Raises:
        ValueError: If the hand is no hand, or is impossible after the history.
    """
    log_evidence = belief.log_prob(hand)
    if math.isinf(log_evidence):
        raise UnexplainedError("the hand is impossible after this history: check the hand and the observations before it")
    is_hand = np.zeros(belief.probs.shape)
    is_hand[tuple(_counts_of(hand)[belief.types])] = 1.0
    drawn = None if belief.drawn is None else belief.drawn * is_hand / math.exp(log_evidence)
    given = replace(belief, probs=is_hand, drawn=drawn)
    if belief.log_type_probs is None:
        return given, log_evidence
    log_joint = belief.log_type_probs + [part.log_prob(hand) for part in belief.given_type]
    given_type = tuple(
        part if math.isinf(log_prob) else exact_given_hand(part, hand)[0]
        for part, log_prob in zip(belief.given_type, log_joint, strict=True)
    )
    return replace(given, log_type_probs=log_joint - np.logaddexp.reduce(log_joint), given_type=given_type), log_evidence


@jax.jit
def _read(before: Observation, after: Observation) -> tuple[Array, Step]:
    """Return whether two observations are one step apart, and the step."""
    return history.is_one_step(before, after), history.read_step(before, after)

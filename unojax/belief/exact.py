"""The exact Bayes filter over the opponent's hand, by enumeration; for decks of few types.

The belief lists all possible hands with their probabilities. The filter is the forward algorithm of a hidden Markov chain
(Rabiner 1989, "A tutorial on hidden Markov models"), with a chain for each type of a `Family`;
`docs/explanation/belief-formulas.md` lists its steps. Everything runs on the host in NumPy float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import cards, game, pomdp
from unojax.belief import history
from unojax.belief.history import Prior, Step, check_prior
from unojax.belief.hypotheses import Hypotheses, UnexplainedError, after_step
from unojax.belief.opponents import Opponent, check_types, models_of, type_prior, uniform_opponent
from unojax.observation import Observation, check_counts, check_observation, check_transition
from unojax.rules import Rules

MAX_HANDS: Final = 5_000_000
"""Largest number of different hands, of any size, from a deck."""


@dataclass(frozen=True, eq=False)
class ExactBelief:
    """P(H | history) for every hand H of the opponent. Immutable; `exact_update` makes the next one.

    Attributes:
        known: Possible hands and their probabilities, by the opponent's type, which add up to 1.
        unseen: int64[54] copies of each type that are in the opponent's hand or in the deck.
        rules: Rules of the game.
        num_types: Number of types of a `Family` that the belief was begun with; 0 for a single model.
    """

    known: Hypotheses
    unseen: np.ndarray
    rules: Rules
    num_types: int = 0

    @property
    def hand_count(self) -> int:
        """Number of cards in the opponent's hand."""
        return int(self.known.hands[0].sum())

    @property
    def log_type_probs(self) -> np.ndarray | None:
        """float64[K]: ln P(type | history) under a `Family` of K types of opponents; else None."""
        with np.errstate(divide="ignore"):
            return np.log(self.known.joint.sum(1)) if self.num_types else None

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
        _, probs = self.hands()
        return float(-(probs * np.log(probs)).sum())

    @property
    def count_probs(self) -> np.ndarray:
        """float64[54, 5]: probability that the hand holds 0..4 copies of each type."""
        return np.stack([self._probs @ (self.known.hands == number) for number in range(5)], -1)

    @property
    def _probs(self) -> np.ndarray:
        return self.known.joint.sum(0)

    def prob_no_playable(self, color: int, rank: int) -> float:
        """Compute the probability of no card playable on `rank` 0..14 with `color` 0..3 active; ValueError for other values."""
        if not (0 <= color < cards.NUM_COLORS and 0 <= rank < cards.NUM_RANKS):
            raise ValueError(f"color must be in [0, 3] and rank in [0, 14], got color {color} and rank {rank}")
        is_playable = history.playable_types(color, rank)
        return float(self._probs[~self.known.hands[:, is_playable].any(-1)].sum())

    def hands(self) -> tuple[np.ndarray, np.ndarray]:
        """The possible hands and their probabilities: (int8[K, 54] counts, float64[K])."""
        known = self.known.without_drawn()
        return known.hands, known.joint.sum(0)

    def log_prob(self, hand: np.ndarray | Array) -> float:
        """Compute ln b(hand) in nats, -inf for an impossible hand, canonical one-hot bool[108] or counts int[54].

        Raises:
            ValueError: If `hand` has another shape or type.
        """
        prob = float(self._probs[self._is(hand)].sum())
        return math.log(prob) if prob > 0 else -math.inf

    def _is(self, hand: np.ndarray | Array) -> np.ndarray:
        """Mark the hypotheses of a hand, as in `log_prob`: bool[K]."""
        return (self.known.hands == _counts_of(hand)).all(-1)


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
        ValueError: If the deck has more than `MAX_HANDS` hands, the observation is a batch, its counts do not add up to the deck,
            there is no such prior, or `log_types` are not those of a family.
    """
    check_prior(prior)
    check_observation(observation, "exact_init")
    rules = observation.rules
    if (num_hands := math.prod(copies + 1 for copies in rules.deck)) > MAX_HANDS:
        raise ValueError(
            f"the deck has {num_hands:.3g} different hands, at most {MAX_HANDS} are allowed; use a deck with fewer types "
            f"or copies (`decks.small_deck`), or the particle filter"
        )
    check_counts(observation, "exact_init")
    unseen, hand_count = np.asarray(observation.unseen, np.int8), int(observation.opponent_count)
    hands, probs = pomdp.list_draws(unseen.tobytes(), hand_count)
    if prior == "deal" and rules.start_card != "any" and history.looks_dealt(observation):
        probs = probs * _start_odds(observation, hand_count, hands, unseen)
    drawn = np.full(len(hands), game.NONE, np.int8)
    if observation.has_drawn and history.opponent_moved(observation):
        # The last card drawn may be any card of the hand.
        row, card = np.nonzero(hands)
        probs, drawn = probs[row] * hands[row, card], card.astype(np.int8)
        hands = hands[row]
    log_prior = type_prior(opponent, log_types)
    types = np.ones(1) if log_prior is None else np.exp(np.asarray(log_prior, np.float64))
    known = Hypotheses(hands, drawn, np.outer(types / types.sum(), probs / probs.sum()))
    return ExactBelief(known, unseen.astype(np.int64), rules, 0 if log_prior is None else len(types))


def _start_odds(observation: Observation, hand_count: int, hands: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """Compute the probability of the start card given each hand, int8[K, 54]; see `likelihood.start_log_prob`."""
    rules = observation.rules
    # Types of smaller index may be the start card. Before it was turned up, it was among those that the observer does not hold.
    end = cards.WILD_TYPE if rules.start_card == "non_wild" else cards.WILD_DRAW_FOUR_TYPE
    num_startable, held = int(unseen[:end].sum()) + 1, hands[:, :end].sum(-1, dtype=np.int64)
    own = cards.count_types(observation.hand)
    number = max(int(own.sum()), hand_count) - rules.hand_size
    if number <= 0 or rules.start_effects != "keep_turn":
        return 1 / np.maximum(num_startable - held, 1)
    size = rules.hand_size + number
    startable = held if hand_count == size else np.int64(own[:end].sum())
    odds = np.zeros(held.shape)
    for k in range(number + 1):
        shares = [math.comb(n, k) * math.comb(size - n, number - k) / math.comb(size, number) for n in range(size + 1)]
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
    check_types(belief.num_types, opponent, "exact_init")
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
    step = Step(*(part.astype(np.int64) for part in step))
    known = after_step(belief.known, before, after, step, models_of(opponent))
    return _normalized(replace(belief, known=known, unseen=np.asarray(after.unseen, np.int64)))


def exact_given_hand(belief: ExactBelief, hand: np.ndarray | Array) -> tuple[ExactBelief, float]:
    """Condition the belief on the opponent's whole hand, which the observer sees; `hand` as in `ExactBelief.log_prob`.

    Returns:
        The belief given the hand, and the log evidence ln P(hand | history) in nats.

    Raises:
        ValueError: If the hand is no hand, or is impossible after the history.
    """
    is_hand = belief._is(hand)
    if not is_hand.any():
        raise UnexplainedError("the hand is impossible after this history: check the hand and the observations before it")
    return _normalized(replace(belief, known=belief.known.where(is_hand)))


def _normalized(belief: ExactBelief) -> tuple[ExactBelief, float]:
    """Normalise a belief, and return the log of the former sum of its probabilities."""
    evidence = belief.known.joint.sum()
    return replace(belief, known=belief.known._replace(joint=belief.known.joint / evidence)), math.log(evidence)


@jax.jit
def _read(before: Observation, after: Observation) -> tuple[Array, Step]:
    """Return whether two observations are one step apart, and the step."""
    return history.is_one_step(before, after), history.read_step(before, after)

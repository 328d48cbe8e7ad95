"""Bootstrap filter in NumPy (Gordon, Salmond, Smith 1993): the peer of `benchmarks.belief_speed`.

A particle is a hand of the opponent, as counts of the 54 card types. Draws of the opponent are simulated, and particles are
weighted by the probability of the other observations. Systematic resampling follows if the effective sample size is below half.
The filter assumes the default rules and an opponent that plays every legal action with equal probability. All particles of a game
are updated together, and games one after the other.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

WILD, WILD_DRAW = 52, 53
DRAW: Final = 60


class View(NamedTuple):
    """An observer's view, as plain numbers.

    Attributes:
        unseen: int[54] Cards in the deck and in the opponent's hand.
        hand: int[54] Observer's own cards.
        opponent_count: Number of cards in the opponent's hand.
        mine: Whether the observer is to move.
        color, rank: Active colour and top rank.
        penalty: Cards that the player to move must draw.
    """

    unseen: np.ndarray
    hand: np.ndarray
    opponent_count: int
    mine: bool
    color: int
    rank: int
    penalty: int


def playable(view: View) -> np.ndarray:
    """Return the playable card types: bool[54]."""
    types = np.arange(54)
    return (types >= WILD) | (types // 13 == view.color) | (types % 13 == view.rank)


def deal(view: View, num_particles: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return hands drawn from the unseen cards, int8[N, 54], and their log weights."""
    hands = rng.multivariate_hypergeometric(view.unseen, view.opponent_count, num_particles).astype(np.int8)
    return hands, np.full(num_particles, -np.log(num_particles))


def update(
    hands: np.ndarray, log_weights: np.ndarray, before: View, action: int, after: View, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Condition particles on one step; return the new ones, and whether the filter was depleted and dealt them again."""
    hands = hands.copy()
    if before.mine and action == DRAW:
        likelihood = _draws_of_mine(hands, before, after)
    elif before.mine:
        likelihood = np.ones(len(hands))
    elif action == DRAW:
        fits = hands[:, playable(before)].any(1)
        likelihood = np.where(fits, 0.0, 1.0) if before.penalty == 0 else np.ones(len(hands))
        for _ in range(after.opponent_count - before.opponent_count):
            _give_card(hands, after.unseen, rng)
    else:
        color, rank = divmod(action, 15)
        card = color * 13 + rank if rank < 13 else rank + 39
        held = (hands > 0) & playable(before)
        num_actions = held[:, :WILD].sum(1) + 4 * held[:, WILD:].sum(1)
        likelihood = np.where(held[:, card], 1.0 / np.maximum(num_actions, 1), 0.0)
        hands[:, card] = np.maximum(hands[:, card] - 1, 0)
    with np.errstate(divide="ignore"):
        log_weights = log_weights + np.log(likelihood)
    if not np.isfinite(log_weights).any():
        return *deal(after, len(hands), rng), True
    log_weights = log_weights - log_weights.max()
    weights = np.exp(log_weights)
    weights /= weights.sum()
    if 1 / np.square(weights).sum() < len(hands) / 2:
        hands = hands[_systematic(weights, rng)]
        return hands, np.full(len(hands), -np.log(len(hands))), False
    with np.errstate(divide="ignore"):
        return hands, np.log(weights), False


def _draws_of_mine(hands: np.ndarray, before: View, after: View) -> np.ndarray:
    """Return the probability that the observer drew its cards, up to a factor common to all particles: float[N]."""
    likelihood = np.ones(len(hands))
    deck = after.unseen + (after.hand - before.hand) - hands
    for card in np.repeat(np.arange(54), np.maximum(after.hand - before.hand, 0)):
        likelihood *= np.maximum(deck[:, card], 0)
        deck[:, card] -= 1
    return likelihood


def _give_card(hands: np.ndarray, unseen: np.ndarray, rng: np.random.Generator) -> None:
    """Add a card of the deck to each hand."""
    reach = np.cumsum(np.maximum(unseen - hands, 0), 1)
    picked = rng.random(len(hands)) * reach[:, -1]
    hands[np.arange(len(hands)), np.minimum((reach <= picked[:, None]).sum(1), 53)] += 1


def _systematic(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    points = (rng.random() + np.arange(len(weights))) / len(weights)
    return np.minimum(np.searchsorted(np.cumsum(weights), points), len(weights) - 1)

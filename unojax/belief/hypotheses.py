"""The step of the exact filter: how a transition changes all possible hands of the opponent. NumPy float64 on the host.

Every action of the opponent is evidence through the opponent model, evaluated for every hand; a forced draw is the case of a
single legal action. The card that the opponent has drawn in a turn that continues is part of a hypothesis, until the opponent
plays it, passes, or draws again. Whether a turn continues is evidence about that card.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, game, pomdp
from unojax.belief import history
from unojax.belief.history import Step
from unojax.belief.opponents import OpponentModel, likelihood_of, uniform_opponent
from unojax.observation import Observation
from unojax.table.options import fits_top

_WAYS: Final = np.array([[math.comb(copies, drawn) for drawn in range(5)] for copies in range(5)], np.float64)
"""C(n, k) for the copies of one type."""


class UnexplainedError(ValueError):
    """No hand of a belief explains the observation."""


class Hypotheses(NamedTuple):
    """K possible hands of the opponent, each with the card drawn last and the probabilities of the opponent's types.

    Attributes:
        hands: int8[K, 54] cards of each type.
        drawn: int8[K] type of the card that the opponent has drawn in a turn that continues; -1 without one.
        joint: float64[T, K] P(type of opponent, hand, card drawn); T is 1 under a single model.
    """

    hands: np.ndarray
    drawn: np.ndarray
    joint: np.ndarray

    def where(self, mask: np.ndarray) -> Hypotheses:
        """Keep the hypotheses that `mask` (bool[K]) marks. Raises UnexplainedError if there are none."""
        if not mask.any():
            raise UnexplainedError(
                "no hand of the belief explains what happened; start from the beginning of the game, feed every transition, "
                "and use an opponent model that gives each legal action a positive probability"
            )
        return Hypotheses(self.hands[mask], self.drawn[mask], self.joint[:, mask])

    def given(self, likelihood: np.ndarray) -> Hypotheses:
        """Multiply by a likelihood, float64[K] or by type [T, K], and keep the possible hypotheses; not normalised."""
        joint = self.joint * likelihood
        return self._replace(joint=joint).where(np.any(joint, 0))

    def without_drawn(self) -> Hypotheses:
        """Forget the cards drawn last: each hand occurs once, in the order of the counts."""
        first, which = pomdp.distinct(self.hands)
        joint = np.stack([np.bincount(which, row, len(first)) for row in self.joint])
        return Hypotheses(self.hands[first], np.full(len(first), game.NONE, np.int8), joint)


def after_step(
    known: Hypotheses, before: Observation, after: Observation, step: Step, models: Sequence[OpponentModel]
) -> Hypotheses:
    """Return the hypotheses after an observed step; their total probability is that of the observation.

    Args:
        known: Hypotheses before the step.
        before, after: The observer's observations around the step.
        step: Its facts, on the host.
        models: Model of each of the T types of opponents.

    Raises:
        UnexplainedError: If no hypothesis explains the step.
    """
    rules, action = before.rules, int(step.action)
    if step.laid >= cards.WILD_TYPE:
        # Its colour is one of four.
        known = known.given(np.array(1 / cards.NUM_COLORS))
    if not step.theirs:
        known = _draw_seen(known, step)
        if action == cards.CHALLENGE:
            is_guilty = known.hands[:, cards.COLOR_OF_TYPE == before.contested].any(-1)
            known = known.where(is_guilty == (after.current_player != before.current_player))
        return known

    if action not in (cards.DRAW, cards.CHALLENGE):
        return _play(known, before, step, models)
    likelihood, has_choice = _likelihood(known, before, action, models)
    if before.has_drawn:
        # This action is a pass if the drawn card was playable, and another draw if it was not.
        draws_on = bool(step.draws_on) or step.laid >= 0
        likelihood = likelihood * (has_choice != draws_on)
    known = known.given(likelihood).without_drawn()
    if step.laid >= 0:
        return _draw_seen(known, step)
    is_plain = int(before.penalty) == 0 and step.opponent_drew == 1
    if is_plain and (rules.play_drawn != "no" or rules.draw_until_playable):
        return _draw_and_look(known, before, after, step)
    for _ in range(int(step.opponent_drew)):
        known = _draw_unseen(known, step).without_drawn()
    return known


def ways_to_draw(decks: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Count the ways to draw each of M multisets, int[M, 54], from each of N decks, int[N, 54]: float64[N, M]."""
    ways = np.ones((len(decks), len(draws)))
    for t in np.flatnonzero(draws.any(0)):
        ways *= _WAYS[decks[:, t][:, None], draws[:, t][None]]
    return ways


def _draw_seen(known: Hypotheses, step: Step) -> Hypotheses:
    """Condition on the cards that the observer saw drawn, if any: prod_t C(U_t - H_t, J_t) / C(|U| - |H|, |J|)."""
    drawn = np.asarray(step.seen)
    if not drawn.any():
        return known
    decks = np.asarray(step.unseen) - known.hands
    return known.given(ways_to_draw(decks, drawn[None])[:, 0] / math.comb(int(decks[0].sum()), int(drawn.sum())))


def _play(known: Hypotheses, before: Observation, step: Step, models: Sequence[OpponentModel]) -> Hypotheses:
    is_possible = known.hands[:, step.played_type] > 0
    if before.has_drawn:
        is_possible &= known.drawn == step.played_type
    known = known.where(is_possible)
    known = known.given(_likelihood(known, before, int(step.action), models)[0])
    left = known.hands - (np.arange(cards.NUM_TYPES) == step.played_type).astype(np.int8)
    return Hypotheses(left, np.full(len(left), game.NONE, np.int8), known.joint)


def _draw_unseen(known: Hypotheses, step: Step) -> Hypotheses:
    """Let the opponent draw one card, uniform over the deck U - H."""
    decks = np.asarray(step.unseen) - known.hands
    row, card = np.nonzero(decks)
    grown = known.hands[row] + np.eye(cards.NUM_TYPES, dtype=np.int8)[card]
    return Hypotheses(grown, card.astype(np.int8), known.joint[:, row] * (decks[row, card] / decks[0].sum()))


def _draw_and_look(known: Hypotheses, before: Observation, after: Observation, step: Step) -> Hypotheses:
    """Let the opponent draw one card, and condition on whether its turn continues."""
    rules, goes_on = before.rules, bool(after.has_drawn)
    known = _draw_unseen(known, step)
    if rules.play_drawn == "auto":
        known = known.where(~history.layable_types(int(before.color))[known.drawn])
    elif rules.draw_decides_turn:
        fits = pomdp.in_chunks(partial(_fits, before), known.hands, known.drawn)
        known = known.where(fits == (goes_on == (rules.play_drawn == "may")))
    return known if goes_on else known.without_drawn()


def _likelihood(
    known: Hypotheses, before: Observation, action: int, models: Sequence[OpponentModel]
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate pi(action | H) of each type: float64[T, K], 0 if the action is illegal; and whether there was a choice, bool[K].

    `uniform_opponent` is evaluated by a division in float64, so that exact beliefs exceed a model's float32 precision.
    """
    values, num_legal = np.zeros(known.joint.shape), np.zeros(len(known.hands), int)
    for likelihood, joint, model in zip(values, known.joint, models, strict=True):
        # A model never evaluates a hand that is impossible for its type.
        possible = joint > 0
        if possible.any():
            ask = partial(_ask, before, jnp.int32(action), opponent=model)
            likelihood[possible], num_legal[possible] = pomdp.in_chunks(ask, known.hands[possible], known.drawn[possible])
        if model is uniform_opponent:
            likelihood[:] = (likelihood > 0) / np.maximum(num_legal, 1)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("the opponent model must give finite likelihoods of at least 0")
    return values, num_legal > 1


@partial(jax.jit, static_argnames="opponent")
def _ask(before: Observation, action: Array, hands: Array, drawn: Array, *, opponent: OpponentModel) -> tuple[Array, Array]:
    """Return a model's likelihood of an action, and the number of legal actions, for each hand."""

    def one(hand: Array, drawn: Array) -> tuple[Array, Array]:
        view = replace(history.imagine(before, cards.onehot(hand)), drawn=drawn)
        legal = view.legal_mask
        return likelihood_of(opponent, view, legal, action), legal.sum(dtype=jnp.int32)

    return jax.vmap(one)(hands, drawn)


@jax.jit
def _fits(before: Observation, hands: Array, drawn: Array) -> Array:
    """Return for each hand, which holds the card drawn, whether that card may be played."""
    top = before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32)
    return fits_top(bits.pack(cards.onehot(hands)), bits.color_and_rank(drawn), top, before.rules)

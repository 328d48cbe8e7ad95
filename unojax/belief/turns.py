"""The exact filter's step.

Every action of the opponent is evidence through the opponent model, evaluated for every hand; a forced draw is the case of a
single legal action. The card that the opponent has drawn in a turn that continues is part of the belief, until the opponent plays
it, passes, or draws again. Whether a turn continues is evidence about that card.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unojax import cards
from unojax.belief import asked
from unojax.belief.history import Step
from unojax.belief.joint_table import along, choose, condition, draw_one, product, shifted, without
from unojax.belief.opponents import OpponentModel
from unojax.observation import Observation


class Known(NamedTuple):
    """A belief during a step.

    Attributes:
        probs: float64, the joint table of hands.
        drawn: float64[T, ...], split by the type of the card drawn last; None unless the opponent's turn continues.
        hand_count: Cards in the hand.
        log_evidence: Log evidence in nats so far.
    """

    probs: np.ndarray
    drawn: np.ndarray | None
    hand_count: int
    log_evidence: float

    def given(self, likelihood: np.ndarray) -> Known:
        """Condition the hands; drop the split by the last card drawn."""
        probs, log_evidence = condition(self.probs, likelihood)
        return self._replace(probs=probs, drawn=None, log_evidence=self.log_evidence + log_evidence)

    def split(self, weights: np.ndarray) -> Known:
        """Condition the split belief: `drawn` times weights [T, ...]."""
        assert self.drawn is not None
        drawn, log_evidence = condition(self.drawn, weights)
        return self._replace(probs=drawn.sum(0), drawn=drawn, log_evidence=self.log_evidence + log_evidence)


def update(
    known: Known, types: np.ndarray, before: Observation, after: Observation, step: Step, opponent: OpponentModel
) -> Known:
    """Condition on an observed step, whose facts are on the host."""
    rules, deck, action, laid = before.rules, np.asarray(before.rules.deck), int(step.action), int(step.laid)
    unseen, seen = np.asarray(step.unseen), np.asarray(step.seen)
    in_deck = int(unseen.sum()) - known.hand_count
    if laid >= cards.WILD_TYPE:
        # Its colour is one of four.
        known = known._replace(log_evidence=known.log_evidence - math.log(cards.NUM_COLORS))
    if not step.theirs:
        if seen.any():
            ways = product(types, lambda t, held: choose(unseen[t] - held, seen[t]), deck)
            known = known.given(ways / math.comb(in_deck, int(seen.sum())))
        if action == cards.CHALLENGE:
            lacks = np.zeros(known.probs.shape)
            lacks[without(types, cards.COLOR_OF_TYPE == int(before.contested))] = 1.0
            is_guilty = int(after.current_player) != int(before.current_player)
            known = known.given(1.0 - lacks if is_guilty else lacks)
        return known

    if action not in (cards.DRAW, cards.CHALLENGE):
        return _play(known, types, before, step, opponent)
    draws_on = bool(step.draws_on) or laid >= 0
    if known.drawn is None:
        known = known.given(asked.likelihood(before, action, known.probs > 0, types, opponent)[0])
    else:
        # This action is a pass if the drawn card was playable, and another draw if it was not.
        weights = np.zeros(known.drawn.shape)
        for axis in np.flatnonzero(known.drawn.reshape(len(types), -1).any(-1)):
            told = asked.likelihood(before, action, known.drawn[axis] > 0, types, opponent, int(types[axis]))
            weights[axis] = told[0] * (told[1] != draws_on)
        known = known.split(weights)._replace(drawn=None)
    if laid >= 0:
        axis = int(np.flatnonzero(types == laid)[0])
        held = along(np.arange(known.probs.shape[axis]), axis, known.probs.ndim)
        return known.given(np.broadcast_to(np.maximum(unseen[laid] - held, 0) / in_deck, known.probs.shape))
    is_plain = int(before.penalty) == 0 and step.opponent_drew == 1
    if is_plain and (rules.play_drawn != "no" or rules.draw_until_playable):
        return _draw_and_look(known, types, before, after, step)
    probs, hand_count = known.probs, known.hand_count
    for _ in range(int(step.opponent_drew)):
        probs = draw_one(probs, types, unseen, hand_count)
        hand_count += 1
    return known._replace(probs=probs, hand_count=hand_count)


def _play(known: Known, types: np.ndarray, before: Observation, step: Step, opponent: OpponentModel) -> Known:
    axis = int(np.flatnonzero(types == step.played_type)[0])
    held = known if known.drawn is None else known._replace(probs=known.drawn[axis])
    drawn = -1 if known.drawn is None else int(step.played_type)
    may_hold = held.probs > 0
    may_hold[(slice(None),) * axis + (0,)] = False
    played = held.given(asked.likelihood(before, int(step.action), may_hold, types, opponent, drawn)[0])
    return played._replace(probs=shifted(played.probs, axis, -1), hand_count=known.hand_count - 1)


def _draw_and_look(known: Known, types: np.ndarray, before: Observation, after: Observation, step: Step) -> Known:
    """Let the opponent draw one card, and condition on whether its turn continues."""
    rules, in_deck = before.rules, int(step.unseen.sum()) - known.hand_count
    goes_on = bool(after.has_drawn)
    drawn = np.zeros((len(types), *known.probs.shape))
    weights = np.zeros(drawn.shape)
    for axis, t in enumerate(types):
        held = along(np.arange(known.probs.shape[axis]), axis, known.probs.ndim)
        drawn[axis] = shifted(known.probs * (np.maximum(step.unseen[t] - held, 0) / in_deck), axis, +1)
        if rules.play_drawn == "auto":
            is_layable = t >= cards.WILD_TYPE or int(cards.COLOR_OF_TYPE[t]) == int(before.color)
            weights[axis] = not is_layable
        elif rules.play_drawn == "may" and rules.draw_until_playable:
            weights[axis] = 1.0
        else:
            weights[axis] = asked.fits(before, drawn[axis] > 0, types, int(t)) == (goes_on == (rules.play_drawn == "may"))
    known = known._replace(drawn=drawn, hand_count=known.hand_count + 1).split(weights)
    return known if goes_on else known._replace(drawn=None)

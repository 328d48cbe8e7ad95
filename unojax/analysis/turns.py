"""A belief turn by turn through a game: what one player can know after each action, and how good it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax import Array

from unojax import cards, text
from unojax.belief import closed_form, summary
from unojax.belief.summary import BeliefSummary
from unojax.belief.tracking import Look, look, track
from unojax.belief.updaters import ParticleFilter, Updater
from unojax.game import State
from unojax.games.replay import Replay, Step
from unojax.observation import Observation

_LOOK: Final = np.uint32(2**32 - 1)
"""A stream of random numbers beside those of the updates, one for each position."""


@dataclass(frozen=True)
class TrackedTurn:
    """The position after an action, and what the observer saw of it and can know. All arrays are NumPy.

    Attributes:
        number: of the action in its game, 0 for the start.
        step: the action; None at the start.
        state: after it.
        observation: of the player, after it.
        belief: figures of the belief over the other hand.
        log_score: of the belief, nats: sum over the card types of ln P(number of copies that the opponent holds).
        types: P(type) of the opponent by name, the likeliest first; empty under a single model.
    """

    number: int
    step: Step | None
    state: State
    observation: Observation
    belief: BeliefSummary
    log_score: float
    types: dict[str, float]

    @property
    def player(self) -> int:
        """Observer, 0 or 1."""
        return int(self.observation.player)

    @property
    def truth(self) -> np.ndarray:
        """int[54]: copies of each type that the opponent holds."""
        return cards.count_types(self.state.hands[1 - self.player])


@dataclass(frozen=True)
class BeliefTurn(TrackedTurn):
    """A turn with the diagnostics of the update that led to it.

    Attributes:
        ess: effective sample size that the turn left, before resampling.
        uniform_log_score: of the uniform belief, nats.
        log_evidence: log probability of what the observer saw, nats; None at the start.
        begun_anew: why the belief was begun again from the position alone; empty if it was not.
    """

    ess: float
    uniform_log_score: float
    log_evidence: float | None
    begun_anew: str

    def to_json(self, *, with_truth: bool) -> dict[str, Any]:
        """Return all of it by name. Card types that the deck does not hold are left out."""
        seen, belief, step = self.observation, self.belief, self.step
        types = np.flatnonzero(seen.rules.deck).tolist()
        record: dict[str, Any] = {
            "turn": self.number,
            "mover": None if step is None else step.mover,
            "action": None if step is None else step.notation(with_cards=with_truth or step.mover == self.player),
            "observation": {
                "current_player": int(seen.current_player),
                "top": text.format_action(int(seen.color) * cards.NUM_RANKS + int(seen.top_rank)),
                "penalty": int(seen.penalty),
                "hand": text.format_cards(seen.hand),
                "opponent_count": int(seen.opponent_count),
                "deck_count": int(seen.deck_count),
                "pile": text.format_cards(seen.pile),
                "terminated": bool(seen.terminated),
            },
            "belief": {
                "prob_holds": {cards.TYPE_NAMES[t]: float(belief.prob_holds[t]) for t in types},
                "expected_counts": {cards.TYPE_NAMES[t]: float(belief.expected_counts[t]) for t in types},
                "prob_color": dict(zip(cards.COLOR_NAMES, belief.prob_color.tolist(), strict=True)),
                "prob_no_playable": float(belief.prob_no_playable),
                "num_distinct": int(belief.num_distinct),
            },
            "ess": self.ess,
            "type_probs": self.types or None,
            "log_evidence": _finite(self.log_evidence),
            "begun_anew": self.begun_anew or None,
        }
        if with_truth:
            record["truth"] = {
                "position": text.format_position(self.state),
                "hand": text.format_cards(self.state.hands[1 - self.player]),
                "log_score": self.log_score,
                "uniform_log_score": self.uniform_log_score,
            }
        return record


class Summary(NamedTuple):
    """A whole game: mean log scores of the `scored` turns, after the start, at which the opponent holds a card, and the numbers
    of the turns with the smallest ESS and of those begun again."""

    scored: int
    log_score: float | None
    uniform_log_score: float | None
    smallest_ess: float
    smallest_ess_turn: int
    log_evidence: float | None
    begun_anew: list[int]


def row_of(game: Replay, index: int, observation: Observation, looked: Look, *, number: int) -> dict[str, Any]:
    """Return the fields of a `TrackedTurn` by name: position `index` of a game, and what the observer can know there."""
    truth = cards.count_types(game.states[index].hands[1 - int(observation.player)])
    return {
        "number": number,
        "step": game.steps[index - 1] if index else None,
        "state": game.states[index],
        "observation": observation,
        "belief": looked.belief,
        "log_score": summary.log_score(looked.count_probs, truth),
        "types": dict(looked.types),
    }


def track_turns(game: Replay, player: int, key: Array, updater: Updater) -> Iterator[BeliefTurn]:
    """Track a game as `player` sees it, beginning with the start; `key` is consumed.

    A position from the midst of a game may look dealt, and is not: a particle filter then begins with the uniform prior.
    """
    observations = game.observations(player)
    if isinstance(updater, ParticleFilter) and game.start.step_count > 0:
        updater = replace(updater, prior="uniform")
    for index, (seen, (belief, info)) in enumerate(zip(observations, track(updater, key, observations), strict=True)):
        looked = look(updater, jax.random.fold_in(jax.random.fold_in(key, _LOOK), index), belief, seen)
        truth = cards.count_types(game.states[index].hands[1 - player])
        reason = ""
        if info is not None and info.restarted:
            reason = "no particle could explain this turn" if info.depleted else "the game outgrew its capacity"
        yield BeliefTurn(
            **row_of(game, index, seen, looked, number=int(game.start.step_count) + index),
            ess=float(looked.belief.ess if info is None else info.ess),
            uniform_log_score=summary.log_score(np.asarray(_uniform(seen)), truth),
            log_evidence=None if info is None else float(info.log_evidence),
            begun_anew=reason,
        )


def summarize(turns: Sequence[BeliefTurn]) -> Summary:
    """Summarize the turns of a game."""
    scored = [turn for turn in turns if turn.step is not None and turn.truth.any()]
    least = min(turns, key=lambda turn: turn.ess)
    return Summary(
        scored=len(scored),
        log_score=float(np.mean([turn.log_score for turn in scored])) if scored else None,
        uniform_log_score=float(np.mean([turn.uniform_log_score for turn in scored])) if scored else None,
        smallest_ess=least.ess,
        smallest_ess_turn=least.number,
        log_evidence=_finite(sum(turn.log_evidence or 0.0 for turn in turns)),
        begun_anew=[turn.number for turn in turns if turn.begun_anew],
    )


_uniform = jax.jit(lambda observation: closed_form.uniform(observation).count_probs)


def _finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None

"""A belief turn by turn through a game: what is known after each, and how good it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from unojax import cards, text
from unojax.belief import closed_form, summary
from unojax.belief.digest import Digest, digest
from unojax.belief.hands import Hands
from unojax.belief.particles import Belief
from unojax.belief.tracking import track
from unojax.belief.updaters import ParticleFilter
from unojax.game import State
from unojax.games.replay import Replay, Step
from unojax.observation import Observation


@dataclass(frozen=True)
class Turn:
    """The position after an action, and what the observer saw of it and can know. All arrays are NumPy.

    Attributes:
        ess: effective sample size that the turn left, before resampling.
        log_score: of the belief, nats: sum over the card types of ln P(number of copies that the opponent holds).
        log_evidence: log probability of what the observer saw, nats; None at the start.
        types: P(type) of the opponent by name, the likeliest first; empty under a single model.
        begun_anew: why the belief was begun anew from the position alone; empty if it was not.
    """

    number: int
    step: Step | None
    state: State
    observation: Observation
    told: Digest
    ess: float
    log_score: float
    uniform_log_score: float
    log_evidence: float | None
    begun_anew: str
    types: dict[str, float]

    @property
    def player(self) -> int:
        return int(self.observation.player)

    @property
    def truth(self) -> np.ndarray:
        """int[54]: copies of each type that the opponent holds."""
        return cards.count_types(self.state.hands[1 - self.player])

    def to_json(self, *, with_truth: bool) -> dict[str, Any]:
        """Give all of it by name. Card types that the deck does not hold are left out."""
        seen, told, step = self.observation, self.told, self.step
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
                "prob_holds": {cards.TYPE_NAMES[t]: float(told.prob_holds[t]) for t in types},
                "expected_counts": {cards.TYPE_NAMES[t]: float(told.expected_counts[t]) for t in types},
                "prob_color": dict(zip(cards.COLOR_NAMES, told.prob_color.tolist(), strict=True)),
                "prob_no_playable": float(told.prob_no_playable),
                "num_distinct": int(told.num_distinct),
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
    of the turns with the smallest ESS and of those begun anew."""

    scored: int
    log_score: float | None
    uniform_log_score: float | None
    smallest_ess: float
    smallest_ess_turn: int
    log_evidence: float | None
    begun_anew: list[int]


def turns_of(played: Replay, player: int, key: Array, filter: ParticleFilter) -> Iterator[Turn]:
    """Let a belief follow a game as `player` sees it, beginning with the start; `key` is consumed. A position from the midst of a
    game may look dealt, and is not."""
    observations, first = played.observations(player), int(played.start.step_count)
    filter = replace(filter, prior="uniform") if first > 0 else filter
    around = zip((None, *played.steps), played.states, observations, track(filter, key, observations), strict=True)
    for index, (step, state, seen, (belief, info)) in enumerate(around):
        told = jax.device_get(digest(Hands(belief.packed, belief.log_weights), seen))
        scores = jax.device_get(_count_probs(belief, seen, filter=filter))
        truth = cards.count_types(state.hands[1 - player])
        log_score, uniform_log_score = (float(summary.log_score(probs, truth)) for probs in scores)
        reason = ""
        if info is not None and info.restarted:
            reason = "no particle could explain this turn" if info.depleted else "the game outgrew its capacity"
        yield Turn(
            number=first + index,
            step=step,
            state=state,
            observation=seen,
            told=told,
            ess=float(told.ess if info is None else info.ess),
            log_score=log_score,
            uniform_log_score=uniform_log_score,
            log_evidence=None if info is None else float(info.log_evidence),
            begun_anew=reason,
            types=summary.types_by_name(belief, filter.opponent),
        )


def summarize(turns: Sequence[Turn]) -> Summary:
    """Sum up the turns of a game."""
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


@partial(jax.jit, static_argnames="filter")
def _count_probs(belief: Belief, observation: Observation, *, filter: ParticleFilter) -> tuple[Array, Array]:
    return filter.count_probs(belief, observation), closed_form.count_probs(observation)


def _finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None

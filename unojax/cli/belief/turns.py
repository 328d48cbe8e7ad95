"""A belief followed through a game: what is known after each turn, and how good it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from unojax import cards, game, text
from unojax.belief import Belief, Info, belief_init, belief_update, closed_form, resample, summary
from unojax.belief.history import Prior
from unojax.belief.opponents import OpponentModel
from unojax.game import State
from unojax.games.replay import Replay, Step
from unojax.observation import Observation
from unojax.rules import Rules


class Look(NamedTuple):
    """What is shown of a belief; see the functions of `unojax.belief.summary` of the same names. NumPy in a `Turn`.

    `uniform_count_probs` is the same as `count_probs` for the uniform closed form, which knows no history.
    """

    prob_holds: Any
    expected_counts: Any
    count_probs: Any
    prob_color: Any
    prob_no_playable: Any
    num_distinct: Any
    uniform_count_probs: Any


@dataclass(frozen=True)
class Turn:
    """The position after an action, what the observer saw of it and can know. All arrays are NumPy.

    Attributes:
        number: steps of the game so far.
        step: what happened, None at the start.
        state: the whole position.
        observation: the observer's view of it.
        look: the observer's belief.
        num_particles: N.
        ess: effective sample size, 0..N.
        log_evidence: log probability of what the observer saw, nats; None at the start.
        begun_anew: why the belief was begun anew from the position alone; empty if it was not.
    """

    number: int
    step: Step | None
    state: State
    observation: Observation
    look: Look
    num_particles: int
    ess: float
    log_evidence: float | None
    begun_anew: str

    @property
    def player(self) -> int:
        """The observer."""
        return int(self.observation.player)

    @property
    def truth(self) -> np.ndarray:
        """int[54]: copies of each type that the opponent holds."""
        return np.bincount(cards.TYPE_OF_SLOT[self.state.hands[1 - self.player]], minlength=cards.NUM_TYPES)

    @property
    def log_score(self) -> float:
        """Sum over the card types of ln P(number of copies that the opponent holds), nats.

        A share of particles is a probability with a grain of 1 / N, so the uniform belief is counted in as one more particle,
        which keeps the score finite.
        """
        n, counts, uniform = self.num_particles, np.asarray(self.look.count_probs), np.asarray(self.look.uniform_count_probs)
        return _log_score((n * np.maximum(counts, 0) + uniform) / (n + 1), self.truth)

    @property
    def uniform_log_score(self) -> float:
        """The same of the uniform closed form."""
        return _log_score(np.asarray(self.look.uniform_count_probs), self.truth)

    def to_json(self, rules: Rules, *, with_truth: bool) -> dict[str, Any]:
        """All of it by name. Card types that the deck does not hold are left out."""
        seen, look, step = self.observation, self.look, self.step
        types = np.flatnonzero(seen.rules.deck).tolist()
        holds, expected, colors = (np.asarray(a).tolist() for a in (look.prob_holds, look.expected_counts, look.prob_color))
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
                "prob_holds": {cards.TYPE_NAMES[t]: holds[t] for t in types},
                "expected_counts": {cards.TYPE_NAMES[t]: expected[t] for t in types},
                "prob_color": dict(zip(cards.COLOR_NAMES, colors, strict=True)),
                "prob_no_playable": float(look.prob_no_playable),
                "num_distinct": int(look.num_distinct),
            },
            "ess": self.ess,
            "log_evidence": _finite(self.log_evidence),
            "begun_anew": self.begun_anew or None,
        }
        if with_truth:
            record["truth"] = {
                "position": text.format_position(self.state, rules=rules),
                "hand": text.format_cards(self.state.hands[1 - self.player]),
                "log_score": self.log_score,
                "uniform_log_score": self.uniform_log_score,
            }
        return record


class Summary(NamedTuple):
    """A whole game.

    Attributes:
        scored: turns after the start at which the opponent holds a card.
        log_score, uniform_log_score: mean over them, nats; None if there are none. See `Turn.log_score`.
        smallest_ess, smallest_ess_turn: the smallest and when it was.
        log_evidence: total, nats; None if it is not finite.
        begun_anew: turns at which the belief was begun anew.
    """

    scored: int
    log_score: float | None
    uniform_log_score: float | None
    smallest_ess: float
    smallest_ess_turn: int
    log_evidence: float | None
    begun_anew: list[int]


def follow(
    played: Replay, player: int, key: Array, *, num_particles: int, opponent: OpponentModel, rules: Rules
) -> Iterator[Turn]:
    """The turns of a game as `player` sees them, beginning with the start.

    The prior is that of a deal, or for a position from the midst of a game, all hands with equal probability.

    Args:
        played: what happened.
        player: the observer.
        key: consumed by the belief.
        num_particles, opponent, rules: see `belief_init` and `belief_update`.
    """
    observations = played.observations(player, rules)
    prior: Prior = "deal" if is_deal(played.start, rules) else "uniform"
    key_start = jax.random.fold_in(key, 0)
    belief, look, ess = _begin(observations[0], key_start, num_particles=num_particles, rules=rules, prior=prior)
    start = Turn(
        number=int(played.start.step_count),
        step=None,
        state=played.start,
        observation=observations[0],
        look=jax.device_get(look),
        num_particles=num_particles,
        ess=float(ess),
        log_evidence=None,
        begun_anew="",
    )
    yield start
    for index, (step, before, after) in enumerate(zip(played.steps, observations[:-1], observations[1:], strict=True), 1):
        key_step = jax.random.fold_in(key, index)
        belief, look, info = _advance(belief, before, np.int32(step.action), after, key_step, opponent=opponent, rules=rules)
        look, info = jax.device_get((look, info))
        reason = "no particle could explain this turn" if info.depleted else "the game outgrew its capacity"
        yield Turn(
            number=start.number + index,
            step=step,
            state=step.after,
            observation=after,
            look=look,
            num_particles=num_particles,
            ess=float(info.ess),
            log_evidence=float(info.log_evidence),
            begun_anew=reason if info.restarted else "",
        )


def is_deal(state: State, rules: Rules) -> bool:
    """Whether a position is one right after the deal, or looks the same. The start card then tells a little about the hands."""
    return (
        int(state.step_count) == 0
        and int(state.last_action) == game.NO_ACTION
        and int(state.pile.sum()) == 1
        and np.asarray(state.hands).sum(-1).tolist() == [rules.hand_size] * 2
        and (rules.start_card == "any" or int(state.top_rank) < cards.WILD)
    )


def summarize(turns: Sequence[Turn]) -> Summary:
    """What is to be said of all turns together."""
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


@partial(jax.jit, static_argnames=("num_particles", "rules", "prior"))
def _begin(observation: Observation, key: Array, *, num_particles: int, rules: Rules, prior: Prior) -> tuple[Belief, Look, Array]:
    belief = belief_init(observation, key, num_particles=num_particles, rules=rules, prior=prior)
    return belief, _look(belief, observation), resample.effective_sample_size(belief.log_weights)


@partial(jax.jit, static_argnames=("opponent", "rules"))
def _advance(
    belief: Belief,
    before: Observation,
    action: Array,
    after: Observation,
    key: Array,
    *,
    opponent: OpponentModel,
    rules: Rules,
) -> tuple[Belief, Look, Info]:
    belief, info = belief_update(belief, before, action, after, key, opponent=opponent, rules=rules)
    return belief, _look(belief, after), info


def _look(belief: Belief, observation: Observation) -> Look:
    return Look(
        prob_holds=summary.prob_holds(belief),
        expected_counts=summary.expected_counts(belief),
        count_probs=summary.count_probs(belief),
        prob_color=summary.prob_color(belief),
        prob_no_playable=summary.prob_no_playable(belief, observation.color, observation.top_rank),
        num_distinct=summary.num_distinct(belief),
        uniform_count_probs=closed_form.count_probs(observation),
    )


def _log_score(count_probs: np.ndarray, truth: np.ndarray) -> float:
    return float(np.log(count_probs[np.arange(cards.NUM_TYPES), truth], dtype=np.float64).sum())


def _finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None

"""A belief along one game, turn by turn, and its quality."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import jax
import numpy as np
from jax import Array

from unojax import cards, text
from unojax.belief import closed_form, summary
from unojax.belief.summary import BeliefFigures, BeliefSummary
from unojax.belief.tracking import Look, look, track
from unojax.belief.updaters import ParticleFilter, Updater
from unojax.game import State
from unojax.games.events import event_between
from unojax.games.replay import Replay, Step
from unojax.games.seen import Seen, SeenGame
from unojax.observation import Observation

_LOOK: Final = np.uint32(2**32 - 1)
"""A random stream separate from those of the updates, one for each position."""


@dataclass(frozen=True)
class TrackedTurn:
    """The position after an action, with the observer's knowledge. All arrays are NumPy.

    Attributes:
        number: Number of the action in its game, 0 for the start.
        seen: Action as the observer saw it; None at the start.
        step, state: Action and resulting position with all cards. None if only the observer's view is known; `step` is also None
            at the start.
        observation: Observation after the action.
        belief: Summary of the belief over the other hand.
        log_score: Score of the belief, nats: sum over the card types of ln P(number of copies that the opponent holds). None if
            these are unknown.
        types: P(type) of the opponent by name, the likeliest first; empty under a single model.
    """

    number: int
    seen: Seen | None
    step: Step | None
    state: State | None
    observation: Observation
    belief: BeliefSummary
    log_score: float | None
    types: dict[str, float]

    @property
    def player(self) -> int:
        """Observer, 0 or 1."""
        return int(self.observation.player)

    @property
    def mover(self) -> int | None:
        """Player who acted, 0 or 1; None at the start."""
        return None if self.seen is None else int(self.seen.before.current_player)

    @property
    def truth(self) -> np.ndarray | None:
        """Copies of each type that the opponent holds, int[54]; None if unknown."""
        return None if self.state is None else cards.count_types(self.state.hands[1 - self.player])

    def notation(self, *, with_cards: bool) -> str | None:
        """Return the action as text, optionally with known draws of the opponent; None at the start."""
        if self.seen is None:
            return None
        if self.step is not None:
            return self.step.notation(with_cards=with_cards or self.seen.is_mine)
        return str(event_between(self.seen.before, self.seen.after))

    def fields_of_row(self, *, with_cards: bool) -> dict[str, Any]:
        """Return the fields of a `TurnRow` by name."""
        action = self.notation(with_cards=with_cards)
        return {"turn": self.number, "mover": self.mover, "action": action, "type_probs": self.types or None}


@dataclass(frozen=True)
class BeliefTurn(TrackedTurn):
    """A turn with the diagnostics of its update.

    Attributes:
        ess: Effective sample size after the turn, before resampling.
        uniform_log_score: Score of the uniform belief, nats; None as `log_score`.
        log_evidence: Log probability of the new observation, nats; None at the start.
        begun_anew: Reason why the belief restarted from the position alone; empty if it did not.
    """

    ess: float
    uniform_log_score: float | None
    log_evidence: float | None
    begun_anew: str

    def row(self, *, with_truth: bool) -> BeliefRow:
        """Return the turn as numbers and text."""
        truth = None
        if with_truth and self.state is not None and self.log_score is not None and self.uniform_log_score is not None:
            held = text.format_cards(self.state.hands[1 - self.player])
            truth = TruthRow(text.format_position(self.state), held, self.log_score, self.uniform_log_score)
        return BeliefRow(
            **self.fields_of_row(with_cards=with_truth),
            observation=ObservationRow.of(self.observation),
            belief=BeliefFigures.of(self.belief, self.observation.rules),
            ess=self.ess,
            log_evidence=_finite(self.log_evidence),
            begun_anew=self.begun_anew or None,
            truth=truth,
        )


@dataclass(frozen=True)
class TurnRow:
    """A turn as numbers and text: the start, or the position after an action.

    Attributes:
        turn: Number of actions so far, 0 at the start.
        mover: Player of the action; None at the start.
        action: Action, draws with their cards if these are known; None at the start.
        type_probs: Probabilities of the opponent types, the likeliest first; None with a single opponent model.
    """

    turn: int
    mover: int | None
    action: str | None
    type_probs: dict[str, float] | None


@dataclass(frozen=True)
class ObservationRow:
    """A player's observation as numbers and text.

    Attributes:
        current_player: Player to move next.
        top: Top card; a wild one with its declared colour, `W:B`.
        penalty: Cards that the next player must draw.
        hand: The player's own cards.
        opponent_count: Number of cards in the opponent's hand.
        deck_count: Number of cards in the deck.
        pile: Cards of the pile, including the top one.
        terminated: True if the game is over.
    """

    current_player: int
    top: str
    penalty: int
    hand: str
    opponent_count: int
    deck_count: int
    pile: str
    terminated: bool

    @classmethod
    def of(cls, seen: Observation) -> ObservationRow:
        """Return the row of an observation."""
        return cls(
            current_player=int(seen.current_player),
            top=text.format_action(int(seen.color) * cards.NUM_RANKS + int(seen.top_rank)),
            penalty=int(seen.penalty),
            hand=text.format_cards(seen.hand),
            opponent_count=int(seen.opponent_count),
            deck_count=int(seen.deck_count),
            pile=text.format_cards(seen.pile),
            terminated=bool(seen.terminated),
        )


@dataclass(frozen=True)
class TruthRow:
    """Facts hidden from the player.

    Attributes:
        position: Whole position, in the notation of `unojax.format_position`.
        hand: Opponent's cards.
        log_score: Log score of the belief, nats: sum over the card types of ln P(copies that the opponent holds).
        uniform_log_score: Log score of a belief that is uniform over unseen cards, nats.
    """

    position: str
    hand: str
    log_score: float
    uniform_log_score: float


@dataclass(frozen=True)
class BeliefRow(TurnRow):
    """A turn of `unojax belief`.

    Attributes:
        observation: The player's observation.
        belief: Figures of the belief.
        ess: Effective sample size after the turn, before resampling.
        log_evidence: Log probability of the observation, nats; None at the start, and if no hand explains it.
        begun_anew: Reason why the belief restarted from the position alone; None if it did not.
        truth: Facts hidden from the player; absent with `--hide-truth`, or if they are unknown.
    """

    observation: ObservationRow
    belief: BeliefFigures
    ess: float
    log_evidence: float | None
    begun_anew: str | None
    truth: TruthRow | None = field(metadata={"may_be_absent": True})


@dataclass(frozen=True)
class Summary:
    """Summary of a whole game.

    Attributes:
        scored: Number of scored turns: those after the start at which the opponent holds a card.
        log_score: Mean log score over these turns, nats; None without such turns.
        uniform_log_score: Mean log score of the uniform belief, nats.
        smallest_ess: Smallest effective sample size of all turns.
        smallest_ess_turn: Turn of the smallest effective sample size.
        log_evidence: Log probability of all observations, nats; None if no hand explains them.
        begun_anew: Turns at which the belief restarted.
    """

    scored: int
    log_score: float | None
    uniform_log_score: float | None
    smallest_ess: float
    smallest_ess_turn: int
    log_evidence: float | None
    begun_anew: list[int]


@dataclass(frozen=True)
class BeliefReport:
    """Results of `unojax belief`.

    Attributes:
        seed: Random seed of the game.
        belief_seed: Random seed of the belief.
        policies: Policies of player 0 and of player 1; None with `--start` or `--game`.
        player: Player whose belief it is, 0 or 1. The *opponent* below is the other player.
        particles: Number of particles of the belief.
        opponent_model: Opponent model of the belief.
        start: First position with both hands; None with `--hide-truth`, or for a record of one player's view.
        actions: All actions, separated by blanks. Draws name their cards; the opponent's are omitted with `--hide-truth`.
        turns: Start, and then one element for each action.
        summary: Summary of the game.
    """

    seed: int
    belief_seed: int
    policies: tuple[str, str] | None
    player: int
    particles: int
    opponent_model: str
    start: str | None
    actions: str
    turns: list[BeliefRow]
    summary: Summary


def seen_by(game: Replay | SeenGame, player: int) -> SeenGame:
    """Return a record as a player saw it. Raises ValueError if it is the other player's view."""
    if isinstance(game, Replay):
        return SeenGame.of(game, player)
    if player != game.player:
        raise ValueError(f"the game is recorded as player {game.player} saw it, not as player {player} did")
    return game.since_count()


def row_of(seen: SeenGame, index: int, looked: Look, *, number: int) -> dict[str, Any]:
    """Return the fields of a `TrackedTurn` at position `index` of a game."""
    state = seen.states[index] if index < len(seen.states) else None
    action = seen.seen[index - 1] if index else None
    return {
        "number": number,
        "seen": action,
        "step": None if action is None or state is None else Step(action.action, seen.states[index - 1], state),
        "state": state,
        "observation": seen.observations[index],
        "belief": looked.belief,
        "log_score": _score(looked.count_probs, state, seen.player),
        "types": dict(looked.types),
    }


def _score(count_probs: np.ndarray, state: State | None, player: int) -> float | None:
    """Score a belief by the true hand, if known."""
    return None if state is None else summary.log_score(count_probs, cards.count_types(state.hands[1 - player]))


def track_turns(game: Replay | SeenGame, player: int, key: Array, updater: Updater) -> Iterator[BeliefTurn]:
    """Track a game from the observations of `player`. Consumes `key`.

    A record of that player's view alone begins at its last count. A position in the midst of a game may look like a fresh deal;
    a particle filter then starts from the uniform prior.
    """
    seen = seen_by(game, player)
    views = seen.observations
    if isinstance(updater, ParticleFilter) and seen.steps_before > 0:
        updater = replace(updater, prior="uniform")
    for index, (view, (belief, info)) in enumerate(zip(views, track(updater, key, views, seen.hands), strict=True)):
        looked = look(updater, jax.random.fold_in(jax.random.fold_in(key, _LOOK), index), belief, view)
        row = row_of(seen, index, looked, number=seen.steps_before + index)
        reason = ""
        if info is not None and info.restarted:
            reason = "no particle could explain this turn" if info.depleted else "the game outgrew its capacity"
        yield BeliefTurn(
            **row,
            ess=float(looked.belief.ess if info is None else info.ess),
            uniform_log_score=_score(np.asarray(_uniform(view)), row["state"], player),
            log_evidence=None if info is None else float(info.log_evidence),
            begun_anew=reason,
        )


def summarize(turns: Sequence[BeliefTurn]) -> Summary:
    """Return a summary of the turns."""
    held = [turn for turn in turns if turn.seen is not None and turn.observation.opponent_count]
    scored = [turn.log_score for turn in held if turn.log_score is not None]
    uniform = [turn.uniform_log_score for turn in held if turn.uniform_log_score is not None]
    least = min(turns, key=lambda turn: turn.ess)
    return Summary(
        scored=len(scored),
        log_score=float(np.mean(scored)) if scored else None,
        uniform_log_score=float(np.mean(uniform)) if scored else None,
        smallest_ess=least.ess,
        smallest_ess_turn=least.number,
        log_evidence=_finite(sum(turn.log_evidence or 0.0 for turn in turns)),
        begun_anew=[turn.number for turn in turns if turn.begun_anew],
    )


_uniform = jax.jit(lambda observation: closed_form.uniform(observation).count_probs)


def _finite(value: float | None) -> float | None:
    """Return None for infinity, which JSON lacks."""
    return value if value is not None and math.isfinite(value) else None

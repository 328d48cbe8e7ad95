"""Review of a played game from one player's observations: win probability, belief and cost of each choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from unojax import cards
from unojax.analysis.turns import TrackedTurn, row_of, seen_by
from unojax.game import State
from unojax.games.advisor import Advisor
from unojax.games.choices import choices
from unojax.games.replay import Replay
from unojax.games.seen import SeenGame, share_of_win
from unojax.observation import Observation
from unojax.search import REVIEW_REPLICATES, check_replicates
from unojax.search.agents import SearchAgent
from unojax.search.pooling import Pooled, cost_of
from unojax.text import format_action

_GAMES: Final = 4000
"""Rollouts per win probability, over all beliefs: a standard error of at most 0.008, apart from the error of the beliefs."""


@dataclass(frozen=True)
class Choice:
    """A decision of the player.

    Attributes:
        pooled: Estimates of the plays, the best first.
        cost, error: Cost of the chosen play against the best one, as a win probability, see `cost_of`.
        best: Best action, 0..61: a draw, a pass or a challenge if optional.
    """

    pooled: Pooled
    cost: float
    error: float
    best: int

    def to_json(self) -> dict[str, Any]:
        """Return all fields by name."""
        plays = [{"action": format_action(p.action), "win": p.win, "win_error": p.win_error} for p in self.pooled.plays]
        return {"best": format_action(self.best), "cost": self.cost, "cost_error": self.error, "plays": plays}


@dataclass(frozen=True)
class ReviewedTurn(TrackedTurn):
    """The position after an action, the player's knowledge there, and the decision behind the action.

    Belief figures are means over the beliefs of all replicates.

    Attributes:
        win, win_error: Player's win probability from here, if both players continue as in the search's rollouts.
        choice: Decision behind the action; None for the other player's action, or without a choice.
    """

    win: float
    win_error: float
    choice: Choice | None

    def to_json(self) -> dict[str, Any]:
        """Return all fields by name."""
        deck = np.flatnonzero(self.observation.rules.deck).tolist()
        return {
            "turn": self.number,
            "mover": self.mover,
            "action": self.notation(with_cards=True),
            "win": self.win,
            "win_error": self.win_error,
            "belief": {cards.TYPE_NAMES[t]: float(self.belief.prob_holds[t]) for t in deck},
            "log_score": self.log_score,
            "type_probs": self.types or None,
            "choice": None if self.choice is None else self.choice.to_json(),
        }


def review(
    game: Replay | SeenGame,
    player: int,
    agent: SearchAgent,
    *,
    replicates: int = REVIEW_REPLICATES,
    seed: int = 0,
    on_status: Callable[[str], None] = lambda words: None,
) -> Iterator[ReviewedTurn]:
    """Review a game turn by turn from the start, from the observations of `player` only.

    Args:
        game: Finished or unfinished game. A record of one player's view is reviewed from its last count.
        player: 0 or 1.
        agent: Search that evaluates plays from the player's observations.
        replicates: Searches per choice, at least 4. Each has its own belief and samples, so that the errors include those of
            the beliefs.
        seed: Random seed. The same seed gives the same figures on the same device.
        on_status: Called with the current turn.

    Raises:
        ValueError: If `player` or `replicates` is out of range, no particle explains an event, or the agent can't estimate win
            probabilities (`SearchAgent.judging_wins`).
    """
    check_replicates(replicates)
    key = jax.random.key(seed, impl="threefry2x32")
    seen = seen_by(game, player)
    advisor = Advisor(agent.judging_wins(), key, num_beliefs=replicates, steps_before=seen.steps_before)
    views = seen.observations
    for index in range(len(views)):
        on_status(f"turn {index} of {len(seen.events)}")
        so_far = views[: index + 1]
        advisor.check_explained(so_far)
        row = row_of(game, seen, index, advisor.look(so_far), number=index)
        choice = None
        if index and (action := seen.seen[index - 1]).is_mine:
            choice = _choice(advisor, action.action, list(views[:index]), replicates)
        win = _result(row["state"], views[index])
        if win is None:
            estimate = advisor.win_estimate(so_far, num_games=max(_GAMES // replicates, 2))
            win = float(estimate.win_probability), float(estimate.win_error)
        yield ReviewedTurn(**row, win=win[0], win_error=win[1], choice=choice)


def _result(state: State | None, view: Observation) -> tuple[float, float] | None:
    """Return the player's points in a finished game instead of a probability."""
    if not (view.terminated or (state is not None and state.truncated)):
        return None
    return (share_of_win(view) if view.terminated else 0.5), 0.0


def _choice(advisor: Advisor, action: int, views: list[Observation], replicates: int) -> Choice | None:
    legal = choices(views[-1])
    if legal.sum() < 2:
        return None
    estimates = list(advisor.replicates(views, replicates))
    return Choice(advisor.pool(estimates, views[-1]), *cost_of(estimates, legal, action, advisor.search.prior_rollouts))

"""A played game looked back at: win probability, belief and the cost of each choice, as one player could know them."""

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
"""Games played out for a win probability, over all beliefs: a standard error of at most 0.008, besides that of the beliefs."""


@dataclass(frozen=True)
class Choice:
    """A play of the player's where there were others.

    Attributes:
        pooled: estimates of the plays, the best first.
        cost, error: of the play made against the best one, as a win probability, see `cost_of`.
        best: the best action, 0..61: a draw, a pass or a challenge where they are choices.
    """

    pooled: Pooled
    cost: float
    error: float
    best: int

    def to_json(self) -> dict[str, Any]:
        """Return all of it by name."""
        plays = [{"action": format_action(p.action), "win": p.win, "win_error": p.win_error} for p in self.pooled.plays]
        return {"best": format_action(self.best), "cost": self.cost, "cost_error": self.error, "plays": plays}


@dataclass(frozen=True)
class ReviewedTurn(TrackedTurn):
    """The position after an action, what the player could know there, and what the action was chosen from.

    Figures of the belief are means over the beliefs of all replicates.

    Attributes:
        win, win_error: how likely the player is to win from here, if both continue as in the search's rollouts.
        choice: what the action was chosen from; None if it was the other player's, or there was no choice.
    """

    win: float
    win_error: float
    choice: Choice | None

    def to_json(self) -> dict[str, Any]:
        """Return all of it by name."""
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
    """Look back at a game, turn by turn, from the start on, with what `player` saw and nothing else.

    Args:
        game: finished or not; a record of one player's view alone is looked at from its last count on.
        player: 0 or 1.
        agent: the search that values plays; it knows what the player knows.
        replicates: searches of each choice, at least 4, each with a belief and samples of its own, so that the errors of beliefs
            are in those of the figures.
        seed: the same one gives the same figures on the same device.
        on_status: told which turn it is.

    Raises:
        ValueError: If `player` or `replicates` is out of its range; if no hand of the other player explains what happened, with
            so few particles; or if the agent can't judge how likely plays are to win (`SearchAgent.judging_wins`).
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
    """The player's points where the game is over: no probability any more."""
    if not (view.terminated or (state is not None and state.truncated)):
        return None
    return (share_of_win(view) if view.terminated else 0.5), 0.0


def _choice(advisor: Advisor, action: int, views: list[Observation], replicates: int) -> Choice | None:
    legal = choices(views[-1])
    if legal.sum() < 2:
        return None
    estimates = list(advisor.replicates(views, replicates))
    return Choice(advisor.pool(estimates, views[-1]), *cost_of(estimates, legal, action, advisor.search.prior_rollouts))

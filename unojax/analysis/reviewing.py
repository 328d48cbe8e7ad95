"""Review of a game from one player's observations: win probabilities and costs of choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import jax

from unojax.analysis.turns import TrackedTurn, TurnRow, row_of, seen_by
from unojax.belief.summary import by_card
from unojax.games.advisor import Advisor, Advisors, Views
from unojax.games.choices import choices
from unojax.games.replay import Replay
from unojax.games.seen import SeenGame
from unojax.search import REVIEW_REPLICATES, check_replicates
from unojax.search.agents import SearchAgent
from unojax.search.pooling import PlayRow, cost_of
from unojax.text import format_action

_GAMES: Final = 4000
"""Rollouts per win probability, over all beliefs: a standard error of at most 0.008, apart from the error of the beliefs."""


@dataclass(frozen=True)
class Choice:
    """A decision of the player as numbers and text.

    Attributes:
        best: Best play.
        cost: Win probability of the best play minus that of the chosen one, see `unojax.search.pooling.cost_of`.
        cost_error: Standard error of `cost`.
        plays: Legal plays, the best first.
    """

    best: str
    cost: float
    cost_error: float
    plays: list[PlayRow]


@dataclass(frozen=True)
class ReviewedTurn(TrackedTurn):
    """The position after an action, the player's knowledge, and the decision behind the action.

    Belief figures are means over the beliefs of all replicates.

    Attributes:
        win, win_error: The player's win probability if both continue as in the search's rollouts, and its standard error.
        choice: Decision behind the action; None for the other player's action, or without a choice.
    """

    win: float
    win_error: float
    choice: Choice | None

    @property
    def row(self) -> ReviewRow:
        """Turn as numbers and text."""
        return ReviewRow(
            **self.fields_of_row(with_cards=True),
            win=self.win,
            win_error=self.win_error,
            belief=by_card(self.belief.prob_holds, self.observation.rules),
            log_score=self.log_score,
            choice=self.choice,
        )


@dataclass(frozen=True)
class ReviewRow(TurnRow):
    """A turn of `unojax review`.

    Attributes:
        win: The player's win probability if both continue as in the search's rollouts.
        win_error: Standard error of `win`.
        belief: Probability that the other player holds the card, for each card of the deck.
        log_score: Log score of the belief, nats: sum over the card types of ln P(copies that the other player holds); None in a
            one-sided record.
        choice: Alternatives of the action; None if the other player moved, or there was no choice.
    """

    win: float
    win_error: float
    belief: dict[str, float]
    log_score: float | None
    choice: Choice | None


@dataclass(frozen=True)
class ReviewReport:
    """Results of `unojax review`.

    Attributes:
        complete: False after Ctrl-C; the turns are then those reviewed before it.
        players: Players in seats 0 and 1: `person`, or the spec of an agent.
        player: Player whose choices are reviewed, 0 or 1.
        agent: Spec of the search that evaluates the plays.
        replicates: Number of searches of each choice.
        seed: Random seed of the belief and of the search.
        result: Result of the saved game: `0` or `1` won, `=` drawn, `*` unfinished, `T` truncated.
        choices: Number of the player's plays that had alternatives.
        total_cost: Sum of the costs of these plays, win probability.
        log_score: Mean log score of the beliefs, nats, over the turns after the start at which the other player holds a card;
            None without such turns.
        turns: Start, and then one element for each action.
    """

    complete: bool
    players: tuple[str, str]
    player: int
    agent: str
    replicates: int
    seed: int
    result: str
    choices: int
    total_cost: float
    log_score: float | None
    turns: list[ReviewRow]


def review(
    game: Replay | SeenGame,
    player: int,
    agent: SearchAgent,
    *,
    replicates: int = REVIEW_REPLICATES,
    seed: int = 0,
    on_status: Callable[[str], None] = lambda words: None,
) -> Iterator[ReviewedTurn]:
    """Review a game turn by turn, from the observations of `player` only.

    Args:
        game: Finished or unfinished game. A record of one player's view is reviewed from its last count.
        player: 0 or 1.
        agent: Search that evaluates plays.
        replicates: Searches per choice, at least 4, each with its own belief, so that errors include those of beliefs.
        seed: Random seed; it gives the same figures on the same device.
        on_status: Called with the current turn.

    Raises:
        ValueError: If `player` or `replicates` is out of range, no particle explains an event, or the agent can't estimate win
            probabilities (`SearchAgent.judging_wins`).
    """
    check_replicates(replicates)
    key = jax.random.key(seed, impl="threefry2x32")
    seen = seen_by(game, player)
    advisors = Advisors(agent.judging_wins(), key, num_beliefs=replicates)
    advisor, so_far = advisors.at(seen.back(len(seen.events)))
    for index in range(len(seen.observations)):
        number = seen.steps_before + index
        on_status(f"turn {number} of {seen.num_steps}")
        advisor_before, before = advisor, so_far
        advisor, so_far = advisors.at(seen.back(len(seen.events) - index))
        advisor.check_explained(so_far)
        row = row_of(seen, index, advisor.look(so_far), number=number)
        choice = None
        if index and (action := seen.seen[index - 1]).is_mine:
            choice = _choice(advisor_before, action.action, before, replicates)
        estimate = advisor.win_estimate(so_far, num_games=max(_GAMES // replicates, 2))
        win, error = float(estimate.win_probability), float(estimate.win_error)
        yield ReviewedTurn(**row, win=win, win_error=error, choice=choice)


def _choice(advisor: Advisor, action: int, views: Views, replicates: int) -> Choice | None:
    legal = choices(views[-1])
    if legal.sum() < 2:
        return None
    estimates = list(advisor.replicates(views, replicates))
    cost, error, best = cost_of(estimates, legal, action, advisor.search.prior_rollouts)
    plays = advisor.pool(estimates, views[-1]).plays
    rows = [PlayRow(play.action, play.win, play.win_error) for play in plays]
    return Choice(format_action(best), cost, error, rows)

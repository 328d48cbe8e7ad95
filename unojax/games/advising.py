"""Advice for a position that a person describes: `advise`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import jax

from unojax import cards
from unojax.belief.summary import BeliefFigures, BeliefSummary
from unojax.decks import is_int
from unojax.games import question
from unojax.games.advisor import Advisors, UnexplainedError
from unojax.games.choices import choices
from unojax.games.seen import ImpossibleActionError, SeenGame, play_seen, read_seen
from unojax.rules import Rules, as_rules
from unojax.search import ADVISE_REPLICATES, DEFAULT_SEARCH, MIN_REPLICATES
from unojax.search.agents import SearchAgent
from unojax.search.pooling import Pooled, PooledPlay
from unojax.specs import parse_agent
from unojax.text import format_action, format_observation, make_observation

COMPILING: Final = "compiling"
"""Status passed to `on_status`."""


@dataclass(frozen=True)
class Advised:
    """The advised play of a position, and its reasons.

    Attributes:
        game: The game up to the position, as the player saw it.
        belief: Summary of the belief over the other hand.
        pooled: Estimates of the plays, the best first. None if the player can only draw, or the opponent is to move.
        agent: The search.
        types: P(type) of the opponent by name, the likeliest first, under a type mixture.
        seconds: Search time without compiling.
    """

    game: SeenGame
    belief: BeliefSummary
    pooled: Pooled | None
    agent: SearchAgent
    types: Mapping[str, float]
    seconds: float

    @property
    def play(self) -> str:
        """Advised action as text: `R5`, `W:B`, `draw`; empty if the opponent is to move."""
        if not self.game.end.is_my_turn:
            return ""
        return format_action(cards.DRAW) if self.pooled is None else self.pooled.recommended

    @property
    def wins(self) -> dict[str, tuple[float, float]]:
        """Win probability and standard error of each play, the best first."""
        return {} if self.pooled is None else {play.action: (play.win, play.win_error) for play in self.pooled.plays}

    def report(self, *, seed: int, agent: str) -> AdviceReport:
        """Return the advice as numbers and text, with the requested seed and spec."""
        pooled, seen = self.pooled, self.game.end
        plays = [] if pooled is None else list(pooled.plays)
        figures = BeliefFigures.of(self.belief, seen.rules)
        return AdviceReport(
            seed=seed,
            player=int(seen.player),
            agent=agent,
            start=format_observation(self.game.observations[0]),
            history=self.game.notation,
            observation=format_observation(seen),
            belief=AdvisedBelief(**vars(figures), type_probs=dict(self.types) or None),
            forced=len(plays) <= 1,
            recommended=self.play or None,
            policy_play=None if pooled is None else pooled.own,
            plays=plays,
            replicates=0 if pooled is None else pooled.replicates,
            seconds=self.seconds,
        )

    def __repr__(self) -> str:
        plays = ", ".join(f"{name} {100 * win:.1f} ± {100 * error:.1f} %" for name, (win, error) in self.wins.items())
        advice = f"play {self.play}" if self.play else "the opponent is to move"
        return advice + (f"; wins: {plays}" if plays else "")


@dataclass(frozen=True)
class AdvisedBelief(BeliefFigures):
    """Figures of a belief and of the opponent types.

    Attributes:
        type_probs: Probabilities of the opponent types, the likeliest first; None with a single opponent model.
    """

    type_probs: dict[str, float] | None


@dataclass(frozen=True)
class AdviceReport:
    """Results of `unojax advise`.

    Attributes:
        seed: Random seed of the belief and of the search.
        player: Advised player, 0 or 1. The *opponent* below is the other player.
        agent: Spec of the search.
        start: First observation of the player, in the notation of `unojax.format_observation`.
        history: Actions since then, separated by blanks.
        observation: Current observation of the player.
        belief: Figures of the belief.
        forced: True if there is one legal action.
        recommended: Recommended action; None if the other player is to move.
        policy_play: Play of the search's rollout policy; None if the player can only draw, which needs no search.
        plays: Legal plays, the best first; empty if the player can only draw, or the other player is to move.
        replicates: Number of pooled searches.
        seconds: Search time after compilation, s.
    """

    seed: int
    player: int
    agent: str
    start: str
    history: str
    observation: str
    belief: AdvisedBelief
    forced: bool
    recommended: str | None
    policy_play: str | None
    plays: list[PooledPlay]
    replicates: int
    seconds: float


def advise(
    position: str | None = None,
    *,
    hand: str | None = None,
    top: str | None = None,
    opponent: int | None = None,
    pile: str = "",
    penalty: int | str = 0,
    opponent_begins: bool = False,
    history: str = "",
    player: int | None = None,
    agent: str = DEFAULT_SEARCH,
    replicates: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    rules: Rules | str = Rules(),
) -> Advised:
    """Return the advised play and each play's win probability, from the player's observations.

        unojax.advise(hand="R1 RS W", top="R0", opponent=7)

    Args:
        position: One player's view, as in `unojax.parse_observation`, or a whole position, of which one view is used.
        hand, top, opponent, pile, penalty, opponent_begins: Alternative to `position`, see `unojax.text.make_observation`.
        history: Later events in the notation of `unojax.games.events`: `R5 W:B draw(R5,W) draw`.
        player: Player whose view of a whole position is used. None: the player to move at the end.
        agent: Spec of a search, `mc` or `tree`.
        replicates: Number of independent searches to pool. None: 32, or as many as fit in `seconds`.
        seconds: Search time without compiling, instead of `replicates`.
        seed: Random seed; it gives the same advice on the same device.
        rules: Rules of the game, or the name of a preset.

    Raises:
        ValueError: If an argument can't be read, or the game is over.
        ImpossibleActionError: If an action of the history is impossible.
    """
    words: dict[str, Any] = {"hand": hand, "top": top, "opponent": opponent, "pile": pile, "penalty": penalty}
    words["opponent_begins"] = opponent_begins
    rules = as_rules(rules)
    game = read_game(position, words, history=history, player=player, rules=rules)
    *_, advised = improve(game, read_search(agent, rules), replicates=replicates, seconds=seconds, seed=seed)
    return advised


def read_game(position: str | None, words: Mapping[str, Any], *, history: str, player: int | None, rules: Rules) -> SeenGame:
    """Return the game up to a position, or up to one in the words of `make_observation`; arguments and errors as in `advise`."""
    question.check_words(position, words)
    if position is not None:
        game = read_seen(position, history, player, rules)
    else:
        game = play_seen(make_observation(**words, rules=rules), history)
    if game.end.terminated:
        raise ValueError("history: the game is over at its end; there is nothing to advise")
    return game


def read_search(spec: str, rules: Rules) -> SearchAgent:
    """Return a search. Raises ValueError if the agent can't estimate win probabilities."""
    agent = parse_agent(spec, rules=rules)
    if not isinstance(agent, SearchAgent):
        raise ValueError(f"agent {spec!r} has no estimates; choose a search, mc or tree")
    return agent.judging_wins()


def improve(
    game: SeenGame,
    search: SearchAgent,
    *,
    replicates: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    on_status: Callable[[str], None] = lambda words: None,
) -> Iterator[Advised]:
    """Yield improving advice for the end of a game, after each replicate.

    Arguments and errors are those of `advise`; `on_status` receives the current status.
    """
    question.check_effort(replicates, seconds)
    if not (is_int(seed) and 0 <= seed < 2**32):
        raise ValueError(f"seed must be a whole number in [0, {2**32 - 1}], got {seed!r}")
    advisor, views = Advisors(search, jax.random.key(seed, impl="threefry2x32")).at(game)
    has_choice = bool(game.end.is_my_turn) and choices(game.end).any()
    on_status(COMPILING)
    if has_choice:
        # Compile the search while the belief tracks the game.
        ThreadPoolExecutor(1, "compiling").submit(advisor.compile_search, game.end)
    try:
        for number in range(len(views)):
            advisor.check_explained(views[: number + 1])
            if number + 1 < len(views):
                on_status(f"belief: action {game.num_settled + number + 1} of {len(game.actions)}")
    except UnexplainedError as error:
        raise ImpossibleActionError(
            game.num_settled + error.number,
            f"no hand of player {1 - int(game.end.player)} explains this after what came before; check the history, or take "
            f"more particles than {search.updater.num_particles}",
        ) from None
    looked = advisor.look(views)
    if not has_choice:
        yield Advised(game, looked.belief, None, search, looked.types, 0.0)
        return
    number = None if seconds is not None else replicates or ADVISE_REPLICATES
    on_status(COMPILING)
    goal = "" if number is None else f" of {number}"
    with closing(advisor.replicates(views, number)) as searched:
        began, estimates = time.perf_counter(), []
        on_status(f"search: replicate 1{goal}")
        for estimate in searched:
            estimates.append(estimate)
            if len(estimates) != number:
                on_status(f"search: replicate {len(estimates) + 1}{goal}")
            spent = time.perf_counter() - began
            if len(estimates) >= MIN_REPLICATES:
                yield Advised(game, looked.belief, advisor.pool(estimates, game.end), search, looked.types, spent)
                if seconds is not None and spent * (1 + 1 / len(estimates)) > seconds:
                    break

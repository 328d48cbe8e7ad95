"""A played game looked back at: win probability, belief and the cost of each choice, as one player could know them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import cards
from unojax.belief import summary
from unojax.belief.digest import Digest, digest
from unojax.belief.hands import Hands
from unojax.belief.tracking import track
from unojax.belief.updaters import filled_count_probs
from unojax.games.replay import Replay, Step
from unojax.games.seen import choices
from unojax.observation import Observation
from unojax.search import REVIEW_ROUNDS, check_rounds
from unojax.search.agents import Remembered, SearchAgent
from unojax.search.outlook import win_probability
from unojax.search.pooling import Pooled, cost_of, pool, search_round
from unojax.text import format_action

_GAMES: Final = 4000
"""Games played out for a win probability, over all rounds: a standard error of at most 0.008, besides that of the beliefs."""
_FOLLOW, _HANDS, _WIN, _SEARCH, _TURN = range(5)


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
        """Give all of it by name."""
        plays = [{"action": format_action(p.action), "win": p.win, "win_error": p.win_error} for p in self.pooled.plays]
        return {"best": format_action(self.best), "cost": self.cost, "cost_error": self.error, "plays": plays}


@dataclass(frozen=True)
class ReviewedTurn:
    """The position after an action, and what the player could know there. Arrays are NumPy.

    Attributes:
        number: of the action in this game, 0 for the start.
        step: the action; None at the start.
        observation: of the player, after it.
        win, win_error: how likely the player is to win from here, if both go on as in the search's rollouts.
        told: figures of the belief over the other hand, means over the beliefs of all rounds.
        log_score: of the belief, nats: sum over the card types of ln P(copies that the other player holds).
        types: P(type) of the other player by name, the likeliest first; empty where the search takes it for a single model.
        choice: what the action was chosen from; None if it was the other player's, or there was no choice.
    """

    number: int
    step: Step | None
    observation: Observation
    win: float
    win_error: float
    told: Digest
    log_score: float
    types: dict[str, float]
    choice: Choice | None

    def to_json(self) -> dict[str, Any]:
        """Give all of it by name."""
        step, deck = self.step, np.flatnonzero(self.observation.rules.deck).tolist()
        return {
            "turn": self.number,
            "mover": None if step is None else step.mover,
            "action": None if step is None else step.notation(with_cards=True),
            "win": self.win,
            "win_error": self.win_error,
            "belief": {cards.TYPE_NAMES[t]: float(self.told.prob_holds[t]) for t in deck},
            "log_score": self.log_score,
            "type_probs": self.types or None,
            "choice": None if self.choice is None else self.choice.to_json(),
        }


def review(
    game: Replay,
    player: int,
    agent: SearchAgent,
    *,
    rounds: int = REVIEW_ROUNDS,
    seed: int = 0,
    on_status: Callable[[str], None] = lambda words: None,
) -> Iterator[ReviewedTurn]:
    """Look back at a game, turn by turn, from the start on, with what `player` saw and nothing else.

    Args:
        game: finished or not.
        player: 0 or 1.
        agent: the search that values plays; it knows what the player knows.
        rounds: searches of each choice, at least 4, each with a belief and samples of its own.
        seed: the same one gives the same figures on the same device.
        on_status: told which turn it is.

    Raises:
        ValueError: `player` or `rounds` is out of its range; no hand of the other player explains what happened, with so few
            particles; or the agent can't judge how likely plays are to win (`SearchAgent.judging_wins`).
    """
    check_rounds(rounds)
    agent = agent.judging_wins()
    key = jax.random.key(seed, impl="threefry2x32")
    views = game.observations(player)
    # Each round has a belief of its own, so that the errors of beliefs are in those of the figures.
    keys = [jax.random.fold_in(jax.random.fold_in(key, _FOLLOW), number) for number in range(rounds)]
    beliefs = zip(*(_beliefs(agent, one, views) for one in keys), strict=True)
    before: tuple[Observation, list[Remembered]] | None = None
    for number, (seen, known) in enumerate(zip(views, beliefs, strict=True)):
        on_status(f"turn {number} of {len(game.steps)}")
        here = jax.random.fold_in(jax.random.fold_in(key, _TURN), number)
        memories = [Remembered(one, jnp.int32(int(game.start.step_count) + number)) for one in known]
        step = game.steps[number - 1] if number else None
        told, probs = _mean([_look(agent, k, m, seen) for k, m in zip(_split(here, _HANDS, rounds), memories, strict=True)])
        truth = cards.count_types(game.states[number].hands[1 - player])
        choice = None
        if step is not None and step.mover == player and before is not None:
            choice = _choice(agent, step.action, *before, _split(here, _SEARCH, rounds))
        win = _result(game, number, player) or _win_of(agent, memories, seen, _split(here, _WIN, rounds))
        yield ReviewedTurn(number, step, seen, *win, told, float(summary.log_score(probs, truth)), _types(agent, known), choice)
        before = seen, memories


def _split(key: Array, purpose: int, number: int) -> Array:
    return jax.random.split(jax.random.fold_in(key, purpose), number)


def _mean(rounds: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *jax.device_get(rounds))


def _beliefs(agent: SearchAgent, key: Array, views: list[Observation]) -> Iterator[Any]:
    """Return the agent's belief at each position."""
    updater = agent.updater
    for number, (belief, info) in enumerate(track(updater, key, views)):
        if info is not None and info.depleted:
            other = 1 - int(views[0].player)
            raise ValueError(
                f"turn {number}: no hand of player {other} explains it among {updater.num_particles} particles; take more"
            )
        yield belief


def _types(agent: SearchAgent, known: Sequence[Any]) -> dict[str, float]:
    """Average P(type) of the other player over beliefs; the likeliest first."""
    found = [agent.updater.types(belief) for belief in known]
    means = {name: float(np.mean([types[name] for types in found])) for name in found[0]}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _result(game: Replay, number: int, player: int) -> tuple[float, float] | None:
    """The player's points where the game is over: no probability any more."""
    state = game.states[number]
    if not (state.terminated or state.truncated):
        return None
    return (0.5 if int(state.winner) < 0 else float(int(state.winner) == player)), 0.0


def _choice(agent: SearchAgent, action: int, seen: Observation, memories: list[Remembered], keys: Array) -> Choice | None:
    legal = choices(seen)
    if legal.sum() < 2:
        return None
    searched = [search_round(k, m, seen, legal, agent=agent) for k, m in zip(keys, memories, strict=True)]
    rounds, prior = jax.device_get(searched), agent.prior_rollouts
    return Choice(pool(rounds, legal, agent.keep, prior), *cost_of(rounds, legal, action, prior))


def _win_of(agent: SearchAgent, memories: list[Remembered], seen: Observation, keys: Array) -> tuple[float, float]:
    """Average the win probability over the beliefs, with its standard error from the differences between them."""
    num_games = max(_GAMES // len(memories), 2)
    wins = [_win(agent, num_games, k, m, seen) for k, m in zip(keys, memories, strict=True)]
    found = np.asarray(jax.device_get(wins), float)
    return float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found)))


@partial(jax.jit, static_argnums=0)
def _look(agent: SearchAgent, key: Array, memory: Remembered, seen: Observation) -> tuple[Digest, Array]:
    hands: Hands = agent.hands(key, memory, seen)
    return digest(hands, seen), filled_count_probs(hands, seen)


@partial(jax.jit, static_argnums=(0, 1))
def _win(agent: SearchAgent, num_games: int, key: Array, memory: Remembered, seen: Observation) -> Array:
    return win_probability(key, agent, memory, seen, num_samples=num_games)[0]

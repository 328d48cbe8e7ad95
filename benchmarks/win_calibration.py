"""Calibration of the win probabilities in boards, advice and reviews.

Two agents play games. An adviser has the view of player 0 and tracks the belief over the opponent's hand and type. At every
eighth step, its win probability of player 0 (`unojax.search.win_estimate`) is compared with the result of the game. A drawn game
is half a win. Games are independent, and standard errors are over games.

If both agents are policies, a position's result is the share of games won in rollouts of these policies from its true state. This
share has the mean of the result without the luck of later draws, so that a sixteenth of the games gives the same errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from benchmarks import harness
from benchmarks.harness import Config, Task
from unojax import agents, game
from unojax.agents import Agent, PolicyAgent
from unojax.analysis.estimates import estimate_ratio
from unojax.games.advising import read_search
from unojax.observation import observe
from unojax.policies import PackedPolicy
from unojax.rules import Rules, as_rules
from unojax.search import ADVISER_MODEL
from unojax.search.agents import SearchAgent, monte_carlo
from unojax.search.win_estimate import win_probability
from unojax.specs import parse_agent

_EVERY: Final = 8
"""Steps between two judged positions."""
_BATCH: Final = 64
"""Number of games in a program."""
_START, _SAY, _STEP, _ACT, _UPDATE, _ADVISE, _JUDGE = range(7)


@harness.benchmark(
    "win_calibration",
    agents=("linear", "linear"),
    decks=("default", "official", "house"),
    models=(ADVISER_MODEL,),
    games=400,
    particles=(256,),
    rollouts=400,
    max_steps=160,
    seed=1,
)
def win_calibration(config: Config) -> Iterator[Task]:
    """Predicted win probabilities in games of two agents against the results, by rules and by opponent model of the adviser."""
    if len(config.agents) != 2:
        raise ValueError(f"--agents must be two, player 0 and player 1, got {len(config.agents)}")
    if config.games < 2:
        raise ValueError("--games must be at least 2, from which standard errors come")
    if config.rollouts < 2:
        raise ValueError("--rollouts must be at least 2, from which standard errors come")
    for name in config.decks:
        as_rules(name)
        for model in config.models:
            settings = {"rules": name, "model": model, **config.settings("agents", "games", "particles", "rollouts", "seed")}
            yield Task(settings, partial(measure, config, name, model))


def measure(config: Config, rules: str, model: str) -> dict[str, Any]:
    """Compare predictions with results, in all and by tenths."""
    said = play(config, as_rules(rules), f"mc:particles={config.particles[0]},model={model}")
    total = np.where(said.counted, said.predicted - said.result, 0.0).sum(-1)
    found = harness.calibration(said.predicted, said.result, said.counted)
    return {
        "positions": int(said.counted.sum()),
        "surplus": harness.estimate(estimate_ratio(total, said.counted.sum(-1))),
        "tenths": {f"said {one['predicted']:.0%}": f"won {one['observed']:.1%}" for one in found["bins"]},
        **found,
    }


class Said(NamedTuple):
    """Win probabilities of player 0 in G games, at S positions of each.

    Attributes:
        counted: bool[G, S] True if the game reached the position and its result is known: by rollouts, or because the game ended
            within `max_steps`.
        predicted: float[G, S] predicted probability.
        result: float[G, S] share of rollouts won from the true state; without them 1 for a win of player 0, 0 for a loss, 1/2 for
            a drawn game.
    """

    counted: np.ndarray
    predicted: np.ndarray
    result: np.ndarray


def play(config: Config, rules: Rules, adviser: str) -> Said:
    """Play the games, and predict a win of player 0 at their positions."""
    search = read_search(adviser, rules)
    players = tuple(parse_agent(spec, rules=rules) for spec in config.agents)
    play_one = partial(_one_game, config=config, rules=rules, search=search, players=players, judge=_judge(players, rules))
    program = jax.jit(partial(lax.map, play_one))
    parts = []
    for first in range(0, config.games, _BATCH):
        numbers = jnp.arange(first, first + _BATCH)
        keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(config.seed)))(numbers)
        parts.append(jax.device_get(program(keys)))
    predicted, judged, winner, is_over = (np.concatenate(field)[: config.games] for field in zip(*parts, strict=True))
    result = np.where(winner < 0, 0.5, (winner == 0).astype(float))
    counted = ~np.isnan(predicted) & (~np.isnan(judged) | is_over[:, None])
    result = np.where(np.isnan(judged), result[:, None], judged)
    return Said(counted, np.where(counted, predicted, 0.5), result)


def _judge(players: tuple[Agent, ...], rules: Rules) -> SearchAgent | None:
    """Return a search whose rollouts from the true state are games of the players; None unless both are policies."""
    policies = [agent.policy.name for agent in players if type(agent) is PolicyAgent and isinstance(agent.policy, PackedPolicy)]
    if len(policies) < 2:
        return None
    return monte_carlo(belief="truth", policy=policies[0], opponent=policies[1], rules=rules).counting_wins()


class _Game(NamedTuple):
    """A game in progress: position, memories of the players and of the adviser, float32[S, 2] predictions and results, steps."""

    state: game.State
    memories: tuple[Any, ...]
    advice: Any
    said: Array
    step: Array


def _one_game(
    key: Array, *, config: Config, rules: Rules, search: SearchAgent, players: tuple[Agent, ...], judge: SearchAgent | None
) -> tuple[Array, Array, Array, Array]:
    """Play a game: float32[S] predictions and results by rollouts, NaN if missing; the winner, int8[], and whether it ended."""

    def key_of(step: Array | int, purpose: int, player: int = 0) -> Array:
        return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(key, step), purpose), player)

    def say(now: _Game) -> Array:
        seen, wins = observe(now.state, 0), partial(win_probability, num_samples=config.rollouts)
        said, _ = wins(key_of(now.step, _SAY), search, now.advice, seen)
        if judge is None:
            return jnp.stack([said, jnp.nan])
        return jnp.stack([said, wins(key_of(now.step, _JUDGE), judge, judge.reveal(now.advice, now.state, 0), seen)[0]])

    def one_step(now: _Game) -> _Game:
        is_due = (now.step > 0) & (now.step % _EVERY == 0)
        said = lax.cond(is_due, lambda now: now.said.at[now.step // _EVERY - 1].set(say(now)), lambda now: now.said, now)
        before, mover = [observe(now.state, player) for player in range(2)], now.state.current_player

        def ask(player: int) -> Array:
            mask = before[player].legal_mask
            return agents.act(players[player], key_of(now.step, _ACT, player), now.memories[player], before[player], mask)

        action = lax.cond(mover == 0, lambda: ask(0), lambda: ask(1))
        state = game.step(now.state, action, key_of(now.step, _STEP))
        after = [observe(state, player) for player in range(2)]
        memories = tuple(
            agents.update(agent, key_of(now.step, _UPDATE, player), now.memories[player], before[player], action, after[player])
            for player, agent in enumerate(players)
        )
        advice = search.update(key_of(now.step, _ADVISE), now.advice, before[0], action, after[0])
        return _Game(state, memories, advice, said, now.step + 1)

    state = game.init(key_of(0, _START), rules=rules)
    first = [observe(state, player) for player in range(2)]
    memories = tuple(agent.init(key_of(0, _UPDATE, player + 2), first[player]) for player, agent in enumerate(players))
    advice = search.init(key_of(0, _ADVISE, 1), first[0])
    said = jnp.full(((config.max_steps - 1) // _EVERY, 2), jnp.nan)
    begun = _Game(state, memories, advice, said, jnp.int32(0))
    end = lax.while_loop(lambda now: ~now.state.is_over & (now.step < config.max_steps), one_step, begun)
    return end.said[:, 0], end.said[:, 1], end.state.winner, end.state.is_over

"""Calibration of the win probabilities in boards, advice and reviews.

Two agents play duplicate deals. An adviser has the first agent's view and tracks the belief over the opponent's hand and type.
At every eighth step, its win probability of that agent (`unojax.search.win_estimate`) is compared with the result of the game. A
drawn game is half a win. Deals are independent, and standard errors are over deals, each of two games.

If both agents are policies, a position's result is the share of games won in rollouts of these policies from its true state. This
share has the mean of the result without the luck of later draws, so that a sixteenth of the games gives the same errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks import harness
from benchmarks.harness import Config, Task
from unojax.agents import Agent, Memory, PolicyAgent, reveal
from unojax.analysis.estimates import estimate_ratio
from unojax.arena.lanes import MatchLanes, Seats, Side, chunk_of, fold, play_steps, results
from unojax.device.batching import for_chosen
from unojax.games.advising import read_search
from unojax.observation import observe_packed
from unojax.policies import PackedPolicy
from unojax.rules import Rules, as_rules
from unojax.search import ADVISER_MODEL
from unojax.search.agents import SearchAgent, monte_carlo
from unojax.search.win_estimate import win_probability
from unojax.specs import parse_agent

_EVERY: Final = 8
"""Steps between two judged positions."""
_BATCH: Final = 64
"""Number of deals in a program."""
_PREDICT: Final = 4
"""Purpose of a deal's key, beside those in `unojax.arena.lanes`."""


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
        raise ValueError(f"--agents must be two, the advised one and its opponent, got {len(config.agents)}")
    if harness.even(config.games) < 4:
        raise ValueError("--games must be at least 4, from whose deals standard errors come")
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
    """Win probabilities of the first agent in D deals, at S positions of their two games.

    Attributes:
        counted: bool[D, S] True if the game reached the position and its result is known: by rollouts, or because the game ended
            within `max_steps`.
        predicted: float[D, S] predicted probability.
        result: float[D, S] share of rollouts won from the true state; without them 1 for a win, 0 for a loss, 1/2 for a drawn
            game.
    """

    counted: np.ndarray
    predicted: np.ndarray
    result: np.ndarray


def play(config: Config, rules: Rules, adviser: str) -> Said:
    """Play the games, and predict a win of the first agent at their positions."""
    search, agents = read_search(adviser, rules), [parse_agent(spec, rules=rules) for spec in config.agents]
    predict = partial(_predict, search=search, judge=_judge(agents, rules), num_samples=config.rollouts)
    parts = []
    for first in range(0, config.games // 2, _BATCH):
        pairs = np.arange(first, min(first + _BATCH, config.games // 2))
        # The adviser observes the first agent's games.
        sides = [Side(agents[0], 0), Side(agents[1], 1), Side(search, 0)]
        said = np.full((2 * _BATCH, (config.max_steps - 1) // _EVERY, 2), np.nan)
        steps = play_steps(jax.random.key(config.seed), sides, pairs, rules=rules, batch_size=2 * _BATCH)
        step = None
        for number, step in enumerate(islice(steps, config.max_steps)):
            if number and number % _EVERY == 0:
                said[:, number // _EVERY - 1] = predict(sides[2].memory, step.seats, step.before)
        assert step is not None, "one step at least"
        winner, is_over = jax.device_get((results(step.after)[0], step.after.state.is_over))
        won = np.where(winner < 0, 0.5, winner == np.asarray(step.seats.game))
        parts.append([of_games[: 2 * len(pairs)] for of_games in (said, won, is_over)])
    said, won, is_over = map(np.concatenate, zip(*parts, strict=True))
    predicted, judged = said[..., 0], said[..., 1]
    counted = ~np.isnan(predicted) & (~np.isnan(judged) | is_over[:, None])
    result = np.where(np.isnan(judged), won[:, None], judged)
    fields = counted, np.where(counted, predicted, 0.5), result
    return Said(*(of_games.reshape(config.games // 2, -1) for of_games in fields))


def _judge(players: list[Agent], rules: Rules) -> SearchAgent | None:
    """Return a search whose rollouts from the true state are games of the players; None unless both are policies."""
    policies = [agent.policy.name for agent in players if type(agent) is PolicyAgent and isinstance(agent.policy, PackedPolicy)]
    if len(policies) < 2:
        return None
    return monte_carlo(belief="truth", policy=policies[0], opponent=policies[1], rules=rules).counting_wins()


@partial(jax.jit, static_argnames=("search", "judge", "num_samples"))
def _predict(
    memory: Memory, seats: Seats, lanes: MatchLanes, *, search: SearchAgent, judge: SearchAgent | None, num_samples: int
) -> Array:
    """Return the adviser's and the judge's win probabilities of the first agent, float32[G, 2].

    NaN in a finished game, and without a judge.
    """

    def one(memory: Memory, seats: Seats, lanes: MatchLanes) -> Array:
        state, player = lanes.state, seats.game
        keys = jax.random.split(fold(seats.key, _PREDICT, player, state.step_count))
        seen, wins = observe_packed(state, player), partial(win_probability, num_samples=num_samples)
        said, _ = wins(keys[0], search, memory, seen)
        if judge is None:
            return jnp.stack([said, jnp.nan])
        return jnp.stack([said, wins(keys[1], judge, reveal(judge, memory, state, player), seen)[0]])

    live = ~lanes.state.is_over
    nothing = jnp.full((len(live), 2), jnp.nan)
    return for_chosen(live, chunk_of(len(live)), lambda _, *chunk: jax.vmap(one)(*chunk), (memory, seats, lanes), nothing)

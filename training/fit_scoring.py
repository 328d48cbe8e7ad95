"""Fit the weights of the scoring policies by approximate policy iteration on rollouts.

    python -m training.fit_scoring linear --json linear.json
    python -m training.fit_scoring lookahead --json lookahead.json

Each iteration lets the present policy play against itself, picks decisions from its games, and plays every legal action there to
the end with that policy (`unojax.search.rollouts`), from the true position: over many positions what is hidden averages out. The
new weights are the least-squares fit of the points to the returns, both less their mean over the actions of the position, since
only differences within a position matter. The next policy takes the play with the most points (Lagoudakis and Parr 2003, on
rollouts as in Tesauro and Galperin 1996).

The last weights are then polished for what counts, the win rate, by the cross-entropy method (Rubinstein 1999): candidates from a
normal distribution play the same deals against uniform play, the best simple rule, and the weights before the polish; the
distribution moves towards the best quarter.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import Array
from rich.console import Console

from unojax import game, static
from unojax.files import write_whole
from unojax.game import State
from unojax.observation import observe
from unojax.policies import POLICIES, Policy
from unojax.policies.scoring import WEIGHT_NAMES, LinearPolicy, LookaheadPolicy
from unojax.record import play_game
from unojax.rules import Rules
from unojax.search.rollouts import list_arms, play_out
from unojax.simulation import simulate
from unojax.static import Skeleton

_RULES: Final = Rules()
_LANES: Final = 2048
_POLISH_STEP: Final = 0.03
"""Of a weight, as a standard deviation in returns."""


@dataclass(frozen=True)
class Config:
    """What to fit, and how long.

    Attributes:
        policy: which scoring policy.
        iterations: of the policy.
        generations: of the polish.
        candidates: in each generation.
        candidate_games: per candidate, opponent and seat.
        games: played in each iteration.
        decisions: picked from each game, at most.
        samples: rollouts of each action.
        max_steps: games are looked at up to here.
        seed: of everything random.
        json: write the result here.
    """

    policy: Annotated[Literal["linear", "lookahead"], tyro.conf.Positional]
    iterations: int = 4
    generations: int = 60
    candidates: int = 56
    candidate_games: int = 3000
    games: int = 16384
    decisions: int = 4
    samples: int = 16
    max_steps: int = 160
    seed: int = 0
    json: Path | None = None


_NAMES = {"linear": WEIGHT_NAMES, "lookahead": ("margin", "playable", "wilds")}


def make_policy(kind: str, weights: np.ndarray) -> LinearPolicy | LookaheadPolicy:
    """The scoring policy with these weights."""
    values = tuple(weights.tolist())
    return LinearPolicy(values) if kind == "linear" else LookaheadPolicy(values)


def win_rate(seed: int, policy: Policy, opponent: Policy, games: int) -> float:
    """Win rate of a policy over both seats, a drawn game counting half."""
    key = jax.random.key(seed)
    first = simulate(key, games, (policy, opponent)).winner
    second = simulate(key, games, (opponent, policy)).winner
    points = np.concatenate([first == 0, second == 1]) + 0.5 * np.concatenate([first < 0, second < 0])
    return float(points.mean())


@partial(jax.jit, static_argnames=("policy", "max_steps"))
def play(numbers: list[Array], keys: Array, *, policy: Skeleton, max_steps: int) -> tuple[State, Array]:
    """Games of a policy against itself: the positions, [G, T], and their legal masks, bool[G, T, 61]."""
    player = static.join(numbers, policy)
    states = jax.vmap(lambda key: play_game(key, (player, player), num_steps=max_steps).states)(keys)
    states = jax.tree.map(lambda x: x[:, :-1], states)
    return states, jax.vmap(jax.vmap(partial(game.legal_mask, rules=_RULES)))(states)


def pick_decisions(rng: np.random.Generator, states: State, legal: np.ndarray, most: int) -> tuple[State, np.ndarray]:
    """Up to so many random decisions with a choice from each game."""
    has_choice = (legal[..., :-1].sum(-1) > 1) & ~np.asarray(states.terminated)
    rank = np.where(has_choice, rng.random(has_choice.shape), 2.0)
    at = np.argsort(rank, axis=1)[:, :most]
    is_real = np.take_along_axis(has_choice, at, axis=1)
    games, steps = np.nonzero(is_real)[0], at[is_real]
    return jax.tree.map(lambda x: np.asarray(x)[games, steps], states), legal[games, steps][:, :-1]


@partial(jax.jit, static_argnames=("policy", "num_samples"))
def regression(
    numbers: list[Array], states: State, legal: Array, seeds: tuple[Array, Array], *, policy: Skeleton, num_samples: int
) -> tuple[Array, Array, Array]:
    """Normal equations of the fit, float32[F, F] and float32[F], and what the policy's plays return beyond the mean play."""
    player = static.join(numbers, policy)
    tables = jax.tree.map(lambda x: jnp.repeat(x, num_samples, axis=0), jax.vmap(game.to_table)(states))
    arms = list_arms(legal)
    returns, _ = play_out(tables, seeds, arms, numbers, policies=policy, rules=_RULES, num_samples=num_samples, num_lanes=_LANES)
    returns = returns.mean(1)
    counts = jnp.arange(legal.size) < arms.number
    grid = jnp.zeros(legal.shape, jnp.float32).at[arms.position, arms.action].add(jnp.where(counts, returns, 0.0))

    def centered(x: Array) -> Array:
        return jnp.where(legal, x - jnp.where(legal, x, 0.0).sum(-1, keepdims=True) / legal.sum(-1, keepdims=True), 0.0)

    def scores(weights: Array, state: State) -> Array:
        scorer = replace(player[0], weights=tuple(weights))
        return scorer.score_plays(player[0].view(observe(state, state.current_player, rules=_RULES)))

    # Points are linear in the weights: the features are the points under unit weights.
    one_position = jax.vmap(scores, in_axes=(0, None))
    features = jax.vmap(one_position, in_axes=(None, 0))(jnp.eye(len(player[0].weights)), states)
    features = jax.vmap(centered, in_axes=1, out_axes=1)(features)
    target = centered(grid)
    best = jax.vmap(lambda state: scores(jnp.stack(player[0].weights), state))(states)
    chosen = jnp.argmax(jnp.where(legal, best, -jnp.inf), axis=-1)
    gain = jnp.take_along_axis(target, chosen[:, None], axis=1).mean()
    return jnp.einsum("pfa,pga->fg", features, features), jnp.einsum("pfa,pa->f", features, target), gain


class Fit(NamedTuple):
    """Weights, the standard deviation that each feature's weight may vary by for the same change in points, and the course."""

    weights: np.ndarray
    sensitivity: np.ndarray
    history: list[dict[str, float]]


def iterate_policy(config: Config, rng: np.random.Generator, console: Console) -> Fit:
    """Approximate policy iteration."""
    weights = np.zeros(len(_NAMES[config.policy]))
    # A round number of positions, so that every iteration runs the same program.
    most = config.games * config.decisions // 2
    history, square = [], np.eye(len(weights))
    for iteration in range(config.iterations):
        policy = make_policy(config.policy, weights)
        numbers, skeleton = static.split((policy,))
        keys = jax.random.split(jax.random.key(rng.integers(2**31)), config.games)
        states, legal = play(numbers, keys, policy=static.split(policy)[1], max_steps=config.max_steps)
        states, legal = pick_decisions(rng, states, np.asarray(legal), config.decisions)
        states, legal = jax.tree.map(lambda x: x[:most], (states, legal))
        seeds = jax.random.bits(jax.random.key(rng.integers(2**31)), (2, most), jnp.uint32)
        square, vector, gain = regression(
            numbers, states, legal, (seeds[0], seeds[1]), policy=skeleton, num_samples=config.samples
        )
        square, vector = np.asarray(square, np.float64), np.asarray(vector, np.float64)
        weights = np.linalg.lstsq(square + 1e-6 * np.trace(square) * np.eye(len(square)), vector, rcond=None)[0]
        policy = make_policy(config.policy, weights)
        history.append({**_rates(policy, config.seed, 20_000), "gain of the policy before": float(gain)})
        console.print(f"iteration {iteration + 1}: {history[-1]}", soft_wrap=True)
    return Fit(weights, 1.0 / np.sqrt(np.diag(square) / most + 1e-5), history)


def polish(config: Config, rng: np.random.Generator, console: Console, fitted: Fit) -> Fit:
    """The cross-entropy method, from a fit on."""
    mean, std = fitted.weights, _POLISH_STEP * fitted.sensitivity
    pool = [POLICIES["uniform"], POLICIES["scarcest-color"], make_policy(config.policy, mean)]
    history = list(fitted.history)
    for generation in range(config.generations):
        weights = mean + std * rng.standard_normal((config.candidates, len(mean)))
        seeds = rng.integers(2**31, size=len(pool)).tolist()
        rates = np.array(
            [
                np.mean(
                    [
                        win_rate(seed, make_policy(config.policy, w), other, config.candidate_games)
                        for seed, other in zip(seeds, pool, strict=True)
                    ]
                )
                for w in weights
            ]
        )
        elite = weights[np.argsort(-rates)[: config.candidates // 4]]
        # Half a step: the choice of the elite is noisy.
        mean, std = 0.5 * mean + 0.5 * elite.mean(0), 0.7 * std + 0.3 * elite.std(0)
        if generation % 10 == 9:
            history.append(_rates(make_policy(config.policy, mean), config.seed, 20_000))
            console.print(f"generation {generation + 1}: {history[-1]}", soft_wrap=True)
    return Fit(mean, fitted.sensitivity, history)


def _rates(policy: Policy, seed: int, games: int) -> dict[str, float]:
    return {name: win_rate(seed, policy, POLICIES[name], games) for name in ("uniform", "scarcest-color")}


def main() -> int:
    """Fit, print, and write the weights."""
    config = tyro.cli(Config, description=__doc__)
    console = Console()
    rng = np.random.default_rng(config.seed)
    weights, _, history = polish(config, rng, console, iterate_policy(config, rng, console))
    # The scale is free; three digits are more than the fit knows.
    weights = np.round(weights / np.abs(weights).max(), 3)
    policy = make_policy(config.policy, weights)
    # Deals that chose nothing.
    final = {name: win_rate(config.seed + 1, policy, other, 100_000) for name, other in POLICIES.items()}
    for name, weight in zip(_NAMES[config.policy], weights, strict=True):
        console.print(f"{weight:7.3f}  {name}", highlight=False)
    console.print(f"win rates over 200,000 games: {final}", soft_wrap=True)
    if config.json is not None:
        named = dict(zip(_NAMES[config.policy], weights.tolist(), strict=True))
        record = {"weights": named, "win_rate": final, "history": history}
        write_whole(config.json, json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Fit the weights of the scoring policies by approximate policy iteration on rollouts, and those of the heuristic value.

    python -m training.fit_scoring linear --json linear.json
    python -m training.fit_scoring lookahead --json lookahead.json
    python -m training.fit_scoring heuristic --json heuristic.json

Each iteration plays games of the present policy against itself and picks decisions from them. Rollouts with that policy
(`unojax.search.rollouts`) evaluate every legal action there, from the true position: hidden cards average out over many
positions. The new weights start from the least-squares fit of points to returns (Lagoudakis and Parr 2003), which is
dominated by clear decisions. Gradients of a softmax of the points, with falling temperature, then improve the returns of
the choices (Lazaric, Ghavamzadeh, Munos 2010).

The heuristic value (`unojax.value.heuristic`) is not a policy but an estimate of the winner. A logistic regression of the
results on its features gives its weights, after every legal play at decisions of `linear` against itself.
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
import optax
import tyro
from jax import Array
from rich.console import Console
from scipy.optimize import minimize

from training.checks import check_options, is_positive
from unojax import game
from unojax.device.process import EXIT_USAGE
from unojax.device.static import Argument
from unojax.files import check_target, write_whole
from unojax.game import State
from unojax.games.record import play_game
from unojax.observation import observe
from unojax.policies import LINEAR, POLICIES, Policy
from unojax.policies.scoring import LOOKAHEAD, WEIGHT_NAMES, LinearPolicy, LookaheadPolicy
from unojax.rules import Rules
from unojax.search.rollouts import Rollouts, Starts, list_arms, play_out
from unojax.simulation import simulate
from unojax.value.heuristic import HeuristicWeights
from unojax.view import view_of

_RULES: Final = Rules()
_BATCH: Final = 4096
"""Games played and positions evaluated per call."""
_TEMPERATURES: Final = (0.06, 0.03, 0.015)
"""Temperatures of the softmax of the points, in returns: two good plays differ by about 0.05."""


@dataclass(frozen=True)
class Config:
    """Options of the fit.

    Attributes:
        policy: Scoring policy, or the heuristic value.
        iterations: Iterations of the policy; the heuristic value has one.
        positions: Largest number of positions at which plays are compared per iteration, in steps of 4,096.
        games: Games per iteration, in steps of 4,096.
        decisions: Largest number of decisions per game.
        samples: Rollouts of each action.
        max_steps: Steps per game that are used.
        seed: Seed of all randomness.
        json: File for the result.
    """

    policy: Annotated[Literal["linear", "lookahead", "heuristic"], tyro.conf.Positional]
    iterations: int = 4
    positions: int = 65_536
    games: int = 32_768
    decisions: int = 4
    samples: int = 48
    max_steps: int = 160
    seed: int = 0
    json: Path | None = None

    def __post_init__(self) -> None:
        check_options(self, "", "iterations decisions samples max_steps", is_positive, "must be at least 1")
        check_options(self, "", "games", lambda n: n > 0 and n % _BATCH == 0, f"must be a multiple of {_BATCH}")
        check_options(self, "", "positions", lambda n: n >= _BATCH, f"must be at least {_BATCH}")
        check_options(self, "", "seed", lambda seed: 0 <= seed < 2**32 - 1, "must be in [0, 4294967294]")
        if self.json is not None:
            check_target("--json", str(self.json))


Scorer = LinearPolicy | LookaheadPolicy
_NAMES = {"linear": WEIGHT_NAMES, "lookahead": HeuristicWeights._fields, "heuristic": HeuristicWeights._fields}


def make_policy(kind: str, weights: np.ndarray) -> Scorer:
    """Return the scoring policy with these weights; for the heuristic value, a policy that looks one step ahead."""
    values = tuple(weights.tolist())
    return LinearPolicy(values) if kind == "linear" else LookaheadPolicy(values)


def win_rate(seed: int, policy: Policy, opponent: Policy, games: int) -> float:
    """Return the win rate of a policy over both seats; a draw counts as half."""
    key = jax.random.key(seed)
    first = simulate(key, games, (policy, opponent)).winner
    second = simulate(key, games, (opponent, policy)).winner
    points = np.concatenate([first == 0, second == 1]) + 0.5 * np.concatenate([first < 0, second < 0])
    return float(points.mean())


@partial(jax.jit, static_argnames="max_steps")
def play(policy: Argument, keys: Array, *, max_steps: int) -> tuple[State, Array]:
    """Play games of a policy against itself: positions, [G, T], and their legal masks, bool[G, T, 61]."""
    player = policy.value
    states = jax.vmap(lambda key: play_game(key, (player, player), num_steps=max_steps).states)(keys)
    states = jax.tree.map(lambda x: x[:, :-1], states)
    return states, jax.vmap(jax.vmap(game.legal_mask))(states)


def pick_decisions(rng: np.random.Generator, states: State, legal: np.ndarray, most: int) -> tuple[State, np.ndarray]:
    """Return random decisions with a choice from each game, at most the given number."""
    has_choice = (legal[..., :-1].sum(-1) > 1) & ~np.asarray(states.terminated)
    rank = np.where(has_choice, rng.random(has_choice.shape), 2.0)
    at = np.argsort(rank, axis=1)[:, :most]
    is_real = np.take_along_axis(has_choice, at, axis=1)
    games, steps = np.nonzero(is_real)[0], at[is_real]
    return jax.tree.map(lambda x: np.asarray(x)[games, steps], states), legal[games, steps][:, :-1]


class Comparisons(NamedTuple):
    """Returns of A legal plays of P decisions; the plays of a decision are contiguous.

    Attributes:
        position: int32[A]. Index of the decision.
        features: float32[A, F]. Features, which the weights multiply.
        returns: float32[A].
    """

    position: np.ndarray
    features: np.ndarray
    returns: np.ndarray

    def centred(self) -> Comparisons:
        """Subtract from features and returns their mean over the plays of the decision."""
        returns = _center(self.returns[:, None], self.position)[:, 0]
        return Comparisons(self.position, _center(self.features, self.position), returns)


@partial(jax.jit, static_argnames="num_samples")
def compare_plays(
    pair: Argument, states: State, legal: Array, seeds: tuple[Array, Array], *, num_samples: int
) -> tuple[Array, Array]:
    """Compute features float32[B, 60, F] and returns float32[B, 60] of all plays at B positions; undefined for illegal plays.

    The first of a pair of policies plays, and the last one supplies the features; one may do both.
    """
    players = pair.value
    tables = jax.tree.map(lambda x: jnp.repeat(x, num_samples, axis=0), jax.vmap(game.to_table)(states))
    arms = list_arms(legal)
    returns, _ = play_out(Starts(tables, seeds), arms, Rollouts(players[:1], _RULES, num_samples))
    counts = jnp.arange(legal.size) < arms.number
    grid = jnp.zeros(legal.shape, jnp.float32).at[arms.position, arms.action].add(jnp.where(counts, returns.mean(1), 0.0))

    def scores(weights: Array, state: State) -> Array:
        scorer = replace(players[-1], weights=tuple(weights))
        return scorer.score_plays(view_of(observe(state, state.current_player)))

    # Points are linear in the weights: the features are the points under unit weights.
    one_position = jax.vmap(scores, in_axes=(0, None), out_axes=-1)
    return jax.vmap(one_position, in_axes=(None, 0))(jnp.eye(len(players[-1].weights)), states), grid


def gather(config: Config, rng: np.random.Generator, policy: Scorer, scorer: Scorer) -> Comparisons:
    """Compare plays at decisions of a policy's games against itself, by the features of a scorer."""
    parts, found = [], 0
    player, pair = Argument(policy), Argument((policy, scorer))
    for _ in range(0, config.games, _BATCH):
        keys = jax.random.split(jax.random.key(rng.integers(2**31)), _BATCH)
        states, legal = play(player, keys, max_steps=config.max_steps)
        states, legal = pick_decisions(rng, states, np.asarray(legal), config.decisions)
        for start in range(0, min(len(legal), config.positions - found) - _BATCH + 1, _BATCH):
            here, mask = jax.tree.map(lambda x, at=slice(start, start + _BATCH): x[at], (states, legal))
            seeds = jax.random.bits(jax.random.key(rng.integers(2**31)), (2, _BATCH), jnp.uint32)
            features, returns = compare_plays(pair, here, mask, (seeds[0], seeds[1]), num_samples=config.samples)
            parts.append((np.nonzero(mask)[0] + found, np.asarray(features)[mask], np.asarray(returns)[mask]))
            found += _BATCH
    if not parts:
        raise ValueError(f"there were fewer than {_BATCH} choices in the games: take more games, decisions or steps")
    position, features, returns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Comparisons(position, features, returns)


def _center(x: np.ndarray, position: np.ndarray) -> np.ndarray:
    starts = np.flatnonzero(np.diff(position, prepend=-1))
    mean = np.add.reduceat(x, starts, axis=0) / np.diff(starts, append=len(x))[:, None]
    return x - mean[position]


@jax.jit
def _least_squares(features: Array, returns: Array) -> Array:
    square = features.T @ features
    ridge = 1e-6 * jnp.trace(square) * jnp.eye(len(square))
    return jnp.linalg.solve(square + ridge, features.T @ returns)


def best_choices(compared: Comparisons) -> np.ndarray:
    """Return the weights whose choices have the highest return, starting from least squares."""
    compared = compared.centred()
    scale = compared.features.std(0) + 1e-6
    features, returns = jnp.asarray(compared.features / scale), jnp.asarray(compared.returns)
    position, num = jnp.asarray(compared.position), int(compared.position[-1]) + 1

    @jax.jit
    @jax.value_and_grad
    def loss(w: Array, temperature: Array, features: Array) -> Array:
        points = features @ w / temperature
        points -= jax.ops.segment_max(points, position, num)[position]
        odds = jnp.exp(points)
        total = jax.ops.segment_sum(odds, position, num)
        return -(odds * returns / total[position]).sum() / num

    def numbers(w: np.ndarray, temperature: float) -> tuple[float, np.ndarray]:
        value, gradient = loss(jnp.asarray(w, jnp.float32), jnp.float32(temperature), features)
        return float(value), np.asarray(gradient, np.float64)

    w = np.asarray(_least_squares(features, returns), np.float64)
    for temperature in _TEMPERATURES:
        w = minimize(numbers, w, (temperature,), "L-BFGS-B", jac=True, options={"maxiter": 60}).x
    return w / scale


def best_odds(compared: Comparisons) -> np.ndarray:
    """Return the weights for which twice the sum best fits the log odds of winning, by cross-entropy."""
    features, wins = jnp.asarray(compared.features), jnp.asarray((1 + compared.returns) / 2)

    @jax.jit
    @jax.value_and_grad
    def loss(w: Array) -> Array:
        return optax.sigmoid_binary_cross_entropy(2 * features @ w, wins).mean()

    def numbers(w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = loss(jnp.asarray(w, jnp.float32))
        return float(value), np.asarray(gradient, np.float64)

    return minimize(numbers, np.zeros(features.shape[1]), method="L-BFGS-B", jac=True).x


def iterate_policy(config: Config, rng: np.random.Generator, console: Console) -> tuple[Scorer, list[dict[str, float]]]:
    """Iterate the policy; return the last one, and the win rate of each."""
    policy = make_policy(config.policy, np.zeros(len(_NAMES[config.policy])))
    history = []
    for iteration in range(config.iterations):
        weights = best_choices(gather(config, rng, policy, policy))
        # The scale is arbitrary, and three digits exceed the precision of the fit.
        policy = make_policy(config.policy, np.round(weights / np.abs(weights).max(), 3))
        history.append(_rates(policy, config.seed, 20_000))
        console.print(f"iteration {iteration + 1}: {history[-1]}", soft_wrap=True)
    return policy, history


def _rates(policy: Policy, seed: int, games: int) -> dict[str, float]:
    return {name: win_rate(seed, policy, POLICIES[name], games) for name in ("uniform", "scarcest-color")}


def main() -> int:
    """Fit, print, and write the weights."""
    console = Console()
    try:
        return _fit(tyro.cli(Config, description=__doc__), console)
    except ValueError as error:
        console.print(f"fit_scoring: {error}", style="bold red", highlight=False, markup=False, soft_wrap=True)
        return EXIT_USAGE


def _fit(config: Config, console: Console) -> int:
    rng = np.random.default_rng(config.seed)
    if config.policy == "heuristic":
        weights = best_odds(gather(config, rng, LINEAR, LOOKAHEAD))
        policy, history = make_policy(config.policy, np.round(weights, 4)), []
    else:
        policy, history = iterate_policy(config, rng, console)
    for name, weight in zip(_NAMES[config.policy], policy.weights, strict=True):
        console.print(f"{weight:7.3f}  {name}", highlight=False)
    # Deals that were not used in the fit.
    final = {name: win_rate(config.seed + 1, policy, other, 100_000) for name, other in POLICIES.items()}
    console.print(f"win rates over 200,000 games: {final}", soft_wrap=True)
    if config.json is not None:
        named = dict(zip(_NAMES[config.policy], policy.weights, strict=True))
        record = {"weights": named, "win_rate": final, "history": history}
        write_whole(config.json, json.dumps(record, indent=1, allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The beliefs that `benchmarks.belief` compares, behind one interface, and what is recorded as each follows a game."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from benchmarks import timing
from unojax import cards
from unojax.belief import closed_form, exact, history, summary
from unojax.belief.bootstrap import bootstrap_init, bootstrap_update
from unojax.belief.opponents import OpponentModel
from unojax.belief.particles import Info, belief_init, belief_update
from unojax.belief.resample import effective_sample_size
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import Policy
from unojax.games.record import play_game
from unojax.rules import Rules

NUM_BINS: Final = 10
"""Bins of predicted probability in the calibration."""


class Health(NamedTuple):
    """State of a cloud after an update: shares of N before and after resampling, and whether it was depleted or restarted."""

    ess_before: Array
    ess_after: Array
    depleted: Array
    restarted: Array


@dataclass(frozen=True)
class Method:
    """A belief as three functions that run on the device.

    Attributes:
        name: in the results.
        init: `init(observation, key) -> belief`.
        update: `update(belief, before, action, after, key) -> (belief, Health)`.
        count_probs: `count_probs(belief, observation) -> float32[54, 5]`, positive for every hand that is possible.
        num_particles: N; 0 for the closed forms.
    """

    name: str
    init: Callable[[Observation, Array], Any]
    update: Callable[[Any, Observation, Array, Observation, Array], tuple[Any, Health]]
    count_probs: Callable[[Any, Observation], Array]
    num_particles: int = 0


_ALWAYS_WELL: Final = Health(np.float32(1.0), np.float32(1.0), np.bool_(False), np.bool_(False))  # type: ignore[arg-type] NumPy scalars


@cache
def uniform_method() -> Method:
    """The uniform belief over the unseen cards, which knows no history."""
    return Method(
        name="uniform",
        init=lambda observation, key: (),
        update=lambda belief, before, action, after, key: (belief, _ALWAYS_WELL),
        count_probs=lambda belief, observation: closed_form.count_probs(observation),
    )


@cache
def closed_form_method() -> Method:
    """The closed form that follows the history and resets at each play of the opponent."""
    return Method(
        name="closed form",
        init=lambda observation, key: closed_form.closed_form_init(observation),
        update=lambda belief, before, action, after, key: (
            closed_form.closed_form_update(belief, before, action, after),
            _ALWAYS_WELL,
        ),
        count_probs=lambda belief, observation: belief.count_probs,
    )


@cache
def particle_method(name: str, num_particles: int, opponent: OpponentModel, rules: Rules) -> Method:
    """The particle filter of the package."""
    init = partial(belief_init, num_particles=num_particles, rules=rules, prior="deal")
    return _cloud_method(name, num_particles, init, partial(belief_update, opponent=opponent, rules=rules))


@cache
def bootstrap_method(name: str, num_particles: int, opponent: OpponentModel, rules: Rules) -> Method:
    """The plain bootstrap filter."""
    init = partial(bootstrap_init, num_particles=num_particles, rules=rules, prior="deal")
    return _cloud_method(name, num_particles, init, partial(bootstrap_update, opponent=opponent, rules=rules))


def _cloud_method(name: str, n: int, init: Callable[..., Any], filter_update: Callable[..., tuple[Any, Info]]) -> Method:
    def update(belief: Any, before: Observation, action: Array, after: Observation, key: Array) -> tuple[Any, Health]:
        belief, info = filter_update(belief, before, action, after, key)
        ess_after = effective_sample_size(belief.log_weights)
        return belief, Health(info.ess / n, ess_after / n, info.depleted, info.restarted)

    def count_probs(belief: Any, observation: Observation) -> Array:
        # A cloud gives hands that it lacks the probability zero and the log score minus infinity. One more particle, spread like
        # the uniform belief, puts all methods on one scale.
        return (n * summary.count_probs(belief) + closed_form.count_probs(observation)) / (n + 1)

    return Method(name, init, update, count_probs, n)


class Games(NamedTuple):
    """Recorded games: states with leading axes [G, T + 1], and int32[G] updates to follow, those to unfinished positions."""

    states: State
    num_updates: np.ndarray

    def first(self, num_games: int) -> Games:
        return Games(jax.tree.map(lambda x: x[:num_games], self.states), self.num_updates[:num_games])


def record_games(seed: int, policies: tuple[Policy, Policy], *, num_games: int, max_steps: int, rules: Rules) -> Games:
    """Play games, cut off after `max_steps`."""
    keys = jax.random.split(jax.random.key(seed), num_games)
    play = jax.jit(jax.vmap(partial(play_game, policies=policies, num_steps=max_steps, rules=rules)))
    states = play(keys).states
    over = np.asarray(states.terminated)
    num_updates = (~over[:, 1:]).sum(1).astype(np.int32)
    return Games(jax.device_get(states), num_updates)


class Followed(NamedTuple):
    """What was recorded along G games of at most T updates; zeros beyond a game's last update.

    Attributes:
        log_score: [G, T] nats, sum over the 54 types of ln P(count_t = true count).
        health: [G, T] each.
        bins: [G, NUM_BINS, 3] of P(holds t), over updates and types that are unseen: number, sum of predictions, number held.
    """

    log_score: Array
    health: Health
    bins: Array


@dataclass(frozen=True)
class Cost:
    """Seconds to compile, and microseconds per update of one game alone on one thread, without any scoring."""

    compile_seconds: float
    microseconds_per_update: float


def follow(method: Method, games: Games, *, seat: int, seed: int, rules: Rules, workers: int) -> tuple[Followed, Cost]:
    """Let a method follow the games from one seat."""
    num_games = len(games.num_updates)
    chunk = -(-num_games // (4 * workers)) if num_games > 4 * workers else 1
    padding = -num_games % chunk
    num_updates = np.pad(games.num_updates, (0, padding))
    states = jax.tree.map(lambda x: np.concatenate([x, x[:padding]]), games.states)
    keys = jax.random.split(jax.random.key(seed), len(num_updates))

    def part(start: int) -> tuple[State, np.ndarray, Array]:
        here = slice(start, start + chunk)
        return jax.tree.map(lambda x: x[here], states), num_updates[here], keys[here]

    case = method, seat, rules, chunk, states.terminated.shape[1]
    if case not in _PROGRAMS:
        _PROGRAMS[case] = timing.compile_timed(_follow_games, *part(0), jnp.bool_(True), method=method, seat=seat, rules=rules)
    compile_seconds, program = _PROGRAMS[case]
    starts = range(0, len(num_updates), chunk)
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(lambda start: jax.device_get(program(*part(start), jnp.bool_(True))), starts))
    followed = jax.tree.map(lambda *xs: np.concatenate(xs)[:num_games], *parts)

    begin = time.perf_counter()
    jax.block_until_ready(program(*part(0), jnp.bool_(False)))
    elapsed = time.perf_counter() - begin
    return followed, Cost(compile_seconds, 1e6 * elapsed / max(int(num_updates[:chunk].sum()), 1))


_PROGRAMS: Final[dict[Any, tuple[float, Any]]] = {}
"""Seconds to compile and the program, for each method and shape: opponents have no part in it."""


@partial(jax.jit, static_argnames=("method", "seat", "rules"))
def _follow_games(
    states: State, num_updates: Array, keys: Array, is_scored: Array, *, method: Method, seat: int, rules: Rules
) -> Followed:
    # One game after the other on CPU: a batch would compute all branches of every update. An accelerator takes them at once.
    over_games = lax.map if jax.default_backend() == "cpu" else lambda f, xs: jax.vmap(f)(xs)
    return over_games(
        lambda game: _follow_game(method, *game, is_scored=is_scored, seat=seat, rules=rules), (states, num_updates, keys)
    )


def _follow_game(
    method: Method, states: State, num_updates: Array, key: Array, *, is_scored: Array, seat: int, rules: Rules
) -> Followed:
    num_steps = states.terminated.shape[0] - 1

    def view(t: Array) -> Observation:
        return observe(jax.tree.map(lambda x: x[t], states), seat, rules=rules)

    def one_update(t: Array, carry: tuple[Any, Followed]) -> tuple[Any, Followed]:
        belief, out = carry
        before, after = view(t), view(t + 1)
        action = history.infer_action(before, after)
        belief, health = method.update(belief, before, action, after, jax.random.fold_in(key, t))

        def score() -> tuple[Array, Array]:
            probs = method.count_probs(belief, after)
            truth = cards.counts(states.hands[t + 1, 1 - seat])
            return _log_score(probs, truth), _bin(1.0 - probs[:, 0], truth > 0, after.unseen > 0)

        log_score, bins = lax.cond(is_scored, score, lambda: (jnp.float32(0), jnp.zeros((NUM_BINS, 3))))
        return belief, Followed(
            log_score=out.log_score.at[t].set(log_score),
            health=Health(*(rows.at[t].set(value) for rows, value in zip(out.health, health, strict=True))),
            bins=out.bins + bins,
        )

    zeros, nowhere = jnp.zeros(num_steps), jnp.zeros(num_steps, bool)
    nothing = Followed(zeros, Health(zeros, zeros, nowhere, nowhere), jnp.zeros((NUM_BINS, 3)))
    start = method.init(view(jnp.int32(0)), jax.random.fold_in(key, num_steps))
    return lax.fori_loop(0, num_updates, one_update, (start, nothing))[1]


def _log_score(probs: Array, truth: Array) -> Array:
    """Nats: sum_t ln P(count_t = truth_t)."""
    return jnp.log(jnp.take_along_axis(probs, truth[:, None].astype(jnp.int32), 1)).sum()


def _bin(predicted: Array, happened: Array, counted: Array) -> Array:
    """float32[NUM_BINS, 3]: how many, their sum, and how many happened, by bin of prediction."""
    number = jnp.clip((predicted * NUM_BINS).astype(jnp.int32), 0, NUM_BINS - 1)
    in_bin = (number == jnp.arange(NUM_BINS)[:, None]) & counted
    return jnp.stack([in_bin.sum(1), jnp.where(in_bin, predicted, 0).sum(1), (in_bin & happened).sum(1)], 1)


def follow_exact(games: Games, *, seat: int, opponent: OpponentModel, rules: Rules) -> tuple[Followed, Cost]:
    """The exact filter on the host, one game after the other."""
    num_games, num_steps = len(games.num_updates), games.states.terminated.shape[1] - 1
    log_score, bins = np.zeros((num_games, num_steps)), np.zeros((num_games, NUM_BINS, 3))
    seen = jax.jit(jax.vmap(jax.vmap(partial(observe, player=seat, rules=rules))))(games.states)
    actions = jax.jit(jax.vmap(jax.vmap(history.infer_action)))(*(jax.tree.map(lambda x, s=s: x[:, s], seen) for s in _PAIRS))
    seen, actions = jax.tree.map(np.asarray, seen), np.asarray(actions)
    truth = np.asarray(jax.jit(cards.counts)(games.states.hands[:, :, 1 - seat]))
    seconds = 0.0
    for g in range(num_games):
        views = [jax.tree.map(lambda x, t=t, g=g: x[g, t], seen) for t in range(games.num_updates[g] + 1)]
        belief = exact.exact_init(views[0], rules=rules, prior="deal")
        for t in range(games.num_updates[g]):
            begin = time.perf_counter()
            belief, _ = exact.exact_update(belief, views[t], int(actions[g, t]), views[t + 1], opponent=opponent, rules=rules)
            seconds += time.perf_counter() - begin
            probs = belief.count_probs
            log_score[g, t] = np.log(np.take_along_axis(probs, truth[g, t + 1, :, None].astype(int), 1)).sum()
            holds, unseen = truth[g, t + 1] > 0, belief.unseen > 0
            number = np.clip((probs[:, 1:].sum(1) * NUM_BINS).astype(int), 0, NUM_BINS - 1)
            np.add.at(bins[g], number[unseen], np.stack([unseen, probs[:, 1:].sum(1), holds], 1)[unseen])
    ones, nowhere = np.ones((num_games, num_steps)), np.zeros((num_games, num_steps), bool)
    cost = Cost(0.0, 1e6 * seconds / max(int(games.num_updates.sum()), 1))
    return Followed(log_score, Health(ones, ones, nowhere, nowhere), bins), cost  # type: ignore[arg-type] NumPy arrays


_PAIRS: Final = (slice(None, -1), slice(1, None))

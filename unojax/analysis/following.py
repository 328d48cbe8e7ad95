"""Beliefs along recorded games, and what each made of the opponent's true hand.

A `Method` is a belief as three functions: `particles`, `bootstrap`, `closed_form`, `unseen`. `follow` lets one follow games that
`record` has recorded; `follow_exact` does it with the exact filter, for small decks.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import arena, cards
from unojax.belief import bootstrap as bootstrap_filter
from unojax.belief import closed_form as formulas
from unojax.belief import exact, history, summary
from unojax.belief import particles as particle_filter
from unojax.belief.opponents import OpponentModel, uniform_opponent
from unojax.game import State
from unojax.games.record import play_game
from unojax.observation import Observation, observe
from unojax.policies import Policy, uniform
from unojax.rules import Rules

_Tree = TypeVar("_Tree")


class Recorded(NamedTuple):
    """G games of at most T steps, NumPy arrays.

    Attributes:
        states: `State` with leading axes [G, T + 1].
        actions: int32[G, T], -1 after the end.
        num_updates: int32[G] steps to positions that are not the end of the game: those that a belief follows.
    """

    states: State
    actions: np.ndarray
    num_updates: np.ndarray


def record(
    key: Array, num_games: int, policies: tuple[Policy, Policy] = (uniform, uniform), *, max_steps: int, rules: Rules = Rules()
) -> Recorded:
    """Play games with `unojax.play_game`, cut off after `max_steps`. `key` is consumed."""
    play = jax.jit(jax.vmap(partial(play_game, policies=policies, num_steps=max_steps, rules=rules)))
    games = jax.device_get(play(jax.random.split(key, num_games)))
    num_updates = (~games.states.is_over[:, 1:]).sum(1).astype(np.int32)
    return Recorded(games.states, games.actions, num_updates)


@dataclass(frozen=True)
class Method:
    """A belief as functions that run on the device, unbatched.

    Attributes:
        name: in tables.
        init: `init(observation, key) -> belief`.
        update: `update(belief, before, action, after, key) -> (belief, share, depleted)`: float32[] effective sample size as a
            share of N before resampling, bool[] whether no particle was left.
        count_probs: `count_probs(belief, observation) -> float32[54, 5]`, probability of 0..4 copies of each type.
    """

    name: str
    init: Callable[[Observation, Array], Any]
    update: Callable[[Any, Observation, Array, Observation, Array], tuple[Any, Array, Array]]
    count_probs: Callable[[Any, Observation], Array]


# Cached, since a program is compiled for each method that is not the same object.


@cache
def particles(num_particles: int = 1024, opponent: OpponentModel = uniform_opponent, rules: Rules = Rules()) -> Method:
    """The particle filter of `unojax.belief`."""
    return _cloud(
        f"particles {num_particles}", particle_filter.belief_init, particle_filter.belief_update, num_particles, opponent, rules
    )


@cache
def bootstrap(num_particles: int = 1024, opponent: OpponentModel = uniform_opponent, rules: Rules = Rules()) -> Method:
    """The plain bootstrap filter of `unojax.belief.bootstrap`."""
    init, update = bootstrap_filter.bootstrap_init, bootstrap_filter.bootstrap_update
    return _cloud(f"bootstrap {num_particles}", init, update, num_particles, opponent, rules)


def _cloud(
    name: str, init: Callable[..., Any], update: Callable[..., Any], n: int, opponent: OpponentModel, rules: Rules
) -> Method:
    def update_cloud(belief: Any, *seen: Any) -> tuple[Any, Array, Array]:
        belief, info = update(belief, *seen, opponent=opponent, rules=rules)
        return belief, info.ess / n, info.depleted

    def count_probs(belief: Any, observation: Observation) -> Array:
        # A cloud gives a hand that it lacks the probability zero, and its log score would be minus infinity. One more particle,
        # spread like the uniform belief, keeps all methods on one scale.
        return (n * summary.count_probs(belief) + formulas.count_probs(observation)) / (n + 1)

    return Method(name, partial(init, num_particles=n, rules=rules, prior="deal"), update_cloud, count_probs)


@cache
def closed_form(*, exclude_drawn: bool = False) -> Method:
    """The closed form that starts afresh at each play of the opponent; `exclude_drawn` is its wrong sibling, see
    `unojax.belief.closed_form.closed_form_update`."""

    def update(belief: Any, before: Observation, action: Array, after: Observation, key: Array) -> tuple[Any, Array, Array]:
        del key
        belief = formulas.closed_form_update(belief, before, action, after, exclude_drawn=exclude_drawn)
        return belief, jnp.float32(1), jnp.bool_(False)

    name = "closed form, drawn cards excluded" if exclude_drawn else "closed form"
    return Method(name, lambda observation, key: formulas.closed_form_init(observation), update, lambda b, o: b.count_probs)


@cache
def unseen() -> Method:
    """Any of the cards not seen, without history."""
    return Method(
        "unseen cards",
        lambda observation, key: (),
        lambda belief, *seen: (belief, jnp.float32(1), jnp.bool_(False)),
        lambda belief, observation: formulas.count_probs(observation),
    )


class Followed(NamedTuple):
    """A belief along G games of at most T steps; index t is the position after t steps, zeros after a game's last update.

    Attributes:
        expected: float32[G, T + 1, 54] expected copies of each type in the opponent's hand.
        prob_holds: float32[G, T + 1, 54] probability that it holds at least one.
        truth: int8[G, T + 1, 54] copies in it.
        is_unseen: bool[G, T + 1, 54] types of which the observer does not see all copies.
        log_score: float32[G, T + 1] nats, sum over the 54 types of ln P(count_t = true count); higher is better.
        ess_share: float32[G, T + 1] effective sample size of the update that led here, as a share of N; 1 at the start and
            without particles.
        depleted: bool[G, T + 1] no particle could explain what was seen in it, and the belief began anew.
    """

    expected: np.ndarray
    prob_holds: np.ndarray
    truth: np.ndarray
    is_unseen: np.ndarray
    log_score: np.ndarray
    ess_share: np.ndarray
    depleted: np.ndarray


_Columns = dict[str, Array]
"""The fields of `Followed` on the device."""


def follow(key: Array, games: Recorded, method: Method, *, player: int = 0, rules: Rules = Rules()) -> Followed:
    """Let a belief follow games from one player's seat.

    Args:
        key: consumed.
        games: what happened.
        method: the belief.
        player: the observer, 0 or 1.
        rules: of the games.
    """
    return Followed(**in_parts(key, games, partial(_follow_games, method=method, player=player, rules=rules)))


def in_parts(key: Array, games: Recorded, program: Callable[..., _Tree]) -> _Tree:
    """What a program makes of recorded games, which are dealt out to the cores.

    Args:
        key: consumed.
        games: G of them.
        program: `program(states, num_updates, keys)` of a part of the games, a key for each: arrays with a leading axis of games.

    Returns:
        The same of all games, NumPy.
    """
    num_games = len(games.num_updates)
    workers = min(arena.default_workers(), num_games)
    part = -(-num_games // workers)
    index = np.arange(part * workers) % num_games
    states, num_updates = jax.tree.map(lambda x: x[index], (games.states, games.num_updates))
    keys = jax.random.split(key, len(index))

    def run_part(start: int, num_updates: np.ndarray) -> _Tree:
        here = slice(start, start + part)
        args = jax.tree.map(lambda x: x[here], states), num_updates[here], keys[here]
        return jax.device_get(program(*args))

    # Compiled by following no steps, since workers that begin at the same time would each compile.
    run_part(0, np.zeros_like(num_updates))
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(lambda start: run_part(start, num_updates), range(0, len(index), part)))
    return jax.tree.map(lambda *xs: np.concatenate(xs)[:num_games], *parts)


@partial(jax.jit, static_argnames=("method", "player", "rules"))
def _follow_games(states: State, num_updates: Array, keys: Array, *, method: Method, player: int, rules: Rules) -> _Columns:
    # One game after the other on CPU: a batch would compute all branches of every update. An accelerator takes them at once.
    over_games = lax.map if jax.default_backend() == "cpu" else lambda f, xs: jax.vmap(f)(xs)
    return over_games(lambda game: _follow_game(*game, method=method, player=player, rules=rules), (states, num_updates, keys))


def _follow_game(states: State, num_updates: Array, key: Array, *, method: Method, player: int, rules: Rules) -> _Columns:
    num_positions = states.terminated.shape[0]

    def view(t: Array) -> Observation:
        return observe(jax.tree.map(lambda x: x[t], states), player, rules=rules)

    def note(out: _Columns, t: Array, belief: Any, ess_share: Array, depleted: Array) -> _Columns:
        seen = view(t)
        probs = method.count_probs(belief, seen)
        truth = cards.counts(states.hands[t, 1 - player])
        row = {
            "expected": probs @ jnp.arange(5.0),
            "prob_holds": jnp.clip(1.0 - probs[:, 0], 0.0, 1.0),
            "truth": truth,
            "is_unseen": seen.unseen > 0,
            "log_score": jnp.log(jnp.take_along_axis(probs, truth[:, None].astype(jnp.int32), 1)).sum(),
            "ess_share": ess_share,
            "depleted": depleted,
        }
        return jax.tree.map(lambda rows, value: rows.at[t].set(value), out, row)

    def one_update(t: Array, carry: tuple[Any, _Columns]) -> tuple[Any, _Columns]:
        belief, out = carry
        before, after = view(t), view(t + 1)
        action = history.infer_action(before, after)
        belief, ess_share, depleted = method.update(belief, before, action, after, jax.random.fold_in(key, t))
        return belief, note(out, t + 1, belief, ess_share, depleted)

    types, positions = (num_positions, cards.NUM_TYPES), (num_positions,)
    nothing = {
        "expected": jnp.zeros(types),
        "prob_holds": jnp.zeros(types),
        "truth": jnp.zeros(types, jnp.int8),
        "is_unseen": jnp.zeros(types, bool),
        "log_score": jnp.zeros(positions),
        "ess_share": jnp.zeros(positions),
        "depleted": jnp.zeros(positions, bool),
    }
    start = method.init(view(jnp.int32(0)), jax.random.fold_in(key, num_positions))
    first = note(nothing, jnp.int32(0), start, jnp.float32(1), jnp.bool_(False))
    return lax.fori_loop(0, num_updates, one_update, (start, first))[1]


def follow_exact(games: Recorded, *, player: int = 0, opponent: OpponentModel = uniform_opponent, rules: Rules) -> Followed:
    """`follow` with the exact filter, on the host, one game after the other.

    Raises:
        ValueError: the deck is too large (see `unojax.belief.exact`).
    """
    num_games, num_positions = games.states.terminated.shape
    seen, truth, is_unseen = jax.device_get(_views(games.states, player=player, rules=rules))
    types, positions = (num_games, num_positions, cards.NUM_TYPES), (num_games, num_positions)
    out = Followed(
        expected=np.zeros(types, np.float32),
        prob_holds=np.zeros(types, np.float32),
        truth=np.zeros(types, np.int8),
        is_unseen=np.zeros(types, bool),
        log_score=np.zeros(positions, np.float32),
        ess_share=np.zeros(positions, np.float32),
        depleted=np.zeros(positions, bool),
    )
    for g in range(num_games):
        views = [jax.tree.map(lambda x, t=t, g=g: x[g, t], seen) for t in range(games.num_updates[g] + 1)]
        belief = exact.exact_init(views[0], rules=rules, prior="deal")
        for t, after in enumerate(views):
            if t > 0:
                before, action = views[t - 1], int(games.actions[g, t - 1])
                belief, _ = exact.exact_update(belief, before, action, after, opponent=opponent, rules=rules)
            probs = belief.count_probs
            out.expected[g, t] = belief.expected_counts
            out.prob_holds[g, t] = np.clip(1 - probs[:, 0], 0, 1)
            out.truth[g, t], out.is_unseen[g, t] = truth[g, t], is_unseen[g, t]
            out.log_score[g, t] = np.log(np.take_along_axis(probs, truth[g, t, :, None].astype(int), 1)).sum()
            out.ess_share[g, t] = 1
    return out


@partial(jax.jit, static_argnames=("player", "rules"))
def _views(states: State, *, player: int, rules: Rules) -> tuple[Observation, Array, Array]:
    """Observations, the opponent's counts int8[G, T + 1, 54], and bool[G, T + 1, 54] what is unseen."""

    def one(state: State) -> tuple[Observation, Array, Array]:
        seen = observe(state, player, rules=rules)
        return seen, cards.counts(state.hands[1 - player]), seen.unseen > 0

    return jax.vmap(jax.vmap(one))(states)

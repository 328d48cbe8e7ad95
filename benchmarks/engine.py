"""Speed of the game engine: `simulate`, `count_games`, the one-hot functions under `vmap`, and RLCard's UNO.

All programs play uniformly random legal actions. Work is counted in steps of unfinished games.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import unojax
from benchmarks import harness, rlcard_peer
from benchmarks.harness import Config, Task
from unojax import State
from unojax.simulation import count_games

_STEPS: Final = 16
"""One-hot steps between two checks for finished games. A longer call idles more, a shorter one deals to all lanes more often."""


@harness.benchmark(
    "engine",
    batch_sizes=harness.parse_sizes("2^10,2^12,2^14,2^15,2^16,2^17"),
    onehot_sizes=harness.parse_sizes("2^8,2^10,2^11,2^12,2^13"),
    games=400,
    calls=8,
    repeats=5,
    peer=True,
    peer_python="",
)
def engine(config: Config) -> Iterator[Task]:
    """Speed of the engine: `simulate`, the one-hot functions under `vmap`, and RLCard's UNO (`--games` of it)."""
    # RLCard runs first, while the other threads of this process are idle.
    if config.peer:
        yield Task({"program": "rlcard", **config.settings("games", "repeats")}, partial(rlcard_peer.measure, config))
    for size in config.batch_sizes:
        settings = {"program": "simulate", "batch_size": size, "repeats": config.repeats}
        yield Task(settings, partial(measure_packed, size, repeats=config.repeats))
    for size in config.onehot_sizes:
        settings = {"program": "one-hot", "batch_size": size, **config.settings("calls", "repeats")}
        yield Task(settings, partial(measure_onehot, size, **config.settings("calls", "repeats")))


def measure_packed(batch_size: int, *, repeats: int, games_per_lane: int = 16) -> dict[str, Any]:
    """Time `simulate` from the key to every game's row on the host, and `count_games`, with one batch size."""
    num_games, key = games_per_lane * batch_size, jax.random.key(0)

    def play(num_games: int) -> unojax.Games:
        return unojax.simulate(key, num_games, batch_size=batch_size)

    # The program is independent of the number of games; the second call measures the time to subtract from the compilation.
    first, _ = harness.stopwatch(lambda: play(1))
    second, _ = harness.stopwatch(lambda: play(1))
    programs = {"simulate": lambda: play(num_games), "count_games": lambda: count_games(key, num_games, batch_size=batch_size)}
    times, results = harness.time_in_turns(programs, repeats)
    games = results["simulate"]
    num_steps = int(games.num_steps.sum(dtype=np.int64))
    return {
        "num_games": num_games,
        "num_steps": num_steps,
        "compile_seconds": first - second,
        **times["simulate"].rates("steps", num_steps),
        **times["simulate"].rates("decisions", int(games.num_choices.sum(dtype=np.int64))),
        **times["count_games"].rates("counted_steps", results["count_games"].steps),
        "agree": results["count_games"].steps == num_steps,
        "digest": harness.digest([games.winner, games.num_steps, games.num_choices, games.num_reshuffles, games.hand_sizes]),
    }


class Rows(NamedTuple):
    """Consecutive steps of B games: [T, B] each; `shown` is the observation, legal mask and action, or the action alone."""

    valid: Array
    is_choice: Array
    shown: Any


def deal(key: Array, batch_size: int) -> State:
    """Deal a batch of new games."""
    return jax.vmap(unojax.init)(jax.random.split(key, batch_size))


@partial(jax.jit, static_argnames="delivers", donate_argnums=0)
def step_by_hand(states: State, key: Array, *, delivers: bool = False) -> tuple[State, Rows]:
    """Take some steps of B games with the public functions, as in the tutorial on GPUs, then replace finished games by new deals.

    A finished game waits for the rest of the call. Its steps after the end are invalid.
    """

    def one_step(state: State, key: Array) -> tuple[State, Rows]:
        key_action, key_draw = jax.random.split(key)
        observation = unojax.observe(state, state.current_player)
        legal = unojax.legal_mask(state)
        action = unojax.uniform(key_action, observation, legal)
        shown = (observation, legal, action) if delivers else action
        return unojax.step(state, action, key_draw), Rows(~state.is_over, ~state.is_over & (legal.sum() > 1), shown)

    def step_all(states: State, key: Array) -> tuple[State, Rows]:
        return jax.vmap(one_step)(states, jax.random.split(key, len(states.winner)))

    key_steps, key_deal = jax.random.split(key)
    states, rows = lax.scan(step_all, states, jax.random.split(key_steps, _STEPS))
    fresh, over = deal(key_deal, len(states.winner)), states.is_over
    return jax.tree.map(lambda new, old: jnp.where(over.reshape(-1, *[1] * (old.ndim - 1)), new, old), fresh, states), rows


def measure_onehot(batch_size: int, *, calls: int = 8, repeats: int) -> dict[str, Any]:
    """Time `init`, `legal_mask`, `observe`, `uniform` and `step` under `vmap`, with one batch size."""
    start = jax.jit(deal, static_argnums=1)(jax.random.key(0), batch_size)
    compile_seconds, program = harness.compile_timed(step_by_hand, start, jax.random.key(0))
    warm_up, *keys = jax.random.split(jax.random.key(1), 1 + calls)
    # Past the games' common start, so that a repeat covers games of all ages.
    for key in jax.random.split(warm_up, 8):
        start, _ = program(start, key)

    def play(states: State) -> tuple[State, list[Rows]]:
        counted = []
        for key in keys:
            states, rows = program(states, key)
            counted.append(rows._replace(shown=None))
        return states, counted

    copied = harness.Program(play, lambda: jax.block_until_ready(jax.tree.map(jnp.copy, start)))
    times, results = harness.time_in_turns({"": copied}, repeats)
    states, counted = results[""]
    num_steps, num_choices = (sum(int(getattr(rows, name).sum()) for rows in counted) for name in ("valid", "is_choice"))
    return {
        "num_steps": num_steps,
        "share_of_steps_counted": num_steps / (batch_size * calls * _STEPS),
        "compile_seconds": compile_seconds,
        **times[""].rates("steps", num_steps),
        **times[""].rates("decisions", num_choices),
        "program_bytes_per_lane": harness.program_bytes(program) / batch_size,
        "digest": harness.digest(np.asarray(leaf) for leaf in jax.tree.leaves(states)),
    }

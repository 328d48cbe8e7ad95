"""Speed of the adapters beside the libraries' own comparable games, in one run, with random legal actions.

    python -m benchmarks.adapters --json results.json

A library that is not installed is left out with a word (`pip install 'unojax[adapters]'`). Steps are steps of the game, plays and
draws of both players; the gymnasium environments play one seat, and the calls of that seat are stated beside them. Choosing the
actions is not timed where it is the caller's business (gymnasium, PettingZoo, OpenSpiel), except inside compiled loops.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from benchmarks import engine, rlcard_peer, timing
from unojax import Rules, observe, uniform
from unojax.adapters.encoding import DType


class Run(NamedTuple):
    """Steps of the game and calls made, in so many seconds."""

    steps: int
    calls: int
    seconds: float


def measure(run: Callable[[], Run], repeats: int) -> dict[str, Any]:
    """Run once to compile, and then so many times: rates of steps and of calls."""
    run()
    runs = [run() for _ in range(repeats)]

    def spread(rates: list[float]) -> dict[str, float]:
        return {"median": float(np.median(rates)), "min": min(rates), "max": max(rates)}

    return {
        "steps_per_second": spread([run.steps / run.seconds for run in runs]),
        "calls_per_second": spread([run.calls / run.seconds for run in runs]),
    }


def beside(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure what a row is compared with, just before it: a machine that is shared is not as fast at all times."""
    peer = rlcard_peer.measure(
        python=arguments.peer_python, games=100, repeats=arguments.repeats, cache=timing.REPOSITORY / ".cache"
    )
    onehot = engine.measure_onehot(arguments.batch_size, calls=8, repeats=arguments.repeats)
    return {"rlcard_env": peer["levels"]["env"]["steps_per_second"], "onehot": onehot["steps_per_second"]}


def random_legal(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    """Choose one of the legal actions of each row."""
    return (rng.random(mask.shape, np.float32) * mask).argmax(-1)


def vector_environment(num_envs: int, num_calls: int, dtype: DType, opponent: str) -> Callable[[], Run]:
    """Make the run of our gymnasium vector environment, observations delivered as NumPy."""
    from unojax.adapters.gymnasium import UnoVectorEnv

    envs, rng = UnoVectorEnv(num_envs, opponent, dtype=dtype), np.random.default_rng(0)
    mask = envs.reset(seed=0)[0]["action_mask"]

    def run() -> Run:
        nonlocal mask
        steps, calls, seconds = 0, 0, 0.0
        over = np.zeros(num_envs, bool)
        before = envs._games.lanes
        for _ in range(num_calls):
            actions = random_legal(rng, mask)
            began = perf_counter()
            observation, _, terminated, truncated, _ = envs.step(actions)
            seconds += perf_counter() - began
            mask = observation["action_mask"]
            # A call that only resets a game is none.
            calls += int((~over).sum())
            over = terminated | truncated
            after = envs._games.lanes
            so_far = np.where(after.number == before.number, before.packed.step_count, 0)
            steps += int((after.packed.step_count - so_far).sum())
            before = after
        return Run(steps, calls, seconds)

    return run


def pgx_loop(env: Any, batch_size: int, num_steps: int, choose: Callable[[Any, Any], Any]) -> Callable[[], Run]:
    """Make the run of a vmapped pgx environment in one compiled loop; games that are over are dealt anew after each call."""
    init, step = jax.vmap(env.init), jax.vmap(env.step)

    @jax.jit
    def play(states: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        def one(states: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            key_choose, key_step = jax.random.split(key)
            actions = jax.vmap(choose)(jax.random.split(key_choose, batch_size), states)
            live = (~(states.terminated | states.truncated)).sum()
            return step(states, actions, jax.random.split(key_step, batch_size)), live

        states, live = jax.lax.scan(one, states, jax.random.split(key, num_steps))
        fresh = init(jax.random.split(jax.random.fold_in(key, 1), batch_size))
        over = states.terminated | states.truncated

        def pick(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(over.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        return jax.tree.map(pick, fresh, states), live.sum()

    start = jax.jit(init)(jax.random.split(jax.random.key(0), batch_size))

    def run() -> Run:
        states, steps, began = start, 0, perf_counter()
        for number in range(8):
            states, live = play(states, jax.random.key(number))
            steps += int(live)
        jax.block_until_ready(states)
        return Run(steps, steps, perf_counter() - began)

    return run


def any_legal(key: jax.Array, state: Any) -> jax.Array:
    """Choose one of the legal actions of a pgx state."""
    return jax.random.categorical(key, jnp.where(state.legal_action_mask, 0.0, -jnp.inf))


def uniform_play(key: jax.Array, state: Any) -> jax.Array:
    """Choose as the one-hot benchmark of the engine does."""
    position = state._seats.state
    return uniform(key, observe(position, position.current_player), state.legal_action_mask)


def aec_loop(env: Any, num_steps: int) -> Callable[[], Run]:
    """Make the run of a PettingZoo environment."""
    rng = np.random.default_rng(0)

    def run() -> Run:
        steps, seconds = 0, 0.0
        env.reset(seed=0)
        while steps < num_steps:
            began = perf_counter()
            observation, _, terminated, truncated, info = env.last()
            seconds += perf_counter() - began
            if terminated or truncated:
                env.reset()
                continue
            mask = observation["action_mask"] if isinstance(observation, dict) else info["action_mask"]
            action = int(rng.choice(np.flatnonzero(mask)))
            began = perf_counter()
            env.step(action)
            seconds += perf_counter() - began
            steps += 1
        return Run(steps, steps, seconds)

    return run


def spiel_loop(game: Any, num_steps: int) -> Callable[[], Run]:
    """Make the run of an OpenSpiel game, with what an agent is given: legal actions and the observation tensor. Chance is counted
    in the time and not as steps."""
    rng = np.random.default_rng(0)

    def run() -> Run:
        steps, began = 0, perf_counter()
        while steps < num_steps:
            state = game.new_initial_state()
            while not state.is_terminal():
                if state.is_chance_node():
                    actions, probs = zip(*state.chance_outcomes(), strict=True)
                    state.apply_action(int(rng.choice(actions, p=probs)))
                    continue
                state.observation_tensor(state.current_player())
                state.apply_action(int(rng.choice(state.legal_actions())))
                steps += 1
        return Run(steps, steps, perf_counter() - began)

    return run


def rlcard_loop(num_steps: int) -> Callable[[], Run]:
    """Make the run of our RLCard environment."""
    from unojax.adapters import rlcard

    env, rng = rlcard.make(seed=0), np.random.default_rng(0)

    def run() -> Run:
        steps, seconds = 0, 0.0
        while steps < num_steps:
            state, _ = env.reset()
            while not env.is_over():
                action = int(rng.choice(list(state["legal_actions"])))
                began = perf_counter()
                state, _ = env.step(action)
                seconds += perf_counter() - began
                steps += 1
        return Run(steps, steps, seconds)

    return run


def jaxmarl_loop(env: Any, batch_size: int, num_steps: int) -> Callable[[], Run]:
    """Make the run of a vmapped JaxMARL environment, resets and all, in one compiled loop."""
    agents = env.agents

    @jax.jit
    def play(states: Any, key: jax.Array) -> Any:
        def one(states: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            keys = jax.random.split(key, (1 + len(agents), batch_size))
            available = jax.vmap(env.get_avail_actions)(states)
            actions = {
                agent: jax.vmap(lambda key, legal: jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf)))(
                    k, available[agent]
                )
                for agent, k in zip(agents, keys[1:], strict=True)
            }
            obs, states, *_ = jax.vmap(env.step)(keys[0], states, actions)
            return states, sum(o.sum() for o in obs.values())

        return jax.lax.scan(one, states, jax.random.split(key, num_steps))

    start = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), batch_size))[1]

    def run() -> Run:
        states, began = start, perf_counter()
        for number in range(4):
            states, seen = play(states, jax.random.key(number))
        jax.block_until_ready((states, seen))
        steps = 4 * num_steps * batch_size
        return Run(steps, steps, perf_counter() - began)

    return run


def rows(arguments: argparse.Namespace) -> Iterator[tuple[str, str, Callable[[], Run]]]:
    """Name what is measured: the library, what of it, and its run."""
    size, few = arguments.batch_size, arguments.host_steps
    if find_spec("gymnasium"):
        for dtype in ("int8", "float32"):
            yield (
                "gymnasium",
                f"vector environment, {size:,} games, {dtype}",
                vector_environment(size, arguments.calls, dtype, "uniform"),
            )
        yield "gymnasium", "the same against linear, int8", vector_environment(size, arguments.calls, "int8", "linear")
    if find_spec("pgx"):
        import pgx

        from unojax.adapters.pgx import Uno

        yield "pgx", f"ours, vmapped, {size:,} games, int8", pgx_loop(Uno(dtype="int8"), size, 16, uniform_play)
        yield "pgx", f"ours, vmapped, {size:,} games, float32", pgx_loop(Uno(), size, 16, uniform_play)
        yield "pgx", f"its Leduc hold'em, {size:,} games", pgx_loop(pgx.make("leduc_holdem"), size, 16, any_legal)
    if find_spec("jaxmarl"):
        from unojax.adapters.jaxmarl import Uno as Marl

        yield "jaxmarl", "ours, vmapped, 1,024 games", jaxmarl_loop(Marl(dtype="int8"), 1024, 16)
    if find_spec("pettingzoo"):
        from unojax.adapters import pettingzoo

        yield "pettingzoo", "ours", aec_loop(pettingzoo.env(), few)
    if find_spec("pyspiel"):
        import pyspiel

        from unojax.adapters import openspiel

        yield "openspiel", "ours", spiel_loop(openspiel.load_game(Rules()), few)
        yield "openspiel", "its Crazy Eights (C++)", spiel_loop(pyspiel.load_game("crazy_eights(players=2)"), few)
    if find_spec("rlcard"):
        yield "rlcard", "ours", rlcard_loop(few)


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print and, if asked to, write the results; returns them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.adapters", description="Speed of the adapters beside their peers."
    )
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--batch-size", type=int, default=4096, help="games at a time (%(default)s)")
    parser.add_argument("--calls", type=int, default=60, help="steps of the vector environments in a repeat (%(default)s)")
    parser.add_argument("--host-steps", type=int, default=2000, help="steps of one game at a time in a repeat (%(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="timed repeats (%(default)s)")
    parser.add_argument("--peer-python", help="a Python that can import rlcard; by default one is set up in .cache/")
    arguments = parser.parse_args(argv)
    environment = timing.environment()
    missing = [name for name in ("gymnasium", "pgx", "jaxmarl", "pettingzoo", "pyspiel", "rlcard") if not find_spec(name)]
    measured = [
        {"library": library, "what": what, **beside(arguments), **measure(run, arguments.repeats)}
        for library, what, run in rows(arguments)
    ]
    results = {"benchmark": "adapters", "environment": environment, "rows": measured, "left_out": missing}
    table = Table(title="steps of the game per second")
    if measured:
        peer, onehot = (float(np.median([row[name]["median"] for row in measured])) for name in ("rlcard_env", "onehot"))
        table.caption = f"RLCard's UNO {timing.si(peer)}, our one-hot {timing.si(onehot)}"
    for column in ("library", "what", "steps/s", "min .. max", "calls/s", "x RLCard", "x one-hot"):
        table.add_column(column, justify="left" if column in ("library", "what") else "right")
    for row in measured:
        rate, calls = row["steps_per_second"], row["calls_per_second"]
        table.add_row(
            row["library"],
            row["what"],
            timing.si(rate["median"]),
            f"{timing.si(rate['min'])} .. {timing.si(rate['max'])}",
            timing.si(calls["median"]),
            f"{rate['median'] / row['rlcard_env']['median']:.2g}",
            f"{rate['median'] / row['onehot']['median']:.2g}",
        )
    console = timing.console()
    console.print(table)
    if missing:
        console.print(f"Left out, since it is not installed: {', '.join(missing)}. pip install 'unojax[adapters]'")
    timing.write_json(arguments.json, results)
    return results


if __name__ == "__main__":
    main()

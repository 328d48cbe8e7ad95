"""Speed of the adapters and of comparable games in their libraries, in one run, with random legal actions.

Missing libraries are skipped (`pip install 'unojax[adapters]'`). Steps are steps of the game, plays and draws of both players.
The gymnasium environments play one seat, whose calls are reported too. The choice of actions is not timed if it is up to the
caller (gymnasium, PettingZoo, OpenSpiel), except inside compiled loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import engine, harness, rlcard_peer
from benchmarks.harness import Config, Task
from unojax import Rules, observe, uniform
from unojax.adapters.encoding import DType

_HOST_STEPS: Final = 2000
"""Steps in a repeat of a program that plays one game at a time."""


class Run(NamedTuple):
    """Number of steps and calls, and their seconds."""

    steps: int
    calls: int
    seconds: float


@harness.benchmark("adapters", batch_sizes=(4096,), calls=60, games=100, repeats=5, peer_python="")
def adapters(config: Config) -> Iterator[Task]:
    """Speed of each adapter whose library is installed, beside RLCard's UNO (`--games` of it) and the one-hot functions."""
    for library, what, make in programs(config.batch_sizes[0], config.calls):
        if find_spec(library):
            yield Task(
                {"library": library, "program": what, **config.settings("calls", "repeats")}, partial(measure, make, config)
            )


def measure(make: Callable[[], Callable[[], Run]], config: Config) -> dict[str, Any]:
    """Run once to compile, then several times; just before, measure the peers because the machine's speed varies."""
    peer = rlcard_peer.measure(config)["levels"]["env"]["steps_per_second"]
    onehot = engine.measure_onehot(config.batch_sizes[0], calls=8, repeats=config.repeats)["steps_per_second"]
    run = make()
    run()
    runs = [run() for _ in range(config.repeats)]
    steps, calls = (harness.spread([getattr(one, name) / one.seconds for one in runs]) for name in ("steps", "calls"))
    return {
        "steps_per_second": steps,
        "calls_per_second": calls,
        "rlcard_env": peer,
        "onehot": onehot,
        "times_rlcard": steps["median"] / peer["median"],
        "times_onehot": steps["median"] / onehot["median"],
    }


def programs(size: int, calls: int) -> Iterator[tuple[str, str, Callable[[], Callable[[], Run]]]]:
    """Yield the library, the program, and the function that returns its run, which needs the library."""
    environments: tuple[tuple[DType, str], ...] = (("int8", "uniform"), ("float32", "uniform"), ("int8", "linear"))
    for dtype, opponent in environments:
        name = f"vector environment, {size:,} games, {dtype}, against {opponent}"
        yield "gymnasium", name, partial(vector_environment, size, calls, dtype, opponent)
    yield "pgx", f"ours, vmapped, {size:,} games, int8", lambda: pgx_loop(_pgx("int8"), size, 16, uniform_play)
    yield "pgx", f"ours, vmapped, {size:,} games, float32", lambda: pgx_loop(_pgx("float32"), size, 16, uniform_play)
    yield "pgx", f"its Leduc hold'em, {size:,} games", lambda: pgx_loop(_pgx(None), size, 16, any_legal)
    yield "jaxmarl", "ours, vmapped, 1,024 games", lambda: jaxmarl_loop(1024, 16)
    yield "pettingzoo", "ours", lambda: host_loop(pettingzoo_game())
    yield "pyspiel", "ours", lambda: host_loop(spiel_game(ours=True))
    yield "pyspiel", "its Crazy Eights (C++)", lambda: host_loop(spiel_game(ours=False))
    yield "rlcard", "ours", lambda: host_loop(rlcard_game())


def _pgx(dtype: Any) -> Any:
    import pgx  # pyright: ignore[reportMissingImports]

    from unojax.adapters.pgx import Uno

    return pgx.make("leduc_holdem") if dtype is None else Uno(dtype=dtype)


def random_legal(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    """Choose one of the legal actions of each row."""
    return (rng.random(mask.shape, np.float32) * mask).argmax(-1)


def vector_environment(num_envs: int, num_calls: int, dtype: DType, opponent: str) -> Callable[[], Run]:
    """Return the run of the gymnasium vector environment, with NumPy observations."""
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
            # A call that only resets a game does not count.
            calls += int((~over).sum())
            over = terminated | truncated
            after = envs._games.lanes
            so_far = np.where(after.number == before.number, before.packed.step_count, 0)
            steps += int((after.packed.step_count - so_far).sum())
            before = after
        return Run(steps, calls, seconds)

    return run


def pgx_loop(env: Any, batch_size: int, num_steps: int, choose: Callable[[Any, Any], Any]) -> Callable[[], Run]:
    """Return the run of a vmapped pgx environment in one compiled loop; finished games restart after each call."""
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

        dealt = jax.tree.map(lambda new, old: jnp.where(over.reshape(-1, *[1] * (old.ndim - 1)), new, old), fresh, states)
        return dealt, live.sum()

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


class HostGame(NamedTuple):
    """A library's game, played one action after the other on the host.

    Attributes:
        start: Deals, and returns the arguments of the other functions.
        legal: Returns the legal actions, after the agent's other inputs.
        act: Plays an action, and returns the new arguments; None at the end of a game.
    """

    start: Callable[[], Any]
    legal: Callable[[Any], Any]
    act: Callable[[Any, int], Any]


def host_loop(game: HostGame, num_steps: int = _HOST_STEPS) -> Callable[[], Run]:
    """Return the run of a game on the host; choosing is not timed."""
    rng = np.random.default_rng(0)

    def run() -> Run:
        steps, chosen, began, now = 0, 0.0, perf_counter(), None
        while steps < num_steps:
            now = game.start() if now is None else now
            actions = game.legal(now)
            choosing = perf_counter()
            action = int(rng.choice(actions))
            chosen += perf_counter() - choosing
            now, steps = game.act(now, action), steps + 1
        return Run(steps, steps, perf_counter() - began - chosen)

    return run


def pettingzoo_game() -> HostGame:
    """Return the PettingZoo environment."""
    from unojax.adapters import pettingzoo

    env: Any = pettingzoo.env()

    def start() -> Any:
        env.reset()
        return env.last()

    def act(_: Any, action: int) -> Any:
        env.step(action)
        last = env.last()
        return None if last[2] or last[3] else last

    return HostGame(start, lambda last: np.flatnonzero(last[0]["action_mask"]), act)


def spiel_game(*, ours: bool) -> HostGame:
    """Return an OpenSpiel game with an agent's inputs. Chance counts in the time but not as steps."""
    import pyspiel  # pyright: ignore[reportMissingImports]

    from unojax.adapters import openspiel

    game: Any = openspiel.load_game(Rules()) if ours else pyspiel.load_game("crazy_eights(players=2)")
    rng = np.random.default_rng(1)

    def act(state: Any, action: int | None) -> Any:
        if action is not None:
            state.apply_action(action)
        while state.is_chance_node():
            actions, probs = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(int(rng.choice(actions, p=probs)))
        return None if state.is_terminal() else state

    def legal(state: Any) -> Any:
        state.observation_tensor(state.current_player())
        return state.legal_actions()

    return HostGame(lambda: act(game.new_initial_state(), None), legal, act)


def rlcard_game() -> HostGame:
    """Return the RLCard environment."""
    from unojax.adapters import rlcard

    env = rlcard.make(seed=0)

    def act(_: Any, action: int) -> Any:
        state, _ = env.step(action)
        return None if env.is_over() else state

    return HostGame(lambda: env.reset()[0], lambda state: list(state["legal_actions"]), act)


def jaxmarl_loop(batch_size: int, num_steps: int) -> Callable[[], Run]:
    """Return the run of the vmapped JaxMARL environment, including resets, in one compiled loop."""
    from unojax.adapters.jaxmarl import Uno

    env: Any = Uno(dtype="int8")

    @jax.jit
    def play(states: Any, key: jax.Array) -> Any:
        def one(states: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            keys = jax.random.split(key, (1 + len(env.agents), batch_size))
            available = jax.vmap(env.get_avail_actions)(states)
            choose = jax.vmap(lambda key, legal: jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf)))
            actions = {agent: choose(k, available[agent]) for agent, k in zip(env.agents, keys[1:], strict=True)}
            seen, states, *_ = jax.vmap(env.step)(keys[0], states, actions)
            return states, jnp.stack([one.sum() for one in seen.values()])

        return jax.lax.scan(one, states, jax.random.split(key, num_steps))

    start = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), batch_size))[1]

    def run() -> Run:
        seconds, _ = harness.stopwatch(lambda: play(start, jax.random.key(0)))
        return Run(num_steps * batch_size, num_steps * batch_size, seconds)

    return run

"""Programs of the package on a GPU: measured on one, or compiled for one without it.

    python -m benchmarks.gpu --json gpu.json                # on a machine with a GPU: every part, in six minutes
    python -m benchmarks.gpu --parts simulate beliefs       # some of it, in this process
    python -m benchmarks.gpu --compile-only                 # no GPU needed, but JAX's CUDA wheels
    python -m benchmarks.gpu --compile-only --programs belief_update

Each part is measured in a separate process. First the processes run in parallel, to compile their programs on all cores into a
shared folder. Then they are measured one after the other, by priority, each within its own and any unused seconds. Each row is
written as soon as it is measured.

`--compile-only` compiles every program at its GPU size for an NVIDIA H100, down to machine code. It reports the compilation time,
the program's memory, and its fusions, copies and loops.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import unojax
from benchmarks import belief_speed, engine, harness, rollout, search
from benchmarks.harness import Config, Task
from training.loop import on_mesh
from training.policy.config import PolicyConfig
from training.updates import AXIS, make_mesh
from training.value.config import ValueConfig
from unojax import init, observe
from unojax.arena import play_match
from unojax.belief import Belief, belief_init, belief_update, infer_action
from unojax.belief.hands import Hands
from unojax.belief.opponents import FAMILY, Opponent, parse_opponent, uniform_opponent
from unojax.belief.updaters import ParticleFilter
from unojax.device.platform import available_cores, tuned_for
from unojax.device.shares import ALL
from unojax.device.static import Argument
from unojax.game import legal_mask, step
from unojax.observation import Observation
from unojax.policies import distinct, uniform
from unojax.rules import Rules
from unojax.search.agents import monte_carlo
from unojax.simulation import run, simulate
from unojax.simulation.harvest import Gather, Limits, advance_slots, make_kept, start_run
from unojax.specs import parse_agent

BUDGETS: Final = {
    "simulate": 60.0,
    "beliefs": 25.0,
    "search": 25.0,
    "match": 25.0,
    "large_belief": 15.0,
    "policy_training": 25.0,
    "onehot": 25.0,
    "equal_to_cpu": 10.0,
    "value_training": 25.0,
}
"""Parts by priority, and the seconds of each after compilation."""
_COMPILING: Final = 120.0
"""Seconds for the parallel compilation of all parts."""


@harness.benchmark("gpu", compile_only=False, programs=(), parts=(), scale=1.0, repeats=3, budget=0.0)
def gpu(config: Config) -> Iterator[Task]:
    """Programs of the package on a GPU: measured in six minutes, or compiled for one (`--compile-only`)."""
    if not 0 < config.scale <= 1:
        raise ValueError(f"--scale must be in (0, 1], got {config.scale:g}")
    for name, chosen, known in (("parts", config.parts, BUDGETS), ("programs", config.programs, programs())):
        if unknown := set(chosen) - {*known}:
            raise ValueError(f"--{name} must be among {', '.join(known)}; got {', '.join(sorted(unknown))}")
    if config.parts and config.compile_only:
        raise ValueError("--parts are what is measured on a GPU; with --compile-only name --programs")
    if config.programs and not config.compile_only:
        raise ValueError("--programs are what --compile-only compiles; name --parts to measure")
    if config.compile_only:
        target_mesh()
        for name in config.programs or programs():
            yield Task(
                {"compiled": name, "target": "NVIDIA H100 80GB HBM3", "scale": config.scale},
                partial(compile_program, name, config),
            )
    elif config.parts:
        if set(config.parts) <= {"policy_training", "value_training"}:
            # A CPU trains with one device for each core.
            jax.config.update("jax_num_cpu_devices", available_cores())
        for name in config.parts:
            for task in PARTS[name](config):
                settings = {"part": name, **task.settings, **config.settings("scale", "repeats")}
                yield Task(settings, partial(guarded, task.measure, name))
    else:
        measure_in_processes(config)


# -- Every part within its time --------------------------------------------------------------------------------------------------


def measure_in_processes(config: Config) -> None:
    """Compile all parts in parallel, then measure one after the other; each adds its rows to the file."""
    with tempfile.TemporaryDirectory() as folder:
        shared = {"JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", folder)}
        # In parallel they share the device's memory.
        compiling = [
            start_part(name, config, ["--repeats", "1"], shared | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}) for name in BUDGETS
        ]
        deadline = time.monotonic() + (config.budget or _COMPILING)
        for process in compiling:
            finish(process, deadline)
        deadline = time.monotonic()
        for name, seconds in BUDGETS.items():
            deadline += config.budget or seconds
            kept = ["--json", str(config.json)] if config.json else []
            if not finish(start_part(name, config, ["--repeats", str(config.repeats), *kept], shared, shown=True), deadline):
                print(f"{name}: not finished in its time; the rows above are kept", flush=True)


def start_part(
    name: str, config: Config, options: list[str], environment: dict[str, str], *, shown: bool = False
) -> subprocess.Popen[bytes]:
    """Start a process that measures a part."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--cached", "--parts", name, "--scale", str(config.scale), *options]
    told = None if shown else subprocess.DEVNULL
    return subprocess.Popen(command, cwd=harness.REPOSITORY, env=os.environ | environment, stdout=told, stderr=told)


def finish(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Wait for a process until a time of `time.monotonic`, then end it; return whether it had finished."""
    try:
        return process.wait(max(0.0, deadline - time.monotonic())) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False


# -- What is measured ------------------------------------------------------------------------------------------------------------


def size(full: int, scale: float) -> int:
    """Return a smaller batch size, a power of two."""
    return 1 << max(3, round(math.log2(full * scale)))


def guarded(part: Callable[[], dict[str, Any]], name: str) -> dict[str, Any]:
    """Run a part. If the device's memory is too small, print one line with the option to lower."""
    try:
        told = jax.devices()[0].memory_stats
        return part() | {"memory": {one: (told() or {}).get(one) for one in ("peak_bytes_in_use", "bytes_limit")}}
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return {"error": f"{name}: the device ran out of memory; lower --scale"}


def _by_size(measure: Callable[..., dict[str, Any]], name: str, *exponents: int) -> Callable[[Config], Iterator[Task]]:
    def tasks(config: Config) -> Iterator[Task]:
        for number in sorted({size(2**e, config.scale) for e in exponents}, reverse=True):
            yield Task({name: number}, partial(measure, number, repeats=config.repeats))

    return tasks


def measure_beliefs(num_games: int, *, repeats: int) -> dict[str, Any]:
    """Time one vmapped update of `num_games` beliefs of equally many particles, at positions of real games."""
    positions, mix = belief_speed.prepare(num_games, ParticleFilter(num_games), max_steps=400, seed=0)
    call = belief_speed.compile_call(positions)
    times, results = harness.time_in_turns({"": call.program}, repeats)
    return belief_speed.figures(call, times[""], results[""], num_games) | {"positions": mix}


def measure_large_belief(particles: int, *, repeats: int) -> dict[str, Any]:
    """Time the first updates of a single belief with very many particles."""
    update, state = jax.jit(belief_update), init(jax.random.key(1))
    seen = observe(state, 0)
    belief = jax.jit(partial(belief_init, num_particles=particles))(seen, jax.random.key(2))
    arguments = []
    for t in range(2):
        state = step(state, jnp.argmax(legal_mask(state)), jax.random.key(10 + t))
        before, seen = seen, observe(state, 0)
        arguments.append((before, infer_action(before, seen), seen, jax.random.key(20 + t)))

    def follow() -> list[Any]:
        now, infos = belief, []
        for one in arguments:
            now, info = update(now, *one)
            infos.append(info)
        return infos

    times, infos = harness.repeat(follow, repeats)
    return times.rates("updates", len(arguments)) | {"depleted": any(bool(info.depleted) for info in infos)}


def measure_search(decisions: int, *, repeats: int) -> dict[str, Any]:
    """Time flat Monte Carlo, four rollouts of each play, over a batch of decisions of real games."""
    problems = search.record_decisions(num_decisions=decisions, num_particles=128, max_steps=400, seed=0)
    agent = monte_carlo(rollouts=4 * decisions, particles=128)
    return search.measure_batch(agent, problems, repeats=repeats)


def measure_match(pairs: int, *, repeats: int) -> dict[str, Any]:
    """Time a match of the shipped network, with a belief, against the linear policy, both seats of every deal."""
    play = partial(play_match, jax.random.key(3), (parse_agent("value"), parse_agent("linear")), pairs)
    times, points = harness.repeat(lambda: play().points, repeats)
    return times.rates("games", 2.0 * pairs) | {"win_rate": float(np.mean(points))}


def measure_training(config: ValueConfig | PolicyConfig, repeats: int) -> dict[str, Any]:
    """Time iterations of training, in games or in a policy's choices."""
    mesh = make_mesh()
    iterate, state = config.make_iteration(mesh), on_mesh(config.start(), mesh)
    # Repeat the same iteration: other states have the same size.
    times, (_, metrics) = harness.repeat(lambda: iterate(state), repeats)
    done = (
        times.rates("games", config.games)
        if isinstance(config, ValueConfig)
        else times.rates("choices", float(metrics.sums.choices))
    )
    return {"devices": mesh.size, **done, "gradient_norm": float(metrics.gradient_norm)}


def compare_with_cpu(num_games: int, *, repeats: int) -> dict[str, Any]:
    """Play the same games on this device and on the CPU, once."""
    del repeats

    def played() -> str:
        games = simulate(jax.random.key(5), num_games, batch_size=min(num_games, 1024))
        return harness.digest([games.winner, games.num_steps, games.num_choices, games.num_reshuffles, games.hand_sizes])

    here = played()
    with jax.default_device(jax.devices("cpu")[0]):
        there = played()
    return {"digest": here, "digest_of_cpu": there, "equal": here == there}


def _value_training(config: Config) -> Iterator[Task]:
    yield Task({}, lambda: measure_training(value_training(config.scale), config.repeats))


def _policy_training(config: Config) -> Iterator[Task]:
    yield Task({}, lambda: measure_training(policy_training(config.scale), config.repeats))


PARTS: Final[dict[str, Callable[[Config], Iterator[Task]]]] = {
    "simulate": _by_size(partial(engine.measure_packed, games_per_lane=8), "lanes", 22, 20, 18),
    "beliefs": _by_size(measure_beliefs, "games_and_particles", 10),
    "search": _by_size(measure_search, "decisions", 8),
    "match": _by_size(measure_match, "pairs", 12),
    "large_belief": _by_size(measure_large_belief, "particles", 20),
    "policy_training": _policy_training,
    "onehot": _by_size(engine.measure_onehot, "games", 18),
    "equal_to_cpu": _by_size(compare_with_cpu, "games", 12),
    "value_training": _value_training,
}


# -- Compiled for an H100 --------------------------------------------------------------------------------------------------------

_H100: Final = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84929347584
  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 13 minor: 0 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


@cache
def target_mesh() -> Mesh:
    """Describe one H100 as a mesh; to be called before JAX looks for devices.

    Raises:
        ValueError: If the CUDA wheels are missing.
    """
    # Without a driver, its version can't be checked, and kernels can't be tried out.
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false")
    try:
        topology = topologies.get_topology_desc(platform="cuda", target_config=_H100, topology="1x1x1")
    except Exception as error:
        raise ValueError(
            "compiling for an H100 needs JAX's CUDA wheels; install them in an environment of their own: "
            "python3 -m venv .h100 && .h100/bin/pip install -e '.[all,cuda]'"
        ) from error
    return topologies.make_mesh(topology, (1,), ("device",))


def compile_program(name: str, config: Config) -> dict[str, Any]:
    """Compile a program for the shapes of its arguments."""
    sharding = NamedSharding(target_mesh(), PartitionSpec())
    with tuned_for("gpu"):
        jitted, args = programs(config.scale)[name]()
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tuple(args))
        began, cpu_began = time.perf_counter(), sum(os.times()[:4])
        compiled = jitted.lower(*shapes).compile()
        seconds, cpu_seconds = time.perf_counter() - began, sum(os.times()[:4]) - cpu_began
    text, memory = compiled.as_text(), compiled.memory_analysis()
    return {
        "compile_seconds": seconds,
        "compile_cpu_seconds": cpu_seconds,
        "argument_bytes": memory.argument_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "result_bytes": memory.output_size_in_bytes,
        **{
            what: text.count(f" {operation}(")
            for what, operation in (("fusions", "fusion"), ("copies", "copy"), ("loops", "while"))
        },
    }


_ROLLOUT_ROWS: Final = 16


def programs(scale: float = 1.0) -> dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]]:
    """Return the programs at GPU size: functions that return the jitted function and the shapes of its arguments."""

    def size(full: int) -> int:
        return max(2, int(full * scale))

    in_progress, games = size(2**20), size(1024)
    return {
        "simulate, statistics": partial(_simulate, "count", in_progress),
        "simulate, every game": partial(_simulate, "keep", in_progress),
        "one-hot": partial(_onehot, size(2**18)),
        "rollout, counts": partial(_rollout, rollout.count_rows, in_progress),
        "rollout, one-hot delivered": partial(_rollout, rollout.deliver_rows, size(2**18)),
        "belief_init": partial(_belief_init, games),
        "belief_update": partial(_belief_update, games),
        "init": partial(_init, size(2**20)),
        "flat Monte Carlo": partial(_search, size(256)),
        "value training": lambda: _training(value_training(scale)),
        "policy training": lambda: _training(policy_training(scale)),
    }


def value_training(scale: float) -> ValueConfig:
    """Return the options of an iteration of value training; `scale` below 1 plays fewer games, for fewer updates."""
    default = ValueConfig()
    updates = max(1, round(default.updates * scale))
    return replace(default, updates=updates, games=_multiple(default.games * scale, updates, 2 * len(default.play.opponents)))


def policy_training(scale: float) -> PolicyConfig:
    """Return the options of an iteration of policy training; `scale` below 1 plays fewer games at a time, for fewer updates."""
    default = PolicyConfig()
    updates = max(1, round(default.updates * scale))
    return replace(default, updates=updates, lanes=_multiple(default.lanes * scale, updates, 2))


def _multiple(number: float, updates: int, of: int) -> int:
    """Round so that each update's share is a positive multiple of `of`."""
    return updates * of * max(1, round(number / (updates * of)))


def _training(config: ValueConfig | PolicyConfig) -> tuple[Any, tuple[Any, ...]]:
    # As `training.updates.make_mesh` does.
    mesh = Mesh(target_mesh().devices, (AXIS,), axis_types=(AxisType.Explicit,))
    return config.make_iteration(mesh), (_shapes(config.start),)


def _shapes(function: Callable[..., Any], *args: Any) -> Any:
    return jax.eval_shape(function, *args)


def _keys(number: int) -> Array:
    return jnp.zeros((number, 2), jnp.uint32)


def _simulate(gather: Gather, lanes: int) -> tuple[Any, tuple[Any, ...]]:
    policies, rules = (uniform, uniform), Rules()
    limits = Limits(*map(jnp.uint32, (0, 0, *ALL)))
    started = _shapes(partial(start_run, lanes, policies=policies, rules=rules), limits)
    seed = (jnp.uint32(0), jnp.uint32(0))
    options = {"truncates": False, "gather": gather, "on": run.platform()}
    kept = _shapes(partial(make_kept, 8 * lanes)) if gather == "keep" else None
    program = jax.jit(partial(advance_slots, **options), donate_argnums=(0, 5))
    return program, (*started, seed, limits, Argument(distinct(policies)), kept)


def _onehot(lanes: int) -> tuple[Any, tuple[Any, ...]]:
    states = _shapes(jax.vmap(unojax.init), _keys(lanes))
    return engine.step_by_hand, (states, jnp.zeros(2, jnp.uint32))


def _rollout(program: Any, num_slots: int) -> tuple[Any, tuple[Any, ...]]:
    """Return one of the programs of `benchmarks.rollout`."""
    slots = _shapes(partial(unojax.start_slots, num_slots=num_slots), _keys(1)[0])
    return jax.jit(partial(program, num_rows=_ROLLOUT_ROWS), donate_argnums=0), (slots, _keys(1)[0])


def _init(games: int) -> tuple[Any, tuple[Any, ...]]:
    return jax.jit(jax.vmap(unojax.init)), (_keys(games),)


def _observations(games: int) -> Observation:
    return _shapes(jax.vmap(lambda key: observe(unojax.init(key), 0)), _keys(games))


def _beliefs(games: int, opponent: Opponent = uniform_opponent) -> Belief:
    begin = partial(belief_init, num_particles=1024, opponent=opponent)
    return _shapes(jax.vmap(begin), _observations(games), _keys(games))


def _belief_init(games: int) -> tuple[Any, tuple[Any, ...]]:
    return jax.jit(jax.vmap(partial(belief_init, num_particles=1024))), (_observations(games), _keys(games))


def _belief_update(games: int) -> tuple[Any, tuple[Any, ...]]:
    seen, actions = _observations(games), np.zeros(games, np.int32)
    return jax.jit(jax.vmap(belief_update), donate_argnums=0), (_beliefs(games), seen, actions, seen, _keys(games))


def _search(decisions: int) -> tuple[Any, tuple[Any, ...]]:
    hands, seen = _shapes(jax.vmap(Hands.of), _beliefs(decisions, parse_opponent(FAMILY))), _observations(decisions)
    problems = search.Problems(hands, seen, np.ones((decisions, Rules().num_actions), bool))
    return jax.jit(jax.vmap(partial(search.think, monte_carlo(rollouts=1000)))), (_keys(decisions), problems)


if __name__ == "__main__":
    harness.main("gpu")

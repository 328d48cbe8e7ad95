"""The device programs of the package, at the sizes that a GPU is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import AxisType, Mesh

import unojax
from benchmarks import belief_speed, engine, gpu_target, rollout
from training.policy.config import PolicyConfig
from training.updates import AXIS
from training.value.config import ValueConfig
from unojax import observe
from unojax.arena import lanes
from unojax.belief import Belief, Info, belief_init, belief_update
from unojax.belief.hands import Hands
from unojax.belief.opponents import FAMILY, Opponent, parse_opponent, uniform_opponent
from unojax.belief.particles import NUM_MOVES, parallel, weighing
from unojax.belief.particles.schedule import num_blocks
from unojax.belief.particles.stages import read_transition
from unojax.device import static
from unojax.device.batching import num_turns
from unojax.device.random_bits import key_words
from unojax.observation import Observation
from unojax.policies import distinct, uniform
from unojax.rules import Rules
from unojax.search.agents import Remembered, SearchAgent, monte_carlo, tree
from unojax.simulation import run
from unojax.simulation.harvest import Gather, Limits, advance_slots, make_kept, start_run

NODES_PER_STEP: Final = 1 / 0.694
"""Nodes of a packed game for each step, as `benchmarks.engine_parts` counts them in uniform play."""
NODES_PER_GAME: Final = 120
"""Of uniform play, about."""
ROLLOUT_ROWS: Final = 16
VALID_OF_THREE_NODES: Final = 0.92
"""Share of the rows of a rollout of uniform play that are valid, with three nodes each."""
BYTES_PER_GAME: Final = 16
"""Of a game's results."""


@dataclass(frozen=True)
class DeviceProgram:
    """One program and its unit of work.

    Attributes:
        make: gives the jitted function and the shapes of its arguments.
        unit: of work, in the singular.
        units: of work in a call.
        trips: gives how often loops run whose trip count the compiler does not know; see `gpu_count.Trips`. From real games.
        host_bytes: brought to the host per call.
    """

    make: Callable[[], tuple[Any, tuple[Any, ...]]]
    unit: str
    units: float
    trips: Callable[[], Mapping[str, float]] = dict
    host_bytes: int = 0


def programs(*, scale: float = 1.0) -> dict[str, DeviceProgram]:
    """List the programs; `scale` below 1 makes batches smaller, for tests."""

    def size(full: int) -> int:
        return max(2, int(full * scale))

    in_progress, games, particles, decisions = size(2**20), size(1024), size(1024), size(256)
    nodes = 8 * 16 * in_progress
    return {
        "simulate, statistics": DeviceProgram(partial(_simulate, "count", in_progress), "step", nodes / NODES_PER_STEP),
        "simulate, every game": DeviceProgram(
            # Results stay on the device until the last game has ended.
            partial(_simulate, "keep", in_progress),
            "step",
            nodes / NODES_PER_STEP,
            host_bytes=int(BYTES_PER_GAME * nodes / NODES_PER_GAME),
        ),
        "one-hot": DeviceProgram(partial(_onehot, size(2**18)), "step", 16 * size(2**18)),
        "rollout, counts": DeviceProgram(
            partial(_rollout, rollout.count_rows, in_progress), "step", ROLLOUT_ROWS * in_progress / NODES_PER_STEP
        ),
        "rollout, one-hot delivered": DeviceProgram(
            partial(_rollout, rollout.deliver_rows, size(2**18)), "step", ROLLOUT_ROWS * size(2**18) * VALID_OF_THREE_NODES
        ),
        "belief_init": DeviceProgram(partial(_belief_init, games, particles), "belief", games),
        "belief_update": DeviceProgram(
            partial(_belief_update, games, particles), "update", games, partial(belief_turns, games, particles)
        ),
        "init": DeviceProgram(partial(_init, size(2**20)), "deal", size(2**20)),
        "a step of a match": DeviceProgram(partial(_match_step, size(4096)), "step", size(4096)),
        "flat Monte Carlo": DeviceProgram(partial(_search, monte_carlo(rollouts=1000), decisions), "decision", decisions),
        "tree search": DeviceProgram(partial(_search, tree(simulations=1000), decisions), "decision", decisions),
        "value training": DeviceProgram(partial(_training, value_training(scale)), "game", value_training(scale).games),
        "policy training": DeviceProgram(partial(_training, policy_training(scale)), "row", _num_rows(policy_training(scale))),
    }


def value_training(scale: float) -> ValueConfig:
    """Give the options of an iteration of value training; `scale` below 1 plays fewer games, for fewer updates."""
    default = ValueConfig()
    updates = max(1, round(default.updates * scale))
    return replace(default, updates=updates, games=_multiple(default.games * scale, updates, 2 * len(default.play.opponents)))


def policy_training(scale: float) -> PolicyConfig:
    """Give the options of an iteration of policy training; `scale` below 1 plays fewer games at a time, for fewer updates."""
    default = PolicyConfig()
    updates = max(1, round(default.updates * scale))
    return replace(default, updates=updates, lanes=_multiple(default.lanes * scale, updates, 2))


def _num_rows(config: PolicyConfig) -> int:
    return config.lanes * config.rows


def _multiple(number: float, updates: int, of: int) -> int:
    """Round to a share of each update that is a multiple, and not none."""
    return updates * of * max(1, round(number / (updates * of)))


def _training(config: ValueConfig | PolicyConfig) -> tuple[Any, tuple[Any, ...]]:
    # As `training.updates.make_mesh` makes them.
    mesh = Mesh(gpu_target.mesh().devices, (AXIS,), axis_types=(AxisType.Explicit,))
    return config.make_iteration(mesh), (_shapes(config.start),)


def _shapes(function: Callable[..., Any], *args: Any) -> Any:
    return jax.eval_shape(function, *args)


def _keys(number: int) -> Array:
    return jnp.zeros((number, 2), jnp.uint32)


def _simulate(gather: Gather, lanes: int) -> tuple[Any, tuple[Any, ...]]:
    policies, rules = (uniform, uniform), Rules()
    numbers, skeleton = static.split(distinct(policies))
    limits = Limits(jnp.uint32(0), jnp.uint32(0))
    started = _shapes(partial(start_run, lanes, policies=policies, rules=rules), limits)
    seed = (jnp.uint32(0), jnp.uint32(0))
    options = {"policies": skeleton, "truncates": False, "gather": gather, "on": run.platform()}
    kept = _shapes(partial(make_kept, 8 * lanes)) if gather == "keep" else None
    program = jax.jit(partial(advance_slots, **options), donate_argnums=(0, 5))
    return program, (*started, seed, limits, numbers, kept)


def _onehot(lanes: int) -> tuple[Any, tuple[Any, ...]]:
    states = _shapes(jax.vmap(unojax.init), _keys(lanes))
    return engine.play_onehot, (states, jnp.zeros(2, jnp.uint32))


def _rollout(program: Any, num_slots: int) -> tuple[Any, tuple[Any, ...]]:
    """Build one of the programs of `benchmarks.rollout`."""
    slots = _shapes(partial(unojax.start_slots, num_slots=num_slots), _keys(1)[0])
    return jax.jit(partial(program, num_rows=ROLLOUT_ROWS), donate_argnums=0), (slots, _keys(1)[0])


def _init(games: int) -> tuple[Any, tuple[Any, ...]]:
    return jax.jit(jax.vmap(unojax.init)), (_keys(games),)


def _match_step(games: int) -> tuple[Any, tuple[Any, ...]]:
    """Build what a match does at a step besides asking its agents."""
    seats, match = _shapes(
        partial(lanes.deal, rules=Rules()), _keys(1)[0], *(np.zeros(games, np.int32),) * 2, np.ones(games, bool)
    )
    chosen = np.zeros(games, np.int32)
    return jax.jit(partial(lanes.advance, chunk=games)), (seats, match, [chosen, chosen])


def _observations(games: int) -> Observation:
    return _shapes(jax.vmap(lambda key: observe(unojax.init(key), 0)), _keys(games))


def _beliefs(games: int, particles: int, opponent: Opponent = uniform_opponent) -> Belief:
    begin = partial(belief_init, num_particles=particles, opponent=opponent)
    return _shapes(jax.vmap(begin), _observations(games), _keys(games))


def _belief_init(games: int, particles: int) -> tuple[Any, tuple[Any, ...]]:
    return jax.jit(jax.vmap(partial(belief_init, num_particles=particles))), (_observations(games), _keys(games))


def _belief_update(games: int, particles: int) -> tuple[Any, tuple[Any, ...]]:
    seen = _observations(games)
    arguments = (_beliefs(games, particles), seen, np.zeros(games, np.int32), seen, _keys(games))
    return jax.jit(jax.vmap(belief_update), donate_argnums=0), arguments


def belief_turns(games: int, particles: int) -> dict[str, float]:
    """Count the turns of the loops of an update over positions of real games, by the names of the loops.

    The positions are those of `benchmarks.belief_speed`, at random stages of uniform play. Fewer particles follow them, which the
    effective sample sizes hardly depend on.
    """
    fewer = min(particles, 128)
    positions, _ = belief_speed.prepare(num_games=games, num_particles=fewer, max_steps=400, seed=0)
    keys = jax.random.split(jax.random.key(7), games)
    _, info = jax.jit(jax.vmap(belief_update))(*positions, keys)
    history = positions.beliefs.public

    # Positions are arguments: as constants the compiler would work on them itself, for ten seconds.
    @jax.jit
    def due(positions: belief_speed.Positions, info: Info) -> tuple[dict[str, Array], Array]:
        rules = positions.before.rules
        of = jax.vmap(lambda *position: read_transition(*position[:-1], key_words(position[-1])))(*positions, keys)
        nothing = jnp.zeros(games)
        weighed = weighing.Weighing(nothing, info.ess, nothing, info.depleted, info.restarted, info.resampled)
        moves_due = jax.vmap(lambda weighed: weighing.num_moves_due(weighed, fewer, NUM_MOVES))(weighed)
        blocks = jax.vmap(partial(num_blocks, rules=rules))(of.new)
        rounds = parallel.due_stages(of, rules) | parallel.due_moves(weighed, moves_due, parallel.is_long(of.new))
        return rounds | {"reset": info.restarted}, blocks

    rounds, blocks = jax.device_get(due(positions, info))
    chunks = parallel.chunks_for(games, particles, history.max_slots, history.max_records)

    def turns(name: str) -> float:
        chunk = chunks[name]
        return float(num_turns(rounds[name].astype(np.int64), chunk.games, blocks if chunk.blocks else None, chunk.blocks))

    return {f"/{name}/": turns(name) for name in rounds}


def _search(agent: SearchAgent, decisions: int) -> tuple[Any, tuple[Any, ...]]:
    beliefs = _beliefs(decisions, 1024, parse_opponent(FAMILY))
    hands = _shapes(jax.vmap(Hands.of), beliefs)

    def think(key: Array, hands: Hands, seen: Observation) -> Any:
        legal = seen.legal_mask
        return agent.think(key, Remembered(hands, jnp.int32(0)), seen, legal)[0]

    return jax.jit(jax.vmap(think)), (_keys(decisions), hands, _observations(decisions))

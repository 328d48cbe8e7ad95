"""Speed of the searches.

    python -m benchmarks.search speed --json search_speed.json

The agents' `think` searches one decision of each of many recorded games between linear players: a batch in one call, and one at a
time.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks import timing
from unojax import cards, game, table
from unojax.analysis import record
from unojax.belief import belief_init
from unojax.belief.hands import Hands
from unojax.belief.opponents import FAMILY, parse_opponent
from unojax.device.random_bits import key_words
from unojax.game import State
from unojax.observation import Observation, determinize_packed, observe
from unojax.policies import LINEAR
from unojax.search.agents import Remembered, SearchAgent, monte_carlo, tree
from unojax.search.monte_carlo import ROUNDS, Estimate, Samples, sample_hands
from unojax.search.rollouts import Lanes, Rollouts, Starts, list_arms, play_out
from unojax.search.tree import TreeGuide, new_store
from unojax.table import Node

_LANES: Final = 2048
_COUNTED: Final = 32
"""Decisions over which the nodes of a rollout are counted."""


class Problems(NamedTuple):
    """Decisions that D searches are given.

    Attributes:
        hands: [D, N] hands that the opponents may hold: a particle belief as far as a search looks at it.
        observations: [D] of the players to move.
        legal: bool[D, 61], two or more legal actions each.
    """

    hands: Hands
    observations: Observation
    legal: Array

    def first(self, num: int) -> Problems:
        """Take the first so many."""
        return jax.tree.map(lambda x: x[:num], self)


def record_decisions(*, num_decisions: int, num_particles: int, max_steps: int, seed: int) -> Problems:
    """Pick a random decision of each of so many games between linear players.

    The particles' hands do not change the work of a search, so they are drawn from all unseen cards alike.
    """
    games = record(jax.random.key(seed), num_decisions, (LINEAR, LINEAR), max_steps=max_steps)
    family = parse_opponent(FAMILY)

    @jax.jit
    @jax.vmap
    def pick(states: State, key: Array) -> Problems:
        key_step, key_hands = jax.random.split(key)
        legal = jax.vmap(game.legal_mask)(states)
        is_choice = ~states.is_over & (legal.sum(-1) > 1)
        at = jax.random.categorical(key_step, jnp.where(is_choice, 0.0, -jnp.inf))
        state = jax.tree.map(lambda x: x[at], states)
        seen = observe(state, state.current_player)
        belief = belief_init(seen, key_hands, num_particles=num_particles, opponent=family)
        return Problems(Hands.of(belief), seen, legal[at])

    return jax.block_until_ready(pick(games.states, jax.random.split(jax.random.key(seed + 1), num_decisions)))


def think(agent: SearchAgent, key: Array, decision: Problems) -> Estimate:
    """Let an agent estimate one decision, unbatched."""
    return agent.think(key, Remembered(decision.hands, jnp.int32(0)), decision.observations, decision.legal)[0]


def measure_batch(agent: SearchAgent, decisions: Problems, nodes_per_rollout: float, *, repeats: int) -> dict[str, Any]:
    """Time all decisions in one vmapped call."""
    num_decisions = len(decisions.legal)
    keys = jax.random.split(jax.random.key(7), num_decisions)
    compile_seconds, program = timing.compile_timed(jax.jit(jax.vmap(partial(think, agent))), keys, decisions)
    estimate = jax.block_until_ready(program(keys, decisions))
    began = time.process_time()
    times, estimate = timing.repeat(lambda: program(keys, decisions), repeats)
    cpu_seconds = time.process_time() - began
    rollouts = float(np.asarray(estimate.num_samples, np.float64).sum())
    return {
        "decisions": num_decisions,
        "compile_seconds": compile_seconds,
        "seconds": list(times.seconds),
        "decisions_per_second": times.rate(num_decisions),
        "rollouts_per_decision": rollouts / num_decisions,
        "rollouts_per_second": times.rate(rollouts),
        "nodes_per_second": times.rate(rollouts * nodes_per_rollout),
        "cores_used": cpu_seconds / sum(times.seconds),
        "temporary_bytes": program.memory_analysis().temp_size_in_bytes,
        "digest": timing.digest([np.asarray(estimate.value)]),
    }


def measure_single(agent: SearchAgent, decisions: Problems, *, repeats: int) -> dict[str, Any]:
    """Time one decision after the other, from the call to the result."""
    singles = [jax.tree.map(lambda x, d=d: x[d], decisions) for d in range(len(decisions.legal))]
    key = jax.random.key(7)
    compile_seconds, program = timing.compile_timed(jax.jit(partial(think, agent)), key, singles[0])
    jax.block_until_ready(program(key, singles[0]))
    seconds = np.array([timing.repeat(lambda s=s: program(key, s), repeats)[0].median for s in singles])
    return {"decisions": len(singles), "compile_seconds": compile_seconds, **_latency(seconds)}


class _Counted(NamedTuple):
    """Guide that counts the nodes of rollouts, and leaves all else to another one or to the policy. A `rollouts.Guide`."""

    guide: TreeGuide | None

    def start(self, num_lanes: int) -> Any:
        inner = () if self.guide is None else self.guide.start(num_lanes)
        return inner, jnp.zeros(num_lanes, jnp.uint32)

    def waits(self, walks: Any, lanes: Lanes, node: Node) -> Array:
        return jnp.zeros_like(node.is_decision) if self.guide is None else self.guide.waits(walks[0], lanes, node)

    def follow(self, walks: Any, lanes: Lanes, move: Array) -> Any:
        inner = walks[0] if self.guide is None else self.guide.follow(walks[0], lanes, move)
        return inner, walks[1] + (move != table.stay(lanes.table)).astype(jnp.uint32)

    def advise(self, store: Any, walks: Any, lanes: Lanes, position: Array) -> tuple[Any, Any, Array]:
        if self.guide is None:
            return store, walks, lanes.first
        inner, moved, first = self.guide.advise(store[0], walks[0], lanes, position)
        return (inner, store[1]), (moved, walks[1]), first

    def learn(self, store: Any, walks: Any, ended: Array, returns: Array) -> Any:
        inner = store[0] if self.guide is None else self.guide.learn(store[0], walks[0], ended, returns)
        return inner, store[1] + jnp.where(ended, walks[1], 0).sum(dtype=jnp.float32)


def nodes_per_rollout(agent: SearchAgent, decisions: Problems, *, num_rollouts: int) -> float:
    """Count the nodes of `unojax.table` that a rollout passes, on average over these decisions."""
    search = agent.search
    inner = () if search.tree is None else new_store(len(decisions.legal), search.tree.num_nodes)
    how = Rollouts(search.policies, search.rules, num_rollouts, _LANES, guide=_Counted(search.tree), types=search.types)

    @jax.jit
    def count(decisions: Problems, keys: Array) -> Array:
        pairs = jax.vmap(jax.random.split)(keys)
        samples: Samples = jax.vmap(partial(sample_hands, num=num_rollouts))(pairs[:, 0], decisions.hands)
        placed = jax.vmap(determinize_packed)(decisions.observations, samples.hands), samples.types
        tables, types = jax.tree.map(lambda x: x.reshape(-1), placed)
        arms = list_arms(decisions.legal[:, : cards.DRAW])
        seeds = jax.vmap(key_words)(pairs[:, 1])
        _, (_, nodes) = play_out(Starts(tables, seeds, types), arms, how, (inner, jnp.float32(0)))
        return nodes / (arms.number * num_rollouts)

    return float(count(decisions, jax.random.split(jax.random.key(8), len(decisions.legal))))


def _latency(seconds: np.ndarray) -> dict[str, Any]:
    return {
        "milliseconds": {name: float(1e3 * np.quantile(seconds, q)) for name, q in (("median", 0.5), ("p95", 0.95))},
        "decisions_per_second": float(len(seconds) / seconds.sum()),
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Take all measurements of `speed`."""
    rollouts, how = arguments.rollouts, {"particles": arguments.particles, "model": arguments.model}
    timing.without_compilation_cache()
    environment = timing.environment()
    decisions = record_decisions(
        num_decisions=max(*arguments.batch_sizes, arguments.single, _COUNTED),
        num_particles=arguments.particles,
        max_steps=arguments.max_steps,
        seed=arguments.seed,
    )
    agents = {
        "flat": monte_carlo(rollouts=rollouts, **how),
        "tree, all simulations": tree(simulations=rollouts, stop=0.0, **how),
        "tree": tree(simulations=rollouts, **how),
    }
    rows = {}
    for label, agent in agents.items():
        nodes = nodes_per_rollout(agent, decisions.first(_COUNTED), num_rollouts=rollouts)
        rows[label] = {
            "agent": agent.name,
            "nodes_per_rollout": nodes,
            "batches": [
                measure_batch(agent, decisions.first(size), nodes, repeats=arguments.repeats) for size in arguments.batch_sizes
            ],
            "single": measure_single(agent, decisions.first(arguments.single), repeats=arguments.repeats),
        }
    return {
        "benchmark": "search_speed",
        "environment": environment,
        "seed": arguments.seed,
        "model": arguments.model,
        "repeats": arguments.repeats,
        "rollouts": rollouts,
        "particles": arguments.particles,
        "legal_plays_mean": float(np.asarray(decisions.legal[:, : cards.DRAW]).sum(1).mean()),
        "agents": rows,
    }


def report(results: dict[str, Any], console: Console) -> None:
    """Print the results of `speed`."""
    shown = RichTable(title=f"{results['rollouts']} rollouts of each of {results['legal_plays_mean']:.1f} plays on average")
    for name in ("", "decisions", "decisions/s", "rollouts/s", "nodes/s", "cores", "compiled in"):
        shown.add_column(name, justify="right" if name else "left")
    for label, row in results["agents"].items():
        for batch in row["batches"]:
            rates = (timing.si(batch[f"{what}_per_second"]["median"]) for what in ("decisions", "rollouts", "nodes"))
            shown.add_row(
                label, str(batch["decisions"]), *rates, f"{batch['cores_used']:.1f}", f"{batch['compile_seconds']:.1f} s"
            )
    console.print(shown)
    for label, row in results["agents"].items():
        took = row["single"]["milliseconds"]
        console.print(f"one decision alone, {label}: {took['median']:.0f} ms (95 %: {took['p95']:.0f} ms)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `speed`."""
    parser.add_argument("--batch-sizes", type=_batch_sizes, default=(16, 64, 256), help="decisions in one call")
    parser.add_argument("--rollouts", type=int, default=1000, help=f"of each legal play, a multiple of {ROUNDS}")
    parser.add_argument("--particles", type=int, default=1024, help="hands that the opponent may hold")
    parser.add_argument("--model", default="minimax", help="whom the search takes its opponent for")
    parser.add_argument("--single", type=int, default=32, help="decisions for one at a time")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--max-steps", type=int, default=300, help="longer games are cut off there")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Measure, print, and return what was found."""
    positive = ("rollouts", "particles", "single", "repeats", "max_steps")
    if min(getattr(arguments, name) for name in positive) < 1 or arguments.rollouts % ROUNDS:
        parser.error(f"numbers must be at least 1, and --rollouts a multiple of {ROUNDS}")
    results = measure(arguments)
    report(results, timing.console())
    timing.write_json(arguments.json, results)
    return results


def _batch_sizes(text: str) -> tuple[int, ...]:
    try:
        return timing.parse_batch_sizes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None

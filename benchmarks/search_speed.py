"""How fast the searches decide, and how fast a flat Monte Carlo in plain NumPy does.

    python -m benchmarks.search speed --json search_speed.json

One decision of each of many recorded games between linear players is searched: by the agents' `think`, a batch in one call and
one at a time, and by `benchmarks.numpy_search`, which gets the same decisions and beliefs in the same run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks import belief_methods, numpy_search, timing
from unojax import cards, game, table
from unojax.device import static
from unojax.belief import belief_init
from unojax.bits import Words
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import LINEAR, get_policy
from unojax.device.random_bits import key_words
from unojax.rules import Rules
from unojax.search.agents import Hands, MonteCarloAgent, SearchAgent, TreeAgent
from unojax.search.monte_carlo import ROUNDS, Estimate, sample_hands
from unojax.search.rollouts import Guide, Lanes, list_arms, place_cards, play_out
from unojax.search.tree import TreeGuide, new_store
from unojax.table import Node

_RULES: Final = Rules()
_LANES: Final = 2048


class Decisions(NamedTuple):
    """What D searches are given.

    Attributes:
        hands: [D, N] what the opponents may hold: the memory of an agent with a particle belief, as far as a search looks at it.
        observations: [D] of the players to move.
        legal: bool[D, 61], two or more legal actions each.
    """

    hands: Hands
    observations: Observation
    legal: Array

    def first(self, num: int) -> Decisions:
        """The first so many."""
        return jax.tree.map(lambda x: x[:num], self)


def record_decisions(*, num_decisions: int, num_particles: int, max_steps: int, seed: int) -> Decisions:
    """A random decision of each of so many games between linear players.

    What particles are believed in does not change the work of a search, so they are drawn from all unseen cards alike.
    """
    games = belief_methods.record_games(seed, (LINEAR, LINEAR), num_games=num_decisions, max_steps=max_steps, rules=_RULES)

    @jax.jit
    @jax.vmap
    def pick(states: State, key: Array) -> Decisions:
        key_step, key_hands = jax.random.split(key)
        legal = jax.vmap(partial(game.legal_mask, rules=_RULES))(states)
        is_choice = ~states.is_over & (legal.sum(-1) > 1)
        at = jax.random.categorical(key_step, jnp.where(is_choice, 0.0, -jnp.inf))
        state = jax.tree.map(lambda x: x[at], states)
        seen = observe(state, state.current_player, rules=_RULES)
        belief = belief_init(seen, key_hands, num_particles=num_particles, rules=_RULES)
        return Decisions(Hands(belief.packed, belief.log_weights), seen, legal[at])

    return jax.block_until_ready(pick(games.states, jax.random.split(jax.random.key(seed + 1), num_decisions)))


def think(agent: SearchAgent, key: Array, decision: Decisions) -> Estimate:
    """The agent's estimates of one decision, unbatched."""
    return agent.think(key, decision.hands, decision.observations, decision.legal)[0]


def measure_batch(agent: SearchAgent, decisions: Decisions, nodes_per_rollout: float, *, repeats: int) -> dict[str, Any]:
    """All decisions in one vmapped call."""
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


def measure_single(agent: SearchAgent, decisions: Decisions, *, repeats: int) -> dict[str, Any]:
    """One decision at a time: seconds from the call to the result, over all of them."""
    singles = [jax.tree.map(lambda x, d=d: x[d], decisions) for d in range(len(decisions.legal))]
    key = jax.random.key(7)
    compile_seconds, program = timing.compile_timed(jax.jit(partial(think, agent)), key, singles[0])
    jax.block_until_ready(program(key, singles[0]))
    seconds = np.array([timing.repeat(lambda s=s: program(key, s), repeats)[0].median for s in singles])
    return {"decisions": len(singles), "compile_seconds": compile_seconds, **_latency(seconds)}


def measure_numpy(decisions: Decisions, *, num_rollouts: int, batch: int, num_single: int, repeats: int) -> dict[str, Any]:
    """The same search in NumPy on one core: the first decisions a batch at a time, and one at a time."""
    host = numpy_decisions(decisions)
    rng = np.random.default_rng(7)
    num_steps = 0

    def run() -> list[numpy_search.Estimates]:
        nonlocal num_steps
        estimates, num_steps = [], 0
        for start in range(0, len(host), batch):
            here, steps = numpy_search.flat_monte_carlo(host[start : start + batch], num_rollouts, rng)
            estimates += here
            num_steps += steps
        return estimates

    times, estimates = timing.repeat(run, repeats)
    rollouts = num_rollouts * sum(len(each.actions) for each in estimates)
    single = [timing.stopwatch(lambda d=d: numpy_search.flat_monte_carlo([d], num_rollouts, rng))[0] for d in host[:num_single]]
    return {
        "decisions": len(host),
        "batch": batch,
        "seconds": list(times.seconds),
        "decisions_per_second": times.rate(len(host)),
        "rollouts_per_decision": rollouts / len(host),
        "rollouts_per_second": times.rate(rollouts),
        "steps_per_second": times.rate(num_steps),
        "single": {"decisions": len(single), **_latency(np.array(single))},
        "estimates": estimates,
    }


def numpy_decisions(decisions: Decisions) -> list[numpy_search.Decision]:
    """The decisions as the NumPy search takes them."""
    host = jax.device_get(decisions)
    return [
        numpy_search.Decision(
            observation=jax.tree.map(lambda x, d=d: x[d], host.observations),
            hands=np.stack([word[d] for word in host.hands.packed]),
            log_weights=host.hands.log_weights[d],
        )
        for d in range(len(host.legal))
    ]


def agreement(estimate: Estimate, peers: Sequence[numpy_search.Estimates]) -> dict[str, float]:
    """Differences of the estimates of both programs, in standard errors: the largest, and one for all decisions together.

    The variance is that of all returns at a play, both programs' together, with one win and one loss more, so that a play that
    always wins does not seem to have no error at all.

    Args:
        estimate: [D, 60] of `unojax`.
        peers: D.
    """
    value, num = np.asarray(estimate.value, np.float64), np.asarray(estimate.num_samples, np.float64)
    scores, of_base = [], []
    for d, peer in enumerate(peers):
        ours, n = value[d, peer.actions], num[d, peer.actions]
        # Returns are +1 and -1, but for the few games that are drawn.
        pooled = (ours + peer.value) / 2 * (2 * n / (2 * n + 2))
        z = (peer.value - ours) / np.sqrt((1 - pooled**2) * 2 / n)
        scores.append(z)
        of_base.append(z[np.flatnonzero(peer.actions == int(estimate.base[d]))[0]])
    every = np.concatenate(scores)
    return {
        "plays": len(every),
        "largest": float(np.abs(every).max()),
        "all_decisions": float(np.sum(of_base) / np.sqrt(len(of_base))),
    }


class _Counted(NamedTuple):
    """A guide, or none, whose rollouts are counted node by node. A `rollouts.Guide`."""

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


def nodes_per_rollout(agent: MonteCarloAgent | TreeAgent, decisions: Decisions, *, num_rollouts: int) -> float:
    """Nodes of `unojax.table` that a rollout passes, on average over these decisions."""
    policy = get_policy(agent.policy)
    guide: Guide = _Counted(None)
    store: Any = ()
    if isinstance(agent, TreeAgent):
        guide = _Counted(TreeGuide(policy, _RULES, agent.nodes, agent.exploration))
        store = new_store(len(decisions.legal), agent.nodes)
    numbers, skeleton = static.split((policy,))

    @jax.jit
    def count(decisions: Decisions, keys: Array) -> Array:
        pairs = jax.vmap(jax.random.split)(keys)
        samples: Words = jax.vmap(partial(sample_hands, num=num_rollouts))(pairs[:, 0], *decisions.hands)
        tables = jax.tree.map(lambda x: x.reshape(-1), jax.vmap(place_cards)(decisions.observations, samples))
        arms = list_arms(decisions.legal[:, : cards.DRAW])
        _, (_, nodes) = play_out(
            tables,
            jax.vmap(key_words)(pairs[:, 1]),
            arms,
            numbers,
            policies=skeleton,
            rules=_RULES,
            num_samples=num_rollouts,
            discount=1.0,
            num_lanes=_LANES,
            guide=guide,
            store=(store, jnp.float32(0)),
        )
        return nodes / (arms.number * num_rollouts)

    return float(count(decisions, jax.random.split(jax.random.key(8), len(decisions.legal))))


def _latency(seconds: np.ndarray) -> dict[str, Any]:
    return {
        "milliseconds": {name: float(1e3 * np.quantile(seconds, q)) for name, q in (("median", 0.5), ("p95", 0.95))},
        "decisions_per_second": float(len(seconds) / seconds.sum()),
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All measurements of `speed`."""
    rollouts = arguments.rollouts
    timing.without_compilation_cache()
    environment = timing.environment()
    decisions = record_decisions(
        num_decisions=max(*arguments.batch_sizes, arguments.single, arguments.numpy_decisions),
        num_particles=arguments.particles,
        max_steps=arguments.max_steps,
        seed=arguments.seed,
    )
    of_numpy = decisions.first(arguments.numpy_decisions)
    peer = measure_numpy(
        of_numpy,
        num_rollouts=rollouts,
        batch=arguments.numpy_batch,
        num_single=arguments.single,
        repeats=arguments.repeats,
    )
    # The first of these is what NumPy does too. A tree looks at its plays in rounds in any case.
    agents: dict[str, MonteCarloAgent | TreeAgent] = {
        "flat": MonteCarloAgent(rollouts=rollouts, particles=arguments.particles),
        "tree, all simulations": TreeAgent(simulations=rollouts, stop=0.0, particles=arguments.particles),
        "tree": TreeAgent(simulations=rollouts, particles=arguments.particles),
    }
    rows = {}
    for label, agent in agents.items():
        nodes = nodes_per_rollout(agent, of_numpy, num_rollouts=rollouts)
        rows[label] = {
            "agent": agent.name,
            "nodes_per_rollout": nodes,
            "batches": [
                measure_batch(agent, decisions.first(size), nodes, repeats=arguments.repeats) for size in arguments.batch_sizes
            ],
            "single": measure_single(agent, decisions.first(arguments.single), repeats=arguments.repeats),
        }
    keys = jax.random.split(jax.random.key(9), arguments.numpy_decisions)
    estimate = jax.jit(jax.vmap(partial(think, agents["flat"])))(keys, of_numpy)
    agreed = agreement(estimate, peer.pop("estimates"))
    best = max(batch["decisions_per_second"]["median"] for batch in rows["flat"]["batches"])
    return {
        "benchmark": "search_speed",
        "environment": environment,
        "seed": arguments.seed,
        "repeats": arguments.repeats,
        "rollouts": rollouts,
        "particles": arguments.particles,
        "legal_plays_mean": float(np.asarray(decisions.legal[:, : cards.DRAW]).sum(1).mean()),
        "agents": rows,
        "numpy": peer,
        "agreement_in_standard_errors": agreed,
        "ratios": {
            "batch": best / peer["decisions_per_second"]["median"],
            "single": rows["flat"]["single"]["decisions_per_second"] / peer["single"]["decisions_per_second"],
        },
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
    peer = results["numpy"]
    rates = (timing.si(peer[f"{what}_per_second"]["median"]) for what in ("decisions", "rollouts"))
    shown.add_row("NumPy, flat", str(peer["batch"]), *rates, "", "1", "")
    console.print(shown)
    for label, row in (*results["agents"].items(), ("NumPy, flat", peer)):
        took = row["single"]["milliseconds"]
        console.print(f"one decision alone, {label}: {took['median']:.0f} ms (95 %: {took['p95']:.0f} ms)")
    ratios, agreed = results["ratios"], results["agreement_in_standard_errors"]
    console.print(f"flat over NumPy: {ratios['batch']:.1f} for the best batch, {ratios['single']:.1f} for one decision")
    console.print(
        f"they differ by at most {agreed['largest']:.1f} standard errors in {agreed['plays']} plays, "
        f"by {agreed['all_decisions']:+.1f} in all"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `speed`."""
    parser.add_argument("--batch-sizes", type=_batch_sizes, default=(16, 64, 256), help="decisions in one call")
    parser.add_argument("--rollouts", type=int, default=1000, help=f"of each legal play, a multiple of {ROUNDS}")
    parser.add_argument("--particles", type=int, default=1024, help="hands that the opponent may hold")
    parser.add_argument("--single", type=int, default=32, help="decisions for one at a time")
    parser.add_argument("--numpy-decisions", type=int, default=32, help="decisions for the NumPy program")
    parser.add_argument("--numpy-batch", type=int, default=16, help="of these at a time")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--max-steps", type=int, default=300, help="longer games are cut off there")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)


def run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Measure, print, and return what was found."""
    positive = ("rollouts", "particles", "single", "numpy_decisions", "numpy_batch", "repeats", "max_steps")
    if min(getattr(arguments, name) for name in positive) < 1 or arguments.rollouts % ROUNDS:
        parser.error(f"numbers must be at least 1, and --rollouts a multiple of {ROUNDS}")
    results = measure(arguments)
    report(results, timing.console())
    if arguments.json is not None:
        timing.write_json(arguments.json, results)
    return results


def _batch_sizes(text: str) -> tuple[int, ...]:
    try:
        return timing.parse_batch_sizes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None

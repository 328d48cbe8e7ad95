"""The searches as agents: their speed, and the shortfall of their choices. `unojax arena` measures their strength.

* `search_speed`: The agents' `think` searches one decision of each of many recorded games between linear players, a batch in
  one call and one at a time.
* `search_shortfall`: Shortfall of agents' choices against the best choice that a search could find.

For the shortfall, the first agent plays against each opponent, a fixed policy. At each of its decisions all agents choose, each
with its own belief from the game so far, and a judge values all plays. The judge is a search that is given the opponent's policy,
up to the tremble that a belief adds to any policy. It uses many particles and many times the agents' rollouts. It approximates
one step of policy improvement on its rollout policy with little noise, and no search of this kind chooses better.

The shortfall is the judged value of the best plays less that of an agent's plays, summed over a game. It equals the return that
the agent loses against that step, on the positions of the first agent's games (the performance difference lemma, Kakade and
Langford 2002, lemma 6.1). With common rollouts it separates agents that thousands of games would not. Half of the judge's
rollouts select the best play and the other half value it, and vice versa, so that selection on noise adds no bias. The errors are
those of a mean over deals, each of two games.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from benchmarks import harness
from benchmarks.harness import Config, Task
from unojax import cards, game
from unojax.agents import Agent, Memory
from unojax.analysis import record
from unojax.arena.lanes import MatchLanes, Seats, Side, find_waiting, play_steps
from unojax.belief import belief_init
from unojax.belief.hands import Hands
from unojax.belief.opponents import FAMILY, parse_opponent
from unojax.device.batching import for_chosen
from unojax.game import State
from unojax.observation import Observation, observe, observe_packed
from unojax.policies import LINEAR
from unojax.rules import Rules
from unojax.search.agents import Remembered, SearchAgent, monte_carlo, tree
from unojax.search.monte_carlo import ROUNDS, Estimate
from unojax.specs import parse_agent

OPPONENTS: Final = ("uniform", "scarcest-color", "linear")
OPPONENT: Final = "OPPONENT"
"""Placeholder in an agent's spec for the name of the opponent, so that the agent knows it: mc:model=OPPONENT."""
_CHUNK: Final = 32
"""Games at a time in each part of the work."""
_POINTS: Final = 50.0
"""Points of win rate for a return of 1."""


# -- Speed -----------------------------------------------------------------------------------------------------------------------


@harness.benchmark(
    "search_speed",
    batch_sizes=(16, 64, 256),
    rollouts=1000,
    particles=(1024,),
    models=("minimax",),
    single=32,
    repeats=5,
    max_steps=300,
    seed=0,
)
def search_speed(config: Config) -> Iterator[Task]:
    """Decisions per second of flat Monte Carlo and of the tree search, in batches and one at a time."""
    if config.rollouts % ROUNDS:
        raise ValueError(f"--rollouts must be a multiple of {ROUNDS}, got {config.rollouts}")
    (particles, *_), (model, *_) = config.particles, config.models
    decisions = record_decisions(
        num_decisions=max(*config.batch_sizes, config.single),
        num_particles=particles,
        **config.settings("max_steps", "seed"),
    )
    how = {"particles": particles, "model": model}
    agents = {
        "flat": monte_carlo(rollouts=config.rollouts, **how),
        "tree, all simulations": tree(simulations=config.rollouts, stop=0.0, **how),
        "tree": tree(simulations=config.rollouts, **how),
    }
    for program, agent in agents.items():
        settings = {
            "program": program,
            "agent": agent.name,
            **config.settings("batch_sizes", "single", "repeats", "max_steps", "seed"),
        }
        yield Task(settings, partial(measure_agent, agent, decisions, config))


def measure_agent(agent: SearchAgent, decisions: Problems, config: Config) -> dict[str, Any]:
    """Time an agent in batches, and one decision at a time."""
    batches = {size: measure_batch(agent, decisions.first(size), repeats=config.repeats) for size in config.batch_sizes}
    plays = float(np.asarray(decisions.legal[:, : cards.DRAW]).sum(1).mean())
    key, first = jax.random.key(7), decisions.first(config.single)
    inputs = [(key, jax.tree.map(lambda x, d=d: x[d], first)) for d in range(len(first.legal))]
    single = harness.time_alone(partial(think, agent), inputs, config.repeats)
    return {"legal_plays_mean": plays, "batches": batches, "single": single}


class Problems(NamedTuple):
    """Decisions of D searches.

    Attributes:
        hands: [D, N] hypothetical hands of the opponents: the part of a particle belief that a search reads.
        observations: [D] of the players to move.
        legal: bool[D, 61], two or more legal actions each.
    """

    hands: Hands
    observations: Observation
    legal: Array

    def first(self, num: int) -> Problems:
        """Return the first `num` decisions."""
        return jax.tree.map(lambda x: x[:num], self)


def record_decisions(*, num_decisions: int, num_particles: int, max_steps: int, seed: int) -> Problems:
    """Return a random decision of each of `num_decisions` games between linear players.

    The particles' hands do not affect the work of a search, so they are uniform over unseen cards.
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
    """Return an agent's estimates for one decision, unbatched."""
    return agent.think(key, Remembered(decision.hands, jnp.int32(0)), decision.observations, decision.legal)[0]


def measure_batch(agent: SearchAgent, decisions: Problems, *, repeats: int) -> dict[str, Any]:
    """Time all decisions in one vmapped call."""
    num_decisions = len(decisions.legal)
    keys = jax.random.split(jax.random.key(7), num_decisions)
    compile_seconds, program = harness.compile_timed(jax.jit(jax.vmap(partial(think, agent))), keys, decisions)
    times, estimate = harness.repeat(lambda: program(keys, decisions), repeats)
    rollouts = float(np.asarray(estimate.num_samples, np.float64).sum())
    return {
        "compile_seconds": compile_seconds,
        **times.rates("decisions", num_decisions),
        "rollouts_per_decision": rollouts / num_decisions,
        **times.rates("rollouts", rollouts),
        "cores_used": sum(times.cpu_seconds) / sum(times.seconds),
        "temporary_bytes": program.memory_analysis().temp_size_in_bytes,
        "digest": harness.digest([np.asarray(estimate.value)]),
    }


# -- Shortfall -------------------------------------------------------------------------------------------------------------------


@harness.benchmark(
    "search_shortfall",
    agents=("mc", "mc:model=OPPONENT,opponent=OPPONENT", "value", "linear"),
    opponents=OPPONENTS,
    games=400,
    seed=0,
    particles=(4096,),
    rollouts=4096,
    runs=8,
)
def search_shortfall(config: Config) -> Iterator[Task]:
    """Points of win rate that choices fall short of the best, by a judge of `--particles`, `--rollouts` and `--runs`."""
    harness.even(config.games)
    harness.even(config.runs, "runs")
    settings = config.settings("agents", "games", "seed", "particles", "rollouts", "runs")
    for name in config.opponents:
        agents, opponent = [parse_agent(spec.replace(OPPONENT, name)) for spec in config.agents], parse_agent(name)
        judge = monte_carlo(model=name, opponent=name, keep=0.0, particles=config.particles[0], rollouts=config.rollouts)
        yield Task(
            {"opponent": name, **settings}, partial(fall_short, agents, opponent, judge, config.games, config.seed, config.runs)
        )


def fall_short(
    agents: list[Agent], opponent: Agent, judge: SearchAgent, num_games: int, seed: int, num_runs: int
) -> dict[str, Any]:
    """Play games of the first agent against an opponent, and sum up the shortfall of each agent's choices."""
    # The other agents and the judge observe the first agent's games.
    first, *others = (Side(agent, 0) for agent in (*agents, judge))
    sides = [first, Side(opponent, 1), *others]
    short, num_decisions = np.zeros((len(agents), num_games)), 0
    for step in play_steps(jax.random.key(seed), sides, np.arange(num_games // 2), rules=Rules(), batch_size=num_games):
        memory = others[-1].memory
        values, legal = jax.device_get(judge_plays(memory, step.seats, step.before, judge=judge, num_runs=num_runs))
        chosen = [step.actions[0], *(side.decide(step.seats, step.before) for side in others[:-1])]
        at = np.flatnonzero(legal.any(-1))
        num_decisions += len(at)
        short[:, at] += shortfall(values[at], legal[at], np.stack(jax.device_get(chosen))[:, at])
    of_deal = _POINTS * short.reshape(len(agents), -1, 2).mean(-1)
    points, error = of_deal.mean(1), of_deal.std(1, ddof=1) / np.sqrt(of_deal.shape[1])
    rows = [
        {"agent": agent.name, "points": float(p), "standard_error": float(e)}
        for agent, p, e in zip(agents, points, error, strict=True)
    ]
    return {"decisions_per_game": num_decisions / num_games, "rows": rows}


@partial(jax.jit, static_argnames=("judge", "num_runs"))
def judge_plays(memory: Memory, seats: Seats, lanes: MatchLanes, *, judge: SearchAgent, num_runs: int) -> tuple[Array, Array]:
    """Value the plays of agent A at its real choices, `num_runs` times: float32[G, runs, 60], bool[G, 60] valued plays."""

    def one(seats: Seats, lanes: MatchLanes, memory: Memory) -> tuple[Array, Array]:
        state, player = lanes.state, seats.game
        seen, key = observe_packed(state, player), jax.random.fold_in(jax.random.fold_in(seats.key, player), state.step_count)

        def once(key: Array) -> tuple[Array, Array]:
            estimate, legal = judge.think(key, memory, seen, game.packed_legal_mask(state))
            return estimate.value, legal

        values, legal = lax.map(once, jax.random.split(key, num_runs))
        return values, legal[0]

    num_games, num_choices = len(lanes.forced), Rules().num_choices
    waits = find_waiting(seats, lanes, 0)
    nothing = jnp.zeros((num_games, num_runs, num_choices)), jnp.zeros((num_games, num_choices), bool)
    return for_chosen(waits, _CHUNK, lambda _, *chunk: jax.vmap(one)(*chunk), (seats, lanes, memory), nothing)


def shortfall(values: np.ndarray, legal: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the shortfall of choices against the best play, from the values of several runs: float[K, D], not biased upwards.

    Args:
        values: float[D, R, A] of R independent runs, an even number.
        legal: bool[D, A].
        chosen: int[K, D] choices of K agents.
    """
    halves = values[:, ::2].mean(1), values[:, 1::2].mean(1)
    found = np.zeros(chosen.shape)
    for finds, tells in (halves, halves[::-1]):
        best = np.where(legal, finds, -np.inf).argmax(-1)
        told = np.take_along_axis(tells, np.concatenate([best[None], chosen]).T, axis=-1).T
        found += (told[0] - told[1:]) / 2
    return found

"""Win rates in RLCard's own UNO environment, under its rules, against its random agent and its rule agent.

    python -m benchmarks.rlcard_strength --games 1000 --agents uniform linear mc:rollouts=64

Needs RLCard in the same Python (`pip install 'unojax[rlcard]'`). RLCard deals, moves and says who has won. Many of its games run
side by side, so that our agents answer for all of them in one call; what they see is made of RLCard's tables, and they follow
every step as `Rules.rlcard()` has them (a penalty's draw is a step of its own here). Seats change from game to game. Games in
which RLCard fails for want of cards are counted and left out.
"""

# pyright: reportMissingImports=false
# The library may not be there.

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import timing
from benchmarks.rlcard_games import action_name, action_number, states_of, steps_of, table_of
from unojax import bits, cards, game
from unojax.agents import Agent
from unojax.arena.ratings import wilson_interval
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.specs import parse_agent

_OPPONENTS = ("random", "uno-rule-v1")


@jax.jit
def _observe(states: State, seats: jax.Array) -> tuple[Observation, jax.Array]:
    seen = jax.vmap(observe)(states, seats)
    return seen, jax.vmap(lambda one: one.legal_mask)(seen)


@jax.jit
def _step(states: State, actions: jax.Array, decks: jax.Array, colors: jax.Array) -> State:
    def one_game(state: State, action: jax.Array, deck: jax.Array, color: jax.Array) -> State:
        return game.step_with(state, action, game.GivenCards(bits.pack(cards.onehot(deck)), color))

    return jax.vmap(one_game)(states, actions, decks, colors)


@partial(jax.jit, static_argnames="agent")
def _begin(agent: Agent, keys: jax.Array, seen: Observation) -> Any:
    return jax.vmap(agent.init)(keys, seen)


@partial(jax.jit, static_argnames="agent")
def _follow(agent: Agent, keys: jax.Array, memory: Any, before: Observation, actions: jax.Array, after: Observation) -> Any:
    return jax.vmap(agent.update)(keys, memory, before, actions, after)


@partial(jax.jit, static_argnames="agent")
def _act(agent: Agent, keys: jax.Array, memory: Any, seen: Observation, legal: jax.Array) -> jax.Array:
    return jax.vmap(agent.act)(keys, memory, seen, legal)


def play(spec: str, opponent: str, games: int, seed: int) -> dict[str, Any]:
    """Play an agent of ours against one of RLCard's: games won, lost and failed, and the rate with its 95 % interval."""
    import rlcard
    import rlcard.models
    from rlcard.agents import RandomAgent

    np.random.seed(seed)  # noqa: NPY002  RLCard's agents draw from this generator.
    agent, began = parse_agent(spec, rules=Rules.rlcard()), time.perf_counter()
    theirs = RandomAgent(num_actions=cards.NUM_ACTIONS) if opponent == "random" else rlcard.models.load(opponent).agents[0]
    envs = [rlcard.make("uno", config={"seed": seed * 1_000_003 + number}) for number in range(games)]
    seats = np.arange(games) % 2
    for env in envs:
        env.reset()
    key = jax.random.key(seed, impl="threefry2x32")
    tables = [table_of(env.game) for env in envs]
    live, failed = np.ones(games, bool), np.zeros(games, bool)
    states = states_of(tables)
    seen, legal = _observe(states, seats)
    memory, number = _begin(agent, jax.random.split(jax.random.fold_in(key, 0), games), seen), 1
    while live.any():
        keys = jax.random.split(jax.random.fold_in(key, number), 3 * games).reshape(3, games)
        choices = np.asarray(_act(agent, keys[0], memory, seen, legal))
        forced, only = np.asarray(legal.sum(1)) == 1, np.asarray(legal.argmax(1))
        # At most two steps of ours for a call of RLCard's.
        actions, decks = np.full((2, games), -1, np.int32), np.zeros((2, games, cards.NUM_TYPES), np.int8)
        colors = np.zeros((2, games), np.int8)
        for index in np.flatnonzero(live):
            env, before = envs[index], tables[index]
            if before["player"] == seats[index]:
                name = action_name(int(only[index] if forced[index] else choices[index]))
            else:
                chosen, _ = theirs.eval_step(env.get_state(before["player"]))
                name = chosen if theirs.use_raw else env._decode_action(int(chosen))
            try:
                env.game.step(name)
            except IndexError:
                failed[index], live[index] = True, False
                continue
            tables[index] = table_of(env.game)
            live[index] = not env.game.is_over()
            played = {"tables": [before, tables[index]], "actions": [action_number(name)], "failed": False}
            for row, (action, deck, color, _) in enumerate(steps_of(played, Counter())):
                actions[row, index], decks[row, index], colors[row, index] = action, deck, color
        for row in (0, 1):
            states = _step(states, actions[row], decks[row], colors[row])
            then, legal = _observe(states, seats)
            memory = _follow(agent, keys[1 + row], memory, seen, actions[row], then)
            seen = then
        number += 1
    won = int(sum(int(env.game.round.winner[0]) == seat for env, seat, bad in zip(envs, seats, failed, strict=True) if not bad))
    counted = int((~failed).sum())
    interval = wilson_interval(won, counted)
    return {
        "agent": agent.name,
        "opponent": opponent,
        "games": counted,
        "won": won,
        "failed": int(failed.sum()),
        "rate": won / counted,
        "interval": [float(bound) for bound in interval],
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    """Play, print and, if asked to, write the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rlcard_strength", description="Win rates in RLCard's UNO environment."
    )
    parser.add_argument("--agents", nargs="+", default=["uniform", "linear", "mc:rollouts=64,particles=256"])
    parser.add_argument("--opponents", nargs="+", default=list(_OPPONENTS), choices=_OPPONENTS)
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    results = []
    for spec in arguments.agents:
        for opponent in arguments.opponents:
            results.append(play(spec, opponent, arguments.games, arguments.seed))
            print(json.dumps(results[-1]), flush=True)
    environment = timing.environment()
    written = {"benchmark": "rlcard_strength", "environment": environment, "seed": arguments.seed, "results": results}
    timing.write_json(arguments.json, written)


if __name__ == "__main__":
    main()

"""Calibration of the win probabilities that boards, advice and reviews show.

    python -m benchmarks.win_calibration --json FILE                    linear against itself, three sets of rules
    python -m benchmarks.win_calibration --rules official --players linear mc:rollouts=100

Two agents play games. An adviser has the view of player 0 and tracks the belief over the opponent's hand and type. At every
`--every`-th step it says how likely player 0 is to win (`unojax.search.win_estimate`), which is compared with the result of the
game. A drawn game is half a win. Positions are grouped by tenths of the probability and by the number of steps played; games are
independent, so that standard errors are over games.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import Array, lax
from rich.table import Table

from benchmarks.timing import console, environment, write_json
from unojax import agents, game
from unojax.agents import Agent
from unojax.analysis.calibration import calibrate
from unojax.analysis.estimates import Measure, estimate_ratio
from unojax.games.advising import read_search
from unojax.observation import observe
from unojax.rules import PRESETS, Rules
from unojax.search.agents import SearchAgent
from unojax.search.win_estimate import win_probability
from unojax.specs import parse_agent

_BATCH: Final = 64
"""Games of a program: an interrupted measurement loses no more."""
_START, _SAY, _STEP, _ACT, _UPDATE, _ADVISE = range(6)


@dataclass(frozen=True)
class Config:
    """Options of the measurement.

    Attributes:
        rules: names of presets; games are played under each.
        players: specs of the agents, player 0 first. The adviser knows neither.
        adviser: spec of the search whose belief and rollouts make the probability.
        games: to judge by.
        every: steps between two positions that are judged.
        max_steps: longer games are left out after that many steps.
        rollouts: of each probability.
        seed: of everything random.
        json: write the result here.
    """

    rules: tuple[str, ...] = ("default", "official", "house")
    players: tuple[str, str] = ("linear", "linear")
    adviser: str = "mc:particles=256"
    games: int = 2000
    every: int = 8
    max_steps: int = 160
    rollouts: int = 400
    seed: int = 1
    json: Path | None = None

    def __post_init__(self) -> None:
        for name, least in (("games", 2), ("every", 1), ("max_steps", 1), ("rollouts", 2)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if unknown := [name for name in self.rules if name not in PRESETS]:
            raise ValueError(f"rules must be among {', '.join(PRESETS)}, got {unknown[0]!r}")


class Said(NamedTuple):
    """Win probabilities of player 0 in G games, at S positions of each.

    Attributes:
        counted: bool[G, S] the game reached the position and ended within `Config.max_steps`.
        predicted: float[G, S] probability said.
        result: float[G, S] 1 for a win of player 0, 0 for a loss, 1/2 for a drawn game.
    """

    counted: np.ndarray
    predicted: np.ndarray
    result: np.ndarray


def play(config: Config, rules: Rules) -> Said:
    """Play the games, and say at their positions how likely player 0 is to win."""
    search = read_search(config.adviser, rules)
    players = tuple(parse_agent(spec, rules=rules) for spec in config.players)
    program = jax.jit(partial(lax.map, partial(_one_game, config=config, rules=rules, search=search, players=players)))
    parts = []
    for first in range(0, config.games, _BATCH):
        numbers = jnp.arange(first, first + _BATCH)
        keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(config.seed)))(numbers)
        parts.append(jax.device_get(program(keys)))
    predicted, winner, is_over = (np.concatenate(field)[: config.games] for field in zip(*parts, strict=True))
    result = np.where(winner < 0, 0.5, (winner == 0).astype(float))
    counted = ~np.isnan(predicted) & is_over[:, None]
    return Said(counted, np.where(counted, predicted, 0.5), np.broadcast_to(result[:, None], predicted.shape))


class _Game(NamedTuple):
    """A game in progress: position, memories of the players and of the adviser, float32[S] probabilities said, steps."""

    state: game.State
    memories: tuple[Any, ...]
    advice: Any
    said: Array
    step: Array


def _one_game(
    key: Array, *, config: Config, rules: Rules, search: SearchAgent, players: tuple[Agent, ...]
) -> tuple[Array, Array, Array]:
    """Play a game: float32[S] said, NaN where nothing was; the winner, int8[], and whether it ended."""

    def key_of(step: Array | int, purpose: int, player: int = 0) -> Array:
        return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(key, step), purpose), player)

    def say(now: _Game) -> Array:
        seen = observe(now.state, 0)
        return win_probability(key_of(now.step, _SAY), search, now.advice, seen, num_samples=config.rollouts)[0]

    def one_step(now: _Game) -> _Game:
        is_due = (now.step > 0) & (now.step % config.every == 0)
        said = lax.cond(is_due, lambda now: now.said.at[now.step // config.every - 1].set(say(now)), lambda now: now.said, now)
        before, mover = [observe(now.state, player) for player in range(2)], now.state.current_player

        def ask(player: int) -> Array:
            mask = before[player].legal_mask
            return agents.act(players[player], key_of(now.step, _ACT, player), now.memories[player], before[player], mask)

        action = lax.cond(mover == 0, lambda: ask(0), lambda: ask(1))
        state = game.step(now.state, action, key_of(now.step, _STEP))
        after = [observe(state, player) for player in range(2)]
        memories = tuple(
            agents.update(agent, key_of(now.step, _UPDATE, player), now.memories[player], before[player], action, after[player])
            for player, agent in enumerate(players)
        )
        advice = search.update(key_of(now.step, _ADVISE), now.advice, before[0], action, after[0])
        return _Game(state, memories, advice, said, now.step + 1)

    state = game.init(key_of(0, _START), rules=rules)
    first = [observe(state, player) for player in range(2)]
    memories = tuple(agent.init(key_of(0, _UPDATE, player + 2), first[player]) for player, agent in enumerate(players))
    advice = search.init(key_of(0, _ADVISE, 1), first[0])
    said = jnp.full((config.max_steps - 1) // config.every, jnp.nan)
    begun = _Game(state, memories, advice, said, jnp.int32(0))
    end = lax.while_loop(lambda now: ~now.state.is_over & (now.step < config.max_steps), one_step, begun)
    return end.said, end.state.winner, end.state.is_over


def surplus(said: Said) -> Measure:
    """Average what was said less what was won over the positions."""
    return estimate_ratio(np.where(said.counted, said.predicted - said.result, 0.0).sum(-1), said.counted.sum(-1))


def judge(said: Said, name: str, players: tuple[str, str]) -> tuple[Table, dict[str, Any]]:
    """Compare what was said under the rules `name` with the results: as a table, and as figures for a file."""
    positions, overall = int(said.counted.sum()), surplus(said)
    table = Table(title=f"{name}: {' against '.join(players)}, {positions:,} positions of {len(said.counted):,} games")
    for heading in ("said", "positions", "won", "said less won"):
        table.add_column(heading, justify="right")
    rows = []
    for number, predicted, observed, more in zip(*calibrate(said.predicted, said.result, said.counted), strict=True):
        table.add_row(f"{predicted:.1%}", f"{number:,}", f"{observed.value:.1%}", f"{more:+.1%}")
        means = {"number": int(number), "predicted": float(predicted), "observed": observed.value}
        rows.append({**means, "surplus": more.value, "standard_error": more.standard_error})
    table.add_row("all", f"{positions:,}", "", f"{overall:+.1%}")
    return table, {"rules": name, "surplus": overall.value, "standard_error": overall.standard_error, "bins": rows}


def main() -> int:
    """Run the command."""
    config = tyro.cli(Config)
    judged = []
    for name in config.rules:
        table, figures = judge(play(config, PRESETS[name]), name, config.players)
        console().print(table)
        judged.append(figures)
    settings = {name: getattr(config, name) for name in ("players", "adviser", "games", "every", "rollouts", "seed")}
    write_json(config.json, {"environment": environment(), **settings, "judged": judged})
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Agreement of the particle filter with the exact one, over whole random games of small decks with every kind of card.

    python -m benchmarks.belief_agreement --games 300 --json agreement.json

Each game is followed from both seats by the exact filter, and by the particle filter with several numbers of particles N, under
the same uniform prior and opponent model. An **update** is one micro-step that took place, until the game ends or the belief had
to begin anew. What is measured:

* **error**: |estimated - exact| expected copies of a card type in the opponent's hand, averaged over the types that are not all
  in sight. It should fall like N^(-1/2).
* **inflation**: the squared errors over those of N independent draws from the exact belief; 1 is ideal.
* **evidence**: the probability of all that a seat saw in a game, estimated over exact. Its mean is 1 for an unbiased filter. The
  mean of its logarithm is not 0 but negative, about -variance / 2, which falls like 1 / N (Jensen's inequality). It is measured
  as the mean of ln r - (r - 1), which has the same expectation for an unbiased filter, and much less noise.
* **impossible**: particles, over all updates, whose hand has exact probability zero. There must be none.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from rich.console import Console
from rich.table import Table

from benchmarks import timing
from unojax import cards, observe, play_game
from unojax.belief import Belief, Info, consistent_opponent, history, uniform_opponent
from unojax.belief.opponents import OpponentModel
from unojax.belief.tracking import run_filter, track
from unojax.belief.updaters import ExactFilter, ParticleFilter
from unojax.device.platform import available_cores
from unojax.observation import Observation
from unojax.rules import Rules

NUM_PARTICLES: Final = (256, 1024, 4096, 16384)
NUM_STEPS: Final = 128
"""Longer games are followed up to here."""
_CAPACITY: Final = {"max_slots": 96, "max_plays": 64}
"""Of the beliefs: enough for nearly all games of these decks; the others are counted as restarted."""
OPPONENTS: Final = {"uniform": uniform_opponent, "consistent": consistent_opponent}
MANY: Final = 2
"""A chain of draws: so many times has the opponent drawn for want of a playable card since its last play."""


def _deck(text: str) -> tuple[int, ...]:
    names = text.split()
    return tuple(names.count(name) for name in cards.TYPE_NAMES)


_TWO_COLORS = _deck("R1 R1 RS RS RR RR R+2 R+2  Y1 Y1 YS YS YR YR Y+2 Y+2  W W W W W+4 W+4 W+4 W+4")
_FOUR_COLORS = _deck("R0 R3 R3 RS RS  Y3 Y3 YR YR  B3 B3 B+2 B+2  G3 G3  W W W+4 W+4")
# So few that reshuffles are frequent and the deck often runs empty.
_ELEVEN_CARDS = _deck("R0 R+2 R+2  Y0 Y+2 Y+2  B0 BS BR  W W+4")
SETTINGS: Final = {
    "24 cards, hands of 5": Rules(deck=_TWO_COLORS, hand_size=5),
    "24 cards, hands of 3, passing": Rules(deck=_TWO_COLORS, hand_size=3, skip_forfeits=False),
    "19 cards, hands of 6": Rules(deck=_FOUR_COLORS, hand_size=6),
    "19 cards, hands of 4, passing": Rules(deck=_FOUR_COLORS, hand_size=4, skip_forfeits=False),
    "11 cards, hands of 4": Rules(deck=_ELEVEN_CARDS, hand_size=4),
    "11 cards, hands of 3, passing": Rules(deck=_ELEVEN_CARDS, hand_size=3, skip_forfeits=False),
}

SITUATIONS: Final = (
    "opponent plays",
    "opponent cannot play",
    "opponent draws a penalty",
    "observer plays",
    "observer draws",
    f"after {MANY} or more draws since a play",
    "after one reshuffle",
    "after more reshuffles",
    "deck empty",
)
"""Kinds of updates: the first five by what happened, the others by the state afterwards; they overlap."""


class Seat(NamedTuple):
    """One player's side of a game, on the host.

    Attributes:
        seen: `Observation` [T + 1].
        actions: int32[n] of both players, to the end of the game.
    """

    seen: Observation
    actions: np.ndarray


class ExactTrack(NamedTuple):
    """Exact beliefs after the n updates of a game.

    Attributes:
        situations: bool[n, len(SITUATIONS)].
        expected, variance: float64[n, 54] of the copies of each type.
        unseen: bool[n, 54] the types that are not all in sight.
        possible: for each update bool[hands], whether the hand with that number in the joint table is possible.
        log_evidence: float64[n].
    """

    situations: np.ndarray
    expected: np.ndarray
    variance: np.ndarray
    unseen: np.ndarray
    possible: list[np.ndarray]
    log_evidence: np.ndarray


class ParticleTrack(NamedTuple):
    """Particle beliefs along a game, [T + 1]: expected float32[..., 54], hands int32[..., N] by number in the joint table."""

    expected: Array
    hands: Array
    log_evidence: Array
    resampled: Array
    restarted: Array
    depleted: Array
    inconsistent: Array


class Errors(NamedTuple):
    """One game from one seat with one N; n updates before any restart."""

    situations: np.ndarray
    error: np.ndarray
    largest: np.ndarray
    squared: np.ndarray
    ideal_squared: np.ndarray
    log_ratio: np.ndarray
    impossible: int
    resampled: int
    restarted: bool
    depleted: bool


@partial(jax.jit, static_argnames=("num_games", "rules"))
def _play(key: Array, *, num_games: int, rules: Rules) -> tuple[tuple[Observation, Observation], Array]:
    played = jax.vmap(partial(play_game, num_steps=NUM_STEPS, rules=rules))(jax.random.split(key, num_games))
    see = jax.vmap(jax.vmap(observe, (0, None)), (0, None))
    return (see(played.states, jnp.int8(0)), see(played.states, jnp.int8(1))), played.actions


def play_games(seed: int, num_games: int, rules: Rules) -> list[Seat]:
    """Play random games, each to be followed from both seats."""
    seats, actions = jax.device_get(_play(jax.random.key(seed), num_games=num_games, rules=rules))
    return [
        Seat(jax.tree.map(lambda x, g=g: x[g], seen), actions[g][actions[g] >= 0]) for g in range(num_games) for seen in seats
    ]


def follow_exactly(played: Seat, *, opponent: OpponentModel) -> ExactTrack:
    """Follow a game with the exact filter."""
    views = [jax.tree.map(lambda x, t=t: x[t], played.seen) for t in range(len(played.actions) + 1)]
    followed = track(ExactFilter(opponent, prior="uniform"), jax.random.key(0), views)
    next(followed)
    copies = np.arange(5)
    draws, reshuffles, rows = 0, 0, []
    for before, action, after, (belief, info) in zip(views, played.actions, views[1:], followed, strict=False):
        assert info is not None, "of an update"
        is_mine, is_draw = int(before.current_player) == int(before.player), action == cards.DRAW
        cannot_play = is_draw and not is_mine and before.penalty == 0
        draws = draws + cannot_play if is_draw or is_mine else 0
        reshuffles += bool(history.reshuffled(before, after))
        situations = (
            not is_mine and not is_draw,
            cannot_play,
            not is_mine and is_draw and not cannot_play,
            is_mine and not is_draw,
            is_mine and is_draw,
            draws >= MANY,
            reshuffles == 1,
            reshuffles > 1,
            int(after.deck_count) == 0,
        )
        probs = belief.count_probs
        expected = probs @ copies
        variance = probs @ copies**2 - expected**2
        # What is certain has rounding errors for a variance.
        variance = np.where(variance > 1e-12, variance, 0.0)
        rows.append((situations, expected, variance, belief.unseen > 0, (belief.probs > 0).ravel(), float(info.log_evidence)))
    situations, expected, variance, unseen, possible, log_evidence = zip(*rows, strict=True)
    return ExactTrack(
        situations=np.array(situations),
        expected=np.array(expected),
        variance=np.array(variance),
        unseen=np.array(unseen),
        possible=list(possible),
        log_evidence=np.array(log_evidence),
    )


@partial(jax.jit, static_argnames="filter")
def follow(key: Array, seen: Observation, num_updates: Array, *, filter: ParticleFilter) -> ParticleTrack:
    """Follow a game with the particle filter."""
    deck = np.array(seen.rules.deck)
    # The number of a hand in the exact filter's tensor, flattened; types that are not in the deck never occur.
    shape = deck[deck > 0] + 1
    strides = np.zeros(cards.NUM_TYPES, np.int32)
    strides[deck > 0] = np.prod(shape) // np.cumprod(shape)

    def note(out: ParticleTrack, t: Array, seen: Observation, belief: Belief, info: Info) -> ParticleTrack:
        counts = cards.counts(belief.particles)
        expected = jnp.dot(jnp.exp(belief.log_weights), counts.astype(jnp.float32), precision="highest")
        hands = (counts * strides).sum(-1, dtype=jnp.int32)
        row = ParticleTrack(expected, hands, info.log_evidence, info.resampled, info.restarted, info.depleted, info.inconsistent)
        return jax.tree.map(lambda rows, value: rows.at[t].set(value), out, row)

    numbers, flags = jnp.zeros(NUM_STEPS + 1), jnp.zeros(NUM_STEPS + 1, bool)
    expected, hands = jnp.zeros((NUM_STEPS + 1, cards.NUM_TYPES)), jnp.zeros((NUM_STEPS + 1, filter.num_particles), jnp.int32)
    nothing = ParticleTrack(expected, hands, numbers, flags, flags, flags, flags)
    return run_filter(filter, key, seen, num_updates, note, nothing)


def compare(exact: ExactTrack, track: ParticleTrack, num_particles: int) -> Errors:
    """Compare the two filters over the updates before the belief begins anew."""
    track = jax.tree.map(lambda x: np.asarray(x)[1 : len(exact.log_evidence) + 1], track)
    restarts = np.flatnonzero(track.restarted)
    n = int(restarts[0]) if restarts.size else len(exact.log_evidence)
    depleted = bool(track.depleted[n : n + 1].any())
    difference = np.where(exact.unseen, np.abs(track.expected - exact.expected), 0.0)[:n]
    num_unseen = np.maximum(exact.unseen[:n].sum(-1), 1)
    impossible = sum(int((~exact.possible[t][track.hands[t]]).sum()) for t in range(n))
    return Errors(
        situations=exact.situations[:n],
        error=difference.sum(-1) / num_unseen,
        largest=difference.max(-1, initial=0.0),
        squared=(difference**2).sum(-1),
        ideal_squared=exact.variance[:n].sum(-1) / num_particles,
        # A belief without a particle left has estimated the evidence as zero.
        log_ratio=np.append((track.log_evidence - exact.log_evidence)[:n], [-np.inf] if depleted else []),
        impossible=impossible,
        resampled=int(track.resampled[:n].sum()),
        restarted=bool(restarts.size),
        depleted=depleted,
    )


def measure(
    rules: Rules, num_games: int, *, num_particles: Sequence[int], opponent: OpponentModel, seed: int, workers: int
) -> list[list[Errors]]:
    """Follow random games under one set of rules: for each N the errors of every game from both seats, in the same order."""
    games = play_games(seed, num_games, rules)

    def particles(n: int, lane: int) -> ParticleTrack:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), lane), n)
        filter = ParticleFilter(n, opponent, "uniform", **_CAPACITY)
        tracked = jax.device_get(follow(key, games[lane].seen, np.int32(len(games[lane].actions)), filter=filter))
        if tracked.inconsistent.any():
            raise RuntimeError(f"the filter believed nothing of some steps of game {lane}")
        return tracked

    def one_game(lane: int) -> list[Errors]:
        exact = follow_exactly(games[lane], opponent=opponent)
        return [compare(exact, particles(n, lane), n) for n in num_particles]

    with ThreadPoolExecutor(workers) as pool:
        # Compile the programs side by side, each once.
        list(pool.map(lambda n: particles(n, 0), num_particles))
        return list(map(list, zip(*pool.map(one_game, range(len(games))), strict=True)))


def summarize(games: list[Errors]) -> dict[str, Any]:
    """Sum up one N, over games from both seats."""
    error, squared, ideal, largest = (
        np.concatenate([getattr(g, name) for g in games]) for name in ("error", "squared", "ideal_squared", "largest")
    )
    situations = np.concatenate([g.situations for g in games])
    by_situation = {}
    for i, name in enumerate(SITUATIONS):
        at = situations[:, i]
        is_certain = ideal[at].sum() == 0
        by_situation[name] = {
            "updates": int(at.sum()),
            "mean_error": float(error[at].mean()) if at.any() else None,
            "largest_error": float(largest[at].max()) if at.any() else None,
            "inflation": None if is_certain else float(squared[at].sum() / ideal[at].sum()),
        }
    return {
        "games_and_seats": len(games),
        "updates": len(error),
        "mean_error": float(error.mean()),
        "largest_error": float(largest.max()),
        "inflation": float(squared.sum() / ideal.sum()),
        "situations": by_situation,
        "evidence": _evidence(games),
        "impossible": sum(g.impossible for g in games),
        "resampled": sum(g.resampled for g in games),
        "restarted": sum(g.restarted for g in games),
        "depleted": sum(g.depleted for g in games),
    }


def _evidence(games: list[Errors]) -> dict[str, Any]:
    """Average evidence, with standard errors: over whole games, and over single updates that were not certain."""
    per_game = np.array([g.log_ratio.sum() for g in games])
    per_update = np.concatenate([g.log_ratio for g in games])
    per_update = per_update[np.isfinite(per_update)]
    alive = per_game[np.isfinite(per_game)]
    return {
        "game_ratio": _mean(np.exp(per_game)),
        "game_log_ratio": _mean(alive),
        "game_jensen": _mean(alive - np.expm1(alive)),
        "update_ratio": _mean(np.exp(per_update)),
        "update_log_ratio": _mean(per_update),
    }


def _mean(values: np.ndarray) -> dict[str, float]:
    return {"mean": float(values.mean()), "standard_error": float(values.std(ddof=1) / np.sqrt(len(values)))}


def slope(num_particles: Sequence[int], values: Sequence[float]) -> float | None:
    """Fit the least-squares slope of ln |values| over ln N; None if there are less than two N or a value is zero."""
    logs = np.abs(np.array(values))
    if len(logs) < 2 or not (logs > 0).all():
        return None
    return float(np.polyfit(np.log(num_particles), np.log(logs), 1)[0])


def error_slope(num_particles: Sequence[int], by_number: list[list[Errors]], *, resamples: int = 400) -> dict[str, Any]:
    """Fit the slope of the mean error, with a 95 % bootstrap interval over games (their two seats taken as two games)."""
    sums = np.array([[g.error.sum() for g in games] for games in by_number])
    updates = np.array([[len(g.error) for g in games] for games in by_number])
    picks = np.random.default_rng(0).integers(sums.shape[1], size=(resamples, sums.shape[1]))
    values = [slope(num_particles, sums[:, pick].sum(1) / updates[:, pick].sum(1)) for pick in picks]
    interval = None if None in values else [float(q) for q in np.quantile(np.array(values, float), (0.025, 0.975))]
    return {"slope": slope(num_particles, sums.sum(1) / updates.sum(1)), "interval_95": interval}


def summarize_all(num_particles: Sequence[int], by_number: list[list[Errors]]) -> dict[str, Any]:
    """Sum up every N, and how the numbers change with it."""
    rows = [{"num_particles": n, **summarize(games)} for n, games in zip(num_particles, by_number, strict=True)]
    jensen = [row["evidence"]["game_jensen"]["mean"] for row in rows]
    return {
        "rows": rows,
        "error_slope": error_slope(num_particles, by_number),
        "jensen_slope": slope(num_particles, jensen),
    }


def report(results: dict[str, Any], console: Console) -> None:
    """Print the results as tables."""
    rows = results["all"]["rows"]
    numbers = [f"N = {row['num_particles']}" for row in rows]

    errors = Table(title=f"mean error of expected counts, {rows[0]['games_and_seats']} games and seats", title_justify="left")
    for column in ("", "updates", *numbers, "inflation"):
        errors.add_column(column, justify="right" if column else "left")

    def add(name: str, parts: list[dict[str, Any]]) -> None:
        if parts[0]["updates"]:
            inflation = parts[-1]["inflation"]
            means = [f"{part['mean_error']:.5f}" for part in parts]
            errors.add_row(name, str(parts[0]["updates"]), *means, "" if inflation is None else f"{inflation:.2f}")

    add("all updates", rows)
    for name in SITUATIONS:
        add(name, [row["situations"][name] for row in rows])
    errors.add_section()
    for name, part in results["settings"].items():
        add(name, part["rows"])
    console.print(errors)
    fitted = results["all"]["error_slope"]
    if fitted["slope"] is not None and fitted["interval_95"] is not None:
        low, high = fitted["interval_95"]
        console.print(f"slope of ln error over ln N: {fitted['slope']:.3f} (95 % {low:.3f} .. {high:.3f}); -0.5 expected")

    evidence = Table(title="evidence, estimated / exact", title_justify="left")
    for column in ("", *numbers):
        evidence.add_column(column, justify="right" if column else "left")
    titles = {
        "game_ratio": "ratio, whole games",
        "game_log_ratio": "ln ratio, whole games",
        "game_jensen": "ln r - (r - 1), whole games",
        "update_ratio": "ratio, single updates",
        "update_log_ratio": "ln ratio, single updates",
    }
    for key, title in titles.items():
        cells = [row["evidence"][key] for row in rows]
        evidence.add_row(title, *(f"{c['mean']:.5f} +- {c['standard_error']:.5f}" for c in cells))
    evidence.add_section()
    for key in ("impossible", "resampled", "restarted", "depleted"):
        evidence.add_row(key, *(str(row[key]) for row in rows))
    console.print(evidence)
    if results["all"]["jensen_slope"] is not None:
        console.print(f"slope of ln |ln r - (r - 1)| over ln N: {results['all']['jensen_slope']:.3f}; -1 expected")


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print and, if asked to, write the results; returns them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.belief_agreement", description="The particle filter against the exact filter."
    )
    parser.add_argument("--games", type=int, default=300, help="random games, each from both seats (%(default)s)")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    default = ",".join(map(str, NUM_PARTICLES))
    parser.add_argument("--num-particles", default=default, help="numbers of particles (%(default)s)")
    parser.add_argument("--opponent", choices=OPPONENTS, default="uniform", help="model of the opponent (%(default)s)")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), help="rules (all)")
    parser.add_argument("--seed", type=int, default=0, help="of games and particles (%(default)s)")
    parser.add_argument("--workers", type=int, default=available_cores(), help="threads (%(default)s)")
    arguments = parser.parse_args(argv)
    try:
        num_particles = timing.parse_batch_sizes(arguments.num_particles)
    except ValueError as error:
        parser.error(f"--num-particles: {error}")
    share = -(-arguments.games // len(arguments.settings))
    if share < 1 or arguments.workers < 1:
        parser.error(f"--games and --workers must be at least 1, got {arguments.games} and {arguments.workers}")

    by_setting: dict[str, list[list[Errors]]] = {}
    console = timing.console()
    elapsed = 0.0
    for index, name in enumerate(arguments.settings):
        seconds, by_setting[name] = timing.stopwatch(
            partial(
                measure,
                SETTINGS[name],
                share,
                num_particles=num_particles,
                opponent=OPPONENTS[arguments.opponent],
                seed=arguments.seed * len(SETTINGS) + index,
                workers=arguments.workers,
            )
        )
        elapsed += seconds
        console.print(f"{name}: {share} games in {seconds:.0f} s")
    together = [list(chain.from_iterable(by_number[i] for by_number in by_setting.values())) for i in range(len(num_particles))]
    results = {
        "benchmark": "belief_agreement",
        "environment": timing.environment(),
        "games": share * len(arguments.settings),
        "opponent": arguments.opponent,
        "seed": arguments.seed,
        "seconds": elapsed,
        "all": summarize_all(num_particles, together),
        "settings": {name: summarize_all(num_particles, by_number) for name, by_number in by_setting.items()},
    }
    report(results, console)
    timing.write_json(arguments.json, results)
    return results


if __name__ == "__main__":
    main()

"""Comparison of beliefs over complete games: log score, calibration, depletion, effective sample sizes, time.

The observer plays uniformly; its opponent plays uniformly or by a rule. All beliefs track the same games from the same seat.

* An **update** is one transition, of either player, to a position that is not the end of the game.
* **Log score**: sum over the 54 card types of ln P(count_t = true count) in nats, after each update; higher is better.
  The N particles get an additional one, spread like the uniform belief, so that no truth has probability zero.
* **Calibration**: the predictions P(holds t) over all types that are not all visible, in ten bins.
* **Depleted**: no particle is consistent with the observation. The belief restarts from the position and is still scored.
* **ESS / N** after each update, before and after resampling.
* **Margins** are differences of log scores, paired by game. All standard errors treat games, but not updates within a game, as
  independent. "consistency only" is the filter that tests only whether the opponent's plays were possible. The margin over it
  measures the gain from conditioning on the opponent's choices.
* **Time** per update of one game after the other on one thread, without scoring; compilation is reported separately.
* Particle beliefs start from the deal's prior, and assume a uniform opponent unless their name differs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from benchmarks import harness
from benchmarks.harness import Config, Task
from unojax import cards
from unojax.analysis import Recorded, estimate_ratio, record
from unojax.analysis.tracking import in_parts, over_games
from unojax.belief.opponents import PolicyOpponent, consistent_opponent
from unojax.belief.particles import Info
from unojax.belief.resample import effective_sample_size
from unojax.belief.tracking import run_filter
from unojax.belief.updaters import BootstrapFilter, ClosedFormFilter, ParticleFilter, UniformFilter, Updater
from unojax.decks import small_deck
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import get_policy, uniform
from unojax.rules import PRESETS, Rules

DECKS: Final = {"full": Rules(), "small": Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=4)}

_TREMBLE: Final = 0.05
_QUANTILES: Final = (0.01, 0.05, 0.25, 0.5, 0.75)
_Results = dict[str, tuple["Scores", "Cost"]]


@harness.benchmark(
    "beliefs",
    games=2000,
    opponents=("uniform", "scarcest-color", "actions-last"),
    decks=("full",),
    particles=(1024, 256, 4096),
    peer=True,
    seat=0,
    seed=0,
    max_steps=400,
)
def beliefs(config: Config) -> Iterator[Task]:
    """Log score, calibration and collapses of beliefs (`--no-peer`: the particle filter alone)."""
    if unknown := set(config.decks) - {*DECKS, *PRESETS}:
        raise ValueError(f"--decks must be among {', '.join([*DECKS, *PRESETS])}, got {', '.join(unknown)}")
    if config.games < 2:
        raise ValueError(f"--games must be at least 2, from which standard errors come; got {config.games}")
    for deck in config.decks:
        for opponent in config.opponents:
            settings = {"deck": deck, "opponent": opponent}
            settings |= config.settings("games", "particles", "peer", "seat", "seed", "max_steps")
            yield Task(settings, partial(compare, opponent, deck, config.games, config))


def filters_for(policy: str, num_particles: int, other_sizes: Sequence[int]) -> dict[str, Updater]:
    """Return the beliefs to compare against an opponent of that policy by name; the first is the reference."""
    n = num_particles
    named: dict[str, Updater] = {
        f"particles {n}": ParticleFilter(n),
        f"particles {n}, consistency only": ParticleFilter(n, consistent_opponent),
    }
    if policy != "uniform":
        named[f"particles {n}, knows the policy"] = ParticleFilter(n, PolicyOpponent(get_policy(policy), tremble=_TREMBLE))
    named |= {f"particles {m}": ParticleFilter(m) for m in other_sizes}
    return named | {f"bootstrap {n}": BootstrapFilter(n), "closed form": ClosedFormFilter(), "uniform": UniformFilter()}


def compare(policy: str, deck: str, num_games: int, config: Config) -> dict[str, Any]:
    """Track the same games with all beliefs against one opponent, or only with the particle filter that assumes uniform play."""
    players = (uniform, get_policy(policy)) if config.seat == 0 else (get_policy(policy), uniform)
    rules = (DECKS | PRESETS)[deck]
    games = record(jax.random.key(config.seed), num_games, players, max_steps=config.max_steps, rules=rules)
    results: _Results = {}
    num_particles, *other_sizes = config.particles
    filters = filters_for(policy, num_particles, other_sizes)
    if not config.peer:
        filters = dict(list(filters.items())[:1])
    elif deck in PRESETS:
        # The closed forms do not support these rules.
        filters = {name: filter for name, filter in filters.items() if not isinstance(filter, ClosedFormFilter | UniformFilter)}
    for name, filter in filters.items():
        # The other numbers of particles show the trend; a quarter of the games suffices.
        few = filter.num_particles not in (1, num_particles)
        some = jax.tree.map(lambda x: x[: max(2, -(-num_games // 4))], games) if few else games
        results[name] = score(filter, some, seat=config.seat, seed=config.seed + 1)
    return {
        "games_cut_off": int((games.num_updates == config.max_steps).sum()),
        "updates": int(games.num_updates.sum()),
        "methods": {name: summarise(scores, cost, games) for name, (scores, cost) in results.items()},
        "margins": margins(results, games),
    }


def summarise(scores: Scores, cost: Cost, games: Recorded) -> dict[str, Any]:
    """Summarize one belief."""
    num_games = len(scores.log_score)
    num_updates = games.num_updates[:num_games]
    done = np.arange(scores.log_score.shape[1]) < num_updates[:, None]
    return {
        "games": num_games,
        "updates": int(num_updates.sum()),
        "log_score": clustered_mean(scores.log_score.sum(1), num_updates),
        "calibration": calibration(np.asarray(scores.bins)),
        "depleted_updates": clustered_mean(scores.depleted.sum(1), num_updates),
        "depleted_games": clustered_mean(scores.depleted.any(1), np.ones(num_games)),
        "restarted_updates": clustered_mean(scores.restarted.sum(1), num_updates),
        "ess_share_before_resampling": _quantiles(scores.ess_before[done]),
        "ess_share_after_resampling": _quantiles(scores.ess_after[done]),
        "microseconds_per_update": cost.microseconds_per_update,
        "compile_seconds": cost.compile_seconds,
    }


def margins(results: _Results, games: Recorded) -> dict[str, dict[str, float]]:
    """Compare the log scores of two beliefs, in nats per update, over the games that both tracked."""
    ours = next(iter(results))
    pairs = [(ours, other) for other in results if other != ours]
    for name in results:
        if name.endswith("knows the policy"):
            pairs += [(name, other) for other in (f"{ours}, consistency only", "uniform") if other in results]
    return {f"{a} over {b}": margin(results[a][0], results[b][0], games.num_updates) for a, b in pairs}


def margin(ours: Scores, other: Scores, num_updates: np.ndarray) -> dict[str, float]:
    """Average the difference of the log scores in nats per update, paired by game."""
    both = min(len(ours.log_score), len(other.log_score))
    return clustered_mean(ours.log_score[:both].sum(1) - other.log_score[:both].sum(1), num_updates[:both])


def clustered_mean(totals: ArrayLike, sizes: ArrayLike) -> dict[str, float]:
    """Average over all members of games, as JSON: `unojax.analysis.estimate_ratio`."""
    mean = estimate_ratio(totals, sizes)
    return {"mean": mean.value, "standard_error": mean.standard_error}


def calibration(bins: np.ndarray) -> dict[str, Any]:
    """Compare predicted and observed shares of held types by bin of prediction, from [G, bins, 3]; errors clustered by game."""
    number, predicted, held = np.moveaxis(bins.astype(np.float64), -1, 0)
    rows = []
    for b in np.flatnonzero(number.sum(0)):
        observed = clustered_mean(held[:, b], number[:, b])
        error = clustered_mean(predicted[:, b] - held[:, b], number[:, b])
        rows.append(
            {
                "bin": int(b),
                "n": int(number[:, b].sum()),
                "predicted": float(predicted[:, b].sum() / number[:, b].sum()),
                "observed": observed["mean"],
                "error": error["mean"],
                "standard_error": error["standard_error"],
            }
        )
    expected_error = sum(row["n"] * abs(row["error"]) for row in rows) / max(sum(row["n"] for row in rows), 1)
    return {"bins": rows, "mean_absolute_error": expected_error}


def _quantiles(values: ArrayLike) -> dict[str, float]:
    return {str(q): float(np.quantile(np.asarray(values), q)) for q in _QUANTILES}


NUM_BINS: Final = 10
"""Bins of predicted probability in the calibration."""


class Scores(NamedTuple):
    """Scores of a belief along G games of at most T updates; zeros beyond a game's last update.

    Attributes:
        log_score: [G, T] nats, sum over the 54 types of ln P(count_t = true count).
        ess_before, ess_after: [G, T] effective sample size before and after resampling, as a share of N.
        depleted, restarted: bool[G, T] as in `Info`.
        bins: [G, NUM_BINS, 3] of P(holds t), over updates and types that are unseen: number, sum of predictions, number held.
    """

    log_score: Any
    ess_before: Any
    ess_after: Any
    depleted: Any
    restarted: Any
    bins: Any


@dataclass(frozen=True)
class Cost:
    """Seconds to compile, and microseconds per update of one game alone on one thread, without scoring."""

    compile_seconds: float
    microseconds_per_update: float


def score(filter: Updater, games: Recorded, *, seat: int, seed: int) -> tuple[Scores, Cost]:
    """Track the games with a filter from one seat, on all cores."""
    case = filter, seat, games.states.rules, games.actions.shape
    given: list[tuple[State, np.ndarray, Array]] = []

    def run(*part: Any) -> Scores:
        given.append(part)
        if case not in _PROGRAMS:
            _PROGRAMS[case] = harness.compile_timed(_score_games, *part, jnp.bool_(True), filter=filter, seat=seat)
        return _PROGRAMS[case][1](*part, jnp.bool_(True))

    scores = in_parts(jax.random.key(seed), games, run)
    compile_seconds, program = _PROGRAMS[case]
    states, _, keys = given[0]
    num_updates = games.num_updates[: len(keys)] * (np.arange(len(keys)) < _TIMED).astype(np.int32)
    begin = time.perf_counter()
    jax.block_until_ready(program(states, num_updates, keys, jnp.bool_(False)))
    elapsed = time.perf_counter() - begin
    return scores, Cost(compile_seconds, 1e6 * elapsed / max(int(num_updates.sum()), 1))


_TIMED: Final = 256
"""Most games over which an update is timed."""
_PROGRAMS: Final[dict[Any, tuple[float, Any]]] = {}
"""Seconds to compile and the program, for each filter and shape, independent of the players."""


@partial(jax.jit, static_argnames=("filter", "seat"))
def _score_games(states: State, num_updates: Array, keys: Array, is_scored: Array, *, filter: Updater, seat: int) -> Scores:
    def one_game(game: tuple[State, Array, Array]) -> Scores:
        states, num_updates, key = game
        truth = cards.counts(states.hands[:, 1 - seat])

        def note(out: Scores, t: Array, seen: Observation, belief: Any, info: Info) -> Scores:
            def score() -> tuple[Array, Array]:
                probs = jnp.asarray(filter.count_probs(belief, seen))
                return _log_score(probs, truth[t]), _bin(1.0 - probs[:, 0], truth[t] > 0, seen.unseen > 0)

            # The start is not an update.
            log_score, bins = lax.cond(is_scored & (t > 0), score, lambda: (jnp.float32(0), jnp.zeros((NUM_BINS, 3))))
            ess_after = jnp.float32(1)
            if isinstance(filter, ParticleFilter | BootstrapFilter):
                ess_after = effective_sample_size(belief.log_weights) / filter.num_particles
            ess_before = info.ess / filter.num_particles
            row = log_score, ess_before, ess_after, info.depleted, info.restarted
            at = jnp.where(t > 0, t - 1, num_steps)
            added = [rows.at[at].set(value, mode="drop") for rows, value in zip(out[:-1], row, strict=True)]
            return Scores(*added, bins=out.bins + bins)

        num_steps = states.terminated.shape[0] - 1
        zeros, nowhere = jnp.zeros(num_steps), jnp.zeros(num_steps, bool)
        nothing = Scores(zeros, zeros, zeros, nowhere, nowhere, jnp.zeros((NUM_BINS, 3)))
        return run_filter(filter, key, jax.vmap(observe, (0, None))(states, seat), num_updates, note, nothing)

    return over_games(one_game, (states, num_updates, keys))


def _log_score(probs: Array, truth: Array) -> Array:
    """Return the sum of ln P(count_t = truth_t) over the types, in nats."""
    return jnp.log(jnp.take_along_axis(probs, truth[:, None].astype(jnp.int32), 1)).sum()


def _bin(predicted: Array, happened: Array, counted: Array) -> Array:
    """Return statistics of predictions by bin, float32[NUM_BINS, 3]: their number, their sum, and the number of hits."""
    number = jnp.clip((predicted * NUM_BINS).astype(jnp.int32), 0, NUM_BINS - 1)
    in_bin = (number == jnp.arange(NUM_BINS)[:, None]) & counted
    return jnp.stack([in_bin.sum(1), jnp.where(in_bin, predicted, 0).sum(1), (in_bin & happened).sum(1)], 1)

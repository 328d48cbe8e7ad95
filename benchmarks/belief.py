"""Beliefs compared on one scale over complete games: log score, calibration, collapses, effective sample sizes, time.

    python -m benchmarks.belief --games 2000 --json belief.json

The observer plays uniformly; its opponent plays uniformly or by a rule. Every belief follows the same games from the same seat.

* An **update** is one micro-step, of either player, to a position that is not the end of the game.
* **Log score**: sum over the 54 card types of ln P(count_t = true count) in nats, after each update; higher is better. A cloud
  of N particles gets one more, spread like the uniform belief, so that no truth has probability zero.
* **Calibration**: the predictions P(holds t) over all types that are not all in sight, in ten bins.
* **Depleted**: no particle could explain what was seen. The belief begins anew from the position and goes on being scored.
* **ESS / N** after each update, before resampling and after.
* **Margins** are differences of log scores, paired by game. All standard errors take games as independent and updates within a
  game as not. "consistency only" is the filter that asks whether the opponent's plays were possible, not how likely they were;
  the margin over it is what conditioning on the opponent's choices adds.
* **Time** per update of one game after the other on one thread, scoring left out; compiling is stated apart.
* Particle beliefs and the exact one start from the deal's prior, and assume an opponent who plays uniformly unless they say
  otherwise.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from jax.typing import ArrayLike
from rich.console import Console
from rich.table import Table

from benchmarks import timing
from benchmarks.belief_scores import Cost, Scores, score, score_exact
from unojax.analysis import Recorded, estimate_ratio, record
from unojax.belief.opponents import PolicyOpponent, consistent_opponent
from unojax.belief.updaters import BootstrapFilter, ClosedFormFilter, ExactFilter, ParticleFilter, UniformFilter, Updater
from unojax.decks import small_deck
from unojax.device.platform import available_cores, platform
from unojax.policies import get_policy, uniform
from unojax.rules import Rules

FULL: Final = Rules()
SMALL: Final = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=4)
"""18 cards in 26,244 possible hands: small enough for the exact filter."""
DECKS: Final = {"full": FULL, "small": SMALL}
PRESETS: Final = {"official": Rules.official(), "house": Rules.house(), "rlcard": Rules.rlcard()}
"""The full deck under other rules, where the closed forms know nothing."""

_TREMBLE: Final = 0.05
_QUANTILES: Final = (0.01, 0.05, 0.25, 0.5, 0.75)
_Results = dict[str, tuple[Scores, Cost]]


def filters_for(policy: str, num_particles: int, other_sizes: Sequence[int]) -> dict[str, Updater]:
    """Name the beliefs to compare against an opponent of that policy; the first is the one that the others are compared with."""
    n = num_particles
    named: dict[str, Updater] = {
        f"particles {n}": ParticleFilter(n),
        f"particles {n}, consistency only": ParticleFilter(n, consistent_opponent),
    }
    if policy != "uniform":
        named[f"particles {n}, knows the policy"] = ParticleFilter(n, PolicyOpponent(get_policy(policy), tremble=_TREMBLE))
    named |= {f"particles {m}": ParticleFilter(m) for m in other_sizes}
    return named | {f"bootstrap {n}": BootstrapFilter(n), "closed form": ClosedFormFilter(), "uniform": UniformFilter()}


def compare(
    policy: str,
    deck: str,
    *,
    num_games: int,
    num_particles: int,
    other_sizes: Sequence[int],
    seat: int,
    seed: int,
    max_steps: int,
    particles_only: bool = False,
) -> dict[str, Any]:
    """Let all beliefs follow the same games against one opponent, or only the particle filter that assumes uniform play."""
    players = (uniform, get_policy(policy)) if seat == 0 else (get_policy(policy), uniform)
    rules = (DECKS | PRESETS)[deck]
    games = record(jax.random.key(seed), num_games, players, max_steps=max_steps, rules=rules)
    results: _Results = {}
    filters = filters_for(policy, num_particles, other_sizes)
    if particles_only:
        filters = dict(list(filters.items())[:1])
    elif deck in PRESETS:
        filters = {name: filter for name, filter in filters.items() if not isinstance(filter, ClosedFormFilter | UniformFilter)}
    for name, filter in filters.items():
        # The other numbers of particles are there for the trend; a quarter of the games shows it.
        some = (
            games
            if filter.num_particles in (1, num_particles)
            else jax.tree.map(lambda x: x[: max(2, -(-num_games // 4))], games)
        )
        results[name] = score(filter, some, seat=seat, seed=seed + 1)
    if deck == "small" and not particles_only:
        results["exact"] = score_exact(ExactFilter(), games, seat=seat)
    return {
        "deck": deck,
        "opponent": policy,
        "games": num_games,
        "games_cut_off": int((games.num_updates == max_steps).sum()),
        "updates": int(games.num_updates.sum()),
        "methods": {name: summarise(scores, cost, games) for name, (scores, cost) in results.items()},
        "margins": margins(results, games),
    }


def summarise(scores: Scores, cost: Cost, games: Recorded) -> dict[str, Any]:
    """Sum up one belief."""
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
    """Compare the log scores of two beliefs, in nats per update, over the games that both followed."""
    ours = next(iter(results))
    pairs = [(ours, other) for other in results if other != ours]
    for name in results:
        if name.endswith("knows the policy"):
            pairs += [(name, other) for other in (f"{ours}, consistency only", "uniform") if other in results]
    return {f"{a} over {b}": margin(results[a][0], results[b][0], games) for a, b in pairs}


def margin(ours: Scores, other: Scores, games: Recorded) -> dict[str, float]:
    """Average the difference of the log scores in nats per update, paired by game."""
    both = min(len(ours.log_score), len(other.log_score))
    return clustered_mean(ours.log_score[:both].sum(1) - other.log_score[:both].sum(1), games.num_updates[:both])


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


def report(results: dict[str, Any], console: Console) -> None:
    """Print tables of the results."""
    for comparison in results["comparisons"]:
        table = Table(
            title=f"{comparison['deck']} deck against {comparison['opponent']}: {comparison['updates']:,} updates "
            f"of {comparison['games']:,} games"
        )
        columns = ("belief", "log score", "±", "calibration", "depleted", "games", "ESS/N 5 %", "µs/update")
        for column in columns:
            table.add_column(column, justify="left" if column == "belief" else "right")
        for name, m in comparison["methods"].items():
            table.add_row(
                name,
                f"{m['log_score']['mean']:.4f}",
                f"{m['log_score']['standard_error']:.4f}",
                f"{m['calibration']['mean_absolute_error']:.4f}",
                f"{m['depleted_updates']['mean']:.2%}",
                f"{m['depleted_games']['mean']:.1%}",
                f"{m['ess_share_before_resampling']['0.05']:.2f}",
                f"{m['microseconds_per_update']:.0f}",
            )
        console.print(table)
        for name, value in comparison["margins"].items():
            console.print(f"  {name}: {value['mean']:+.4f} ± {value['standard_error']:.4f} nats per update")


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the comparison, print it, and return it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.belief", description=__doc__.splitlines()[0])  # type: ignore[union-attr] the module has a docstring
    parser.add_argument("--games", type=int, default=2000, help="games on the full deck against each opponent")
    parser.add_argument("--small-games", type=int, help="games on the small deck (default: a tenth of --games)")
    parser.add_argument("--opponents", nargs="+", default=["uniform", "scarcest-color", "actions-last"], help="policies")
    parser.add_argument("--decks", nargs="+", default=list(DECKS), choices=[*DECKS, *PRESETS], help="or rules")
    parser.add_argument("--particles", type=int, default=1024)
    parser.add_argument("--other-sizes", nargs="*", type=int, default=[256, 4096], help="over a quarter of the games")
    parser.add_argument("--particles-only", action="store_true", help="no other beliefs: calibration in little time")
    parser.add_argument("--seat", type=int, default=0, choices=(0, 1), help="of the observer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-steps", type=int, default=400, help="longer games are cut off there")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    small_games = max(2, -(-arguments.games // 10)) if arguments.small_games is None else arguments.small_games
    if min(arguments.games, small_games) < 2 or arguments.max_steps < 1:
        parser.error("--games and --small-games must be at least 2, from which standard errors come, --max-steps at least 1")
    timing.without_compilation_cache()
    environment = timing.environment()
    console = timing.console()
    comparisons = []
    for deck in arguments.decks:
        for policy in arguments.opponents:
            comparison = compare(
                policy,
                deck,
                num_games=small_games if deck == "small" else arguments.games,
                num_particles=arguments.particles,
                other_sizes=arguments.other_sizes,
                seat=arguments.seat,
                seed=arguments.seed,
                max_steps=arguments.max_steps,
                particles_only=arguments.particles_only,
            )
            comparisons.append(comparison)
            report({"comparisons": [comparison]}, console)
    results = {
        "benchmark": "belief",
        "environment": environment,
        "seat": arguments.seat,
        "seed": arguments.seed,
        "tremble": _TREMBLE,
        "workers": available_cores() if platform() == "cpu" else 1,
        "comparisons": comparisons,
    }
    timing.write_json(arguments.json, results)
    return results


if __name__ == "__main__":
    main()

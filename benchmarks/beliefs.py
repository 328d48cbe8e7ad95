"""Comparison of beliefs over complete games: log score, calibration, depletion, effective sample sizes.

The observer plays uniformly; its opponent plays uniformly or by a rule. All beliefs track the same games from the same seat.

* An **update** is one transition, of either player, to a position that is not the end of the game.
* **Log score**: sum over the 54 card types of ln P(count_t = true count) in nats, after each update; higher is better.
  The N particles get an additional one, spread like the uniform belief, so that no truth has probability zero.
* **Calibration**: the predictions P(holds t) over all types that are not all visible, in ten bins.
* **Depleted**: no particle is consistent with the observation. The belief restarts from the position and is still scored.
* **ESS / N** of each update, before resampling.
* **Margins** are differences of log scores, paired by game. All standard errors treat games, but not updates within a game, as
  independent. "consistency only" is the filter that tests only whether the opponent's plays were possible. The margin over it
  measures the gain from conditioning on the opponent's choices.
* Particle beliefs start from the deal's prior, and assume a uniform opponent unless their name differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import jax
import numpy as np
from jax.typing import ArrayLike

from benchmarks import harness
from benchmarks.harness import Config, Task
from unojax.analysis import Recorded, Tracks, estimate_ratio, record, track
from unojax.belief.opponents import PolicyOpponent, consistent_opponent
from unojax.belief.updaters import BootstrapFilter, ClosedFormFilter, ParticleFilter, UniformFilter, Updater
from unojax.decks import small_deck
from unojax.policies import get_policy, uniform
from unojax.rules import PRESETS, Rules

DECKS: Final = {"full": Rules(), "small": Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=4)}

_TREMBLE: Final = 0.05
_QUANTILES: Final = (0.01, 0.05, 0.25, 0.5, 0.75)


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
    results: dict[str, Tracks] = {}
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
        results[name] = track(jax.random.key(config.seed + 1), some, filter, player=config.seat)
    return {
        "games_cut_off": int((games.num_updates == config.max_steps).sum()),
        "updates": int(games.num_updates.sum()),
        "methods": {name: summarise(tracks, games) for name, tracks in results.items()},
        "margins": margins(results, games),
    }


def summarise(tracks: Tracks, games: Recorded) -> dict[str, Any]:
    """Summarize one belief."""
    num_games = len(tracks.log_score)
    num_updates = games.num_updates[:num_games]
    done = after_updates(tracks, num_updates)
    return {
        "games": num_games,
        "updates": int(num_updates.sum()),
        "log_score": clustered_mean(np.where(done, tracks.log_score, 0).sum(1), num_updates),
        "calibration": harness.calibration(tracks.prob_holds, tracks.truth > 0, tracks.is_unseen & done[..., None]),
        "depleted_updates": clustered_mean(tracks.depleted.sum(1), num_updates),
        "depleted_games": clustered_mean(tracks.depleted.any(1), np.ones(num_games)),
        "ess_share": {str(q): float(np.quantile(tracks.ess_share[done], q)) for q in _QUANTILES},
    }


def after_updates(tracks: Tracks, num_updates: np.ndarray) -> np.ndarray:
    """Return which positions follow an update, bool[G, T + 1]: neither the start nor those after the last update."""
    place = np.arange(tracks.log_score.shape[1])
    return (place > 0) & (place <= num_updates[:, None])


def margins(results: dict[str, Tracks], games: Recorded) -> dict[str, dict[str, float]]:
    """Compare the log scores of two beliefs, in nats per update, over the games that both tracked."""
    ours = next(iter(results))
    pairs = [(ours, other) for other in results if other != ours]
    for name in results:
        if name.endswith("knows the policy"):
            pairs += [(name, other) for other in (f"{ours}, consistency only", "uniform") if other in results]
    return {f"{a} over {b}": margin(results[a], results[b], games.num_updates) for a, b in pairs}


def margin(ours: Tracks, other: Tracks, num_updates: np.ndarray) -> dict[str, float]:
    """Average the difference of the log scores in nats per update, paired by game."""
    both = min(len(ours.log_score), len(other.log_score))
    done = after_updates(ours, num_updates[: len(ours.log_score)])[:both]
    return clustered_mean(np.where(done, ours.log_score[:both] - other.log_score[:both], 0).sum(1), num_updates[:both])


def clustered_mean(totals: ArrayLike, sizes: ArrayLike) -> dict[str, float]:
    """Average over all members of games, with games as independent units."""
    return harness.estimate(estimate_ratio(totals, sizes))

"""Agreement of the particle filter with the exact one, over whole random games of small decks with every kind of card.

Both filters track each game from both seats, under the same uniform prior and opponent model. The particle filter runs with
several numbers of particles N. An **update** is one transition, until the game ends or the belief restarts. Measurements:

* **error**: |estimated - exact| expected copies of a card type in the opponent's hand, averaged over the types that are not all
  visible. It should fall like N^(-1/2).
* **inflation**: squared errors relative to those of N independent draws from the exact belief; 1 is ideal.
* **evidence**: probability of all observations of a seat in a game, estimated over exact. Its mean is 1 for an unbiased filter.
* **impossible**: particles, over all updates, whose hand has exact probability zero. There must be none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks import harness
from benchmarks.harness import Config, Task
from unojax import cards, observe, play_game
from unojax.belief import Belief, Info
from unojax.belief.tracking import run_filter, track
from unojax.belief.updaters import ExactFilter, ParticleFilter
from unojax.device.platform import available_cores
from unojax.observation import Observation
from unojax.rules import Rules

NUM_STEPS: Final = 128
"""Longest tracked part of a game, in steps."""
_MAX_SLOTS: Final = 96
_MAX_PLAYS: Final = 64
"""Limit of the beliefs, enough for nearly all games of these decks; longer ones count as restarted."""


def _deck(text: str) -> tuple[int, ...]:
    names = text.split()
    return tuple(names.count(name) for name in cards.TYPE_NAMES)


_TWO_COLORS = _deck("R1 R1 RS RS RR RR R+2 R+2  Y1 Y1 YS YS YR YR Y+2 Y+2  W W W W W+4 W+4 W+4 W+4")
_FOUR_COLORS = _deck("R0 R3 R3 RS RS  Y3 Y3 YR YR  B3 B3 B+2 B+2  G3 G3  W W W+4 W+4")
# So small that reshuffles are frequent and the deck often runs empty.
_ELEVEN_CARDS = _deck("R0 R+2 R+2  Y0 Y+2 Y+2  B0 BS BR  W W+4")
SETTINGS: Final = {
    "24 cards, hands of 5": Rules(deck=_TWO_COLORS, hand_size=5),
    "24 cards, hands of 3, passing": Rules(deck=_TWO_COLORS, hand_size=3, skip_forfeits=False),
    "19 cards, hands of 6": Rules(deck=_FOUR_COLORS, hand_size=6),
    "19 cards, hands of 4, passing": Rules(deck=_FOUR_COLORS, hand_size=4, skip_forfeits=False),
    "11 cards, hands of 4": Rules(deck=_ELEVEN_CARDS, hand_size=4),
    "11 cards, hands of 3, passing": Rules(deck=_ELEVEN_CARDS, hand_size=3, skip_forfeits=False),
}


@harness.benchmark("belief_agreement", games=300, particles=(256, 1024, 4096, 16384), decks=tuple(SETTINGS), seed=0, workers=0)
def belief_agreement(config: Config) -> Iterator[Task]:
    """The particle filter against the exact one over whole games of small decks: error, evidence, impossible hands."""
    if unknown := set(config.decks) - {*SETTINGS}:
        raise ValueError(f"--decks must be among {'; '.join(SETTINGS)}; got {'; '.join(unknown)}")
    yield Task(config.settings("games", "particles", "decks", "seed"), partial(measure_all, config))


def measure_all(config: Config) -> dict[str, Any]:
    """Measure each deck, and summarize all of them together and each alone."""
    share, workers = -(-config.games // len(config.decks)), config.workers or available_cores()
    by_deck = {
        name: measure(SETTINGS[name], share, config.particles, config.seed * len(SETTINGS) + index, workers)
        for index, name in enumerate(config.decks)
    }
    together = [list(chain.from_iterable(by_number[i] for by_number in by_deck.values())) for i in range(len(config.particles))]
    return {"all decks": summarize_all(config.particles, together)} | {
        name: summarize_all(config.particles, by_number) for name, by_number in by_deck.items()
    }


class Seat(NamedTuple):
    """One player's side of a game, on the host: `Observation` [T + 1], and the number of updates."""

    seen: Observation
    num_updates: int


class Exact(NamedTuple):
    """Exact beliefs after the n updates of a game.

    Attributes:
        expected, variance: float64[n, 54] Mean and variance of the copies of each type.
        unseen: bool[n, 54] Types that are not all visible.
        possible: For each update int64[K], the numbers of the possible hands.
        log_evidence: float64[n].
    """

    expected: np.ndarray
    variance: np.ndarray
    unseen: np.ndarray
    possible: list[np.ndarray]
    log_evidence: np.ndarray


class Tracked(NamedTuple):
    """Particle beliefs along a game, [T + 1]: expected float32[..., 54], hands int32[..., N] by number."""

    expected: Array
    hands: Array
    log_evidence: Array
    restarted: Array
    depleted: Array
    inconsistent: Array


class Errors(NamedTuple):
    """One game from one seat with one N; n updates before any restart."""

    error: np.ndarray
    squared: np.ndarray
    ideal_squared: np.ndarray
    log_ratio: np.ndarray
    impossible: int
    restarted: bool
    depleted: bool


@partial(jax.jit, static_argnames=("num_games", "rules"))
def _play(key: Array, *, num_games: int, rules: Rules) -> tuple[tuple[Observation, Observation], Array]:
    played = jax.vmap(partial(play_game, num_steps=NUM_STEPS, rules=rules))(jax.random.split(key, num_games))
    see = jax.vmap(jax.vmap(observe, (0, None)), (0, None))
    return (see(played.states, jnp.int8(0)), see(played.states, jnp.int8(1))), (played.actions >= 0).sum(-1)


def play_games(seed: int, num_games: int, rules: Rules) -> list[Seat]:
    """Return random games, each from both seats."""
    seats, lengths = jax.device_get(_play(jax.random.key(seed), num_games=num_games, rules=rules))
    return [Seat(jax.tree.map(lambda x, g=g: x[g], seen), int(lengths[g])) for g in range(num_games) for seen in seats]


def _strides(rules: Rules) -> np.ndarray:
    """Return the numbers, int32[54], of which a hand adds up those of its cards to its own number."""
    deck = np.array(rules.deck)
    # Types outside the deck never occur.
    shape = deck[deck > 0] + 1
    strides = np.zeros(cards.NUM_TYPES, np.int32)
    strides[deck > 0] = np.prod(shape) // np.cumprod(shape)
    return strides


def follow_exactly(played: Seat) -> Exact:
    """Track a game with the exact filter."""
    views = (jax.tree.map(lambda x, t=t: x[t], played.seen) for t in range(played.num_updates + 1))
    followed = track(ExactFilter(prior="uniform"), jax.random.key(0), views)
    next(followed)
    copies, strides, rows = np.arange(5), _strides(played.seen.rules), []
    for belief, info in followed:
        assert info is not None, "of an update"
        expected = belief.count_probs @ copies
        variance = belief.count_probs @ copies**2 - expected**2
        # The variance of a certain value is a rounding error.
        variance = np.where(variance > 1e-12, variance, 0.0)
        rows.append((expected, variance, belief.unseen > 0, belief.hands()[0] @ strides, float(info.log_evidence)))
    expected, variance, unseen, possible, log_evidence = zip(*rows, strict=True)
    return Exact(np.array(expected), np.array(variance), np.array(unseen), list(possible), np.array(log_evidence))


@partial(jax.jit, static_argnames="filter")
def follow(key: Array, seen: Observation, num_updates: Array, *, filter: ParticleFilter) -> Tracked:
    """Track a game with the particle filter."""
    strides = _strides(seen.rules)

    def note(out: Tracked, t: Array, seen: Observation, belief: Belief, info: Info) -> Tracked:
        counts = cards.counts(belief.particles)
        expected = jnp.dot(jnp.exp(belief.log_weights), counts.astype(jnp.float32), precision="highest")
        hands = (counts * strides).sum(-1, dtype=jnp.int32)
        row = Tracked(expected, hands, info.log_evidence, info.restarted, info.depleted, info.inconsistent)
        return jax.tree.map(lambda rows, value: rows.at[t].set(value), out, row)

    flags = jnp.zeros(NUM_STEPS + 1, bool)
    expected, hands = jnp.zeros((NUM_STEPS + 1, cards.NUM_TYPES)), jnp.zeros((NUM_STEPS + 1, filter.num_particles), jnp.int32)
    nothing = Tracked(expected, hands, jnp.zeros(NUM_STEPS + 1), flags, flags, flags)
    return run_filter(filter, key, seen, num_updates, note, nothing)


def compare(exact: Exact, track: Tracked, num_particles: int) -> Errors:
    """Compare the two filters over the updates before a restart."""
    track = jax.tree.map(lambda x: np.asarray(x)[1 : len(exact.log_evidence) + 1], track)
    restarts = np.flatnonzero(track.restarted)
    n = int(restarts[0]) if restarts.size else len(exact.log_evidence)
    depleted = bool(track.depleted[n : n + 1].any())
    difference = np.where(exact.unseen, np.abs(track.expected - exact.expected), 0.0)[:n]
    return Errors(
        error=difference.sum(-1) / np.maximum(exact.unseen[:n].sum(-1), 1),
        squared=(difference**2).sum(-1),
        ideal_squared=exact.variance[:n].sum(-1) / num_particles,
        # A depleted belief has estimated the evidence as zero.
        log_ratio=np.append((track.log_evidence - exact.log_evidence)[:n], [-np.inf] if depleted else []),
        impossible=sum(int((~np.isin(track.hands[t], exact.possible[t])).sum()) for t in range(n)),
        restarted=bool(restarts.size),
        depleted=depleted,
    )


def measure(rules: Rules, num_games: int, num_particles: Sequence[int], seed: int, workers: int) -> list[list[Errors]]:
    """Track random games under one set of rules. For each N, return the errors of all games and seats in one order."""
    games = play_games(seed, num_games, rules)

    def particles(n: int, lane: int) -> Tracked:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), lane), n)
        filter = ParticleFilter(n, prior="uniform", max_slots=_MAX_SLOTS, max_plays=_MAX_PLAYS)
        tracked = jax.device_get(follow(key, games[lane].seen, np.int32(games[lane].num_updates), filter=filter))
        if tracked.inconsistent.any():
            raise RuntimeError(f"the filter believed nothing of some steps of game {lane}")
        return tracked

    def one_game(lane: int) -> list[Errors]:
        exact = follow_exactly(games[lane])
        return [compare(exact, particles(n, lane), n) for n in num_particles]

    with ThreadPoolExecutor(workers) as pool:
        # Compile the programs in parallel, each once.
        list(pool.map(lambda n: particles(n, 0), num_particles))
        return list(map(list, zip(*pool.map(one_game, range(len(games))), strict=True)))


def summarize_all(num_particles: Sequence[int], by_number: list[list[Errors]]) -> dict[str, Any]:
    """Summarize every N, and the slope of ln error over ln N; -0.5 is expected."""
    rows = {f"N = {n}": summarize(games) for n, games in zip(num_particles, by_number, strict=True)}
    errors = np.array([row["mean_error"] for row in rows.values()])
    has_slope = len(errors) > 1 and (errors > 0).all()
    return rows | {"slope": float(np.polyfit(np.log(num_particles), np.log(errors), 1)[0]) if has_slope else None}


def summarize(games: list[Errors]) -> dict[str, Any]:
    """Summarize one N, over games from both seats."""
    error, squared, ideal = (np.concatenate([getattr(g, name) for g in games]) for name in ("error", "squared", "ideal_squared"))
    ratios = np.exp([g.log_ratio.sum() for g in games])
    return {
        "games_and_seats": len(games),
        "updates": len(error),
        "mean_error": float(error.mean()),
        "inflation": float(squared.sum() / ideal.sum()),
        "evidence": {"mean": float(ratios.mean()), "standard_error": float(ratios.std(ddof=1) / np.sqrt(len(ratios)))},
        **{name: sum(getattr(g, name) for g in games) for name in ("impossible", "restarted", "depleted")},
    }

"""Runs of a particle filter against the exact filter along recorded games, and invariants of particles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from scipy import stats

from tests.belief.games import Step
from tests.helpers import ERROR_PROBABILITY, fold_in_all
from unojax import bits, cards
from unojax.belief import Belief, Info, summary
from unojax.belief.exact import ExactBelief, exact_init, exact_update
from unojax.belief.history import fingerprint
from unojax.belief.opponents import Opponent
from unojax.belief.particles import likelihood, trajectory
from unojax.belief.particles.trajectory import as_words
from unojax.belief.updaters import BootstrapFilter, ParticleFilter
from unojax.observation import Observation
from unojax.rules import Rules

NUM_LOOKED_INTO = 3
"""Runs all of whose particles are checked, which takes longer than an update."""


class Track(NamedTuple):
    """R runs of a filter over the n transitions of a game.

    Attributes:
        expected: float32[R, n, 54].
        hands: Numbers of the particles' hands among all of the deck, int32[R, n, N].
        holds: The invariants in some of the runs, bool[r, n]; empty for the bootstrap filter.
        info: `Info` [R, n].
    """

    expected: Any
    hands: Any
    holds: dict[str, Any]
    info: Info


class Exactly(NamedTuple):
    """The exact filter's results after each of n transitions.

    Attributes:
        expected, variance: Mean and variance of the copies of each type, float64[n, 54].
        possible: Hands with positive probability, by their numbers, bool[n, H].
        log_evidence: float64[n].
        types: P(type), float64[n, K]; [n, 0] without types.
    """

    expected: Any
    variance: Any
    possible: Any
    log_evidence: Any
    types: Any


class Comparison(NamedTuple):
    name: str
    track: Track
    exactly: Exactly


def invariants(belief: Belief, seen: Observation, opponent: Opponent) -> dict[str, jax.Array]:
    """Return the invariants of all particles of a belief at an observation, bool[] each."""
    now, public = belief.trajectories, belief.public

    def is_same(sets: jax.Array, onehot: jax.Array) -> jax.Array:
        return (bits.unpack(bits.canonical(as_words(sets))) == onehot).all()

    def count(sets: jax.Array) -> jax.Array:
        return bits.count(as_words(sets))

    everything = jnp.asarray(bits.all_cards(belief.rules.deck))[:, None]
    outside = now.hand | now.deck | now.own
    filled = jnp.arange(public.max_slots)[:, None] < public.num_slots
    # A label that was released, or not yet given, is card_of(RELEASED): no card.
    live = trajectory.card_of(jnp.where(filled, now.labels, trajectory.RELEASED))
    recorded = jnp.arange(now.played.shape[0])[:, None] < public.num_records
    replayed = likelihood.log_likelihood(now, public, opponent, seen)
    # A type may exclude a particle: both are -inf then.
    softened = replayed.softened
    same_likelihood = (softened == belief.log_likelihood) | (jnp.abs(softened - belief.log_likelihood) <= 1e-4)
    are_impossible = jnp.isneginf(replayed.strict)
    if belief.target is not None and belief.num_types:
        reported = belief.strict_likelihood
    else:
        # A particle that one type excludes has a weight by the others.
        reported, are_impossible = belief.log_weights, are_impossible.reshape(-1, belief.num_particles).all(0)
    hands = bits.unpack(belief.packed)
    return {
        "no card in two places": (count(outside) == count(now.hand) + count(now.deck) + count(now.own)).all(),
        "only cards of the game": ((outside & ~everything) == 0).all(),
        "own cards": is_same(now.own, seen.hand),
        "pile": is_same(everything & ~outside, seen.pile),
        "unseen": is_same(now.hand | now.deck, cards.onehot(seen.unseen)),
        "hand count": (count(now.hand) == seen.opponent_count).all(),
        "deck count": (count(now.deck) == seen.deck_count).all(),
        "hand is what the slots hold": (jnp.bitwise_or.reduce(live, axis=1) == now.hand).all(),
        "one live slot per card": (((now.labels < trajectory.RELEASED) & filled).sum(0) == count(now.hand)).all(),
        "nothing beyond what is filled": ((filled | (now.labels == trajectory.RELEASED)).all())
        & (recorded | (now.played == trajectory.RELEASED)).all(),
        "particles are canonical": (hands == bits.unpack(bits.canonical(bits.pack(hands)))).all(),
        "likelihood is that of the replay": same_likelihood.all(),
        "impossible are those of the replay": (jnp.isneginf(reported) == are_impossible).all(),
        "weights are normalised": jnp.abs(logsumexp(belief.log_weights)) < 1e-4,
        "no particle of weight zero": jnp.isfinite(belief.target_weights).all(),
        "the position that was reached": belief.seen == fingerprint(seen),
    }


def strides_of(rules: Rules) -> tuple[np.ndarray, int]:
    """Return the numbers to add up for the number of a hand, int32[54], and the number of all hands of a deck."""
    deck = np.array(rules.deck)
    shape = deck[deck > 0] + 1
    strides = np.zeros(54, np.int32)
    strides[deck > 0] = np.prod(shape) // np.cumprod(shape)
    return strides, int(np.prod(shape))


def numbers_of(belief: Any) -> jax.Array:
    """Return the numbers of the hands, int32[N]."""
    numbers = belief.particles.astype(jnp.int32) @ strides_of(belief.rules)[0][cards.TYPE_OF_SLOT]
    # The heaviest particle instead of those of weight zero.
    return jnp.where(jnp.isneginf(belief.log_weights), numbers[jnp.argmax(belief.log_weights)], numbers)


Filter = ParticleFilter | BootstrapFilter


@partial(jax.jit, static_argnames="updater")
def begin_runs(keys: jax.Array, seen: Observation, *, updater: Filter) -> Any:
    """Begin R runs at one observation."""
    return jax.vmap(updater.init, (0, None))(keys, seen)


@partial(jax.jit, static_argnames="updater")
def advance_runs(
    keys: jax.Array, beliefs: Any, before: Observation, action: jax.Array, after: Observation, *, updater: Filter
) -> tuple[Any, Track]:
    """Update R runs by one transition."""
    beliefs, infos = jax.vmap(updater.update, (0, 0, None, None, None))(keys, beliefs, before, action, after)
    holds = {}
    if isinstance(updater, ParticleFilter):
        some = jax.tree.map(lambda rows: rows[:NUM_LOOKED_INTO], beliefs)
        holds = jax.lax.map(lambda belief: invariants(belief, after, updater.opponent), some)
    looked = jax.lax.map(lambda belief: (summary.expected_counts(belief), numbers_of(belief)), beliefs)
    return beliefs, Track(*looked, holds, infos)


def compare(updater: Filter, steps: Sequence[Step], *, num_runs: int, seed: int, name: str) -> Comparison:
    """Run both filters along a game; the bootstrap filter until a run is depleted."""
    keys = jax.random.split(jax.random.key(seed), num_runs)
    beliefs = begin_runs(keys, steps[0][0], updater=updater)
    exact = exact_init(steps[0][0], prior=updater.prior, opponent=updater.opponent)
    tracks, rows = [], []
    for t, (before, action, after) in enumerate(steps):
        advanced = advance_runs(fold_in_all(keys, t), beliefs, before, np.int32(action), after, updater=updater)
        beliefs, track = jax.device_get(advanced)
        if isinstance(updater, BootstrapFilter) and track.info.depleted.any():
            break
        exact, log_evidence = exact_update(exact, before, action, after, opponent=updater.opponent)
        tracks.append(track)
        rows.append(exactly(exact, log_evidence))
    return Comparison(name, jax.tree.map(lambda *xs: np.stack(xs, 1), *tracks), jax.tree.map(lambda *xs: np.stack(xs), *rows))


def exactly(belief: ExactBelief, log_evidence: float) -> Exactly:
    probs, copies = belief.count_probs, np.arange(5)
    expected = probs @ copies
    strides, number = strides_of(belief.rules)
    possible = np.zeros(number, bool)
    possible[belief.hands()[0] @ strides] = True
    return Exactly(
        expected=expected,
        variance=np.maximum(probs @ copies**2 - expected**2, 0.0),
        possible=possible,
        log_evidence=np.float64(log_evidence),
        types=np.zeros(0) if belief.log_type_probs is None else np.exp(belief.log_type_probs),
    )


def check_particles(compared: Sequence[Comparison]) -> None:
    """Check that no hand is impossible, invariants hold, and no belief restarts or finds a contradiction."""
    for name, track, exactly in compared:
        for t, possible in enumerate(exactly.possible):
            assert possible[track.hands[:, t]].all(), f"{name}: an impossible hand after update {t}"
        for field, held in track.holds.items():
            assert held.all(), f"{name}: {field}, first at update {np.argwhere(~held.all(0))[0]}"
        for field in ("depleted", "restarted", "inconsistent"):
            assert not getattr(track.info, field).any(), f"{name}: {field}"


def check_means(compared: Sequence[Comparison], num_particles: int, *, bias: float) -> None:
    """Check expected counts and P(type) after each update by t-tests over independent runs.

    The error probability is `ERROR_PROBABILITY` in all. The standard deviation is at least that of N independent draws, for rare
    types. The tolerance allows for a bias of order 1/N.
    """
    num_tests = sum(int((c.exactly.variance > 1e-12).sum()) + c.exactly.types.size for c in compared)
    assert num_tests > 100
    for name, track, exactly in compared:
        num_runs = len(track.expected)
        threshold = stats.t.isf(ERROR_PROBABILITY / 2 / num_tests, num_runs - 1)
        figures = [("counts", track.expected, exactly.expected, exactly.variance)]
        if exactly.types.size:
            figures.append(("types", track.info.type_probs, exactly.types, exactly.types / 9))
        for field, found, expected, variance in figures:
            error = np.sqrt(np.maximum(found.var(0, ddof=1), variance / num_particles) / num_runs)
            wrong = np.argwhere(np.abs(found.mean(0) - expected) > threshold * error + bias)
            assert not wrong.size, f"{name}: {field}, update and type {wrong[0]}"


def check_evidence(compared: Sequence[Comparison], *, tolerance: float) -> None:
    """Check that the mean of estimated / exact evidence is 1, up to each update and at the ends of games.

    The error probability is twice `ERROR_PROBABILITY`.
    """
    ratios = [
        np.exp((track.info.log_evidence - exactly.log_evidence).cumsum(1, dtype=np.float64)) for _, track, exactly in compared
    ]
    num_runs = len(ratios[0])
    threshold = stats.t.isf(ERROR_PROBABILITY / 2 / sum(ratio.shape[1] for ratio in ratios), num_runs - 1)
    for c, ratio in zip(compared, ratios, strict=True):
        error = ratio.std(0, ddof=1) / np.sqrt(num_runs)
        wrong = np.flatnonzero(np.abs(ratio.mean(0) - 1.0) > threshold * error + tolerance)
        assert not wrong.size, f"{c.name}: evidence at update {wrong[0]}: {ratio.mean(0)[wrong[0]]} ± {error[wrong[0]]}"
    ends = np.array([ratio[:, -1] for ratio in ratios])
    error = np.sqrt((ends.var(1, ddof=1) / num_runs).sum())
    assert abs((ends.mean(1) - 1.0).sum()) <= stats.norm.isf(ERROR_PROBABILITY / 2) * error + tolerance * len(ends)


def check_efficiency(compared: Sequence[Comparison], num_particles: int) -> None:
    """Check that particles do not degenerate, and that `Info` reports them.

    The squared error of expected counts is below three times that of N independent draws; 1.2 to 1.9 is typical.
    """
    squared = sum(float(((track.expected - exactly.expected) ** 2).mean(0).sum()) for _, track, exactly in compared)
    assert squared < 3.0 * sum(float(c.exactly.variance.sum()) / num_particles for c in compared)
    resampled = moved = 0
    for _, track, _ in compared:
        info = track.info
        assert ((info.ess >= 1 - 1e-3) & (info.ess <= num_particles * (1 + 1e-4))).all()
        assert info.resampled[info.ess < 0.5 * num_particles - 1].all()
        assert ((info.acceptance >= 0) & (info.acceptance <= 1)).all()
        assert (info.acceptance[~info.resampled] == 0).all()
        resampled, moved = resampled + info.resampled.sum(), moved + (info.acceptance > 0.05).sum()
    assert resampled > 0
    assert moved > resampled / 2

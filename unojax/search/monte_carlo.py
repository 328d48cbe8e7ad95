"""Flat Monte Carlo over a belief: many sampled games are played out after every legal play.

Sample s of a decision is one possible hand of the opponent, drawn from the belief, and one stream of random words. All plays
use the same samples (common random numbers), so their differences are far less noisy than their values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from unojax import bits
from unojax.belief import resample
from unojax.belief.hands import Hands
from unojax.bits import Words
from unojax.device import control
from unojax.device.random_bits import key_words
from unojax.observation import Observation, determinize_packed
from unojax.search.rollouts import Arms, Rollouts, Starts, list_arms, play_out

ROUNDS: Final = 4
"""Checks of the estimates along the way, if a search may stop early."""


class Estimate(NamedTuple):
    """Per-action estimates for one decision, of length A = `Rules.num_choices`; 0 for untried plays.

    Attributes:
        value: Mean return of the player to move, float32[A]: twice the win probability less one, in [-1, 1], without discount,
            step penalties and points.
        gain: Value less that of the base play, float32[A].
        value_error, gain_error: Their standard errors. That of the gain is smaller, because all plays share samples.
        num_samples: Number of rollouts or simulations of each play, int32[A].
        base: Play that the others are compared with, the rollout policy's own choice, int32[].
        win, win_error: Undiscounted share of the rollouts won, a drawn game counting half, and its standard error, float32[A].
            They are meaningless under step penalties, or if points of 0 count.
    """

    value: Array
    gain: Array
    value_error: Array
    gain_error: Array
    num_samples: Array
    base: Array
    win: Array
    win_error: Array


def choose(estimate: Estimate, legal: Array | np.ndarray, keep: float) -> Array:
    """Return the play of highest value if its gain exceeds `keep` standard errors, else the base play.

    With few rollouts the best of several noisy values is often not the best play. `legal` is as long as the estimates, or
    bool[60]. NumPy input gives NumPy output.
    """
    numpy = estimate.value.__array_namespace__()
    # A pruned play has lost, whatever its few samples say.
    ran_to_the_end = legal & (estimate.num_samples == estimate.num_samples.max())
    best = numpy.where(ran_to_the_end, estimate.gain, -np.inf).argmax().astype(np.int32)
    is_better = estimate.gain[best] > keep * estimate.gain_error[best]
    return numpy.where(is_better, best, estimate.base)


def average(estimate: Estimate, values: Array, legal: Array, weight: float) -> Estimate:
    """Average estimates with a value function's, each of whose values counts as `weight` rollouts.

    A prior in the form of imagined results follows Gelly and Silver (2007, section 6). Standard errors remain those of the
    rollouts, in the average. All arguments have an axis of decisions, [D]; `values` are in [-1, 1].
    """
    # In a row that is left out, the base may be no choice at all.
    at_base = jnp.take_along_axis(values, jnp.minimum(estimate.base, values.shape[1] - 1)[:, None], axis=1)
    num_samples = estimate.num_samples.astype(jnp.float32)
    share = num_samples / jnp.maximum(num_samples + jnp.float32(weight), 1.0)

    def mixed(of_rollouts: Array, of_function: Array) -> Array:
        return jnp.where(legal, share * of_rollouts + (1 - share) * of_function, 0.0)

    return estimate._replace(
        value=mixed(estimate.value, values),
        gain=mixed(estimate.gain, values - at_base),
        value_error=share * estimate.value_error,
        gain_error=share * estimate.gain_error,
        win=mixed(estimate.win, (1 + values) / 2),
        win_error=share * estimate.win_error,
    )


class Samples(NamedTuple):
    """Hidden variables in the R samples of a decision.

    Attributes:
        hands: The opponent's hand, uint32[R] each.
        types: Its type, uint32[R]; None without types.
    """

    hands: Words
    types: Array | None = None


def sample_hands(key: Array, hands: Hands, num: int) -> Samples:
    """Draw `num` hands systematically, with their types, in random order. Consumes `key`."""
    key_offset, key_order = jax.random.split(key)
    log_weights = hands.log_weights if hands.log_joint is None else hands.log_joint.reshape(-1)
    # XLA would sum constant equal weights while it compiles: a minute for a thousand games.
    log_weights = lax.optimization_barrier(log_weights)
    index = resample.systematic(jax.random.uniform(key_offset, dtype=jnp.float32), log_weights, num)
    index = jax.random.permutation(key_order, index)
    if hands.log_joint is None:
        return Samples(bits.map_words(lambda w: w[index], hands.packed))
    kind, index = jnp.divmod(index, np.int32(hands.log_weights.shape[-1]))
    return Samples(bits.map_words(lambda w: w[index], hands.packed), kind.astype(jnp.uint32))


def flat_monte_carlo(
    keys: Array,
    observations: Observation,
    samples: Samples,
    legal: Array,
    how: Rollouts,
    *,
    stop: float = 0.0,
    num_steps: Array | None = None,
    store: Any = None,
) -> Estimate:
    """Estimate every legal play of D decisions.

    Args:
        keys: D threefry2x32 keys, consumed.
        observations: [D] of the players to move.
        samples: [D, R], drawn from the beliefs; the rollouts use their types if they model any.
        legal: bool[D, `Rules.num_choices`]; a row without True is skipped.
        how: Rollout settings, with R rollouts of each play; with `stop` or a guide, R is a multiple of `ROUNDS`.
        stop: Standard errors below the best play at which a play is pruned; 0: never. Static.
        num_steps: Steps of the games so far, int32[D], as in `rollouts.play_out`.
        store: Store of the guide, which carries over from each round to the next.
    """
    num_decisions, num_choices = legal.shape
    others = how.rules.num_actions - num_choices
    key_pairs = jax.vmap(jax.random.split)(keys)
    base = how.policies[0].choose_each(key_pairs[:, 0], observations, jnp.pad(legal, ((0, 0), (0, others))))
    seeds = jax.vmap(key_words)(key_pairs[:, 1])
    arms = list_arms(legal, most=how.rules.most_choices)
    row = jnp.arange(len(arms.position), dtype=jnp.int32)
    # Padding rows name position 0 and action 0 too.
    row_of = jnp.zeros(legal.shape, jnp.int32).at[arms.position, arms.action].max(jnp.where(row < arms.number, row, 0))
    base_row = row_of[jnp.arange(num_decisions), jnp.minimum(base, num_choices - 1)]

    num_rounds = ROUNDS if stop > 0 or how.guide is not None else 1
    per_round = how.num_samples // num_rounds
    of_round = replace(how, num_samples=per_round)

    def one_round(index: Array, carry: tuple[Array, Array, Any]) -> tuple[Array, Array, Any]:
        returns, num_played, store = carry
        alive = _alive(arms, returns, num_played, base_row, stop) if stop > 0 else row < arms.number
        order = jnp.argsort(~alive, stable=True)
        playing = Arms(arms.position[order], arms.action[order], alive.sum(dtype=jnp.int32))
        first = index * per_round
        here = jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, first, per_round, axis=1), samples)
        placed = jax.vmap(determinize_packed)(observations, here.hands), here.types
        tables, types = jax.tree.map(lambda x: x.reshape(-1), placed)
        starts = Starts(tables, seeds, types, first_sample=first, num_steps=num_steps)
        new, store = play_out(starts, playing, of_round, store)
        new = jnp.zeros_like(new).at[order].set(new)
        returns = lax.dynamic_update_slice_in_dim(returns, new, first, axis=1)
        return returns, num_played + jnp.where(alive, per_round, 0), store

    first = (jnp.zeros((len(row), how.num_samples), jnp.float32), jnp.zeros(len(row), jnp.int32), store)
    returns, num_played, _ = control.fori_loop(0, num_rounds, one_round, first)

    def spread(per_arm: Array) -> Array:
        return jnp.zeros(legal.shape, per_arm.dtype).at[arms.position, arms.action].add(jnp.where(row < arms.number, per_arm, 0))

    value, value_error = _mean_and_error(returns, num_played)
    gain, gain_error = _gain(returns, num_played, base_row[arms.position])
    result, result_error = value, value_error
    if how.discount != 1.0 or how.has_points:
        result, result_error = _mean_and_error(jnp.sign(returns), num_played)
    return Estimate(
        value=spread(value),
        gain=spread(gain),
        value_error=spread(value_error),
        gain_error=spread(gain_error),
        num_samples=spread(num_played),
        base=base,
        win=spread((1 + result) / 2),
        win_error=spread(result_error / 2),
    )


def _mean_and_error(samples: Array, num: Array) -> tuple[Array, Array]:
    """Return mean and standard error of the first `num` entries of each row, the others being 0."""
    n = jnp.maximum(num, 1).astype(jnp.float32)
    mean = samples.sum(-1) / n
    is_in = np.arange(samples.shape[-1], dtype=np.int32)[None] < num[:, None]
    square = jnp.where(is_in, (samples - mean[:, None]) ** 2, 0.0).sum(-1)
    return mean, jnp.sqrt(square / jnp.maximum(n - 1.0, 1.0) / n)


def _gain(returns: Array, num_played: Array, reference: Array) -> tuple[Array, Array]:
    """Return mean and standard error of each arm's returns minus those of another row."""
    num = jnp.minimum(num_played, num_played[reference])
    is_in = np.arange(returns.shape[-1], dtype=np.int32)[None] < num[:, None]
    return _mean_and_error(jnp.where(is_in, returns - returns[reference], 0.0), num)


def _alive(arms: Arms, returns: Array, num_played: Array, base_row: Array, stop: float) -> Array:
    """Return the arms to continue, bool[A].

    These may still be the best of their decision, or are its base arm, `base_row` int32[D]. If only one arm can win, the decision
    has no arm left.
    """
    num_decisions = len(base_row)
    row = jnp.arange(num_played.shape[0], dtype=jnp.int32)
    counts = row < arms.number
    never_played = num_played.max() == 0
    # Only arms that took part in every round so far.
    running = counts & (num_played == jnp.zeros(num_decisions, jnp.int32).at[arms.position].max(num_played)[arms.position])
    value = jnp.where(running, returns.sum(-1), -jnp.inf)
    best_value = jnp.full(num_decisions, -jnp.inf, jnp.float32).at[arms.position].max(value)
    is_best = running & (value == best_value[arms.position])
    best_row = jnp.zeros(num_decisions, jnp.int32).at[arms.position].max(jnp.where(is_best, row, 0))
    gain, error = _gain(returns, num_played, best_row[arms.position])
    close = running & (gain + stop * error >= 0)
    num_close = jnp.zeros(num_decisions, jnp.int32).at[arms.position].add(close.astype(jnp.int32))
    is_base = running & (row == base_row[arms.position])
    return jnp.where(never_played, counts, (close | is_base) & (num_close[arms.position] > 1))

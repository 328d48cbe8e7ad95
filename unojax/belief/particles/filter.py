"""The particle filter over the opponent's hand: `belief_update`.

Events that contradict a particle repair it with an exact weight instead of killing it, and Metropolis moves refresh it (`moves`
has the derivation). Unbiased for the evidence, consistent as N grows, and no hand that the history rules out has any weight.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap
from jax.experimental import checkify

from unojax.belief.opponents import Opponent, check_types, uniform_opponent
from unojax.belief.particles import lockstep, one_game
from unojax.belief.particles.accounts import in_lockstep
from unojax.belief.particles.belief import Belief, Info
from unojax.belief.particles.event import MOST_ROUNDS
from unojax.device import control
from unojax.device.batching import spread, together
from unojax.device.random_bits import check_key
from unojax.device.tracing import open_closure
from unojax.game.steps import single_action
from unojax.observation import Observation, check_observation
from unojax.rules import Rules, agreed_rules

__all__ = ["MOST_ROUNDS", "NUM_MOVES", "belief_update", "belief_update_checked"]

NUM_MOVES: Final = 6
"""Default number of refreshing moves after a resampling, each of one card: about a hand's worth."""


def belief_update(
    belief: Belief,
    before: Observation,
    action: Array,
    after: Observation,
    key: Array,
    *,
    opponent: Opponent = uniform_opponent,
    rules: Rules | None = None,
    ess_threshold: float = 0.5,
    num_moves: int = NUM_MOVES,
) -> tuple[Belief, Info]:
    """Condition the belief on one micro-step: one public action of one player.

    Under rules with plain steps (`Rules.has_plain_steps`) games of a `vmap` are taken together, under others one after the other.

    Args:
        belief, before, after: the belief before the micro-step, and the observer's observations around it.
        action: the public action of whoever moved, integer scalar, as `infer_action(before, after)` recovers it.
        key: threefry2x32; consumed.
        opponent: the opponent model, static. One that gives a legal action probability zero (a deterministic policy, say) needs
            some `tremble`: particles are repaired on the assumption that any legal action may be taken. Or a `Family` of them,
            with which the belief was begun: one of its types must give every action a positive probability. A model may close
            over arrays, such as its parameters. Under `jax.vmap` over these, updates run one after the other; derivatives by them
            are those of forward mode (`jax.jvp`), since JAX has no reverse mode for loops of varying length.
        rules: those of belief and observations, if given.
        ess_threshold: resample when the ESS falls below this share of N, static.
        num_moves: refreshing moves after a resampling, static; more of them if the ESS was below N/2 by far (`MOST_ROUNDS`).
            Each renews one card of the hand, in turn. With fewer, particles that were resampled stay alike, and marginals are
            noisier: by 4.5 times the variance of N independent draws with one random card, by 1.3 times with the default.

    Returns:
        The belief after the micro-step, and what happened. The belief is as it was if nothing moved (finished game, illegal
        action), or if the observations belong neither together, nor to the action, or not to this belief (`Info.inconsistent`).

    Raises:
        ValueError: an observation, the action, the belief or the key is a batch, the action is no integer or the key none, the
            rules of belief and observations, or `rules`, differ, the belief was begun with other types of opponents, or an option
            is out of range.
    """
    check_key(key, "belief_update")
    if belief.log_weights.ndim != 1:
        shape = belief.log_weights.shape
        raise ValueError(f"belief_update takes a single belief, got log_weights of shape {shape}; map over a batch with jax.vmap")
    check_types(0 if belief.log_types is None else belief.log_types.shape[-1], opponent, "belief_init")
    if not 0 <= ess_threshold <= 1 or num_moves < 0:
        raise ValueError(f"ess_threshold must be in [0, 1] and num_moves at least 0, got {ess_threshold} and {num_moves}")
    for seen in (before, after):
        check_observation(seen, "belief_update", rules)
        agreed_rules(belief.rules, seen.rules)
    options = {"opponent": opponent, "ess_threshold": ess_threshold, "num_moves": num_moves}
    arguments = (belief, before, single_action(action, "belief_update").astype(jnp.int32), after, key)
    # Games in lockstep know plain steps only; under other rules they are taken one by one everywhere.
    if in_lockstep() and belief.rules.has_plain_steps:
        updated, info = together(lambda _, *games: lockstep.update_games(*games, **options))((), *arguments)
    else:
        updated, info = _one_by_one(partial(one_game.update, **options))(*arguments)
    if belief.log_types is None:
        return updated, info
    return updated, info._replace(type_probs=jnp.exp(updated.log_type_probs))


def belief_update_checked(
    belief: Belief, before: Observation, action: Array, after: Observation, key: Array, **options: Any
) -> tuple[Belief, Info]:
    """`belief_update`, with its `options`, that fails on observations that do not belong together, for debugging.

    After `jax.jit(checkify.checkify(belief_update_checked))(belief, before, action, after, key)`, `err.throw()` raises.
    """
    belief, info = belief_update(belief, before, action, after, key, **options)
    checkify.check(
        ~info.inconsistent,
        "the observations around action {action} are not one micro-step apart, show another action, or are not of this belief's "
        "position: give every micro-step of either player, as the observer sees it",
        action=jnp.asarray(action),
    )
    return belief, info


def _one_by_one(update: Callable[..., tuple[Belief, Info]]) -> Callable[..., tuple[Belief, Info]]:
    """Map `update` over the games one after the other if it is vmapped.

    The form for a CPU, where the particles of one game are enough to keep the vector units busy, and stay in the cache. Games in
    lockstep would take every branch of an update, and the longest of each loop.
    """

    def of_one(*args: Any) -> tuple[Belief, Info]:
        opened, captured = open_closure(update, *args)
        of_game = custom_vmap(opened)
        of_game.def_vmap(partial(_over_games, of_game))
        return of_game(captured, *args)

    return of_one


def _over_games(
    update: Callable[..., tuple[Belief, Info]], axis_size: int, in_batched: Any, *args: Any
) -> tuple[tuple[Belief, Info], Any]:
    captured, beliefs, *events, key = args
    # Keys are taken apart, since a loop that indexes them looks like one that uses them again and again.
    impl = jax.random.key_impl(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else None
    rows = [captured, *events, key if impl is None else jax.random.key_data(key)]
    is_mapped = [in_batched[0], *in_batched[2:]]

    def of_game(game: Array, beliefs: Belief) -> tuple[Belief, Info]:
        here, *events, key = jax.tree.map(lambda x, mapped: x[game] if mapped else x, rows, is_mapped)
        key = key if impl is None else jax.random.wrap_key_data(key, impl=impl)
        return update(here, jax.tree.map(lambda rows: rows[game], beliefs), *events, key)

    def one_game(game: Array, result: tuple[Belief, Info]) -> tuple[Belief, Info]:
        return jax.tree.map(lambda rows, row: rows.at[game].set(row), result, of_game(game, result[0]))

    # In place: a game's belief is overwritten by its successor, so that a donated batch needs no second one.
    beliefs = jax.tree.map(partial(spread, axis_size), beliefs, in_batched[1])
    shapes = jax.eval_shape(of_game, jnp.int32(0), beliefs)[1]
    infos = jax.tree.map(lambda info: jnp.zeros((axis_size, *info.shape), info.dtype), shapes)
    result = control.fori_loop(0, axis_size, one_game, (beliefs, infos))
    return result, jax.tree.map(lambda _: True, result)

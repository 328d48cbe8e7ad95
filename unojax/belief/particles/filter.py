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
from unojax.device.random_bits import check_key
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
            with which the belief was begun: one of its types must give every action a positive probability.
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
        updated, info = _together(partial(lockstep.update_games, **options))(*arguments)
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
    update = custom_vmap(update)

    @update.def_vmap
    def over_games(axis_size: int, in_batched: Any, *args: Any) -> tuple[tuple[Belief, Info], Any]:
        *events, key = args
        # Keys are taken apart, since a loop that indexes them looks like one that uses them again and again.
        impl = jax.random.key_impl(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else None
        data = key if impl is None else jax.random.key_data(key)

        def of_game(game: Array) -> Any:
            rows = jax.tree.map(lambda x, is_mapped: x[game] if is_mapped else x, [*events, data], list(in_batched))
            return rows if impl is None else [*rows[:-1], jax.random.wrap_key_data(rows[-1], impl=impl)]

        def one_game(game: Array, result: tuple[Belief, Info]) -> tuple[Belief, Info]:
            beliefs, infos = result
            _, *rest = of_game(game)
            one = update(jax.tree.map(lambda rows: rows[game], beliefs), *rest)
            return jax.tree.map(lambda rows, row: rows.at[game].set(row), (beliefs, infos), one)

        # In place: a game's belief is overwritten by its successor, so that a donated batch needs no second one.
        infos = jax.tree.map(
            lambda s: jnp.zeros((axis_size, *s.shape), s.dtype), jax.eval_shape(update, *of_game(jnp.int32(0)))[1]
        )
        beliefs = jax.tree.map(partial(_spread, axis_size), args[0], in_batched[0])
        result = control.fori_loop(0, axis_size, one_game, (beliefs, infos))
        return result, jax.tree.map(lambda _: True, result)

    return update


def _together(update_games: Callable[..., tuple[Belief, Info]]) -> Callable[..., tuple[Belief, Info]]:
    """Turn the update of a batch of games into one of a single game, however often it is vmapped.

    The form for a GPU.
    """

    @custom_vmap
    def of_batch(*args: Any) -> tuple[Belief, Info]:
        return update_games(*args)

    @of_batch.def_vmap
    def of_batches(axis_size: int, in_batched: Any, *args: Any) -> tuple[tuple[Belief, Info], Any]:
        # Batches of batches are one larger batch.
        args = jax.tree.map(partial(_spread, axis_size), args, tuple(in_batched))
        merged = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), args)
        result = jax.tree.map(lambda x: x.reshape(axis_size, -1, *x.shape[1:]), of_batch(*merged))
        return result, jax.tree.map(lambda _: True, result)

    def of_one(*args: Any) -> tuple[Belief, Info]:
        return jax.tree.map(lambda x: x[0], of_batch(*jax.tree.map(lambda x: x[None], args)))

    return of_one


def _spread(axis_size: int, leaf: Array, is_mapped: bool) -> Array:
    return leaf if is_mapped else jnp.broadcast_to(leaf, (axis_size, *leaf.shape))

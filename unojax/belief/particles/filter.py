"""The particle filter over the opponent's hand: `belief_update`.

Conditional proposals with exact weights change particles that contradict an event (`proposals`), and Metropolis moves rejuvenate
them. The filter is unbiased for the evidence and consistent as N grows.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental import checkify

from unojax.belief import history
from unojax.belief.opponents import Opponent, check_types, uniform_opponent
from unojax.belief.particles import parallel, serial
from unojax.belief.particles.belief import Belief, Info, check_resampling
from unojax.belief.particles.weighing import Options
from unojax.device import control
from unojax.device.batching import together
from unojax.device.platform import by_platform
from unojax.device.random_bits import check_key, key_words
from unojax.device.tracing import traced_once
from unojax.game.steps import single_action
from unojax.observation import Observation, check_transition

__all__ = ["NUM_MOVES", "belief_update", "belief_update_checked"]

NUM_MOVES: Final = 6
"""Default number of rejuvenation moves after a resampling, each of one card: about a hand's worth."""


def belief_update(
    belief: Belief,
    before: Observation,
    action: Array,
    after: Observation,
    key: Array,
    *,
    opponent: Opponent = uniform_opponent,
    ess_threshold: float = 0.5,
    num_moves: int = NUM_MOVES,
) -> tuple[Belief, Info]:
    """Condition the belief on one transition: one public action of one player.

    A batch of games, by `jax.vmap`, is updated one game after the other on a CPU and together on a GPU, to the same particles.

    Args:
        belief: Belief before the transition.
        before, after: The observer's observations around the transition.
        action: Public action of the mover, integer scalar, as `infer_action(before, after)` recovers it.
        key: Key, threefry2x32; consumed.
        opponent: Opponent model, static, or the `Family` that the belief was begun with. It must give every legal action a
            positive probability, so a deterministic policy needs some `tremble`; in a `Family`, one of the types must. A model
            may close over arrays, such as its parameters; under `jax.vmap` over these, updates run one after the other.
            Derivatives are those of forward mode (`jax.jvp`).
        ess_threshold: Share of N below which the ESS makes the filter resample, static.
        num_moves: Rejuvenation moves after a resampling, static; up to `weighing.MOST_ROUNDS` times as many for a very low ESS.
            Each renews one card of the hand. Marginals have 4.5 times the variance of N independent draws with one move, 1.3
            times with the default.

    Returns:
        The belief after the transition, and diagnostics. The belief is unchanged if nothing moved (finished game, illegal
        action), or if the card counts of the observations contradict each other, the action or this belief (`Info.inconsistent`).
        `belief_update_checked` proves consistency by the rules of the game.

    Raises:
        ValueError: If an observation, the action, the belief or the key is a batch, the action is no integer or the key no key,
            the rules of belief and observations differ, the belief was begun with other types of opponents, or an option is out
            of range.
    """
    check_key(key, "belief_update")
    if belief.log_weights.ndim != 1:
        shape = belief.log_weights.shape
        raise ValueError(f"belief_update takes a single belief, got log_weights of shape {shape}; map over a batch with jax.vmap")
    check_types(belief.num_types, opponent, "belief_init")
    check_resampling(ess_threshold, num_moves)
    check_transition(belief.rules, before, after, "belief_update")
    action = single_action(action, "belief_update").astype(jnp.int32)
    # Words instead of a key, which a loop over games could not index.
    words = jnp.stack(key_words(key))
    updated, info = _update(belief, before, action, after, words, options=Options(opponent, ess_threshold, num_moves))
    if belief.log_types is None:
        return updated, info
    return updated, info._replace(type_probs=jnp.exp(updated.log_type_probs))


def belief_update_checked(
    belief: Belief, before: Observation, action: Array, after: Observation, key: Array, **options: Any
) -> tuple[Belief, Info]:
    """Run `belief_update`, with its `options`, and prove that the observations are one transition apart; for debugging.

    Compiling takes twice as long. Use it through `jax.jit(checkify.checkify(belief_update_checked))`, whose error's `throw()`
    raises.
    """
    belief, info = belief_update(belief, before, action, after, key, **options)
    checkify.check(
        ~info.inconsistent & history.belongs(before, jnp.asarray(action), after),
        "the observations around action {action} are not one transition apart, show another action, or are not of this belief's "
        "position: pass every transition of either player, as the observer sees it",
        action=jnp.asarray(action),
    )
    return belief, info


@partial(traced_once, static=("options",))
def _update(*arguments: Any, options: Options) -> tuple[Belief, Info]:
    """Update one game, or under `jax.vmap` a batch of games, in the form for the platform that the program is lowered for."""

    def update(_: Any, *games: Any) -> tuple[Belief, Info]:
        one_by_one, at_once = partial(_one_by_one, options=options), partial(parallel.update_games, options=options)
        return by_platform(one_by_one, at_once, *games)

    return together(update)((), *arguments)


def _one_by_one(beliefs: Belief, *others: Any, options: Options) -> tuple[Belief, Info]:
    """Update G games one after the other, in place: a donated batch of beliefs needs no second one."""
    num_games = len(beliefs.log_weights)

    def of_row(game: Array, beliefs: Belief) -> tuple[Belief, Info]:
        rows = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, game, keepdims=False), (beliefs, *others))
        return serial.update_game(*rows, options=options)

    def one_game(game: Array, result: tuple[Belief, Info]) -> tuple[Belief, Info]:
        updated = of_row(game, result[0])
        return jax.tree.map(lambda rows, row: lax.dynamic_update_index_in_dim(rows, row, game, 0), result, updated)

    shapes = jax.eval_shape(of_row, jnp.int32(0), beliefs)[1]
    infos = jax.tree.map(lambda info: jnp.zeros((num_games, *info.shape), info.dtype), shapes)
    return control.fori_loop(0, num_games, one_game, (beliefs, infos))

"""Updates of parameters, whatever is trained: the optimizer, sums over chunks, and one iteration on all devices.

Sums are taken a chunk at a time: nothing is computed of the elements that are not chosen, and what a network's layers hand on
stays in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from training.checks import check_options, is_not_negative, is_share
from unojax.value.network import Params

AXIS: Final = "games"
"""Axis of the devices."""
_S = TypeVar("_S")
_M = TypeVar("_M")
_Sums = TypeVar("_Sums")
_Tree = TypeVar("_Tree")


@dataclass(frozen=True)
class Optimizer:
    """AdamW with a warm-up and a cosine decay of the learning rate.

    Attributes:
        learning_rate: the highest.
        warmup: share of all updates in which it rises, at least one of them and at most all but the last.
        final: share of the highest that is left at the end.
        weight_decay: of AdamW (Loshchilov and Hutter 2019).
        clip: the gradient's norm is at most this.
        average: decay, per update, of the running average of the parameters that is played with and shipped.
    """

    learning_rate: float = 2e-3
    warmup: float = 0.02
    final: float = 0.02
    weight_decay: float = 1e-4
    clip: float = 1.0
    average: float = 0.99

    def __post_init__(self) -> None:
        check_options(self, "optimizer.", "learning_rate clip", lambda number: number > 0, "must be greater than 0")
        check_options(self, "optimizer.", "warmup average", lambda share: 0 <= share < 1, "must be in [0, 1)")
        check_options(self, "optimizer.", "final", is_share, "must be in [0, 1]")
        check_options(self, "optimizer.", "weight_decay", is_not_negative, "can't be negative")

    def make(self, num_updates: int) -> optax.GradientTransformation:
        """Make the transformation of gradients for so many updates in all."""
        schedule = optax.warmup_cosine_decay_schedule(
            0.0,
            self.learning_rate,
            warmup_steps=min(max(1, round(self.warmup * num_updates)), num_updates - 1),
            decay_steps=num_updates,
            end_value=self.final * self.learning_rate,
        )
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adamw(schedule, weight_decay=self.weight_decay))


class Learner(NamedTuple):
    """What updates change.

    Attributes:
        params: of the networks.
        average: running average of all parameters, or of some.
        optimizer: state of the optimizer.
    """

    params: Params
    average: Params
    optimizer: optax.OptState


def learn(
    learner: Learner,
    optimizer: optax.GradientTransformation,
    gradient_of: Callable[[Params, Array], tuple[Params, _Sums]],
    num_updates: int,
    *,
    decay: float,
    averaged: Callable[[Params], Params] = lambda params: params,
) -> tuple[Learner, _Sums, Array]:
    """Update parameters so many times, one update after the other.

    Args:
        learner: before the updates.
        optimizer: of `Optimizer.make`.
        gradient_of: gradient, and sums of the losses, at some parameters in update int32[].
        num_updates: static.
        decay: of the running average, per update.
        averaged: takes the parameters that it is an average of.

    Returns:
        the learner after the updates, the sums of all of them, and the norm of the last gradient, float32[].
    """

    def one_update(learner: Learner, count: Array) -> tuple[Learner, tuple[_Sums, Array]]:
        gradient, sums = gradient_of(learner.params, count)
        change, state = optimizer.update(gradient, learner.optimizer, learner.params)
        params = optax.apply_updates(learner.params, change)
        average = optax.incremental_update(averaged(params), learner.average, 1.0 - decay)
        return Learner(params, average, state), (sums, optax.tree.norm(gradient))

    learner, (sums, norms) = lax.scan(one_update, learner, jnp.arange(num_updates))
    return learner, jax.tree.map(lambda x: x.sum(0), sums), norms[-1]


def sum_chunks(of_chunk: Callable[[Array, Array], _Tree], chosen: Array, chunk: int) -> _Tree:
    """Sum what `of_chunk` gives over the chosen elements, bool[...].

    `of_chunk(index, is_real)` gets flat indices, int32[chunk], and bool[chunk], which of them count: the rest fills the chunk up.
    Where there are no more elements than a chunk holds, it is one of all, chosen or not.
    """
    if chosen.size <= chunk:
        return of_chunk(jnp.arange(chosen.size), chosen.reshape(-1))
    # Filled up to whole chunks with one beyond the end.
    (index,) = jnp.nonzero(chosen.reshape(-1), size=-(-chosen.size // chunk) * chunk, fill_value=chosen.size)
    number = chosen.sum()

    def one_chunk(i: Array, total: _Tree) -> _Tree:
        at = lax.dynamic_slice(index, [i * chunk], [chunk])
        return jax.tree.map(jnp.add, total, of_chunk(at, i * chunk + jnp.arange(chunk) < number))

    of_one = jax.eval_shape(of_chunk, index[:chunk], jnp.ones(chunk, bool))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), of_one)
    return lax.fori_loop(0, (number + chunk - 1) // chunk, one_chunk, zero)


def make_mesh() -> Mesh:
    """Put all devices of all processes in a row."""
    return jax.make_mesh((jax.device_count(),), (AXIS,))


def divide(
    iteration: Callable[[_S, Array], tuple[_S, _M]], num_games: int, updates: int, mesh: Mesh
) -> Callable[[_S], tuple[_S, _M]]:
    """Compile an iteration for all devices: the state is on each of them, the games are divided among them.

    Args:
        iteration: `iteration(state, number)` with the numbers of a device's games, int32[updates, n], as many of each update.
            It may communicate along the axis `AXIS`, and gives the same on all devices.
        num_games: of all devices.
        updates: that each learn from an equal share of the games.
        mesh: the devices.
    """
    of_devices = NamedSharding(mesh, P(None, AXIS))
    mapped = jax.shard_map(iteration, mesh=mesh, in_specs=(P(), of_devices.spec), out_specs=P(), check_vma=False)

    @jax.jit
    def divided(state: _S) -> tuple[_S, _M]:
        number = jnp.arange(num_games, dtype=jnp.int32).reshape(updates, -1)
        return mapped(state, jax.reshard(number, of_devices))

    return divided

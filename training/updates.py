"""Parameter updates of any training: the optimizer, sums over chunks, and one iteration on all devices.

Sums are computed a chunk at a time. Elements that are not chosen cost nothing, and the activations of a network stay in the
processor's cache.
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
        learning_rate: Highest learning rate.
        warmup: Share of all updates in which it rises, at least one update and at most all but the last.
        final: Share of the highest learning rate at the end.
        weight_decay: Weight decay of AdamW (Loshchilov and Hutter 2019).
        clip: Largest norm of the gradient.
        average: Decay, per update, of the running average of the parameters, which plays and is shipped.
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
        """Return the transformation of gradients for the given total of updates."""
        schedule = optax.warmup_cosine_decay_schedule(
            0.0,
            self.learning_rate,
            warmup_steps=min(max(1, round(self.warmup * num_updates)), num_updates - 1),
            decay_steps=num_updates,
            end_value=self.final * self.learning_rate,
        )
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adamw(schedule, weight_decay=self.weight_decay))


class Learner(NamedTuple):
    """State that updates change.

    Attributes:
        params: Parameters of the networks.
        average: Running average of all parameters, or of some.
        optimizer: State of the optimizer.
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
    """Run `num_updates` updates of the parameters, in sequence.

    Args:
        learner: State before the updates.
        optimizer: From `Optimizer.make`.
        gradient_of: Function of parameters and the update's number, int32[], that returns the gradient and sums of the losses.
        num_updates: Static.
        decay: Decay of the running average, per update.
        averaged: Function that selects the averaged parameters.

    Returns:
        The learner after the updates, the sums of all updates, and the norm of the last gradient, float32[].
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
    """Sum `of_chunk` over the chosen elements, bool[...].

    `of_chunk(index, is_real)` receives flat indices, int32[chunk], and bool[chunk], False for padding. If all elements fit
    in one chunk, the chunk holds them all, chosen or not.
    """
    if chosen.size <= chunk:
        return of_chunk(jnp.arange(chosen.size), chosen.reshape(-1))
    # Padded to whole chunks with an index beyond the end.
    (index,) = jnp.nonzero(chosen.reshape(-1), size=-(-chosen.size // chunk) * chunk, fill_value=chosen.size)
    number = chosen.sum()

    def one_chunk(i: Array, total: _Tree) -> _Tree:
        at = lax.dynamic_slice(index, [i * chunk], [chunk])
        return jax.tree.map(jnp.add, total, of_chunk(at, i * chunk + jnp.arange(chunk) < number))

    of_one = jax.eval_shape(of_chunk, index[:chunk], jnp.ones(chunk, bool))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), of_one)
    return lax.fori_loop(0, (number + chunk - 1) // chunk, one_chunk, zero)


def make_mesh() -> Mesh:
    """Return a one-dimensional mesh of all devices of all processes."""
    return jax.make_mesh((jax.device_count(),), (AXIS,))


def divide(
    iteration: Callable[[_S, Array], tuple[_S, _M]], num_games: int, updates: int, mesh: Mesh
) -> Callable[[_S], tuple[_S, _M]]:
    """Compile an iteration for all devices, which replicate the state and divide the games.

    Args:
        iteration: `iteration(state, number)` with the numbers of a device's games, int32[updates, n], equally many per update.
            It may communicate along the axis `AXIS`, and returns the same on all devices.
        num_games: Games of all devices.
        updates: Number of updates, each on an equal share of the games.
        mesh: The devices.
    """
    of_devices = NamedSharding(mesh, P(None, AXIS))
    mapped = jax.shard_map(iteration, mesh=mesh, in_specs=(P(), of_devices.spec), out_specs=P(), check_vma=False)

    @jax.jit
    def divided(state: _S) -> tuple[_S, _M]:
        number = jnp.arange(num_games, dtype=jnp.int32).reshape(updates, -1)
        return mapped(state, jax.reshard(number, of_devices))

    return divided

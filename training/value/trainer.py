"""One training iteration on all devices: play games with the present network, then learn from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.sharding import Mesh

from training.updates import AXIS, Learner, Optimizer, divide, learn
from training.value.learning import Loss, Sums, loss_and_gradient, targets_of
from training.value.selfplay import SelfPlay, play_episodes
from unojax.value.network import Network, NetworkConfig, Params, init_network

_GAMES, _SHOWN, _PICKS = range(3)


@dataclass(frozen=True)
class Plan:
    """Static settings of a compiled iteration.

    Attributes:
        network: Shape of the network.
        play, loss, optimizer: See their options.
        games: Games per iteration.
        updates: Updates per pass, each on an equal share of the games.
        epochs: Passes through the games of an iteration.
        iterations: Total, which determines the learning rate.
    """

    network: NetworkConfig
    play: SelfPlay
    loss: Loss
    optimizer: Optimizer
    games: int
    updates: int
    epochs: int
    iterations: int

    def __post_init__(self) -> None:
        if self.games % self.updates:
            raise ValueError(f"games ({self.games}) must be a multiple of updates ({self.updates})")

    def make_optimizer(self) -> optax.GradientTransformation:
        """Return the transformation of gradients for all updates of all iterations."""
        return self.optimizer.make(self.iterations * self.epochs * self.updates)


class TrainState(NamedTuple):
    """State of training between iterations; the whole content of a checkpoint.

    Attributes:
        params: Parameters of the network.
        average: Their running average.
        optimizer: State of the optimizer.
        key: Source of all randomness; iteration i uses `fold_in(key, i)`.
        iteration: int32[]. Iterations done.
    """

    params: Params
    average: Params
    optimizer: Any
    key: Array
    iteration: Array


class Metrics(NamedTuple):
    """Sums of one iteration's losses, norm of the last gradient, float32[], and numbers of steps and truncated games, int32[]."""

    sums: Sums
    gradient_norm: Array
    steps: Array
    cut_off: Array


def start(seed: int, plan: Plan) -> TrainState:
    """Return the state before training."""
    key_init, key = jax.random.split(jax.random.key(seed))
    params = init_network(key_init, plan.network).params
    return TrainState(params, params, plan.make_optimizer().init(params), key, jnp.int32(0))


def check_mesh(plan: Plan, mesh: Mesh) -> None:
    """Check that the games of an update can be divided equally.

    Raises:
        ValueError: If they can't.
    """
    share, kinds = plan.games // plan.updates, len(plan.play.opponents)
    if share % mesh.size:
        raise ValueError(
            f"each update learns from games / updates = {share} games, which {mesh.size} devices can't share equally; "
            f"make games a multiple of {plan.updates * mesh.size}, or choose the number of --devices"
        )
    if share % (2 * kinds):
        raise ValueError(
            f"each update learns from games / updates = {share} games, a number that must be a multiple of {2 * kinds}, "
            f"so that every opponent is met as often in either seat"
        )


def make_iteration(plan: Plan, mesh: Mesh) -> Callable[[TrainState], tuple[TrainState, Metrics]]:
    """Build the device program of one iteration. Devices replicate the state and divide the games.

    Any number of devices plays the same games and assigns them to the same updates; only the order of sums differs.

    Raises:
        ValueError: If the devices can't share the games equally.
    """
    check_mesh(plan, mesh)
    optimizer = plan.make_optimizer()
    share = plan.games // plan.updates

    def iteration(state: TrainState, number: Array) -> tuple[TrainState, Metrics]:
        key = jax.random.fold_in(state.key, state.iteration)
        number = number.reshape(-1)
        keys = jax.vmap(partial(jax.random.fold_in, jax.random.fold_in(key, _GAMES)))(number)
        episodes = play_episodes(keys, number, Network(state.average, plan.network), plan.play)
        shown_keys = jax.vmap(partial(jax.random.fold_in, jax.random.fold_in(key, _SHOWN)))(number)
        shown = jax.vmap(lambda key: jax.random.bernoulli(key, plan.loss.shown, (2,)))(shown_keys)
        rules = plan.play.game_rules
        targets = targets_of(episodes, shown, Network(state.average, plan.network), plan.loss.trace, rules)
        local = share // mesh.size

        def part_of(update: Array, x: Array, axis: int) -> Array:
            return lax.dynamic_slice_in_dim(x, update * local, local, axis)

        def gradient_of(params: Params, count: Array) -> tuple[Params, Sums]:
            update = count % plan.updates
            part = episodes.map_games(partial(part_of, update))
            network = Network(params, plan.network)
            picks = jax.random.fold_in(jax.random.fold_in(key, _PICKS), count)
            of_part = part_of(update, shown, 0), part_of(update, targets, 1)
            result = loss_and_gradient(picks, network, part, *of_part, plan.loss, rules)
            sums, of_states, of_decisions = lax.psum(result, AXIS)
            num_decisions = jnp.maximum(sums.decisions, 1.0)
            return jax.tree.map(lambda s, d: s / sums.states + d / num_decisions, of_states, of_decisions), sums

        learner = Learner(state.params, state.average, state.optimizer)
        num_updates, decay = plan.epochs * plan.updates, plan.optimizer.average
        learner, sums, norm = learn(learner, optimizer, gradient_of, num_updates, decay=decay)
        metrics = Metrics(
            sums=sums,
            gradient_norm=norm,
            steps=lax.psum(episodes.num_steps.sum(), AXIS),
            cut_off=lax.psum((~episodes.is_over).sum(), AXIS),
        )
        return TrainState(*learner, state.key, state.iteration + 1), metrics

    return divide(iteration, plan.games, plan.updates, mesh)

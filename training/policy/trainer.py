"""One iteration on all devices: advance all env slots with the present policy, then learn from its decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.sharding import Mesh

from training.policy.games import Rows, begin_games, masked_log_probs, play_choices
from training.policy.learning import Choices, PolicyLoss, Sums, advantages, loss_and_gradient
from training.updates import AXIS, Learner, Optimizer, divide, learn, sum_chunks
from unojax.device.platform import platform
from unojax.device.random_bits import key_words
from unojax.simulation.slots import Slots
from unojax.value.network import Network, NetworkConfig, Params, init_network

_CHUNK: Final = {"cpu": 512, "gpu": 16384}
"""Decisions per call of the networks in learning."""


@dataclass(frozen=True)
class PolicyPlan:
    """Static settings of a compiled iteration.

    Attributes:
        network: Shape of actor and critic; the actor has a policy head.
        loss, optimizer: See their options.
        lanes: Games at a time.
        rows: Decisions of each env slot in an iteration.
        updates: Updates per pass, each on an equal share of the env slots.
        epochs: Passes through the decisions of an iteration.
        iterations: Total, which determines the learning rate.
    """

    network: NetworkConfig
    loss: PolicyLoss
    optimizer: Optimizer
    lanes: int
    rows: int
    updates: int
    epochs: int
    iterations: int

    def __post_init__(self) -> None:
        if self.lanes % self.updates:
            raise ValueError(f"lanes ({self.lanes}) must be a multiple of updates ({self.updates})")

    @property
    def shapes(self) -> tuple[NetworkConfig, NetworkConfig]:
        """Shapes of actor and critic."""
        return self.network, replace(self.network, policy_head=False)

    def make_optimizer(self) -> optax.GradientTransformation:
        """Return the transformation of gradients for all updates of all iterations."""
        return self.optimizer.make(self.iterations * self.epochs * self.updates)


class PolicyState(NamedTuple):
    """State of training between iterations; the whole content of a checkpoint.

    Attributes:
        params: Parameters of "actor" and "critic".
        average: The actor's running average: the magnet, and the network that is evaluated and saved.
        optimizer: State of the optimizer.
        lanes: Games in progress, of all devices.
        key: Key of the games.
        iteration: int32[]. Iterations done.
    """

    params: Params
    average: Params
    optimizer: Any
    lanes: Slots
    key: Array
    iteration: Array


class PolicyMetrics(NamedTuple):
    """Metrics of one iteration.

    Attributes:
        sums: Sums of the losses.
        gradient_norm: float32[]. Norm of the last gradient.
        spread: float32[]. Standard deviation of the advantages.
        explained: float32[]. Share of the returns' variance that the critic explains.
        games: int32[]. Games that ended.
    """

    sums: Sums
    gradient_norm: Array
    spread: Array
    explained: Array
    games: Array


def start(seed: int, plan: PolicyPlan) -> PolicyState:
    """Return the state before training."""
    key_actor, key_critic, key = jax.random.split(jax.random.key(seed), 3)
    actor, critic = (init_network(k, shape).params for k, shape in zip((key_actor, key_critic), plan.shapes, strict=True))
    params = {"actor": actor, "critic": critic}
    return PolicyState(params, actor, plan.make_optimizer().init(params), begin_games(plan.lanes), key, jnp.int32(0))


def check_mesh(plan: PolicyPlan, mesh: Mesh) -> None:
    """Check that the env slots of an update can be divided equally.

    Raises:
        ValueError: If they can't.
    """
    share = plan.lanes // plan.updates
    if share % mesh.size:
        raise ValueError(
            f"each update learns from lanes / updates = {share} lanes, which {mesh.size} devices can't share equally; "
            f"make lanes a multiple of {plan.updates * mesh.size}, or choose the number of --devices"
        )


def make_iteration(plan: PolicyPlan, mesh: Mesh) -> Callable[[PolicyState], tuple[PolicyState, PolicyMetrics]]:
    """Build the device program of one iteration. Devices replicate the state and divide the env slots.

    Any number of devices plays the same games and assigns them to the same updates; only the order of sums differs.

    Raises:
        ValueError: If the devices can't share the env slots equally.
    """
    check_mesh(plan, mesh)
    optimizer = plan.make_optimizer()
    of_actor, of_critic = plan.shapes

    def iteration(state: PolicyState, number: Array) -> tuple[PolicyState, PolicyMetrics]:
        mine = jax.tree.map(lambda x: x[number.reshape(-1)], state.lanes)
        networks = Network(state.params["actor"], of_actor), Network(state.params["critic"], of_critic)
        mine, rows, horizon = play_choices(key_words(state.key), mine, *networks, plan.rows)
        found, counts = advantages(rows, horizon, plan.loss.trace, plan.network.discount)
        num_choices, total, squares = lax.psum((counts.sum(), found.sum(), (found**2).sum()), AXIS)
        mean = total / jnp.maximum(num_choices, 1)
        spread = jnp.sqrt(jnp.maximum(squares / jnp.maximum(num_choices, 1) - mean**2, 1e-12))
        magnet = _magnet(Network(state.average, of_actor), rows) if plan.loss.magnet else None
        choices = Choices(
            seen=rows.seen,
            known=rows.known,
            legal=rows.legal,
            action=rows.action,
            log_prob=rows.log_prob,
            advantage=found,
            target=jnp.clip(rows.value + found, -1.0, 1.0),
            counts=counts,
            magnet=magnet,
        )
        local = number.shape[1]

        def gradient_of(params: Params, count: Array) -> tuple[Params, Sums]:
            first = (count % plan.updates) * local

            def of_chunk(at: Array, is_real: Array) -> tuple[Sums, Params]:
                part = jax.tree.map(lambda x: x[at // local, first + at % local], choices)
                return loss_and_gradient(params, plan.shapes, part._replace(counts=is_real), spread, plan.loss)

            in_part = lax.dynamic_slice_in_dim(counts, first, local, 1)
            sums, gradient = lax.psum(sum_chunks(of_chunk, in_part, _CHUNK[platform()]), AXIS)
            return jax.tree.map(lambda g: g / jnp.maximum(sums.choices, 1.0), gradient), sums

        learner = Learner(state.params, state.average, state.optimizer)
        num_updates, decay = plan.epochs * plan.updates, plan.optimizer.average
        learner, sums, norm = learn(
            learner, optimizer, gradient_of, num_updates, decay=decay, averaged=lambda params: params["actor"]
        )
        metrics = PolicyMetrics(
            sums=sums,
            gradient_norm=norm,
            spread=spread,
            explained=_explained(choices, rows.value),
            games=lax.psum(rows.has_ended.sum(), AXIS),
        )
        lanes = jax.tree.map(lambda x: _gather(x, (plan.updates, local)), mine)
        return PolicyState(*learner, lanes, state.key, state.iteration + 1), metrics

    return divide(iteration, plan.lanes, plan.updates, mesh)


def _gather(of_lanes: Array, shape: tuple[int, int]) -> Array:
    """Gather the env slots of all devices, in the order of their numbers."""
    of_one = of_lanes.shape[1:]
    return lax.all_gather(of_lanes.reshape((*shape, *of_one)), AXIS, axis=1, tiled=True).reshape((-1, *of_one))


def _magnet(network: Network, rows: Rows) -> Array:
    """Compute the magnet's log probabilities, float32[T, B, 60], a row at a time."""

    def one_row(row: Rows) -> Array:
        logits = network(row.seen).policy_logits
        assert logits is not None, "a magnet has a policy head"
        return masked_log_probs(logits, row.legal)

    return lax.map(one_row, rows)


def _explained(choices: Choices, value: Array) -> Array:
    """Return 1 - E[(target - value)^2] / Var[target], over all choices that count."""
    counts, target = choices.counts, choices.target

    def mean(of: Array) -> Array:
        total, number = lax.psum((jnp.where(counts, of, 0.0).sum(), counts.sum()), AXIS)
        return total / jnp.maximum(number, 1)

    error, centre = mean((target - value) ** 2), mean(target)
    return 1.0 - error / jnp.maximum(mean((target - centre) ** 2), 1e-12)

"""Advantages of the choices, and the loss of actor and critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from training.checks import check_options, is_not_negative, is_share
from training.policy.games import Horizon, Rows, masked_log_probs, sign_of
from unojax.value.features import Features
from unojax.value.network import Network, NetworkConfig, Params


@dataclass(frozen=True)
class PolicyLoss:
    """Weights of what is minimised.

    Attributes:
        trace: lambda of the advantages, in [0, 1]: 1 learns from outcomes, 0 from the critic's next values.
        clip: a probability gains nothing by changing by more than this factor in one iteration (PPO).
        entropy: of the policy's entropy, in nats, against advantages of standard deviation 1.
        magnet: of the divergence from the running average of the policy, in nats: a magnet that moves.
        win_weight: of the actor's own estimate of its chances, with the opponent's hand hidden.
    """

    trace: float = 0.9
    clip: float = 0.2
    entropy: float = 0.1
    magnet: float = 0.0
    win_weight: float = 0.25

    def __post_init__(self) -> None:
        check_options(self, "loss.", "trace", is_share, "must be in [0, 1]")
        check_options(self, "loss.", "clip entropy magnet win_weight", is_not_negative, "can't be negative")


class Choices(NamedTuple):
    """Choices to learn from, [...].

    Attributes:
        seen, known, legal, action, log_prob: as in `Rows`.
        advantage: float32[...] of the action, for the mover, in returns.
        target: float32[...] of the critic's value.
        counts: bool[...] this is a choice, and something is known of what came of it.
        magnet: float32[..., 60] log probabilities of the magnet; None if it has no weight.
    """

    seen: Features
    known: Features
    legal: Array
    action: Array
    log_prob: Array
    advantage: Array
    target: Array
    counts: Array
    magnet: Array | None


class Sums(NamedTuple):
    """Sums over choices, float32[]: how many; surrogate objective; entropy and divergence from the magnet in nats; the
    cross-entropies of the critic and of the actor's estimate; choices whose change was clipped."""

    choices: Array
    surrogate: Array
    entropy: Array
    divergence: Array
    critic: Array
    win: Array
    clipped: Array


def advantages(rows: Rows, horizon: Horizon, trace: float, discount: float = 1.0) -> tuple[Array, Array]:
    """Compute generalised advantages of the choices of both players, who play a game of sum zero.

        A_t = d_t + gamma^n lambda A_{t+1},    d_t = gamma^n V_{t+1} - V_t

    (Schulman et al. 2016, eq. 16), all in player 0's eyes, t counting the choices of a slot and n the transitions from one to the
    next. Where the game ends after n transitions, d_t = gamma^(n - 1) times the outcome, less V_t. The critic sees both hands, so
    that its value is one of the position and not of a player's information, and the luck of the deal is no noise.

    Returns:
        float32[T, B] for the mover; bool[T, B] there is a choice, and something is known of what came of it.
    """
    values = rows.value * sign_of(rows.mover)

    def discounted(has_ended: Array, outcome: Array | float, passed: Array, value: Array) -> Array:
        """Discount what is known at the next row to this row; the transition that ends a game is not discounted."""
        if discount == 1.0:
            return jnp.where(has_ended, outcome, value)
        num_steps = passed.astype(jnp.float32)
        gamma = jnp.float32(discount)
        return jnp.where(has_ended, gamma ** (num_steps - 1.0) * outcome, gamma**num_steps * value)

    def one(later: tuple[Array, Array, Array], row: tuple[Array, ...]) -> tuple[tuple[Array, Array, Array], tuple[Array, Array]]:
        value, advantage, is_known = later
        own_value, is_choice, has_ended, outcome, passed = row
        value, advantage = discounted(has_ended, outcome, passed, value), discounted(has_ended, 0.0, passed, advantage)
        is_known |= has_ended
        found = value - own_value + trace * advantage
        counts = is_choice & is_known
        value = jnp.where(is_choice, own_value, value)
        advantage = jnp.where(counts, found, jnp.where(is_choice, 0.0, advantage))
        return (value, advantage, is_known | is_choice), (jnp.where(counts, found, 0.0), counts)

    later = horizon.value, jnp.zeros_like(horizon.value), horizon.is_choice
    in_rows = values, rows.is_choice, rows.has_ended, rows.outcome, rows.num_steps
    _, (found, counts) = lax.scan(one, later, in_rows, reverse=True)
    return jnp.where(counts, found * sign_of(rows.mover), 0.0), counts


def loss_and_gradient(
    params: Params, shapes: tuple[NetworkConfig, NetworkConfig], choices: Choices, scale: Array, loss: PolicyLoss
) -> tuple[Sums, Params]:
    """Sum the loss over choices [N], and its gradient; both are to be divided by `Sums.choices`, summed over all devices.

    Per choice, with ratio r = pi(a) / pi_old(a) and advantage A in units of `scale`,

        -min(r A, clip(r, 1 - eps, 1 + eps) A) - tau H(pi) + alpha KL(pi || magnet) + critic + w win

    (Schulman et al. 2017, eq. 7; Sokota et al. 2023 for the magnet). The last two are cross-entropies of chances to win.

    Args:
        params: of "actor" and "critic".
        shapes: of both, static.
        choices: [N].
        scale: float32[] standard deviation of all advantages.
        loss: static.
    """

    def total(params: Params) -> tuple[Array, Sums]:
        actor, critic = (Network(params[name], shape) for name, shape in zip(("actor", "critic"), shapes, strict=True))
        outputs = actor(choices.seen)
        assert outputs.policy_logits is not None, "an actor has a policy head"
        log_probs = masked_log_probs(outputs.policy_logits, choices.legal)
        probs = jnp.exp(log_probs)
        ratio = jnp.exp(jnp.take_along_axis(log_probs, choices.action[:, None], -1)[:, 0] - choices.log_prob)
        advantage = choices.advantage / scale
        clipped = jnp.clip(ratio, 1.0 - loss.clip, 1.0 + loss.clip)
        chance = (1.0 + choices.target) / 2.0

        def add_up(of: Array) -> Array:
            return jnp.where(choices.counts, of, 0.0).sum()

        divergence = jnp.zeros(()) if choices.magnet is None else add_up((probs * (log_probs - choices.magnet)).sum(-1))
        sums = Sums(
            choices=add_up(jnp.ones_like(ratio)),
            surrogate=add_up(jnp.minimum(ratio * advantage, clipped * advantage)),
            entropy=add_up(-(probs * log_probs).sum(-1)),
            divergence=divergence,
            critic=add_up(optax.sigmoid_binary_cross_entropy(critic(choices.known).win_logit, chance)),
            win=add_up(optax.sigmoid_binary_cross_entropy(outputs.win_logit, chance)),
            clipped=add_up((clipped != ratio).astype(jnp.float32)),
        )
        gain = sums.surrogate + loss.entropy * sums.entropy - loss.magnet * sums.divergence
        return sums.critic + loss.win_weight * sums.win - gain, sums

    (_, sums), gradient = jax.value_and_grad(total, has_aux=True)(params)
    return sums, gradient

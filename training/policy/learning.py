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
    """Weights of the loss.

    Attributes:
        trace: lambda of the advantages, in [0, 1]: 1 learns from outcomes, 0 from the critic's next values.
        clip: Factor beyond which a probability's change in one iteration has no further benefit (PPO).
        entropy: Weight of the policy's entropy, in nats, against advantages of standard deviation 1.
        magnet: Weight of the divergence from the running average of the policy (a moving magnet), in nats.
        win_weight: Weight of the actor's own win estimate, with the opponent's hand hidden.
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
    """Training decisions, [...].

    Attributes:
        seen, known, legal, action, log_prob: As in `Rows`.
        advantage: float32[...]. Advantage of the action for the mover, in returns.
        target: float32[...]. Target of the critic's value.
        counts: bool[...]. This is a decision whose result is at least partly known.
        magnet: float32[..., 60]. Log probabilities of the magnet; None without its weight.
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
    """Sums over decisions, float32[].

    Their number; surrogate objective; entropy and divergence from the magnet in nats; cross-entropies of the critic and of
    the actor's estimate; clipped decisions.
    """

    choices: Array
    surrogate: Array
    entropy: Array
    divergence: Array
    critic: Array
    win: Array
    clipped: Array


def advantages(rows: Rows, horizon: Horizon, trace: float, discount: float = 1.0) -> tuple[Array, Array]:
    """Compute generalised advantages of both players' decisions in the zero-sum game.

        A_t = d_t + gamma^n lambda A_{t+1},    d_t = gamma^n V_{t+1} - V_t

    (Schulman et al. 2016, eq. 16), all for player 0; t counts the decisions of a slot, and n the transitions from one to
    the next. If the game ends after n transitions, d_t = gamma^(n - 1) times the outcome, less V_t. The critic sees both
    hands, so its value belongs to the position instead of a player's information, and the luck of the deal adds no noise.

    Returns:
        float32[T, B] for the mover; bool[T, B], True for decisions whose result is at least partly known.
    """
    values = rows.value * sign_of(rows.mover)

    def discounted(has_ended: Array, outcome: Array | float, passed: Array, value: Array) -> Array:
        """Discount values at the next row to this row; the transition that ends a game is not discounted."""
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
    """Sum the loss over decisions [N], and its gradient; divide both by `Sums.choices`, summed over all devices.

    Per decision, with ratio r = pi(a) / pi_old(a) and advantage A in units of `scale`,

        -min(r A, clip(r, 1 - eps, 1 + eps) A) - tau H(pi) + alpha KL(pi || magnet) + critic + w win

    (Schulman et al. 2017, eq. 7; Sokota et al. 2023 for the magnet). The last two are cross-entropies of win probabilities.

    Args:
        params: Parameters of "actor" and "critic".
        shapes: Shapes of both, static.
        choices: [N].
        scale: float32[]. Standard deviation of all advantages.
        loss: Static.
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

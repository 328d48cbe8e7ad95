"""Targets, losses and updates: what the network learns from games."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax

from training.selfplay import Games
from unojax import bits
from unojax.game import options_to_mask
from unojax.rules import Rules
from unojax.table import Table
from unojax.value.features import Features, Outlook, Position, features, outlook_of_hand, position_of_table
from unojax.value.network import Network, Outputs

_CHUNK = 1024


@dataclass(frozen=True)
class Loss:
    """What is minimised.

    Attributes:
        trace: lambda of TD(lambda), in [0, 1]: 1 learns from the outcomes of games, 0 from the next values.
        shown: share of the players that learn from the opponent's true hand instead of a belief, so that the network can also
            value positions with all cards known, as a search does.
        policy_weight: of the cross-entropy between the policy head and the plays chosen.
        belief_weight: of the cross-entropy between the belief head and the opponent's true cards.
    """

    trace: float = 1.0
    shown: float = 0.25
    policy_weight: float = 0.0
    belief_weight: float = 0.0


class Sums(NamedTuple):
    """Sums over information states, float32[]; divided by `states` (`choices` for the policy) they are means.

    Attributes:
        states, choices, hidden: how many: information states, the network's own choices, states with the opponent's hand hidden.
        win, policy, belief: cross-entropies in nats; of the belief, the mean over the 108 slots.
        hidden_win: that of `win` where the opponent's hand is hidden.
    """

    states: Array
    choices: Array
    hidden: Array
    win: Array
    policy: Array
    belief: Array
    hidden_win: Array


def lambda_returns(rewards: Array, discounts: Array, values: Array, trace: float) -> Array:
    """The targets of TD(lambda): float32[T, ...].

        G_t = r_t + d_t ((1 - lambda) v_t + lambda G_{t+1}),    G_T = v_{T-1}

    (Sutton and Barto 2018, eq. 12.18, in the indices of transitions; lambda = 0 is TD(0), lambda = 1 Monte Carlo returns.)

    Args:
        rewards: float32[T, ...] of transition t.
        discounts: float32[T, ...] of what follows it; 0 where the game ends.
        values: float32[T, ...] of the states that the transitions lead to.
        trace: lambda in [0, 1].
    """

    def one(later: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        reward, discount, value = now
        target = reward + discount * ((1.0 - trace) * value + trace * later)
        return target, target

    return lax.scan(one, values[-1], (rewards, discounts, values), reverse=True)[1]


class States(NamedTuple):
    """Information states, [S]: what the network gets, what the player sees, and the opponent's true hand."""

    features: Features
    position: Position
    hand: bits.Words


def states_of(games: Games, index: Array, shown: Array, rules: Rules) -> States:
    """The information states with numbers `index` (int32[S]).

    The state of player p in game g before step t has the number (t G + g) 2 + p. With `shown` (bool[G, 2]) the hand is known.
    """
    num_games = games.action.shape[1]
    player, at = index % 2, index // 2
    game, step = at % num_games, at // num_games
    tables: Table = jax.tree.map(lambda x: x[step, game], games.table)
    position = position_of_table(tables, player, rules)
    hand = position_of_table(tables, 1 - player, rules).own
    believed: Outlook = jax.tree.map(lambda x: x[step, game, player].astype(jnp.float32), games.outlook)
    known = outlook_of_hand(position, hand)
    is_shown = shown[game, player]
    outlook = jax.tree.map(lambda a, b: jnp.where(is_shown.reshape(-1, *[1] * (a.ndim - 1)), a, b), known, believed)
    return States(features(position, outlook), position, hand)


def targets_of(games: Games, shown: Array, network: Network, trace: float, rules: Rules) -> Array:
    """float32[T, G, 2]: what the value of each information state is drawn towards, in [-1, 1]."""
    num_steps = len(games.action)
    is_row = games.is_row()
    ends = (jnp.arange(num_steps)[:, None] == games.num_steps - 1) & games.is_over
    sign = np.array([1.0, -1.0], np.float32)
    # Games are few that go on after T steps; their last value stands in for the outcome.
    is_needed = is_row[..., None] & games.learns & ((trace < 1.0) | ~games.is_over[:, None])
    values = _values(games, is_needed, shown, network, rules)
    # Transition t leads to the state before step t + 1. A game cut off leads nowhere: to its own last state.
    last = is_row & (jnp.arange(num_steps)[:, None] == games.num_steps - 1)
    following = jnp.where(last[..., None], values, jnp.concatenate([values[1:], values[-1:]]))
    rewards = jnp.where(ends[..., None], games.outcome[:, None] * sign, 0.0)
    discounts = jnp.where(is_row & ~ends, 1.0, 0.0)[..., None] * jnp.ones(2)
    # Beyond a cut there is nothing to trace: its transition counts its value whole.
    rewards = jnp.where((last & ~games.is_over)[..., None], following, rewards)
    discounts = jnp.where((last & ~games.is_over)[..., None], 0.0, discounts)
    return lambda_returns(rewards, discounts, following, trace)


def _values(games: Games, is_needed: Array, shown: Array, network: Network, rules: Rules) -> Array:
    """float32[T, G, 2]: values of the states that are needed, else 0."""
    (index,) = jnp.nonzero(is_needed.reshape(-1), size=_padded(is_needed.size), fill_value=is_needed.size)
    number = is_needed.sum()

    def one_chunk(i: Array, values: Array) -> Array:
        at = lax.dynamic_slice(index, [i * _CHUNK], [_CHUNK])
        value = network(states_of(games, at, shown, rules).features).value
        return values.at[at].set(value, mode="drop")

    values = lax.fori_loop(0, (number + _CHUNK - 1) // _CHUNK, one_chunk, jnp.zeros(is_needed.size))
    return values.reshape(is_needed.shape)


def loss_and_gradient(network: Network, games: Games, shown: Array, targets: Array, loss: Loss, rules: Rules) -> tuple[Sums, Any]:
    """Sums of the losses over all information states of some games, and the gradient of their weighted sum."""
    is_row = (games.is_row()[..., None] & games.learns).reshape(-1)
    (index,) = jnp.nonzero(is_row, size=_padded(is_row.size), fill_value=is_row.size)
    number = is_row.sum()
    num_games = games.action.shape[1]

    def chunk_loss(params: Any, at: Array, is_real: Array) -> tuple[Array, Sums]:
        states = states_of(games, at, shown, rules)
        outputs = Network(params, network.config)(states.features)
        game, step, player = at // 2 % num_games, at // 2 // num_games, at % 2
        chooses = games.is_choice[step, game] & states.position.is_own_turn
        action = games.action[step, game].astype(jnp.int32)
        sums = _sums(outputs, targets.reshape(-1)[at], states, action, chooses, ~shown[game, player], is_real)
        return sums.win + loss.policy_weight * sums.policy + loss.belief_weight * sums.belief, sums

    def one_chunk(i: Array, carry: tuple[Sums, Any]) -> tuple[Sums, Any]:
        at = lax.dynamic_slice(index, [i * _CHUNK], [_CHUNK])
        is_real = i * _CHUNK + jnp.arange(_CHUNK) < number
        (_, sums), gradient = jax.value_and_grad(chunk_loss, has_aux=True)(network.params, at, is_real)
        return jax.tree.map(jnp.add, carry, (sums, gradient))

    nothing = Sums(*(jnp.zeros(()) for _ in Sums._fields)), jax.tree.map(jnp.zeros_like, network.params)
    return lax.fori_loop(0, (number + _CHUNK - 1) // _CHUNK, one_chunk, nothing)


def _sums(
    outputs: Outputs, target: Array, states: States, action: Array, chooses: Array, is_hidden: Array, is_real: Array
) -> Sums:
    def total(of: Array, where: Array = is_real) -> Array:
        return jnp.where(where & is_real, of, 0.0).sum()

    win = optax.sigmoid_binary_cross_entropy(outputs.win_logit, (1.0 + target) / 2)
    policy = belief = jnp.zeros_like(win)
    if outputs.policy_logits is not None:
        seen = states.position
        legal = jax.vmap(options_to_mask)(bits.playable(seen.own, seen.color, seen.rank))
        logits = jnp.where(legal, outputs.policy_logits, -jnp.inf)
        # Where nothing was chosen, no play need be legal: any finite number will do.
        logits = jnp.where(chooses[:, None], logits, 0.0)
        label = jnp.where(chooses, action, 0)
        policy = optax.softmax_cross_entropy_with_integer_labels(logits, label)
    if outputs.slot_logits is not None:
        slots = bits.unpack(bits.canonical(states.hand)).astype(jnp.float32)
        belief = optax.sigmoid_binary_cross_entropy(outputs.slot_logits, slots).mean(-1)
    one = jnp.ones_like(win)
    return Sums(
        states=total(one),
        choices=total(one, chooses),
        hidden=total(one, is_hidden),
        win=total(win),
        policy=total(policy, chooses),
        belief=total(belief, is_hidden),
        hidden_win=total(win, is_hidden),
    )


def _padded(size: int) -> int:
    return -(-size // _CHUNK) * _CHUNK

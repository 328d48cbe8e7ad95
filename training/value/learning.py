"""Targets, losses and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax

from training.checks import check_options, is_not_negative, is_share
from training.updates import sum_chunks
from training.value.selfplay import Episodes
from unojax import bits
from unojax.device.batching import for_chosen
from unojax.device.platform import platform
from unojax.game import options_to_mask
from unojax.rules import Rules
from unojax.table import Table
from unojax.table.options import playable
from unojax.value.features import Features, Outlook, about_to, features, has_turn_columns, outlook_of_hand
from unojax.value.network import Network, Outputs, Params
from unojax.value.plays import value_choices
from unojax.view import View, view_of_table

_CHUNK: Final = {"cpu": 1024, "gpu": 16384}
"""Information states per call of the network."""
_PLAYS: Final = 8
_Tree = TypeVar("_Tree")


@dataclass(frozen=True)
class Loss:
    """Weights and targets of the loss.

    Attributes:
        trace: lambda of TD(lambda), in [0, 1]: 1 learns from the outcomes of games, 0 from the next values.
        shown: Oracle fraction: share of the players that learn from the opponent's true hand instead of a belief. The network
            can then also value positions with all cards known, as a search does.
        advantage_weight: Weight of the squared errors of the value differences between the plays of one decision, in returns,
            against a search's estimates.
        policy_weight: Weight of the cross-entropy between the policy head and the plays chosen.
        belief_weight: Weight of the cross-entropy between the belief head and the opponent's true cards.
    """

    trace: float = 1.0
    shown: float = 0.25
    advantage_weight: float = 0.0
    policy_weight: float = 0.0
    belief_weight: float = 0.0

    def __post_init__(self) -> None:
        check_options(self, "loss.", "trace shown", is_share, "must be in [0, 1]")
        check_options(self, "loss.", "advantage_weight policy_weight belief_weight", is_not_negative, "can't be negative")


class Sums(NamedTuple):
    """Sums over information states, float32[]; divided by the counts they are means.

    Attributes:
        states, choices, hidden, decisions: Counts: information states; the network's own choices, and all states, with the
            opponent's hand hidden; searched decisions.
        win, policy, belief: Cross-entropies in nats; `belief` is the mean over the 108 slots.
        hidden_win: `win` for states with the opponent's hand hidden.
        advantage: Squared errors of differences, summed over the plays of a decision.
    """

    states: Array
    choices: Array
    hidden: Array
    decisions: Array
    win: Array
    policy: Array
    belief: Array
    hidden_win: Array
    advantage: Array


def lambda_returns(rewards: Array, discounts: Array, values: Array, trace: float) -> Array:
    """Compute the targets of TD(lambda): float32[T, ...].

        G_t = r_t + d_t ((1 - lambda) v_t + lambda G_{t+1}),    G_T = v_{T-1}

    (Sutton and Barto 2018, eq. 12.18, in the indices of transitions; lambda = 0 is TD(0), lambda = 1 Monte Carlo returns.)

    Args:
        rewards: float32[T, ...]. Rewards of the transitions.
        discounts: float32[T, ...]. Discounts after them; 0 at the end of the game.
        values: float32[T, ...]. Values of the states after the transitions.
        trace: lambda in [0, 1].
    """

    def one(later: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        reward, discount, value = now
        target = reward + discount * ((1.0 - trace) * value + trace * later)
        return target, target

    return lax.scan(one, values[-1], (rewards, discounts, values), reverse=True)[1]


class States(NamedTuple):
    """Information states, [S]: input of the network, view of the player, true hand of the opponent."""

    features: Features
    view: View
    hand: bits.Words


def states_of(games: Episodes, index: Array, shown: Array, rules: Rules = Rules()) -> States:
    """Return the information states with numbers `index` (int32[S]).

    The state of player p in game g before step t has the number (t G + g) 2 + p. With `shown` (bool[G, 2]) the hand is
    known. At half of the steps, in alternating pairs, a player who draws or challenges is already `about_to`, as in the
    evaluation of its choices.
    """
    num_games = games.action.shape[1]
    player, at = index % 2, index // 2
    game, step = at % num_games, at // num_games
    tables: Table = jax.tree.map(lambda x: x[step, game], games.table)
    view = view_of_table(tables, player, rules)
    hand = view_of_table(tables, 1 - player, rules).hand
    believed: Outlook = jax.tree.map(lambda x: x[step, game, player].astype(jnp.float32), games.outlook)
    known = outlook_of_hand(hand)
    is_shown = shown[game, player]
    outlook = jax.tree.map(lambda a, b: jnp.where(is_shown.reshape(-1, *[1] * (a.ndim - 1)), a, b), known, believed)
    about = None
    if has_turn_columns(rules):
        about = jnp.where(view.is_own_turn & (step % 4 < 2), about_to(view, games.action[step, game].astype(jnp.int32)), 0)
    return States(features(view, outlook, about), view, hand)


def targets_of(games: Episodes, shown: Array, network: Network, trace: float, rules: Rules = Rules()) -> Array:
    """Compute the target value of each information state: float32[T, G, 2] in [-1, 1].

    Returns are discounted as the network's values are (`NetworkConfig.discount`), except for the transition that ends a game.
    """
    num_steps = len(games.action)
    is_row = games.is_row()
    ends = (jnp.arange(num_steps)[:, None] == games.num_steps - 1) & games.is_over
    sign = np.array([1.0, -1.0], np.float32)
    # Few games continue after T steps; their last value replaces the outcome.
    is_needed = is_row[..., None] & games.learns & ((trace < 1.0) | ~games.is_over[:, None])
    values = _values(games, is_needed, shown, network, rules)
    # Transition t leads to the state before step t + 1. In a truncated game it leads to the game's own last state.
    last = is_row & (jnp.arange(num_steps)[:, None] == games.num_steps - 1)
    following = jnp.where(last[..., None], values, jnp.concatenate([values[1:], values[-1:]]))
    rewards = jnp.where(ends[..., None], games.outcome[:, None] * sign, 0.0)
    discounts = jnp.where(is_row & ~ends, network.config.discount, 0.0)[..., None] * jnp.ones(2)
    # Nothing can be traced beyond a truncation: its transition counts its value whole.
    rewards = jnp.where((last & ~games.is_over)[..., None], following, rewards)
    discounts = jnp.where((last & ~games.is_over)[..., None], 0.0, discounts)
    return lambda_returns(rewards, discounts, following, trace)


def _values(games: Episodes, is_needed: Array, shown: Array, network: Network, rules: Rules) -> Array:
    """Return the values of the required states: float32[T, G, 2], else 0."""

    def of_chunk(_: Array, at: Array) -> Array:
        return network(states_of(games, at, shown, rules).features).value

    everyone, nothing = jnp.arange(is_needed.size), jnp.zeros(is_needed.size)
    values = for_chosen(is_needed.reshape(-1), _CHUNK[platform()], of_chunk, (everyone,), nothing)
    return values.reshape(is_needed.shape)


def loss_and_gradient(
    key: Array, network: Network, games: Episodes, shown: Array, targets: Array, loss: Loss, rules: Rules = Rules()
) -> tuple[Sums, Params, Params]:
    """Sum the losses over some games, with two gradients: of the weighted sum over information states, and over decisions.

    Divide each by its count, summed over all devices.
    """
    sums, gradient = _learn_states(network, games, shown, targets, loss, rules)
    if games.search is None or not loss.advantage_weight:
        return sums, gradient, jax.tree.map(jnp.zeros_like, gradient)
    advantage, decisions, of_decisions = _learn_decisions(key, network, games, games.search, shown, rules)
    of_decisions = jax.tree.map(lambda g: loss.advantage_weight * g, of_decisions)
    return sums._replace(advantage=advantage, decisions=decisions), gradient, of_decisions


def _learn_states(
    network: Network, games: Episodes, shown: Array, targets: Array, loss: Loss, rules: Rules
) -> tuple[Sums, Params]:
    is_row = games.is_row()[..., None] & games.learns
    num_games = games.action.shape[1]

    def chunk_loss(params: Params, at: Array, is_real: Array) -> tuple[Array, Sums]:
        states = states_of(games, at, shown, rules)
        outputs = Network(params, network.config)(states.features)
        game, step, player = at // 2 % num_games, at // 2 // num_games, at % 2
        chooses = games.is_choice[step, game] & states.view.is_own_turn
        action = games.action[step, game].astype(jnp.int32)
        sums = _sums(outputs, targets.reshape(-1)[at], states, action, chooses, ~shown[game, player], is_real)
        return sums.win + loss.policy_weight * sums.policy + loss.belief_weight * sums.belief, sums

    return _sum_losses(chunk_loss, network.params, is_row, _CHUNK[platform()])


def _learn_decisions(
    key: Array, network: Network, games: Episodes, search: Array, shown: Array, rules: Rules
) -> tuple[Array, Array, Params]:
    """Sum the squared errors of differences; return the sum, the number of decisions, and the gradient.

    With values v and estimates q of the plays of a decision, the loss is sum_a ((v_a - mean v) - (q_a - mean q))^2. The
    common part of all plays, mainly the luck of the deal, is noise that does not affect the choice. At most `_PLAYS` random
    plays of a decision are used.
    """
    tables = games.table.unpack_meta()
    num_games = games.action.shape[1]
    mover = tables.player.astype(jnp.int32)
    # A player who learns with the hand shown must not learn from a search without it.
    is_hidden = ~jnp.take_along_axis(jnp.broadcast_to(shown, (*mover.shape, 2)), mover[..., None], -1)[..., 0]
    is_searched = games.is_row() & is_hidden & ~jnp.isnan(search).all(-1)

    def chunk_loss(params: Params, at: Array, is_real: Array) -> tuple[Array, tuple[Array, Array]]:
        step, game = at // num_games, at % num_games
        player = mover[step, game]
        estimates = search[step, game].astype(jnp.float32)
        keys = jax.vmap(lambda game, step: jax.random.fold_in(jax.random.fold_in(key, game), step))(games.number[game], step)
        noise = jax.vmap(lambda key: jax.random.uniform(key, estimates.shape[1:]))(keys)
        priority, play = lax.top_k(jnp.where(jnp.isnan(estimates), -1.0, noise), _PLAYS)
        counts = (priority >= 0) & is_real[:, None]
        view = view_of_table(jax.tree.map(lambda x: x[step, game], games.table), player, rules)
        believed = jax.tree.map(lambda x: x[step, game, player].astype(jnp.float32), games.outlook)
        view, believed = jax.tree.map(lambda x: jnp.broadcast_to(x[:, None], (len(x), _PLAYS, *x.shape[1:])), (view, believed))
        value = value_choices(Network(params, network.config), view, believed, play)
        target = jnp.take_along_axis(estimates, play, -1)
        error = _centre(value, counts) - _centre(target, counts)
        total = jnp.where(counts, error**2, 0.0).sum()
        return total, (total, is_real.sum(dtype=jnp.float32))

    (total, number), gradient = _sum_losses(chunk_loss, network.params, is_searched, _CHUNK[platform()] // _PLAYS)
    return total, number, gradient


def _centre(values: Array, counts: Array) -> Array:
    """Subtract from values the mean over valid entries of their row."""
    values = jnp.where(counts, values, 0.0)
    return values - values.sum(-1, keepdims=True) / jnp.maximum(counts.sum(-1, keepdims=True), 1)


def _sum_losses(
    chunk_loss: Callable[[Params, Array, Array], tuple[Array, _Tree]], params: Params, chosen: Array, chunk: int
) -> tuple[_Tree, Params]:
    """Sum the loss's gradient, and the auxiliary output of `chunk_loss(params, index, is_real)`, over the chosen elements."""

    def of_chunk(at: Array, is_real: Array) -> tuple[_Tree, Params]:
        (_, report), gradient = jax.value_and_grad(chunk_loss, has_aux=True)(params, at, is_real)
        return report, gradient

    return sum_chunks(of_chunk, chosen, chunk)


def _sums(
    outputs: Outputs, target: Array, states: States, action: Array, chooses: Array, is_hidden: Array, is_real: Array
) -> Sums:
    def total(of: Array, where: Array = is_real) -> Array:
        return jnp.where(where & is_real, of, 0.0).sum()

    win = optax.sigmoid_binary_cross_entropy(outputs.win_logit, (1.0 + target) / 2)
    policy = belief = jnp.zeros_like(win)
    if outputs.policy_logits is not None:
        seen = states.view
        legal = jax.vmap(options_to_mask)(playable(seen.hand, seen.color, seen.rank, seen.rules))
        logits = jnp.where(legal, outputs.policy_logits, -jnp.inf)
        # Rows without a choice may have no legal play: any finite number will do.
        logits = jnp.where(chooses[:, None], logits, 0.0)
        label = jnp.where(chooses, action, 0)
        policy = optax.softmax_cross_entropy_with_integer_labels(logits, label)
    if outputs.slot_logits is not None:
        slots = bits.unpack(bits.canonical(states.hand)).astype(jnp.float32)
        belief = optax.sigmoid_binary_cross_entropy(outputs.slot_logits, slots).mean(-1)
    one = jnp.ones_like(win)
    return Sums(
        states=total(one),
        choices=total(one, chooses & is_hidden),
        hidden=total(one, is_hidden),
        win=total(win),
        # Plays were chosen without the hand, so states that show it are excluded.
        policy=total(policy, chooses & is_hidden),
        belief=total(belief, is_hidden),
        hidden_win=total(win, is_hidden),
        decisions=jnp.zeros(()),
        advantage=jnp.zeros(()),
    )

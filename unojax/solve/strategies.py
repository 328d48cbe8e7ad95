"""Evaluation of strategies: values, best responses, exploitability."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import cards, game
from unojax.device.returned import takes
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import action_probs, get_policy
from unojax.rules import Rules
from unojax.solve.expansion import stand_ins
from unojax.solve.treeplex import Tree, check_player
from unojax.table import Table

Strategies = tuple[np.ndarray, np.ndarray]
"""Behaviour of player 0 and of player 1."""

_CHUNK = 1 << 12


def value(tree: Tree, strategies: Strategies) -> float:
    """Return the expected return of player 0.

    Raises:
        ValueError: If a strategy does not fit this tree.
    """
    first, second = strategies
    return float(tree.plan(0, first) @ tree.gains(0, tree.plan(1, second)))


def best_response(tree: Tree, player: int, strategy: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the expected return and behaviour of a pure best response to a strategy.

    Raises:
        ValueError: If there is no such player, or the strategy does not fit this tree.
    """
    treeplex = tree.players[check_player(player)]
    return treeplex.best(tree.gains(player, tree.plan(1 - player, strategy)))


def exploitability(tree: Tree, strategies: Strategies) -> float:
    """Return NashConv / 2, half the sum of both players' gains by a best response.

    Raises:
        ValueError: If a strategy does not fit this tree.
    """
    first, second = strategies
    return (best_response(tree, 0, second)[0] + best_response(tree, 1, first)[0]) / 2


def uniform(tree: Tree) -> Strategies:
    """Return the strategies that take every action with equal probability."""
    first, second = tree.players
    return first.uniform(), second.uniform()


def of_policy(tree: Tree, policy: Any) -> Strategies:
    """Return the strategy of a policy without memory, in either seat.

    With merged colours, the probabilities of declaring them are added.

    Args:
        tree: Tree of the game.
        policy: A named policy, an object with `action_probs(observation, legal_mask) -> float[61]`, or such a function.

    Raises:
        ValueError: If no policy has that name, or it does not return probabilities.
    """
    if isinstance(policy, str):
        policy = get_policy(policy)
    probs = getattr(policy, "action_probs", policy)
    if not (callable(probs) and takes(probs, 2)):
        # A policy that also takes a key draws its action and does not return probabilities.
        raise ValueError(
            "policy must be a name, have action_probs(observation, legal_mask), or be such a function that tells probabilities; "
            f"got {policy!r}"
        )

    @jax.jit
    def ask(rows: Array, last_action: Array, steps: Array) -> Array:
        def one(state: State) -> Array:
            return action_probs(probs, "policy", observe(state, state.current_player), game.legal_mask(state))

        return jax.vmap(one)(states_at(rows, last_action, steps, rules=tree.rules))

    first, second = (_behavior(tree, player, ask) for player in (0, 1))
    return first, second


def observations(tree: Tree, player: int) -> Observation:
    """Return a player's observations at its information states with a choice, a batch [I].

    Raises:
        ValueError: If there is no such player.
    """
    treeplex = tree.players[check_player(player)]
    return _observe(treeplex.rows, treeplex.last_action, treeplex.steps, rules=tree.rules)


@partial(jax.jit, static_argnames="rules")
def _observe(rows: Array, last_action: Array, steps: Array, *, rules: Rules) -> Observation:
    states = states_at(rows, last_action, steps, rules=rules)
    return jax.vmap(observe)(states, states.current_player)


def states_at(rows: ArrayLike, last_action: ArrayLike, steps: ArrayLike, *, rules: Rules) -> State:
    """Return a batch of states [N] at tables, with their last actions and numbers of steps."""

    def one(row: Array, last: Array, step: Array) -> State:
        return game.from_table(Table.of_words(row), rules, last_action=last, step_count=step)

    return jax.vmap(one)(jnp.asarray(rows), jnp.asarray(last_action), jnp.asarray(steps))


def colors_shown(tree: Tree) -> np.ndarray:
    """Return the colour that represents each declared colour in the tree, int64[4]."""
    merged = stand_ins(tree.rules) if tree.merge_colors else (1,) * cards.NUM_COLORS
    return np.array([color if weight else merged.index(max(merged)) for color, weight in enumerate(merged)])


def _behavior(tree: Tree, player: int, ask: Any) -> np.ndarray:
    treeplex = tree.players[player]
    n = treeplex.num_choices
    behavior = np.ones(treeplex.num_sequences)
    standing_in = colors_shown(tree)
    wilds = np.arange(cards.WILD, cards.NUM_RANKS)
    size = min(_CHUNK, 1 << max(n - 1, 0).bit_length())
    for start in range(0, n, size):
        # All of one size: one program.
        index = np.minimum(np.arange(start, start + size), n - 1)
        probs = np.asarray(ask(treeplex.rows[index], treeplex.last_action[index], treeplex.steps[index]), float)
        plays = probs[:, : cards.DRAW].reshape(-1, cards.NUM_COLORS, cards.NUM_RANKS).copy()
        for color in range(cards.NUM_COLORS):
            if standing_in[color] != color:
                plays[:, standing_in[color], wilds] += plays[:, color, wilds]
        stop = min(start + size, n)
        some = slice(int(treeplex.first[start]), int(treeplex.first[stop]) if stop < n else treeplex.num_sequences)
        states = treeplex.infoset_of[some.start - 1 : some.stop - 1]
        behavior[some] = plays.reshape(len(index), -1)[states - start, treeplex.actions[some]]
    if not n:
        return behavior
    total = np.add.reduceat(behavior[1:], treeplex.first - 1)
    if not (np.isfinite(total).all() and behavior.min() >= 0 and np.allclose(total, 1.0, atol=1e-3)):
        raise ValueError(
            "policy must give probabilities of the legal actions, not negative and with sum 1; the lowest is "
            f"{behavior.min():g}, and sums are {total.min():g} to {total.max():g}"
        )
    # In single precision, normalized in double precision.
    return treeplex.normalize(behavior)

"""What the tests of the value network share: positions, weighted hands, a network with something to say."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tests.helpers import play
from unojax import bits, cards, game
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.value import Features, Network, NetworkConfig, Outlook, Outputs, init_network, value_plays
from unojax.view import view_of

RULES = Rules()
TURNS = Rules.official(points=False, stacking=True)
"""Draws at will, passes, challenges, and penalties that add up: all that a turn can depend on beside the top card."""
SMALL = NetworkConfig(width=8, matches=True, policy_head=True, belief_head=True)


def random_states(seed: int, number: int, *, deciding: bool = False, rules: Rules = RULES) -> State:
    """Positions of unfinished random games, [number], NumPy; with `deciding` the player to move has a choice."""
    # Of the sizes that other files compile.
    sizes: dict[str, int] = {"num_steps": 320} if rules == RULES else {"num_games": 80, "num_steps": 160}
    played = play(seed, rules=rules, **sizes)
    states = jax.tree.map(lambda leaf: leaf[:, :-1].reshape(-1, *leaf.shape[2:]), played.states)
    wanted = ~states.terminated
    if deciding:
        wanted &= played.masks[:, :-1].reshape(-1, played.masks.shape[-1]).sum(-1) > 1
    chosen = np.random.default_rng(seed).choice(np.flatnonzero(wanted), number, replace=False)
    return jax.tree.map(lambda leaf: leaf[chosen], states)


observe_all = jax.jit(jax.vmap(observe))
legal_all = jax.jit(jax.vmap(game.legal_mask))
views_of = jax.jit(view_of)


@jax.jit
def step_all(states: State, actions: jax.Array) -> State:
    """One step each, [N]."""
    return jax.vmap(game.step)(states, actions, jax.random.split(jax.random.key(0), len(actions)))


def random_hands(seed: int, seen: Observation, number: int) -> tuple[bits.Words, np.ndarray]:
    """Weighted hands that the opponent of each observer (of [D]) may hold: uint32[D, number] each, float32[D, number]."""
    rng = np.random.default_rng(seed)
    unseen = np.asarray(seen.unseen)
    hands = np.zeros((len(unseen), number, cards.NUM_TYPES), int)
    for d, (counts, size) in enumerate(zip(unseen, np.asarray(seen.opponent_count), strict=True)):
        for n in range(number):
            np.add.at(hands[d, n], rng.permutation(np.repeat(np.arange(cards.NUM_TYPES), counts))[:size], 1)
    weights = rng.dirichlet(np.ones(number), len(unseen)).astype(np.float32)
    return bits.pack(cards.onehot(hands)), weights


def random_network(seed: int = 0, config: NetworkConfig = SMALL) -> Network:
    """A network all of whose numbers are drawn, so that it says something else of everything."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: init_network(jax.random.key(0), config))
    return jax.tree.map(lambda leaf: jnp.asarray(0.3 * rng.standard_normal(leaf.shape, np.float32)), shapes)


@jax.jit
def says(network: Network, made: Features) -> Outputs:
    """What a network says of features."""
    return network(made)


@partial(jax.jit, static_argnames="chunk")
def values_of(network: Network, seen: Observation, outlook: Outlook, legal: jax.Array, *, chunk: int = 16) -> jax.Array:
    """What a network says of the legal plays, [32, 60]."""
    return value_plays(network, view_of(seen), outlook, legal, chunk=chunk)


def repeated(tree, times: int):
    """Each row `times` times, [N * times]."""
    return jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf), times, axis=0), tree)

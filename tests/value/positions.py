"""Positions, weighted hands and random networks for the tests of the value network."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from tests import corpus
from tests.helpers import counts_of, play
from unojax import bits, cards, game
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.value import Features, Network, NetworkConfig, Outlook, Outputs, init_network, outlook_of_unseen, value_plays
from unojax.view import view_of

RULES = corpus.RULES["default"]
TURNS = corpus.RULES["few cards"]
"""Optional draws, passes, challenges, and penalties that add up: all that a turn can depend on besides the top card."""
SMALL = NetworkConfig(width=8, matches=True, policy_head=True, belief_head=True)


def random_states(seed: int, number: int, *, deciding: bool = False, rules: Rules = RULES) -> State:
    """Return positions of unfinished random games, [number], NumPy; with `deciding`, at a choice."""
    name = next((name for name, known in corpus.RULES.items() if known == rules), None)
    played = play(0, num_games=80, num_steps=corpus.NUM_STEPS, rules=rules) if name is None else corpus.games(name)
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
    """Take one step in each of N positions."""
    return jax.vmap(game.step)(states, actions, jax.random.split(jax.random.key(0), len(actions)))


def random_hands(seed: int, seen: Observation, number: int) -> tuple[bits.Words, np.ndarray]:
    """Return weighted possible hands of each of D observers' opponents: uint32[D, number] each, float32[D, number]."""
    rng = np.random.default_rng(seed)
    unseen = np.array(seen.rules.deck) - counts_of(seen.hand) - counts_of(seen.pile)
    hands = np.zeros((len(unseen), number, cards.NUM_TYPES), int)
    for d, (counts, size) in enumerate(zip(unseen, np.asarray(seen.opponent_count), strict=True)):
        for n in range(number):
            np.add.at(hands[d, n], rng.permutation(np.repeat(np.arange(cards.NUM_TYPES), counts))[:size], 1)
    weights = rng.dirichlet(np.ones(number), len(unseen)).astype(np.float32)
    return pack(cards.onehot_of(hands)), weights


pack = jax.jit(bits.pack)


def random_network(seed: int = 0, config: NetworkConfig = SMALL) -> Network:
    """Return a network with random parameters, so that it distinguishes all inputs. NumPy."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: init_network(jax.random.key(0), config))
    return jax.tree.map(lambda leaf: 0.3 * rng.standard_normal(leaf.shape, np.float32), shapes)


@jax.jit
def outlooks_of(seen: Observation) -> Outlook:
    """Return the outlooks of the uniform belief."""
    return outlook_of_unseen(view_of(seen))


@jax.jit
def says(network: Network, made: Features) -> Outputs:
    return network(made)


@partial(jax.jit, static_argnames="chunk")
def values_of(network: Network, seen: Observation, outlook: Outlook, legal: jax.Array, *, chunk: int = 16) -> jax.Array:
    """Return a network's values of the legal plays, [32, 60]."""
    return value_plays(network, view_of(seen), outlook, legal, chunk=chunk)


def repeated(tree, times: int):
    """Repeat each row `times` times, [N * times]."""
    return jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf), times, axis=0), tree)

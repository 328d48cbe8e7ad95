"""Opponent models of these tests, some also in plain Python."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tests.belief import oracle
from unojax import cards
from unojax.belief import Family, consistent_opponent, uniform_opponent
from unojax.belief.opponents import PolicyOpponent
from unojax.observation import Observation
from unojax.policies import POLICIES

GUARD = PolicyOpponent(POLICIES["guard"], tremble=0.3)


def choosy_opponent(observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """Prefer common colours and high ranks, and avoid wild cards: every action is evidence about the hand."""
    of_color = cards.counts(observation.hand)[:52].reshape(4, 13).sum(-1)
    rank = jnp.arange(15)
    likes = (1.0 + rank) * jnp.where(rank >= 13, 0.1, 1.0) * (1 + of_color[:, None])
    likes = jnp.append(likes.reshape(-1), 1.0) * legal_mask
    return likes / likes.sum()


def choosy_policy(hand: oracle.Hand, action: int, legal: list[int]) -> float:
    def likes(a: int) -> float:
        if a == 60:
            return 1.0
        held = sum(1 for t in hand if t < 52 and t // 13 == a // 15)
        return (1 + a % 15) * (0.1 if a % 15 >= 13 else 1.0) * (1 + held)

    return likes(action) / sum(map(likes, legal))


def first_opponent(observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """Play the lowest legal action, which makes it impossible for most hands."""
    return (jnp.arange(len(legal_mask)) == jnp.argmax(legal_mask)).astype(jnp.float32)


def first_policy(hand: oracle.Hand, action: int, legal: list[int]) -> float:
    return float(action == min(legal))


def drawing_opponent(observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """Prefer high actions, and draws with many cards or after a drawn card of a low type."""
    number = jnp.arange(legal_mask.shape[0]) / 20.0
    draws = 0.2 * observation.hand_count - 0.02 * observation.drawn
    return jax.nn.softmax(jnp.where(legal_mask, number.at[60].set(draws), -jnp.inf))


THREE = Family((uniform_opponent, choosy_opponent, first_opponent), ("uniform", "choosy", "first"), (1.0, 2.0, 1.0))
TREMBLING = Family(
    (uniform_opponent, PolicyOpponent(POLICIES["scarcest-color"], 0.1), PolicyOpponent(POLICIES["linear"], 0.3)),
)
TWINS = {
    "uniform": (uniform_opponent, (oracle.uniform_policy,)),
    "consistent": (consistent_opponent, (oracle.consistent_policy,)),
    "choosy": (choosy_opponent, (choosy_policy,)),
    "three types": (THREE, (oracle.uniform_policy, choosy_policy, first_policy)),
}
"""Opponent models, and the policies of their types in plain Python."""

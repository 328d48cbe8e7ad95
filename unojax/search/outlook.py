"""How likely a player is to win from here, whoever is to move: games played out from what the player believes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax.agents import Memory
from unojax.device import static
from unojax.device.random_bits import key_words
from unojax.observation import Observation
from unojax.search.agents import SearchAgent, default_num_lanes
from unojax.search.monte_carlo import sample_hands
from unojax.search.rollouts import FREE, Arms, place_cards, play_out


def win_probability(
    key: Array, search: SearchAgent, memory: Memory, observation: Observation, *, num_samples: int
) -> tuple[Array, Array]:
    """The observer's share of games won if from here both follow the search's rollout policies; a drawn game counts half.

    Sample s deals the opponent a hand drawn from the belief and the deck the rest. It is what a position is worth to that policy,
    not to the search, which plays better: a lower bound of what there is to be had against that opponent.

    Args:
        key: consumed.
        search: whose belief and policies they are; static.
        memory: the search's.
        observation: a single one, of a game that is not over.
        num_samples: games, at least 2; static.

    Returns:
        float32[] probability, and its standard error (of the games, given the belief).
    """
    key_hands, key_samples, key_games = jax.random.split(key, 3)
    hands = search.hands(key_hands, memory, observation)
    samples = sample_hands(key_samples, hands.packed, hands.log_weights, num_samples)
    is_mine = observation.current_player == observation.player

    def play(policies: tuple) -> Array:
        numbers, skeleton = static.split(policies)
        arm = Arms(jnp.zeros(1, jnp.int32), jnp.full(1, FREE).astype(jnp.int32), jnp.int32(1))
        seed = tuple(word[None] for word in key_words(key_games))
        returns, _ = play_out(
            place_cards(observation, samples),
            (seed[0], seed[1]),
            arm,
            numbers,
            policies=skeleton,
            rules=search.rules,
            num_samples=num_samples,
            num_lanes=default_num_lanes(1),
        )
        return returns[0]

    policies = search.policies
    # Returns are those of the player to move.
    if len(policies) == 1:
        returns = play(policies)
    else:
        returns = jax.lax.cond(is_mine, lambda: play(policies), lambda: play(policies[::-1]))
    wins = (1 + jnp.where(is_mine, returns, -returns)) / 2
    return wins.mean(), wins.std(ddof=1) / np.sqrt(num_samples)

"""Win probabilities at any player's turn, by rollouts from the observer's belief."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax.device.random_bits import key_words
from unojax.observation import Observation, determinize_packed
from unojax.search.agents import Remembered, SearchAgent
from unojax.search.monte_carlo import sample_hands
from unojax.search.rollouts import FREE, Arms, Starts, play_out


def win_probability(
    key: Array, search: SearchAgent, memory: Remembered, observation: Observation, *, num_samples: int
) -> tuple[Array, Array]:
    """Estimate the observer's share of games won if both players continue as in the search's rollouts.

    A drawn or truncated game counts half; penalties of steps and points are ignored. Sample s deals the opponent a hand drawn
    from the belief and leaves the rest in the deck. The estimate values the position for the rollout policy, not for the stronger
    search, so it is a lower bound against that opponent. An opponent who decides about a card just drawn, which the observer
    has not seen, decides as at the beginning of its turn.

    Args:
        key: Consumed.
        search: Search with the belief and policies; static.
        memory: Memory of the search.
        observation: Observation of an unfinished game.
        num_samples: Number of games, at least 2; static.

    Returns:
        float32[] probability, and its standard error (of the games, given the belief).
    """
    key_hands, key_samples, key_games = jax.random.split(key, 3)
    hands = search.hands(key_hands, memory, observation)
    samples = sample_hands(key_samples, hands, num_samples)
    rules = replace(search.rules, step_penalty=0.0)
    how = replace(search.rollouts.counting_wins(), rules=rules, num_samples=num_samples, discount=1.0, guide=None)
    arm = Arms(jnp.zeros(1, jnp.int32), jnp.full(1, FREE).astype(jnp.int32), jnp.int32(1))
    starts = Starts(
        tables=determinize_packed(observation, samples.hands),
        seeds=jax.tree.map(lambda word: word[None], key_words(key_games)),
        types=samples.types,
        players=observation.player.astype(jnp.uint32)[None],
        num_steps=jnp.asarray(memory.num_steps)[None],
    )
    (returns,), _ = play_out(starts, arm, how)
    wins = (np.float32(1) + returns) / np.float32(2)
    return wins.mean(), wins.std(ddof=1) / np.float32(np.sqrt(num_samples))

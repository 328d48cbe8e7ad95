"""Series of pairs, through which agents remember their opponent."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from tests.arena.players import BATCH, LOWEST, RULES, SCARCEST, assert_same, lowest_action
from unojax.agents import PolicyAgent
from unojax.arena import Pairs, play_match
from unojax.observation import Observation

play = partial(play_match, rules=RULES)


def highest_action(key: Array, observation: Observation, legal_mask: Array) -> Array:
    del key, observation
    return len(legal_mask) - 1 - legal_mask[::-1].argmax()


@dataclass(frozen=True)
class Tallying:
    """Plays the lowest action after an even number of steps of the game, else the highest. Has no `next_game`."""

    name: str = "tallying"

    def init(self, key: Array, observation: Observation) -> Array:
        del key, observation
        return jnp.int32(0)

    def update(self, key: Array, memory: Array, before: Observation, action: Array, after: Observation) -> Array:
        del key, before, action, after
        return memory + 1

    def act(self, key: Array, memory: Array, observation: Observation, legal_mask: Array) -> Array:
        plays = (rule(key, observation, legal_mask) for rule in (lowest_action, highest_action))
        return jnp.where(memory % 2 == 0, *plays).astype(jnp.int32)


@dataclass(frozen=True)
class Counting(Tallying):
    """Plays the lowest action in its first game against an opponent, the highest in the second, the lowest again ..."""

    name: str = "counting"

    def update(self, key: Array, memory: Array, before: Observation, action: Array, after: Observation) -> Array:
        del key, before, action, after
        return memory

    def next_game(self, key: Array, memory: Array, observation: Observation) -> Array:
        del key, observation
        return memory + 1


def test_memory_carries_over_through_a_series():
    """Game k of a series continues from the k before it in the same seat, and from no other game."""
    key, num_pairs, series = jax.random.key(7), 30, 3
    remembering = play(key, (Counting(), SCARCEST), num_pairs, series=series, batch_size=BATCH, workers=2)
    lowest, highest = (
        play(key, (agent, SCARCEST), num_pairs, batch_size=BATCH) for agent in (LOWEST, PolicyAgent("", highest_action))
    )
    is_second = (np.arange(num_pairs) % series) % 2 == 1
    assert (lowest.num_steps != highest.num_steps).any(1).mean() > 0.7

    def choose(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.where(is_second.reshape(-1, *[1] * (one.ndim - 1)), other, one)

    names = [field.name for field in fields(Pairs) if field.name != "seconds"]
    expected = {name: choose(getattr(lowest, name), getattr(highest, name)) for name in names}
    assert_same(remembering, Pairs(**expected, seconds=remembering.seconds))
    assert (remembering.seconds > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "num_pairs", "batch_size"),
    [(Tallying(), 24, BATCH), pytest.param("mc:rollouts=2,belief=unseen,particles=8", 6, 4, marks=pytest.mark.long)],
    ids=["tallying", "mc"],
)
def test_agents_without_next_game_play_a_series_as_single_games(agent: Any, num_pairs: int, batch_size: int):
    agents = (SCARCEST, agent)
    alone, in_series = (play(jax.random.key(2), agents, num_pairs, series=series, batch_size=batch_size) for series in (1, 3))
    assert_same(alone, in_series)

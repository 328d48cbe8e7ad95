"""Series of pairs, through which agents remember whom they play."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from tests.arena.test_match import FEW, SCARCEST, UNIFORM, assert_same, lowest_action
from unojax.agents import PolicyAgent
from unojax.arena import play_match
from unojax.observation import Observation


@dataclass(frozen=True)
class Tallying:
    """Plays the lowest action after an even number of steps of the game, else the highest; and has no `next_game`."""

    name: str = "tallying"

    def init(self, key: Array, observation: Observation) -> Array:
        del key, observation
        return jnp.int32(0)

    def update(self, key: Array, memory: Array, before: Observation, action: Array, after: Observation) -> Array:
        del key, before, action, after
        return memory + 1

    def act(self, key: Array, memory: Array, observation: Observation, legal_mask: Array) -> Array:
        del key, observation
        highest = len(legal_mask) - 1 - legal_mask[::-1].argmax()
        return jnp.where(memory % 2 == 0, legal_mask.argmax(), highest).astype(jnp.int32)


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


def highest_action(key: Array, observation: Observation, legal_mask: Array) -> Array:
    """A policy without chance, too."""
    del key, observation
    return len(legal_mask) - 1 - legal_mask[::-1].argmax()


@pytest.mark.slow
def test_what_an_agent_keeps_goes_on_through_a_series():
    """Game k of a series is played with what was kept of the k before it in the same seat, and with nothing of any other."""
    opponent, key, num_pairs, series = SCARCEST, jax.random.key(7), 30, 3
    remembering = play_match(key, (Counting(), opponent), num_pairs, series=series, batch_size=FEW, workers=2)
    lowest, highest = (
        play_match(key, (PolicyAgent("", policy), opponent), num_pairs, batch_size=FEW)
        for policy in (lowest_action, highest_action)
    )
    is_second = (np.arange(num_pairs) % series) % 2 == 1
    assert (lowest.num_steps != highest.num_steps).any(1).mean() > 0.9
    for name in ("index", "winner", "num_steps", "num_choices", "card_points"):
        one, other = getattr(lowest, name), getattr(highest, name)
        expected = np.where(is_second.reshape(-1, *[1] * (one.ndim - 1)), other, one)
        np.testing.assert_array_equal(getattr(remembering, name), expected, err_msg=name)
    assert (remembering.seconds > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "num_pairs", "batch_size"),
    [
        (Tallying(), 24, FEW),
        pytest.param("mc:rollouts=2,belief=unseen,particles=8", 6, 4, marks=pytest.mark.long),
    ],
    ids=["tallying", "mc"],
)
def test_agents_that_keep_nothing_play_a_series_as_single_games(agent: Any, num_pairs: int, batch_size: int):
    agents = (SCARCEST, agent)
    alone, in_a_row = (
        play_match(jax.random.key(2), agents, num_pairs, series=series, batch_size=batch_size) for series in (1, 3)
    )
    assert_same(alone, in_a_row)


def test_whole_series_only():
    with pytest.raises(ValueError, match="series must be a number of pairs of which num_pairs, 10, is a multiple, got 3"):
        play_match(jax.random.key(0), (UNIFORM, SCARCEST), 10, series=3)

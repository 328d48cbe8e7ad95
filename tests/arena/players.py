"""Rules, sizes and agents of the arena's tests, few enough to share compiled programs."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

import numpy as np
from jax import Array

from unojax.agents import PolicyAgent
from unojax.arena import Pairs
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.specs import parse_agent

RULES: Final = Rules(hand_size=3, points=True)
BATCH: Final = 16
UNIFORM, SCARCEST = parse_agent("uniform"), parse_agent("scarcest-color")


def lowest_action(key: Array, observation: Observation, legal_mask: Array) -> Array:
    del key, observation
    return legal_mask.argmax()


LOWEST: Final = PolicyAgent("lowest", lowest_action)


def assert_same(one: Pairs, other: Pairs) -> None:
    """Check that games are equal, except for the agents' time."""
    for field in fields(Pairs):
        if field.name != "seconds":
            a, b = getattr(one, field.name), getattr(other, field.name)
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, err_msg=field.name)


def first_pairs(pairs: Pairs, number: int) -> Pairs:
    kept = {field.name: getattr(pairs, field.name)[:number] for field in fields(Pairs) if field.name != "seconds"}
    return Pairs(**kept, seconds=pairs.seconds)

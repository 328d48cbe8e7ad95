"""Actions from the host: integers of any type keep their number."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tests.helpers import refusals
from unojax.adapters.encoding import Encoder
from unojax.adapters.seats import HostGame, as_index, in_32_bits
from unojax.rules import Rules


def test_integers_of_any_kind_are_actions_and_nothing_else():
    """Contract: at the host boundary (adapters) bad input raises ValueError."""
    for dtype in (np.int8, np.uint8, np.int32, np.int64, np.uint64, object):
        kept = in_32_bits(np.array([0, 5, 61], dtype))
        assert kept.dtype == np.int32 and kept.tolist() == [0, 5, 61]
    assert [as_index(action) for action in (5, np.int64(5), np.array(5, np.int8), jnp.int32(5))] == [5] * 4
    refusals({f"action ({bad!r})": lambda bad=bad: as_index(bad) for bad in (3.7, "5", None, np.float32(2), [3])})


def test_an_action_beyond_32_bits_is_no_action_and_loses_the_game():
    for action in (2**31, 2**32 + 5, 2**63 + 5, 2**70, -(2**31) - 1, -(2**32) + 5):
        assert not 0 <= in_32_bits([action])[0] <= 61, action
    host = HostGame(Encoder(rules=Rules()))
    host.seed(3)
    host.deal()
    mover, legal = int(host.shown.current_player), int(np.argmax(host.shown.mask))
    assert not host.play(2**32 + legal)
    assert host.shown.terminated and host.shown.rewards[mover] == -1.0

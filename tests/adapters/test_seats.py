"""Actions from the host: of any size, and never another one than was meant."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from unojax.adapters.encoding import Encoder
from unojax.adapters.seats import HostGame, as_index, in_32_bits
from unojax.rules import Rules


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64, object])
def test_actions_keep_their_numbers(dtype: type):
    kept = in_32_bits(np.array([0, 5, 61], dtype))
    assert kept.dtype == np.int32 and kept.tolist() == [0, 5, 61]


@pytest.mark.parametrize("action", [2**31, 2**32 + 5, 2**63 + 5, 2**70, -(2**31) - 1, -(2**32) + 5])
def test_what_does_not_fit_becomes_no_action(action: int):
    assert not 0 <= in_32_bits([action])[0] <= 61


def test_an_action_beyond_32_bits_loses_the_game():
    host = HostGame(Encoder(rules=Rules()))
    host.seed(3)
    host.deal()
    mover, legal = int(host.shown.current_player), int(np.argmax(host.shown.mask))
    assert not host.play(2**32 + legal)
    assert host.shown.terminated and host.shown.rewards[mover] == -1.0


@pytest.mark.parametrize("action", [3.7, "5", None, np.float32(2), [3]])
def test_what_is_no_integer_is_no_action(action: object):
    with pytest.raises(ValueError, match="an action must be one integer, got"):
        as_index(action)


def test_integers_of_any_kind_are_actions():
    assert [as_index(action) for action in (5, np.int64(5), np.array(5, np.int8), jnp.int32(5))] == [5] * 4

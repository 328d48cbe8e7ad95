"""Actions from the host: of any size, and never another one than was meant."""

from __future__ import annotations

import numpy as np
import pytest

from unojax.adapters.encoding import Encoder
from unojax.adapters.seats import HostGame, in_32_bits
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

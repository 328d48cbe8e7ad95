"""Actions from the host: integers of any type keep their number."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tests.helpers import refusals
from unojax.adapters.seats import as_action


def test_integers_in_the_action_space_are_actions_and_nothing_else():
    """Contract: at the host boundary (adapters) bad input raises ValueError."""
    assert [as_action(action, 61) for action in (0, np.int64(5), np.array(5, np.int8), jnp.int32(60))] == [0, 5, 5, 60]
    assert as_action(61, 62) == 61
    refusals({f"one integer, got {bad!r}": lambda bad=bad: as_action(bad, 61) for bad in (3.7, "5", None, np.float32(2), [3])})
    outside = (61, -1, 2**31, 2**32 + 5, 2**63 + 5, 2**70, -(2**31) - 1, -(2**32) + 5)
    refusals({f"[0, 60], got {bad}": lambda bad=bad: as_action(bad, 61) for bad in outside})

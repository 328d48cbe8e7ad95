"""The speed of policy training, at a small size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.policy_training import measure
from training.policy.config import PolicyConfig
from unojax.value import NetworkConfig


@pytest.mark.slow
@pytest.mark.long
def test_policy_training():
    config = replace(PolicyConfig(), lanes=32, rows=8, network=NetworkConfig(width=8, policy_head=True))
    result = measure(config, repeats=3)
    assert 0.5 * 32 * 8 < result["choices_per_iteration"] <= 32 * 8
    assert result["choices_per_second"]["min"] <= result["choices_per_second"]["median"]
    assert result["share_in_games"] + result["share_in_gradients"] == pytest.approx(1)

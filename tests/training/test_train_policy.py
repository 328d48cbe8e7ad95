"""Runs that train a policy: checkpoints, what is refused, and a better player."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from tests.training.runs import trained
from training import loop
from training.checkpoints import Checkpoints
from training.config import Evaluation, from_dict, parse, to_dict, with_key, with_plain_key
from training.evaluation import evaluate
from training.policy.config import PolicyConfig
from training.policy.learning import PolicyLoss
from training.updates import make_mesh
from unojax.specs import parse_agent
from unojax.value import NetworkConfig, load_network

TINY = PolicyConfig(
    iterations=4,
    lanes=32,
    rows=8,
    updates=2,
    checkpoint_every=2,
    network=NetworkConfig(width=8, policy_head=True),
    loss=PolicyLoss(magnet=0.1),
    evaluation=Evaluation(every=2, games=8, final_games=8, opponents=("uniform",)),
)


def begin(config: PolicyConfig) -> tuple[Any, Any]:
    """The program of an iteration, and the first state, where `train` puts it."""
    mesh = make_mesh()
    return config.make_iteration(mesh), loop.on_mesh(config.start(), mesh)


@pytest.mark.slow
def test_an_iteration_sums_up_what_it_learned_from():
    iterate, state = begin(TINY)
    _, metrics = iterate(state)
    told = TINY.summarize(jax.device_get(metrics), 2.0)
    # Most lanes come to a choice in each row.
    assert 0.7 * TINY.lanes * TINY.rows < told["states"] <= TINY.lanes * TINY.rows
    assert told["states per second"] == told["states"] / 2 and np.isfinite(list(told.values())).all()


def test_a_state_comes_back_from_its_checkpoint(tmp_path: Path):
    config = dataclasses.replace(TINY, run=tmp_path)
    (tmp_path / "checkpoints").mkdir()
    saved, state = Checkpoints(tmp_path), config.start()
    saved.save(state, config, -1.0)
    found = saved.load(config)
    saved.close()
    assert_trees_equal(with_plain_key(found.state), with_plain_key(state))


@pytest.mark.slow
def test_a_run_and_what_is_left_of_it(tmp_path: Path):
    """A run; the agent of its network; and the same run stopped half-way and resumed."""
    whole = dataclasses.replace(TINY, run=tmp_path / "whole")
    status, told = trained(whole)
    assert status == 0 and "uniform" in told
    left = load_network(whole.run / "last.safetensors")
    agent = parse_agent(f"policy:network={whole.run / 'last.safetensors'},greedy=true")
    assert left.config == whole.network and agent.name.startswith("policy:network=")
    assert from_dict(PolicyConfig, to_dict(whole), "here") == whole

    # A run that is stopped after two of its iterations has the options of the whole one.
    halves = dataclasses.replace(TINY, run=tmp_path / "halves")
    (halves.run / "checkpoints").mkdir(parents=True)
    iterate, state = begin(halves)
    for _ in range(2):
        state, _ = iterate(state)
    saved = Checkpoints(halves.run)
    saved.save(with_key(jax.device_get(with_plain_key(state))), halves, -1.0)
    saved.close()
    assert trained(halves, resume=True)[0] == 0
    assert_trees_equal(load_network(halves.run / "last.safetensors").params, left.params)


def test_what_is_refused():
    for changes, message in (
        ({"lanes": 10, "updates": 4}, "lanes \\(10\\) must be a multiple of updates \\(4\\)"),
        ({"network": NetworkConfig(width=8)}, "policy_head must be true"),
        ({"network": NetworkConfig(width=8, policy_head=True, rules=("house",))}, "network.rules must be default, .*, got house"),
        ({"network": NetworkConfig(width=8, policy_head=True, types=True)}, "network.types needs particle beliefs"),
        ({"rows": 0}, "rows must be at least 1"),
        ({"loss": PolicyLoss(magnet=0.1), "epochs": 0}, "epochs must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(TINY, **changes)
    with pytest.raises(ValueError, match=r"loss.trace must be in \[0, 1\], got 2"):
        PolicyLoss(trace=2)
    for name in ("trace", "clip", "entropy", "magnet", "win_weight"):
        for number in (np.nan, np.inf):
            with pytest.raises(ValueError, match=f"loss.{name} must be a finite number, got {number}"):
                PolicyLoss(**{name: number})
    for gone in ({"league": 4}, {"belief": {"kind": "particles"}}):
        with pytest.raises(ValueError, match=f"here: unknown key {next(iter(gone))}; there are run, seed"):
            from_dict(PolicyConfig, gone, "here")
    config, _ = parse(["--loss.entropy", "0.5", "--lanes", "64"], PolicyConfig())
    assert config == dataclasses.replace(PolicyConfig(), lanes=64, loss=PolicyLoss(entropy=0.5))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.optimized
def test_training_makes_a_better_player():
    """A small network after half a minute wins clearly more than random play, and than its own beginning."""
    config = dataclasses.replace(PolicyConfig(), iterations=50, lanes=1024, network=NetworkConfig(width=16, policy_head=True))
    iterate, state = begin(config)
    for _ in range(config.iterations):
        state, _ = iterate(state)
    (standing, *_) = evaluate(config.network_of(jax.device_get(with_plain_key(state))), config, 2000)
    assert standing.opponent == "uniform"
    assert standing.score.interval[0] > 0.6

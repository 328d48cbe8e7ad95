"""Runs of policy training: resumed, rejected, and with a better player as result."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.helpers import assert_trees_equal, refusals
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
    """Return the program of an iteration, and the first state, placed as by `train`."""
    mesh = make_mesh()
    return config.make_iteration(mesh), loop.on_mesh(config.start(), mesh)


@pytest.mark.slow
def test_a_resumed_run_ends_as_a_whole_one_and_its_network_plays(tmp_path: Path):
    whole = dataclasses.replace(TINY, run=tmp_path / "whole")
    status, output = trained(whole)
    assert status == 0 and "uniform" in output
    last = load_network(whole.run / "last.safetensors")
    agent = parse_agent(f"policy:network={whole.run / 'last.safetensors'},greedy=true")
    assert last.config == whole.network and agent.name.startswith("policy:network=")
    assert from_dict(PolicyConfig, to_dict(whole), "text") == whole

    # A run that is stopped after two of its iterations has the options of the whole one.
    halves = dataclasses.replace(TINY, run=tmp_path / "halves")
    (halves.run / "checkpoints").mkdir(parents=True)
    iterate, state = begin(halves)
    for _ in range(2):
        state, metrics = iterate(state)
    saved = Checkpoints(halves.run)
    saved.save(with_key(jax.device_get(with_plain_key(state))), halves, -1.0)
    saved.close()
    assert trained(halves, resume=True)[0] == 0
    assert_trees_equal(load_network(halves.run / "last.safetensors").params, last.params)
    # Most lanes come to a choice in each row.
    summary = TINY.summarize(jax.device_get(metrics), 2.0)
    assert 0.7 * TINY.lanes * TINY.rows < summary["states"] <= TINY.lanes * TINY.rows
    assert summary["states per second"] == summary["states"] / 2 and np.isfinite(list(summary.values())).all()


def test_options_and_refusals():
    head = NetworkConfig(width=8, policy_head=True)
    changes: dict[str, dict[str, Any]] = {
        "lanes": {"lanes": 10, "updates": 4},
        "policy_head": {"network": NetworkConfig(width=8)},
        "network.rules": {"network": dataclasses.replace(head, rules=("house",))},
        "network.types": {"network": dataclasses.replace(head, types=True)},
        "rows": {"rows": 0},
        "epochs": {"epochs": 0},
    }
    calls: dict[str, Any] = {}
    for key, options in changes.items():
        calls[key] = lambda options=options: dataclasses.replace(TINY, **options)
    for name in ("trace", "clip", "entropy", "magnet", "win_weight"):
        for number in (np.nan, np.inf):
            calls[f"loss.{name} ({number})"] = lambda name=name, number=number: PolicyLoss(**{name: number})
    for unknown in ({"league": 4}, {"belief": {"kind": "particles"}}):
        calls[next(iter(unknown))] = lambda unknown=unknown: from_dict(PolicyConfig, unknown, "text")
    refusals(calls | {"loss.trace": lambda: PolicyLoss(trace=2)})
    config, _ = parse(["--loss.entropy", "0.5", "--lanes", "64"], PolicyConfig())
    assert config == dataclasses.replace(PolicyConfig(), lanes=64, loss=PolicyLoss(entropy=0.5))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.optimized
def test_training_makes_a_better_player():
    """A small network after half a minute wins clearly more than random play."""
    config = dataclasses.replace(PolicyConfig(), iterations=50, lanes=1024, network=NetworkConfig(width=16, policy_head=True))
    iterate, state = begin(config)
    for _ in range(config.iterations):
        state, _ = iterate(state)
    (standing, *_) = evaluate(config.network_of(jax.device_get(with_plain_key(state))), config, 2000)
    assert standing.opponent == "uniform"
    assert standing.score.interval[0] > 0.6

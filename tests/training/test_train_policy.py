"""Runs that train a policy: past selves, checkpoints, what is refused, and a better player."""

from __future__ import annotations

import dataclasses
from operator import itemgetter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from tests.training.runs import trained
from training import loop
from training.checkpoints import Checkpoints
from training.config import BelievingEvaluation, from_dict, parse, to_dict, with_key, with_plain_key
from training.devices import make_mesh
from training.evaluation import evaluate
from training.policy import trainer
from training.policy.config import BeliefKind, PolicyBelief, PolicyConfig
from training.policy.learning import PolicyLoss
from unojax.specs import parse_agent
from unojax.value import NetworkConfig, load_network

TINY = PolicyConfig(
    iterations=4,
    lanes=32,
    rows=8,
    updates=2,
    checkpoint_every=2,
    network=NetworkConfig(width=8, policy_head=True),
    league=2,
    loss=PolicyLoss(magnet=0.1),
    evaluation=BelievingEvaluation(every=2, games=8, final_games=8, opponents=("uniform",)),
)


def begin(config: PolicyConfig) -> tuple[Any, Any]:
    """The program of an iteration, and the first state, where `train` puts it."""
    mesh = make_mesh()
    return config.make_iteration(mesh), loop.on_mesh(config.start(), mesh)


def test_past_selves_take_turns():
    """All that are kept, in iterations one after the other; the parameter of each is the number of its iteration."""
    ladder, state = jnp.zeros(5), trainer.start(0, TINY.plan())
    for done in range(1, 12):
        ladder = trainer._climb(ladder, jnp.float32(done), jnp.int32(done))
    assert ladder.tolist() == [0, 1, 2, 4, 8]
    for first, kept in ((4, [0, 1, 2, 4]), (8, [0, 1, 2, 4, 8])):
        met = [trainer._past(state._replace(ladder=ladder, iteration=jnp.int32(first + t))) for t in range(len(kept))]
        assert sorted(map(int, met)) == kept


@pytest.mark.slow
def test_past_selves_are_kept():
    """Those of iterations 0, 1 and 2; the places of later ones hold the first."""
    iterate, state = begin(TINY)
    averages, metrics = [state.average], None
    for _ in range(2):
        state, metrics = iterate(state)
        averages.append(state.average)
    for rung, average in enumerate([*averages, averages[0]]):
        assert_trees_equal(jax.tree.map(itemgetter(rung), state.ladder), average)
    told = TINY.summarize(jax.device_get(metrics), 2.0)
    # A quarter of the choices is a past self's.
    assert 0.3 * TINY.lanes * TINY.rows < told["states"] < 0.8 * TINY.lanes * TINY.rows
    assert told["states per second"] == told["states"] / 2 and np.isfinite(list(told.values())).all()


@pytest.mark.parametrize(("league", "belief"), [(0, "ages"), (2, "ages"), (0, "particles")])
def test_a_state_comes_back_from_its_checkpoint(tmp_path: Path, league: int, belief: BeliefKind):
    config = dataclasses.replace(TINY, league=league, belief=PolicyBelief(belief, particles=4), run=tmp_path)
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
        ({"league": -1}, "league can't be negative, got -1"),
        ({"lanes": 10, "updates": 4}, "lanes \\(10\\) must be a multiple of updates \\(4\\)"),
        ({"network": NetworkConfig(width=8)}, "policy_head must be true"),
        ({"network": NetworkConfig(width=8, policy_head=True, turns=True)}, "network.turns is about"),
        ({"network": NetworkConfig(width=8, policy_head=True, types=True)}, "types needs beliefs that tell types apart"),
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
    with pytest.raises(ValueError, match="unknown key models"):
        from_dict(PolicyConfig, {"belief": {"models": 8}}, "here")
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

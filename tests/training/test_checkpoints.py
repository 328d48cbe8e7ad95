"""Checkpoints: restored state, rejections, and damaged files."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.helpers import assert_trees_equal, refusals
from tests.value.positions import observe_all, random_network, random_states, says
from training.checkpoints import Checkpoints
from training.config import with_plain_key
from training.policy.config import PolicyConfig
from training.value.config import ValueConfig
from training.value.selfplay import SelfPlay
from unojax.value import NetworkConfig, features, outlook_of_unseen, save_network
from unojax.view import view_of

PROGRAMS = 90  # states begin and are restored outside `jit`
SMALL = ValueConfig(network=NetworkConfig(width=8))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    return tmp_path


def test_a_state_is_restored(run: Path):
    config = PolicyConfig(run=run, lanes=32, updates=2, network=NetworkConfig(width=8, policy_head=True))
    state = config.start()
    with closing(Checkpoints(run)) as checkpoints:
        checkpoints.save(state, config, -1.0)
        assert_trees_equal(with_plain_key(checkpoints.load(config).state), with_plain_key(state))


def test_a_network_to_begin_with_may_learn_types(run: Path):
    parts, first = {"width": 8, "matches": True}, run / "old.safetensors"
    network = random_network(config=NetworkConfig(**parts))
    save_network(first, network)
    config = ValueConfig(init=str(first), network=NetworkConfig(**parts, types=True))
    taught = config.network_of(config.start())
    states = random_states(1, 8)

    @jax.jit
    def look(seen):
        view = view_of(seen)
        return features(view, outlook_of_unseen(view))

    made = look(observe_all(states, np.asarray(states.current_player, np.int32)))
    of_types = made._replace(types=np.eye(6, dtype=np.float32)[np.arange(8) % 6])
    np.testing.assert_array_equal(says(taught, of_types).value, says(network, made).value)
    # A resumed run no longer needs the file.
    with closing(Checkpoints(run)) as checkpoints:
        checkpoints.save(config.start(), config, -1.0)
        first.unlink()
        assert_trees_equal(with_plain_key(checkpoints.load(config).state).params, taught.params)
    # In the other direction its knowledge of types would be lost.
    save_network(run / "taught.safetensors", taught)
    config = ValueConfig(init=str(run / "taught.safetensors"), network=NetworkConfig(**parts))
    refusals({"--network.types": config.start})


def test_opponent_networks_and_evaluations_must_be_the_first_ones(run: Path):
    """A changed opponent raises; a score against others is dropped."""
    file = run / "frozen.safetensors"
    save_network(file, random_network(config=NetworkConfig(width=8)))
    config = dataclasses.replace(SMALL, play=SelfPlay(opponents=("self", "linear", str(file))))
    began = config.digest_networks()
    with closing(Checkpoints(run, began)) as checkpoints:
        checkpoints.save(config.start(), config, 0.75)
        assert checkpoints.load(config).best == 0.75
        for changes, best in (
            ({"every": 3}, 0.75),
            ({"opponents": ("linear",)}, -1.0),
            ({"games": 8}, -1.0),
            ({"particles": 8}, -1.0),
        ):
            evaluation = dataclasses.replace(config.evaluation, **changes)
            assert checkpoints.load(dataclasses.replace(config, evaluation=evaluation)).best == best, changes
    save_network(file, random_network(config=NetworkConfig(width=8), seed=1))
    with closing(Checkpoints(run, config.digest_networks())) as checkpoints:
        refusals({str(file): lambda: checkpoints.load(config)})


@pytest.mark.parametrize("item", ["about", "state"])
def test_the_checkpoint_before_a_damaged_one_is_resumed(run: Path, item: str):
    first = SMALL.start()
    later = first._replace(iteration=first.iteration + 5)
    with closing(Checkpoints(run)) as checkpoints:
        checkpoints.save(first, SMALL, 0.25)
        checkpoints.save(later, SMALL, 0.75)
    for path in (run / "checkpoints" / "5" / item).rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with closing(Checkpoints(run)) as checkpoints:
        resumed = checkpoints.load(SMALL)
        assert (int(resumed.state.iteration), resumed.best) == (0, 0.25)
        assert len(resumed.damaged) == 1 and resumed.damaged[0].startswith("iteration 5: ")
        # Its iteration can be written again.
        checkpoints.save(later, SMALL, 0.5)
    with closing(Checkpoints(run)) as checkpoints:
        assert (checkpoints.load(SMALL).best, checkpoints.load(SMALL).damaged) == (0.5, ())
    for path in (run / "checkpoints").glob("*/about/**/*"):
        if path.is_file():
            path.write_text("{")
    with closing(Checkpoints(run)) as checkpoints:
        refusals({"no checkpoint": lambda: checkpoints.load(SMALL)})

"""Networks in files, and the one in the package."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import unojax
from tests.helpers import assert_trees_equal
from tests.value.positions import SMALL, random_network
from unojax.value import NetworkConfig, load_network, load_pretrained, save_network


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_network(tmp_path / "some.safetensors", random_network(), seed="3")
    return tmp_path / "some.safetensors"


def rewrite(path: Path, arrays: dict | None = None, **changes: str) -> None:
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    save_file(load_file(path) if arrays is None else arrays, path, metadata | changes)


def test_a_network_comes_back_as_it_was(saved: Path):
    loaded = load_network(saved)
    assert loaded.config == SMALL
    assert_trees_equal(loaded.params, random_network().params)
    assert load_network(str(saved)).config == SMALL


def test_a_network_is_loaded_while_a_program_is_traced(saved: Path):
    """As a search does whose leaf asks it, in the program of a match."""
    assert_trees_equal(jax.jit(lambda: load_network(saved).params)(), random_network().params)


def test_shapes_come_back(tmp_path: Path):
    config = NetworkConfig(width=4, color_layers=3, trunk_layers=1, policy_head=True)
    network = random_network(config=config)
    save_network(tmp_path / "other", network)
    assert load_network(tmp_path / "other").config == config
    assert_trees_equal(load_network(tmp_path / "other"), network)


def test_notes_go_along(saved: Path):
    with safe_open(saved, framework="numpy") as file:
        metadata = file.metadata()
    assert metadata["seed"] == "3"
    assert json.loads(metadata["config"])["width"] == SMALL.width


def test_arrays_on_the_host_can_be_saved(tmp_path: Path):
    save_network(tmp_path / "host", jax.device_get(random_network()))
    assert_trees_equal(load_network(tmp_path / "host"), random_network())


def test_a_missing_file_is_a_value_error(tmp_path: Path):
    with pytest.raises(ValueError, match="no such file; write 'pretrained'"):
        load_network(tmp_path / "none.safetensors")


def test_a_file_of_another_kind_is_a_value_error(tmp_path: Path):
    (tmp_path / "text").write_text("not a network, but long enough to have a header of a kind")
    with pytest.raises(ValueError, match="is not a safetensors file"):
        load_network(tmp_path / "text")
    save_file({"x": np.zeros(3)}, tmp_path / "other")
    with pytest.raises(ValueError, match="is of format None, expected 'unojax value network 2'"):
        load_network(tmp_path / "other")


def test_a_truncated_file_is_a_value_error(saved: Path):
    saved.write_bytes(saved.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is not a safetensors file"):
        load_network(saved)


def test_other_features_are_a_value_error(saved: Path):
    rewrite(saved, features=json.dumps([["own 0"], ["deck"]]))
    with pytest.raises(ValueError, match="other features than this version"):
        load_network(saved)


def test_wrong_shapes_and_missing_arrays_are_value_errors(saved: Path):
    arrays = load_file(saved)
    name = next(iter(arrays))
    rewrite(saved, arrays | {name: arrays[name][..., :-1].copy()})
    with pytest.raises(ValueError, match=re.escape(f"{saved} holds arrays")):
        load_network(saved)
    rewrite(saved, {key: array for key, array in arrays.items() if key != name})
    with pytest.raises(ValueError, match=re.escape(f"{saved} holds arrays")):
        load_network(saved)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_a_value_error(saved: Path, number: float):
    arrays = load_file(saved)
    arrays["win.kernel"][-1, 0] = number
    rewrite(saved, arrays)
    with pytest.raises(ValueError, match=re.escape(f"{saved} holds numbers that are not finite, in win.kernel")):
        load_network(saved)


@pytest.mark.parametrize(("kind", "called"), [("float16", "F16"), ("float64", "F64"), ("int32", "I32"), ("bfloat16", "BF16")])
def test_numbers_of_another_type_are_a_value_error(saved: Path, kind: str, called: str):
    rewrite(saved, {name: array.astype(jnp.dtype(kind)) for name, array in load_file(saved).items()})
    with pytest.raises(ValueError, match=re.escape(f"holds numbers of type {called}, expected F32 (float32)")):
        load_network(saved)


def test_a_shape_that_is_none_is_a_value_error(saved: Path):
    rewrite(saved, config=json.dumps({"width": 0}))
    with pytest.raises(ValueError, match="width must be an integer from 1"):
        load_network(saved)
    rewrite(saved, config=json.dumps({"types": "yes"}))
    with pytest.raises(ValueError, match="sensible about the shape of its network: types must be true or false, got 'yes'"):
        load_network(saved)
    rewrite(saved, config=json.dumps({"rules": ["mine"]}))
    with pytest.raises(ValueError, match=r"sensible about the shape of its network: rules must be .* one of default, "):
        load_network(saved)
    rewrite(saved, config=json.dumps({"depth": 3}))
    with pytest.raises(ValueError, match="nothing sensible about the shape of its network"):
        load_network(saved)


def test_the_package_brings_a_network():
    file = resources.files("unojax.value") / "value.safetensors"
    path = Path(str(file))
    assert Path(unojax.__file__).parent in path.parents, "in the folder that becomes the wheel"
    assert path.stat().st_size < 2_000_000
    network = load_pretrained()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network.params))
    assert_trees_equal(network, load_network("pretrained"))
    assert network.num_params > 1000 and np.asarray(network.params["win"]["kernel"]).any(), "it was trained"

"""Networks in files, and the shipped one."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import unojax
from tests.helpers import assert_trees_equal, refusals
from tests.value.positions import SMALL, random_network
from unojax.value import NetworkConfig, load_network, load_pretrained, save_network


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_network(tmp_path / "some.safetensors", random_network(), seed="3")
    return tmp_path / "some.safetensors"


def metadata_of(path: Path) -> dict[str, str]:
    with safe_open(path, framework="numpy") as file:
        return file.metadata()


def test_a_network_is_loaded_as_it_was_saved(saved: Path, tmp_path: Path):
    """From the host or a device, with its notes; also while a program is traced."""
    assert_trees_equal(load_network(saved), random_network())
    assert load_network(str(saved)).config == SMALL
    assert_trees_equal(jax.jit(lambda: load_network(saved).params)(), random_network().params)
    assert metadata_of(saved)["seed"] == "3" and json.loads(metadata_of(saved)["config"])["width"] == SMALL.width
    config = NetworkConfig(width=4, color_layers=3, trunk_layers=1, policy_head=True)
    network = jax.device_put(random_network(config=config))
    save_network(tmp_path / "other", network)
    assert load_network(tmp_path / "other").config == config
    assert_trees_equal(load_network(tmp_path / "other"), network)


def test_other_files_are_refused(saved: Path):
    arrays, metadata, whole = load_file(saved), metadata_of(saved), saved.read_bytes()
    name, kernel = next(iter(arrays)), arrays["win.kernel"]

    def load(content: bytes) -> object:
        saved.write_bytes(content)
        return load_network(saved)

    def load_with(changed: dict[str, np.ndarray], **notes: str) -> object:
        save_file(changed, saved, metadata | notes)
        return load_network(saved)

    def load_as(kind: str) -> object:
        return load_with({key: array.astype(jnp.dtype(kind)) for key, array in arrays.items()})

    def load_shape(**config: object) -> object:
        return load_with(arrays, config=json.dumps(config))

    def other_format() -> object:
        save_file({"x": np.zeros(3)}, saved)
        return load_network(saved)

    calls = {
        "no such file": lambda: load_network(saved.parent / "none.safetensors"),
        "is not a safetensors file (text)": lambda: load(b"not a network, but long enough to have a header of a kind"),
        "is not a safetensors file (truncated)": lambda: load(whole[:-100]),
        "format None": other_format,
        "other features": lambda: load_with(arrays, features=json.dumps([["own 0"], ["deck"]])),
        "holds arrays (another shape)": lambda: load_with(arrays | {name: arrays[name][..., :-1].copy()}),
        "holds arrays (one missing)": lambda: load_with({key: arrays[key] for key in arrays if key != name}),
        "width": lambda: load_shape(width=0),
        "types": lambda: load_shape(types="yes"),
        "rules": lambda: load_shape(rules=["mine"]),
        "shape of its network": lambda: load_shape(depth=3),
    }
    for number in (np.nan, np.inf, -np.inf):
        changed = np.append(kernel[:-1], np.float32([[number]]), axis=0)
        calls[f"win.kernel ({number})"] = lambda changed=changed: load_with(arrays | {"win.kernel": changed})
    for kind, stored in (("float16", "F16"), ("float64", "F64"), ("int32", "I32"), ("bfloat16", "BF16")):
        calls[f"type {stored}"] = lambda kind=kind: load_as(kind)
    refusals(calls)


def test_the_package_ships_a_network():
    """Contract: a trained checkpoint small enough to ship with the package."""
    path = Path(str(resources.files("unojax.value") / "value.safetensors"))
    assert Path(unojax.__file__).parent in path.parents, "in the folder that becomes the wheel"
    assert path.stat().st_size < 2_000_000
    network = load_pretrained()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network.params))
    assert_trees_equal(network, load_network("pretrained"))
    assert network.num_params > 1000 and np.asarray(network.params["win"]["kernel"]).any(), "it was trained"

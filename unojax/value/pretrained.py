"""Networks in files (safetensors with the configuration), and the shipped networks."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from unojax.files import write_whole
from unojax.rules import Rules
from unojax.value.features import MATCH_COLUMNS, TYPE_COLUMNS
from unojax.value.heuristic import HEURISTIC, HeuristicNetwork
from unojax.value.network import Network, NetworkConfig, Params, check_network, init_network, unknown_turns

PRETRAINED: Final = "pretrained"
"""Name of the bundled network, for any rules."""
_FILES: Final = ("value.safetensors", "official.safetensors", "house.safetensors")
_FORMAT: Final = "unojax value network 2"


def load_pretrained(rules: Rules = Rules()) -> Network:
    """Return the shipped network for the rules, see `MODEL_CARD.md`.

    Raises:
        ValueError: If no shipped network was trained for such turns.
    """
    network = load_network(PRETRAINED, rules)
    check_network(network, PRETRAINED, rules)
    return network


def load_network(path: str | Path, rules: Rules = Rules()) -> Network:
    """Return the network in a file of `save_network`, or a shipped one.

    "pretrained" is the shipped network whose turns are those of `rules`, or differ least; "heuristic" is the heuristic value.

    Raises:
        ValueError: If there is no such file, it holds no network, or the network has other features or parameters that are not
            finite.
    """
    if path == PRETRAINED:
        return min(map(_load_shipped, _FILES), key=lambda network: len(unknown_turns(network, rules)))
    if path == HEURISTIC:
        return HeuristicNetwork.of()
    arrays, config = _load(Path(path))
    shapes = jax.eval_shape(lambda: init_network(jax.random.key(0), config)).named_params()
    expected, found = ({name: array.shape for name, array in named.items()} for named in (shapes, arrays))
    if expected != found:
        raise ValueError(f"{path} holds arrays {found}, expected {expected}")
    return _unflatten(arrays, config)


def save_network(path: str | Path, network: Network, **about: str) -> None:
    """Write a network to a file, by custom *.safetensors, atomically, with notes `about` it.

    Raises:
        ValueError: If it is the heuristic value, whose weights are in the code.
    """
    if isinstance(network, HeuristicNetwork):
        raise ValueError(f"the heuristic value is no trained network; name it instead of a file: {HEURISTIC!r}")
    config = json.dumps(dataclasses.asdict(network.config))
    metadata = {**about, "format": _FORMAT, "config": config, "features": _features(network.config)}
    write_whole(Path(path), save(jax.tree.map(np.asarray, network.named_params()), metadata))


def _load_shipped(name: str) -> Network:
    with resources.as_file(resources.files("unojax.value") / name) as file:
        return _unflatten(*_load(file))


def _load(path: Path) -> tuple[dict[str, np.ndarray], NetworkConfig]:
    if not path.is_file():
        raise ValueError(
            f"there is no network in {path}: no such file; write {PRETRAINED!r} for the one in the package, or {HEURISTIC!r}"
        )
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            types = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118  # the file is no mapping
            # NumPy may lack the type that another library uses.
            arrays = {name: file.get_tensor(name) for name, kind in types.items() if kind == "F32"}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from None
    if metadata.get("format") != _FORMAT:
        raise ValueError(f"{path} is of format {metadata.get('format')!r}, expected {_FORMAT!r}")
    try:
        config = NetworkConfig(**json.loads(metadata.get("config", "")))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} says nothing sensible about the shape of its network: {error}") from None
    if metadata.get("features") != _features(config):
        raise ValueError(f"{path} was trained on other features than this version of unojax computes; train it anew")
    if other := set(types.values()) - {"F32"}:
        raise ValueError(f"{path} holds numbers of type {', '.join(sorted(other))}, expected F32 (float32)")
    if bad := [name for name, array in arrays.items() if not np.isfinite(array).all()]:
        raise ValueError(f"{path} holds numbers that are not finite, in {', '.join(bad)}")
    return arrays, config


def _features(config: NetworkConfig) -> str:
    """Return the names of the inputs, as text."""
    more = [MATCH_COLUMNS] * config.matches + [TYPE_COLUMNS] * config.types
    return json.dumps([config.color_columns, config.shared_columns, *more])


def _unflatten(arrays: dict[str, np.ndarray], config: NetworkConfig) -> Network:
    params: Params = {}
    for name, array in arrays.items():
        # The layers of a list are numbered.
        *path, last = (int(part) if part.isdigit() else part for part in name.split("."))
        inner: Any = params
        for part in path:
            inner = inner.setdefault(part, {})
        # On the host: JAX then starts on the network's first call, and not in a process that forks before.
        inner[last] = array
    return Network(params, config)

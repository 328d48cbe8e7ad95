"""Fingerprints that distinguish agents of the same name, such as agents with other defaults or network files."""

from __future__ import annotations

import hashlib
import json
import os
import types
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import numpy as np

from unojax.agents import Agent
from unojax.files.own import is_own
from unojax.rules import Rules
from unojax.specs import files_of, format_value, settings_of
from unojax.value.heuristic import HEURISTIC
from unojax.value.pretrained import PRETRAINED, load_network


def fingerprint(spec: str, agent: Agent | None = None) -> str:
    """Return a digest of the agent that a spec describes: all key values, defaults included, and files.

    Files that such a file uses, such as imported modules, do not count; `files_of` lists the files that do. Arrays of the
    constructed `agent` count too: weights of policies and of opponent types.
    """
    settings = {key: format_value(value) for key, value in settings_of(spec).items()}
    digest = hashlib.sha256(json.dumps([spec if is_own(spec) else spec.partition(":")[0], settings]).encode())
    for network in (PRETRAINED, HEURISTIC):
        if network in settings.values():
            digest.update(str(load_network(network, getattr(agent, "rules", Rules())).digest).encode())
    for file in files_of(spec):
        if os.path.isfile(file):
            digest.update(file.read_bytes())
    for part in (agent, *(getattr(agent, name, None) for name in ("updater", "policies"))):
        with suppress(TypeError):  # It contains values that can't be described, such as a network, whose file already counts.
            digest.update(describe(part).encode())
    return digest.hexdigest()[:16]


def describe(value: Any) -> str:
    """Return a description of a value made of the package's own types and functions, numbers and text.

    Fields excluded from comparison are omitted.

    Raises:
        TypeError: If the value has other content.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return repr(value)
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
    if kind in (tuple, list):
        return f"{kind.__name__}({', '.join(map(describe, value))})"
    is_named = isinstance(value, types.FunctionType | type) and "<" not in value.__qualname__
    named = value if is_named else kind
    if named.__module__.partition(".")[0] != "unojax":
        raise TypeError(f"{named.__module__} is not of the package")
    name = f"{named.__module__}.{named.__qualname__}"
    if is_named:
        return name
    if is_dataclass(value):
        return f"{name}({', '.join(describe(getattr(value, field.name)) for field in fields(value) if field.compare)})"
    if isinstance(value, tuple):
        return f"{name}({', '.join(map(describe, value))})"
    raise TypeError(f"{name} may hold anything")

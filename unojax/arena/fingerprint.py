"""What tells an agent from another one of the same name: one with other defaults, or with another network in its file."""

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
from unojax.value.pretrained import PRETRAINED, digest_network, load_network


def fingerprint(spec: str, agent: Agent | None = None) -> str:
    """Digest what an agent's spec stands for: the values of all its keys, defaults too, and the files that it names.

    What such a file uses in its turn, a module that it imports say, does not count; which files are meant, `files_of` says.
    Of the `agent` that the spec made the numbers behind names count, too: weights of policies, and of types of opponents.
    """
    settings = {key: format_value(value) for key, value in settings_of(spec).items()}
    digest = hashlib.sha256(json.dumps([spec if is_own(spec) else spec.partition(":")[0], settings]).encode())
    for network in (PRETRAINED, HEURISTIC):
        if network in settings.values():
            digest.update(digest_network(load_network(network, getattr(agent, "rules", Rules()))).encode())
    for file in files_of(spec):
        if os.path.isfile(file):
            digest.update(file.read_bytes())
    for part in (agent, *(getattr(agent, name, None) for name in ("updater", "policies"))):
        with suppress(TypeError):  # It holds what can't be described, such as a network, which counts already.
            digest.update(describe(part).encode())
    return digest.hexdigest()[:16]


def describe(value: Any) -> str:
    """Write down a value that is made of the package's own types and functions, of numbers and of text.

    Fields that do not count when two values are compared are left out.

    Raises:
        TypeError: If something else is in it.
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

"""Dataclasses of arrays: pytrees, frozen, with static fields."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import jax
import numpy as np
import pytest

from unojax.device import struct


@struct.dataclass
class Pair:
    left: np.ndarray
    name: str = struct.field(pytree_node=False)
    right: np.ndarray = struct.field(default=np.int8(3))


def test_static_fields_are_structure():
    pair = Pair(np.arange(2), "a")
    leaves, treedef = jax.tree.flatten(pair)
    assert [leaf.tolist() for leaf in leaves] == [[0, 1], 3]
    assert treedef == jax.tree.structure(Pair(np.zeros(5), "a")) != jax.tree.structure(Pair(np.zeros(5), "b"))
    doubled = jax.tree.map(lambda x: 2 * x, pair)
    assert (doubled.left.tolist(), doubled.name, int(doubled.right)) == ([0, 2], "a", 6)


def test_replace_leaves_the_original_alone():
    pair = Pair(np.arange(2), "a")
    other = pair.replace(name="b")  # pyright: ignore[reportAttributeAccessIssue]
    assert (pair.name, other.name) == ("a", "b") and other.left is pair.left
    with pytest.raises(dataclasses.FrozenInstanceError):
        pair.name = "c"  # pyright: ignore[reportAttributeAccessIssue]


def test_advice_needs_no_network_library():
    """Importing Flax and Optax would take a tenth of a short command's time."""
    code = (
        "import sys, unojax.games.advising, unojax.simulation; print([m for m in ('flax', 'optax', 'chex') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"

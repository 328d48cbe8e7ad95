"""Dataclasses of arrays, and functions as static structure and numbers that are traced."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers import refusals
from unojax.device import struct
from unojax.device.static import Argument


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


@partial(jax.tree_util.register_dataclass, data_fields=["weight"], meta_fields=["name"])
@dataclasses.dataclass(frozen=True)
class Adds:
    weight: float
    name: str = "x"

    def __call__(self, x: float):
        return x + self.weight


@partial(jax.tree_util.register_dataclass, data_fields=["weight"], meta_fields=["name"])
@dataclasses.dataclass(frozen=True)
class Multiplies(Adds):
    def __call__(self, x: float):
        return x * self.weight


def test_numbers_are_traced_and_the_rest_is_static():
    traces = []

    @jax.jit
    def call(argument, x):
        traces.append(argument)
        function, label = argument.value
        assert label == "label"
        return function(x)

    def run(function, x):
        return float(call(Argument((function, "label")), x))

    assert [run(Adds(2.0), 3.0), run(Adds(5.0), 3.0)] == [5.0, 8.0]
    assert len(traces) == 1
    # The same fields in another class are another program.
    assert run(Multiplies(2.0), 3.0) == 6.0
    assert len(traces) == 2


@dataclasses.dataclass
class Unfrozen:
    depth: int = 1


def test_a_tree_comes_back_as_it_was():
    tree = {"a": (1.5, np.arange(3), "text", None), "b": [np.float32(2.0), len]}
    argument = Argument(tree)
    assert len(jax.tree.leaves(argument)) == 3
    again = argument.value
    np.testing.assert_array_equal(again["a"][1], [0, 1, 2])
    assert again["a"][2:] == ("text", None) and again["b"][1] is len and float(again["b"][0]) == 2.0
    refusals(
        {
            "unhashable type: 'set'; make it @dataclass(frozen=True)": lambda: Argument(({1, 2},)),
            "unhashable type: 'Unfrozen'; make it @dataclass(frozen=True)": lambda: Argument((Unfrozen(),)),
        }
    )

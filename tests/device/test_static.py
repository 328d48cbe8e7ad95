"""`unojax.device.static`."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax.device import static


@partial(jax.tree_util.register_dataclass, data_fields=["weight"], meta_fields=["name"])
@dataclass(frozen=True)
class Adds:
    weight: float
    name: str = "x"

    def __call__(self, x: float):
        return x + self.weight


@partial(jax.tree_util.register_dataclass, data_fields=["weight"], meta_fields=["name"])
@dataclass(frozen=True)
class Multiplies:
    weight: float
    name: str = "x"

    def __call__(self, x: float):
        return x * self.weight


def test_numbers_are_traced_and_the_rest_is_static():
    traces = []

    @partial(jax.jit, static_argnames="skeleton")
    def call(numbers, x, *, skeleton):
        traces.append(skeleton)
        function, label = static.join(numbers, skeleton)
        assert label == "label"
        return function(x)

    def run(function, x):
        numbers, skeleton = static.split((function, "label"))
        return float(call(numbers, x, skeleton=skeleton))

    assert [run(Adds(2.0), 3.0), run(Adds(5.0), 3.0)] == [5.0, 8.0]
    assert len(traces) == 1
    # The same fields in another class are another program.
    assert run(Multiplies(2.0), 3.0) == 6.0
    assert len(traces) == 2


def test_a_tree_comes_back_as_it_was():
    tree = {"a": (1.5, jnp.arange(3), "text", None), "b": [np.float32(2.0), len]}
    numbers, skeleton = static.split(tree)
    assert len(numbers) == 3
    again = static.join(numbers, skeleton)
    np.testing.assert_array_equal(again["a"][1], [0, 1, 2])
    assert again["a"][2:] == ("text", None) and again["b"][1] is len and float(again["b"][0]) == 2.0


@dataclass
class Unfrozen:
    depth: int = 1


@pytest.mark.parametrize("tree", [{1, 2}, Unfrozen()], ids=str)
def test_what_cannot_be_hashed_is_refused(tree: object):
    with pytest.raises(ValueError, match=r"unhashable type: '(set|Unfrozen)'; make it @dataclass\(frozen=True\)"):
        static.split((tree,))

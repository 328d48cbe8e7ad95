"""Walks of lanes: the same nodes in the same order, however many are taken together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from unojax.device.lanes import walk
from unojax.device.platform import Platform, tuned_for

SIZES = [1, 2, 3, 5, 6, 8, 9, 12, 16]


def decide(index: Array, lanes: Array, move: Array) -> Array:
    return 3 * lanes + 7 * move + index


def carry_out(lanes: Array, move: Array) -> Array:
    return 5 * lanes + move


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_every_node_is_taken_once_in_order(platform: Platform) -> None:
    first = jnp.arange(4, dtype=jnp.int32)
    with tuned_for(platform):
        for num_nodes in SIZES:
            lanes, move = first, first[::-1]
            for index in range(1, num_nodes):
                lanes = carry_out(lanes, move)
                move = decide(jnp.int32(index), lanes, move)
            reached = walk(first, first[::-1], decide, carry_out, num_nodes=num_nodes)
            np.testing.assert_array_equal(reached, carry_out(lanes, move), err_msg=str(num_nodes))


def test_no_node_is_left_over_beside_the_loop_of_a_gpu() -> None:
    """Length and nodes together of loops; one or two kernels are none."""
    expected = {1: [], 4: [], 5: [], 6: [], 9: [(8, 2)], 12: [(11, 1)], 16: [(15, 3)]}
    found = {}
    with tuned_for("gpu"):
        for num_nodes in expected:
            made = jax.make_jaxpr(lambda x, n=num_nodes: walk(x, x, decide, carry_out, num_nodes=n))(jnp.int32(1))
            scans = [e.params for e in made.jaxpr.eqns if e.primitive.name == "scan"]
            found[num_nodes] = [(scan["length"], scan["unroll"]) for scan in scans]
    assert found == expected
